# SPDX-License-Identifier: Apache-2.0
"""Devices in use: the switch refuses some, and warns of the others."""
import pytest

import lab
import switch as switches
import traffic
import wire


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("only ours says it like this")


def refused(switch, device):
    switch.expected += [device]
    switch.vsctl("add-port", "br0", device, check=False)
    error = lab.wait_until(lambda: switch.error(device), "an error")
    assert switch.ofport(device) in (-1, None)
    return error


def warning(switch, device):
    return switch.status(device).get("xdp-warning", "")


def test_member_of_a_linux_bridge(network):
    """Traffic of the bridge goes on."""
    switch = network.switch
    left, right = network.plug("left"), network.plug("right")
    lab.run("ip", "link", "add", "linuxbr", "type", "bridge")
    lab.run("ip", "link", "set", "linuxbr", "up")
    for number, (name, end) in enumerate((("left", left), ("right", right)), 1):
        lab.run("ip", "link", "set", f"to-{name}", "master", "linuxbr")
        lab.add_addresses(end, "eth0", f"10.9.0.{number}/24")
    traffic.wait_for_ping(left, "10.9.0.2")
    error = refused(switch, "to-left")
    assert "to-left is in bridge linuxbr: remove it there first (\"ip link set to-left nomaster\")" in error
    assert traffic.ping(left, "10.9.0.2") == 3
    lab.run("ip", "link", "set", "to-left", "nomaster")
    switch.vsctl("del-port", "to-left", "--", "add-port", "br0", "to-left")
    assert not switch.error("to-left") and switch.ofport("to-left") > 0


def test_member_of_a_bond(network):
    if said := lab.run("ip", "link", "add", "bond0", "type", "bond", check=False):
        pytest.skip(f"this kernel has no bonds: {said.strip()}")
    network.plug("extra")
    lab.run("ip", "link", "set", "to-extra", "down")
    lab.run("ip", "link", "set", "to-extra", "master", "bond0")
    assert "to-extra is in bond bond0: remove it there first" in refused(network.switch, "to-extra")


def test_port_that_is_put_into_a_bridge(network):
    """It stays a port."""
    switch = network.switch
    switch.expected += ["to-green is in bridge linuxbr"]
    lab.run("ip", "link", "add", "linuxbr", "type", "bridge")
    lab.run("ip", "link", "set", "to-green", "master", "linuxbr")
    lab.wait_until(lambda: "to-green is in bridge linuxbr" in warning(switch, "to-green"), "a warning")
    assert traffic.ping(network.red, "10.0.0.2") == 3
    lab.run("ip", "link", "set", "to-green", "nomaster")
    lab.wait_until(lambda: not warning(switch, "to-green"), "no more warning")


def test_device_under_a_macvlan(network):
    network.plug("extra")
    lab.run("ip", "link", "add", "mv0", "link", "to-extra", "type", "macvlan")
    assert "to-extra carries the macvlan mv0" in refused(network.switch, "to-extra")


def stack(network, kind, *settings):
    """A device of 'kind' on to-extra; skips where this kernel has none."""
    network.plug("extra")
    if said := lab.run("ip", "link", "add", "above", "link", "to-extra", "type", kind, *settings, check=False):
        pytest.skip(f"this kernel has no device of type {kind}: {said.strip()}")


def test_device_under_an_ipvlan(network):
    stack(network, "ipvlan")
    assert "to-extra carries the ipvlan above, which would get no packets any more: remove that first" in refused(
        network.switch, "to-extra")


def test_device_under_a_vlan(network):
    """As with openvswitch.ko: it is taken."""
    network.switch.expected += ["to-extra carries"]
    stack(network, "vlan", "id", "5")
    network.switch.add_port("to-extra")
    lab.wait_until(lambda: "to-extra carries the vlan above, which gets no packets while it is a port: use an interface with "
                   "type=internal" in warning(network.switch, "to-extra"), "a warning")
    lab.run("ip", "link", "del", "above")


