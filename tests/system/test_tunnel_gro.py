# SPDX-License-Identifier: Apache-2.0
"""Frames of tunnels that the kernel merges before tcx pops them, and the devices that it needs for that
(core/kernel/tunnel_device.h).  The other host sends frames of one MTU, as a NIC receives them.
"""
import re
import socket

import pytest

import foreign
import lab
import switch as switches
import traffic
import tunnel_world

ALIAS = "OVS-XDP: GRO of tunnels"
DEVICE = "vxlan4789-xdp"


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch's userspace datapath has no tcx")


def devices():
    """Names of the devices that are there for their sockets."""
    return re.findall(rf"^\d+: (\S+?):(?:(?!^\d).)*?{ALIAS}", lab.run("ip", "link"), re.MULTILINE | re.DOTALL)


def connect(world, switch, host, kind="vxlan", hook="tcx", **how):
    """The tunnel, along which packets have passed; far sends frames."""
    red, far = tunnel_world.make(world, switch, host, kind, hook, **how)
    far.run("ethtool", "-K", "eth0", "tso", "off", "gso", "off")
    traffic.wait_for_ping(red, "10.0.0.9")
    return red, far


def bytes_a_packet(red, send):
    """Mean size of the packets that red gets while send() runs."""
    before = tunnel_world.received(red)
    send()
    packets, count = (after - value for after, value in zip(tunnel_world.received(red), before))
    return count / packets


@pytest.mark.usefixtures("nothing_vanishes")
@pytest.mark.parametrize("csum", (False, True), ids=("", "csum"))
@pytest.mark.parametrize("kind", tunnel_world.KINDS)
def test_merged(world, switch, host, kind, csum):
    red, far = connect(world, switch, host, kind, csum=csum)
    if kind != "gre":
        lab.wait_until(devices, "a device for the socket")
    for address in "10.0.0.1", "fc00::1":
        assert bytes_a_packet(red, lambda: traffic.tcp(far, red, address, size=8 << 20)) > 3000


@pytest.mark.usefixtures("nothing_vanishes")
@pytest.mark.parametrize("address", ("10.1.0.2", "fc01::2"))
def test_forwarded_again(world, switch, host, address):
    """red routes what it gets into a device of the same MTU, where the kernel looks at each packet's gso_size."""
    red, far = connect(world, switch, host)
    blue = world.enter_context(lab.Namespace("blue"))
    red.run("ip", "link", "add", "to-blue", "mtu", "1400", "type", "veth", "peer", "name", "eth0", "mtu", "1400",
            "netns", "blue")
    red.run("ip", "link", "set", "to-blue", "up")
    red.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    lab.add_addresses(red, "to-blue", "10.1.0.1/24", "fc01::1/64")
    blue.run("ip", "link", "set", "eth0", "up")
    lab.add_addresses(blue, "eth0", "10.1.0.2/24", "fc01::2/64")
    blue.run("ip", "route", "add", "10.0.0.0/24", "via", "10.1.0.1")
    blue.run("ip", "route", "add", "fc00::/64", "via", "fc01::1")
    far.run("ip", "route", "add", "10.1.0.0/24", "via", "10.0.0.1")
    far.run("ip", "route", "add", "fc01::/64", "via", "fc00::1")
    traffic.wait_for_ping(far, address)
    lab.wait_until(devices, "a device for the socket")
    traffic.tcp(far, blue, address, size=1 << 20)
    dropped = lab.kernel_counts(red, "to-blue", "tx_dropped", "tx_errors")
    assert bytes_a_packet(blue, lambda: traffic.tcp(far, blue, address, size=8 << 20)) > 3000
    assert lab.kernel_counts(red, "to-blue", "tx_dropped", "tx_errors") == dropped


def test_goes_with_the_tunnel(world, switch, host):
    red, far = connect(world, switch, host)
    lab.wait_until(lambda: devices() == [DEVICE], "the device")
    with traffic.Connection(far, red, "10.0.0.1") as connection:
        connection.goes_on()
        switch.vsctl("del-port", "tun0")
        lab.wait_until(lambda: not devices(), "the end of the device")
        tunnel_world.add_tunnel(switch, "vxlan")
        connection.goes_on()
        lab.wait_until(lambda: devices() == [DEVICE], "the device")
        connection.goes_on()
        assert connection.same()


@pytest.mark.parametrize("tunnel", ("stays", "goes"))
def test_killed(world, switch, host, tunnel):
    """The next daemon goes on with what the last one left, and removes what has no tunnel."""
    red, far = connect(world, switch, host)
    lab.wait_until(devices, "the device")
    tunnel_world.check_killed(switch, red, far, tunnel, DEVICE, devices)


