# SPDX-License-Identifier: Apache-2.0
"""Tunnels: Open vSwitch's native tunnelling on our ports against the kernel's tunnel devices.

    red (10.0.0.1) -- br0 -- tun0  ...  br-phy (172.16.0.1) -- to-far ===== eth0 (172.16.0.2), tun0 (10.0.0.9): far
"""
import re

import pytest

import lab
import switch as switches
import traffic

KINDS = {"vxlan": ("vxlan", "id", "42", "dstport", "4789", "remote", "172.16.0.1", "local", "172.16.0.2"),
         "geneve": ("geneve", "id", "42", "remote", "172.16.0.1"),
         "gre": ("gretap", "key", "42", "remote", "172.16.0.1", "local", "172.16.0.2")}


@pytest.mark.parametrize("hook", ("tcx", "xdp"))
@pytest.mark.parametrize("options", ((), ("options:csum=true",)), ids=("", "csum"))
@pytest.mark.parametrize("kind", KINDS)
def test_tunnel_to_the_kernel(world, switch, host, kind, options, hook):
    try:
        lab.run("ip", "link", "add", "probe", "type", *KINDS[kind])
    except lab.Failed as problem:
        pytest.skip(f"this kernel has no {kind} device: {problem}")
    lab.run("ip", "link", "del", "probe")

    red, far = (world.enter_context(lab.Namespace(name)) for name in ("red", "far"))
    lab.make_veth("to-red", red, mtu=1400)
    lab.make_veth("to-far", far)
    lab.add_addresses(red, "eth0", "10.0.0.1/24", "fc00::1/64")
    lab.add_addresses(far, "eth0", "172.16.0.2/24")
    # A gretap device takes packets with a checksum only if it is to have one, and only those.
    # The others send one with "udpcsum".
    csum = ["csum" if kind == "gre" else "udpcsum"] if options else []
    far.run("ip", "link", "add", "tun0", "mtu", "1400", "type", *KINDS[kind], *csum)
    far.run("ip", "link", "set", "tun0", "up")
    lab.add_addresses(far, "tun0", "10.0.0.9/24", "fc00::9/64")

    switch.add_bridge("br-phy")
    switch.add_port("to-far", bridge="br-phy", interface=(f"options:xdp-hook={hook}",) if switches.DATAPATH == "xdp" else ())
    lab.run("ip", "link", "set", "br-phy", "up")
    lab.add_addresses(host, "br-phy", "172.16.0.1/24")
    switch.add_bridge("br0")
    switch.add_port("to-red")
    switch.add_port("tun0", interface=(f"type={kind}", "options:remote_ip=172.16.0.2", "options:key=42", *options))

    traffic.wait_for_ping(red, "10.0.0.9")
    assert traffic.ping(red, "10.0.0.9") == 3
    assert traffic.ping(red, "fc00::9") == 3
    before = received(far)
    traffic.tcp(red, far, "10.0.0.9", size=8 << 20)
    packets, count = (after - value for after, value in zip(received(far), before))
    before = received(red)
    traffic.tcp(far, red, "fc00::1", size=8 << 20)
    packets_back, count_back = (after - value for after, value in zip(received(red), before))
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
        if not options:
            assert all("dp:tcx" in flow for flow in pushing), pushing
            assert count / packets > 3000, "the veth has segments, not the packets of the container's socket"
    # The kernel's end of the tunnel speaks (IPv6 neighbour discovery) also before and after ours exists.
    switch.expected += ["receive tunnel port not found", "xlate_key failed"]


def received(namespace):
    """Packets and bytes that eth0 of a namespace has got."""
    return [int(namespace.run("cat", f"/sys/class/net/eth0/statistics/rx_{what}")) for what in ("packets", "bytes")]