def test_loopback(network):
    error = refused(network.switch, "lo")
    assert "lo is the loopback device" in error and "type=internal" in error


def test_device_without_ethernet(network):
    lab.run("ip", "tuntap", "add", "tun7", "mode", "tun")
    error = refused(network.switch, "tun7")
    assert "tun7 is not an Ethernet device" in error and "mode tap" in error


def test_addresses(network):
    """A warning names them as long as they are there; addresses that the kernel makes by itself are none."""
    switch = network.switch
    switch.expected += ["has addresses"]
    extra = network.plug("extra")
    lab.add_addresses(extra, "eth0", "10.0.0.9/24")
    lab.run("ip", "address", "add", "10.8.0.1/24", "dev", "to-extra")
    switch.add_port("to-extra")
    lab.wait_until(lambda: "to-extra has addresses (10.8.0.1)" in warning(switch, "to-extra"), "a warning")
    assert "move them to the bridge's own interface" in warning(switch, "to-extra")
    assert any("WARN" in line and "10.8.0.1" in line for line in switch.log())
    traffic.wait_for_ping(network.red, "10.0.0.9")

    lab.run("ip", "address", "flush", "dev", "to-extra")
    lab.wait_until(lambda: not warning(switch, "to-extra"), "no more warning")
    lab.run("ip", "address", "add", "fd00::5/64", "dev", "to-green")
    lab.wait_until(lambda: "to-green has addresses (fd00::5)" in warning(switch, "to-green"), "a warning")
    assert not switch.error("to-green") and not warning(switch, "to-red")


def test_queue_not_freed(network):
    """What the switch sent through an AF_XDP socket waits in a qdisc behind the veth, and the kernel keeps the queue of the
    closed socket until it is gone.  Meanwhile the port goes on at tcx, and that is no problem of the log."""
    switch, host = network.switch, network.host
    lab.make_veth("to-extra", host, inside="extra")
    switch.add_port("to-extra", interface=("options:xdp-hook=xdp",))
    lab.run("ethtool", "-K", "extra", "gro", "off")     # Packets of GRO, and of IP, have left their socket by then.
    lab.run("ip", "-batch", "-", text="link add keeping up type bridge\nlink set extra master keeping\n"
            "link add slow up master keeping type veth peer name beyond\nlink set beyond up\n")
    lab.run("tc", "qdisc", "add", "dev", "slow", "root", "tbf", "rate", "800bit", "burst", 1600, "limit", 100000)
    switch.flows("br0", "dl_type=0x88b5,actions=check_pkt_larger(1)->reg0[0],to-extra", "priority=0,actions=normal")
    slow = wire.mac("02:00:00:00:00:99") + wire.mac("02:00:00:00:00:01") + b"\x88\xb5" + bytes(1400)
    before = int(lab.run("cat", "/sys/class/net/extra/statistics/rx_packets"))
    with wire.Wire(network.red) as red:
        red.send(*[slow] * 8)
    lab.wait_until(lambda: int(lab.run("cat", "/sys/class/net/extra/statistics/rx_packets")) >= before + 8, "the packets")
    switch.use_hook("to-extra", "options:xdp-hook=tcx")
    switch.vsctl("set", "interface", "to-extra", "options:xdp-hook=xdp")
    error = lab.wait_until(lambda: switch.error("to-extra"), "an error")
    assert "the kernel has not freed queue 0 of to-extra" in error and "tcx is used" in error
    frame = wire.udp_frame(lab.mac_of(network.red), "ff:ff:ff:ff:ff:ff", b"goes on")
    with wire.Wire(network.red) as red, wire.Wire(host, "extra") as seen:
        lab.wait_until(lambda: red.send(frame) or seen.receive(lambda received: received == frame, limit=1), "a frame")
    lab.run("tc", "qdisc", "del", "dev", "slow", "root")
    lab.wait_until(lambda: switch.status("to-extra")["xdp-hook"] == "xdp", "XDP")
    assert not switch.error("to-extra")