def test_not_behind_xdp(world, switch, host):
    """With both hooks XDP pops the frames: there is nothing to merge."""
    red, far = connect(world, switch, host, hook="both")
    traffic.tcp(far, red, "10.0.0.1", size=1 << 20)
    assert switch.status("to-far")["xdp-hook"] == "both"
    popping = [flow for flow in switch.dump_flows("-m") if "tnl_pop" in flow]
    assert popping and all("dp:xdp" in flow for flow in popping), popping
    assert not devices()
    switch.vsctl("set", "interface", "to-far", "options:xdp-hook=tcx")
    lab.wait_until(lambda: devices() == [DEVICE], "the device")


def test_foreign_device(world, switch, host):
    """One of that name is not touched; the switch goes without, and takes the name when it is free."""
    lab.run("ip", "link", "add", DEVICE, "type", "bridge")
    red, far = connect(world, switch, host)
    lab.wait_until(lambda: any(f"there is a device {DEVICE} already" in line for line in switch.log()), "the log")
    traffic.tcp(far, red, "10.0.0.1", size=1 << 20)
    assert "bridge" in lab.run("ip", "-d", "link", "show", DEVICE)
    lab.run("ip", "link", "del", DEVICE)
    lab.wait_until(lambda: devices() == [DEVICE], "the device")


def test_port_is_taken(world, switch, host):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("0.0.0.0", 4789))
        red, far = connect(world, switch, host)
        lab.wait_until(lambda: any("another socket has the UDP port" in line for line in switch.log()), "the log")
        assert not devices()
        traffic.tcp(far, red, "10.0.0.1", size=1 << 20)
    lab.wait_until(lambda: devices() == [DEVICE], "the device, now that the port is free")


@pytest.mark.parametrize("kind", ("vxlan", "geneve"))
def test_nothing_for_the_host(world, switch, host, kind):
    """What comes to the UDP port by another interface of the host does not come out of the device."""
    red, far = connect(world, switch, host, kind)
    names = lab.wait_until(devices, "the device")
    other = world.enter_context(lab.Namespace("other"))
    lab.make_veth("side", other)
    lab.add_addresses(host, "side", "192.168.9.1/24")
    lab.add_addresses(other, "eth0", "192.168.9.2/24")
    other.run("ip", "link", "add", "tun0", "type", *tunnel_world.how(kind, "192.168.9.1", "192.168.9.2"))
    other.run("ip", "link", "set", "tun0", "up")
    lab.add_addresses(other, "tun0", "10.9.0.2/24")
    other.run("ip", "neighbour", "add", "10.9.0.1", "lladdr", "ff:ff:ff:ff:ff:ff", "dev", "tun0")
    traffic.ping(other, "10.9.0.1", count=5, limit=1)
    assert lab.kernel_counts(other, "tun0", "tx_packets")[0] >= 5
    assert all(tunnel_world.received(host, name)[0] == 0 for name in names)
    assert traffic.ping(red, "10.0.0.9") == 3


def test_hook(world, switch, host):
    """"auto" of a port whose packets are frames of a wire: XDP; tcx while it is an underlay and there are containers."""
    red, far = tunnel_world.make(world, switch, host, "vxlan")
    with far.entered():
        lab.run("ip", "link", "set", "dev", "eth0", "xdp", "pinned", foreign.pinned("xdp", foreign.XDP_PASS, "nic"))

    def is_at(hook):
        return lambda: switch.status("to-far")["xdp-hook"] == hook

    # That it is at XDP until the switch knows who pops these frames may last for milliseconds only: not waited for.
    traffic.wait_for_ping(red, "10.0.0.9")
    lab.wait_until(is_at("tcx"), "tcx for an underlay")
    assert "pop tunnel headers and there are containers" in switch.appctl("xdp/why", "to-far")
    lab.wait_until(devices, "the device")
    assert re.search(r"vxlan_sys_4789 \(vxlan\).* gro=yes", switch.appctl("xdp/show"))
    assert traffic.ping(red, "10.0.0.9") == 3
    switch.vsctl("del-port", "to-red")
    lab.wait_until(is_at("xdp"), "XDP where no container is")
    lab.wait_until(lambda: not devices(), "the end of the device, which XDP does not need")
    switch.add_port("to-red")
    lab.wait_until(is_at("tcx"), "tcx again")
    switch.vsctl("set", "interface", "to-far", "options:xdp-hook=xdp")
    lab.wait_until(is_at("xdp"), "the hook that the user asks for")
    traffic.wait_for_ping(red, "10.0.0.9")
