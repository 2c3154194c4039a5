# SPDX-License-Identifier: Apache-2.0
"""Checksums are valid on every wire, although the containers' devices promise to compute them and never do.

    red ---[ switch ]--- green          a packet socket on green's end sees what left the switch
"""
import socket

import pytest

import lab
import traffic
import wire

HOOK = "xdp"
pytestmark = pytest.mark.usefixtures("nothing_vanishes")

TCP, UDP, SCTP = socket.IPPROTO_TCP, socket.IPPROTO_UDP, 132
OFFLOADS = ("tx", "on", "tso", "on", "gso", "on", "sg", "on")


def protocol(frame):
    kind = frame[12:14]
    return frame[23] if kind == b"\x08\x00" else frame[20] if kind == b"\x86\xdd" else None


@pytest.mark.parametrize("offloads", ("as they are", "turned on again by the container"))
@pytest.mark.parametrize("address", ("10.0.0.2", "fc00::2"))
def test_valid_on_the_wire(network, address, offloads):
    if offloads != "as they are":
        for container in network.red, network.green:
            container.run("ethtool", "-K", "eth0", *OFFLOADS)
    with wire.Wire(network.green) as seen:
        traffic.tcp(network.red, network.green, address, size=1 << 20)
        assert traffic.udp(network.red, network.green, address, count=50) == 50
        frames = seen.receive(lambda frame: protocol(frame) in (TCP, UDP), count=1 << 20, limit=0.1)
    assert {protocol(frame) for frame in frames} == {TCP, UDP}
    bad = [frame for frame in frames if not wire.checksums_valid(frame)]
    assert not bad, f"{len(bad)} of {len(frames)}, the first: {bad[0].hex()}"
    assert seen.unfinished == 0


@pytest.mark.parametrize("address", ("10.0.0.100", "fc00::100"))
def test_host_receives_with_offloads_on(network, address):
    """The classic: ping works and TCP does not."""
    network.red.run("ethtool", "-K", "eth0", *OFFLOADS)
    traffic.tcp(network.red, network.host, address)
    assert traffic.udp(network.red, network.host, address) == 100


@pytest.mark.parametrize("address", ("10.0.0.1", "fc00::1"))
def test_host_sends_with_offloads_on(network, address):
    """Its segments pass whole into a port on XDP."""
    traffic.tcp(network.host, network.red, address)
    assert traffic.udp(network.host, network.red, address) == 100


def test_wrong_checksum_is_not_repaired(network):
    """The switch completes what a local stack left out; what is wrong stays wrong."""
    frame = bytearray(wire.udp_frame("02:00:00:00:00:01", lab.mac_of(network.green), b"payload"))
    frame[40] ^= 0x55
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        red.send(frame)
        assert green.receive(lambda seen: seen == bytes(frame))


def test_sctp(network):
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP).close()
    except OSError as error:
        pytest.skip(f"this kernel has no SCTP: {error}")
    with network.green.entered():
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)
    with network.red.entered():
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)
    with listener, client:
        listener.settimeout(5)
        client.settimeout(5)
        listener.bind(("10.0.0.2", 5004))
        listener.listen()
        client.connect(("10.0.0.2", 5004))
        server, _ = listener.accept()
        with server:
            client.sendall(b"x" * 1000)
            assert server.recv(2000) == b"x" * 1000
