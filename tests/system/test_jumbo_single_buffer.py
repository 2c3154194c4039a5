# SPDX-License-Identifier: Apache-2.0
"""Jumbo frames on kernels whose AF_XDP sockets take no frames in several buffers (before Linux 6.6): tcx serves the
ports, where packets that match a flow have no limit; test_jumbo.py has the rest.

    red, green: MTU 9000
"""
import pytest

import jumbo
import lab
import switch as switches
import traffic

MTU = 9000

pytestmark = [pytest.mark.usefixtures("nothing_vanishes"), pytest.mark.skipif(
    jumbo.MULTI_BUFFER, reason="this kernel has AF_XDP sockets for frames in several buffers: test_jumbo.py")]


@pytest.fixture
def jumbos(network):
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has hooks")
    network.switch.expected.append("larger than XDP takes")
    for name in "red", "green":
        lab.run("ip", "link", "set", f"to-{name}", "mtu", MTU)
        getattr(network, name).run("ip", "link", "set", "eth0", "mtu", MTU)
    return network


def test_tcx_serves_the_ports(jumbos):
    """Whatever is asked for; a warning says so."""
    switch = jumbos.switch
    for hook in "xdp", "both", "tcx", "auto":
        switch.vsctl("set", "open", ".", f"other_config:xdp-hook={hook}")
        warning = f"MTU {MTU} is larger than XDP takes, which is {jumbo.LIMIT}: tcx serves the port"
        for name in "to-red", "to-green":
            lab.wait_until(lambda name=name, hook=hook: (warning in switch.status(name).get("xdp-warning", ""))
                           == (hook in ("xdp", "both")), "the warning")
            assert switch.in_use(name) == ("tcx", "none") and not switch.error(name)
        for address in "10.0.0.2", "fc00::2":
            traffic.wait_for_ping(jumbos.red, address)
            assert traffic.ping(jumbos.red, address, size=MTU - 48, options=("-M", "do")) == 3
        traffic.tcp(jumbos.red, jumbos.green, "10.0.0.2", size=8 << 20)
        traffic.tcp(jumbos.green, jumbos.red, "fc00::1", size=8 << 20)
