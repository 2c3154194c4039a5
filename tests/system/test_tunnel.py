# SPDX-License-Identifier: Apache-2.0
"""Tunnels: Open vSwitch's native tunnelling on our ports against the kernel's tunnel devices (tunnel_world.py)."""
import re

import pytest

import lab
import switch as switches
import traffic
import tunnel_world

@pytest.mark.parametrize("hook", ("tcx", "xdp"))
@pytest.mark.parametrize("ip6", (False, True), ids=("ip4", "ip6"))
@pytest.mark.parametrize("csum", (False, True), ids=("", "csum"))
@pytest.mark.parametrize("kind", tunnel_world.KINDS)
def test_tunnel_to_the_kernel(world, switch, host, kind, csum, ip6, hook):
    """Outside IPv6, UDP always has a checksum; "csum" then means that the kernel's end would take one without."""
    if kind == "gre" and ip6:
        pytest.skip("the kernel's name for it is ip6gretap")
    red, far = tunnel_world.make(world, switch, host, kind, hook, csum, ip6)
    csum = csum or ip6
    traffic.wait_for_ping(red, "10.0.0.9")
    assert traffic.ping(red, "10.0.0.9") == 3
    assert traffic.ping(red, "fc00::9") == 3
    makes_checksums = csum and kind != "gre" and switches.DATAPATH == "xdp"
    if makes_checksums:
        lab.wait_until(lambda: "csum0:" in lab.run("ip", "link", "show", "up"), "the device that makes checksums")
    before = tunnel_world.received(far)
    traffic.tcp(red, far, "10.0.0.9", size=8 << 20)
    packets, count = (after - value for after, value in zip(tunnel_world.received(far), before))
    before = tunnel_world.received(red)
    traffic.tcp(far, red, "fc00::1", size=8 << 20)
    packets_back, count_back = (after - value for after, value in zip(tunnel_world.received(red), before))
    assert traffic.udp(red, far, "10.0.0.9") == 100
    flows = "\n".join(switch.dump_flows())
    assert "tnl_push" in flows and "tnl_pop" in flows
    if switches.DATAPATH == "xdp":
        inside = [flow for flow in switch.dump_flows("-m") if re.search(r"in_port\(\w+_sys", flow)]
        assert any(re.search("dp:(both|tcx)", flow) for flow in inside), inside
        popping = [flow for flow in switch.dump_flows("-m") if "tnl_pop" in flow]
        assert all(f"dp:{hook}" in flow for flow in popping), popping
        if hook == "tcx":
            assert count_back / packets_back > 3000, "the container gets frames, not the packets that the veth has"
        pushing = [flow for flow in switch.dump_flows("-m") if "tnl_push" in flow]
        if not csum or makes_checksums:
            assert all("dp:tcx" in flow for flow in pushing), pushing
            assert count / packets > 3000, "the veth has segments, not the packets of the container's socket"


# The largest MTU inside with which a frame fits 1,500 bytes outside.
FITS = {"vxlan": 1500 - 50, "geneve": 1500 - 50, "gre": 1500 - 42}


@pytest.mark.parametrize("address", ("10.0.0.9", "fc00::9"), ids=("ip4-inside", "ip6-inside"))
@pytest.mark.parametrize("outside", ("ip4", "ip4-csum", "ip6"))
@pytest.mark.parametrize("kind", tunnel_world.KINDS)
def test_segments_that_do_not_fit(world, switch, host, kind, outside, address):
    """A packet of TCP with GSO is treated as the frames are that it becomes: dropped and counted if these are longer than the MTU
    of the tunnel's way, even where nothing would segment it.  By two bytes: on some kernels segments have an even length."""
    csum, ip6 = outside != "ip4", outside == "ip6"
    if kind == "gre" and ip6:
        pytest.skip("the kernel's name for it is ip6gretap")
    red, far = tunnel_world.make(world, switch, host, kind, "tcx", csum, ip6)
    fits = FITS[kind] - (20 if ip6 else 0) - (4 if kind == "gre" and csum else 0)

    def set_mtu(size):
        for end, device in (red, "eth0"), (host, "to-red"), (far, "tun0"):
            end.run("ip", "link", "set", device, "mtu", size)

    if kind == "gre":       # Else the kernel lowers the MTU inside to what fits outside, and the SYN's answer tells red so.
        far.run("ip", "link", "change", "tun0", "type", "gretap", "nopmtudisc", "ignore-df")
    set_mtu(fits + 2)
    traffic.wait_for_ping(red, address)
    if csum and kind != "gre":
        traffic.udp(red, far, address, count=3)         # Packets with CHECKSUM_PARTIAL, which need it.
        lab.wait_until(lambda: "csum0:" in lab.run("ip", "link", "show", "up"), "the device that makes checksums")
    with traffic.Burst(red, far, address) as burst:
        before = switch.over_mtu()
        lab.wait_until(lambda: switch.over_mtu() > before + 2, "packets that are dropped")
        assert burst.got() == 0
        set_mtu(fits)
        lab.wait_until(burst.whole, "what was sent")
    before, over_mtu = tunnel_world.received(far), switch.over_mtu()
    traffic.tcp(red, far, address)
    packets, count = (after - value for after, value in zip(tunnel_world.received(far), before))
    assert switch.over_mtu() == over_mtu
    assert switches.DATAPATH != "xdp" or (kind == "gre" and csum) or count / packets > 3000
