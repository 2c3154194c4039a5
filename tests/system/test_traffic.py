# SPDX-License-Identifier: Apache-2.0
"""What people expect of a switch: ping, TCP and UDP between containers and with the host."""
import pytest

import traffic

PAIRS = [("red", "green", "10.0.0.2", "fc00::2"),
         ("green", "blue", "10.0.0.3", "fc00::3"),
         ("red", "host", "10.0.0.100", "fc00::100"),
         ("host", "blue", "10.0.0.3", "fc00::3")]


def test_ping_tcp_udp(network):
    for client, server, *addresses in PAIRS:
        for address in addresses:
            here, there = getattr(network, client), getattr(network, server)
            assert traffic.ping(here, address, count=3) == 3, (client, address)
            traffic.tcp(here, there, address)
            assert traffic.udp(here, there, address) == 100, (client, address)


@pytest.mark.parametrize("size", (0, 1, 17, 18, 1472))
def test_every_size_arrives(network, size):
    """From less than the smallest frame to exactly the MTU."""
    assert traffic.ping(network.red, "10.0.0.2", size=size) == 3
    assert traffic.ping(network.red, "10.0.0.100", size=size) == 3
