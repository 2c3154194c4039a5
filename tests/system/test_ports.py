# SPDX-License-Identifier: Apache-2.0
"""Devices as they are in life: absent, renamed, moved away, back again, down, with odd options."""

import pytest

import lab
import switch as switches
import traffic
import xdp

HOOK = "xdp"

RECOVERY = 10       # Seconds that the switch may take to follow a device.


def problems_of_devices(switch):
    """What the log may say about devices that go away."""
    switch.expected += [r"to-\w+", "could not (open|add)", "No such device"]


def works(switch, port):
    """Whether the database says that 'port' can carry traffic."""
    return not switch.error(port) and switch.get("interface", port, "link_state") == "up"


def restore(network, mac, name="green", number=2):
    """Makes the wire of container 'name' anew, with the same name and addresses."""
    container = getattr(network, name)
    lab.make_veth(f"to-{name}", container)
    container.run("ip", "link", "set", "eth0", "address", mac)
    lab.add_addresses(container, "eth0", f"10.0.0.{number}/24", f"fc00::{number}/64")


def test_device_that_does_not_exist(network):
    problems_of_devices(network.switch)
    network.switch.expected += ["nosuchdev"]
    network.switch.vsctl("add-port", "br0", "nosuchdev", check=False)
    assert "No such device" in network.switch.error("nosuchdev")
    assert network.switch.ofport("nosuchdev") in (-1, None)
    assert traffic.ping(network.red, "10.0.0.2") == 3
    network.switch.vsctl("del-port", "br0", "nosuchdev")


@pytest.mark.parametrize("name", ("lo", "a-name-longer-than-fifteen", "with/slash", "with space", "%s%n", "-"))
def test_bad_names(network, name):
    network.switch.expected += ["."]
    network.switch.vsctl("--", "add-port", "br0", name, check=False)
    network.switch.vsctl("--", "--if-exists", "del-port", "br0", name, check=False)
    assert traffic.ping(network.red, "10.0.0.2") == 3


def test_device_that_comes_later(network):
    """A port whose device is made afterwards works as soon as it is there."""
    problems_of_devices(network.switch)
    network.switch.expected += ["to-late"]
    network.switch.vsctl("add-port", "br0", "to-late", check=False)
    late = network.plug("late")
    lab.add_addresses(late, "eth0", "10.0.0.9/24")
    traffic.wait_for_ping(network.red, "10.0.0.9", RECOVERY)
    lab.wait_until(lambda: not network.switch.error("to-late"), "no more error")


def test_device_deleted_and_made_again_under_traffic(network):
    problems_of_devices(network.switch)
    mac = lab.mac_of(network.green)
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream, \
            traffic.Stream(network.red, network.blue, "10.0.0.3", port=5005) as other:
        stream.flowing()
        lab.run("ip", "link", "del", "to-green")
        stream.silent()
        other.flowing()
        lab.wait_until(lambda: not works(network.switch, "to-green"), "the port's state says so")
    restore(network, mac)
    traffic.wait_for_ping(network.red, "10.0.0.2", RECOVERY)
    traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
    assert works(network.switch, "to-green")


def test_port_removed_and_added_under_traffic(network):
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        for _ in range(5):
            stream.flowing()
            network.switch.vsctl("del-port", "br0", "to-green")
            assert xdp.attached("to-green") is None
            stream.silent()
            network.switch.add_port("to-green")
        stream.flowing()


def test_device_renamed_under_traffic(network):
    """A port is a name: another device that gets it takes over, and the renamed one is free."""
    problems_of_devices(network.switch)
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        stream.flowing()
        rename("to-green", "other")
        rename("other", "to-green")
        stream.flowing(RECOVERY)

    rename("to-green", "other")
    new = network.world.enter_context(lab.Namespace("new"))
    lab.make_veth("to-green", new)
    lab.add_addresses(new, "eth0", "10.0.0.9/24")
    traffic.wait_for_ping(network.red, "10.0.0.9", RECOVERY)
    assert xdp.attached("other") is None
    lab.wait_until(lambda: not traffic.ping(network.red, "10.0.0.2", count=1, limit=1), "the old way is cut")


def rename(old, new):
    lab.run("ip", "link", "set", old, "down")
    lab.run("ip", "link", "set", old, "name", new)
    lab.run("ip", "link", "set", new, "up")


def test_device_moved_to_another_namespace_and_back(network):
    problems_of_devices(network.switch)
    away = network.world.enter_context(lab.Namespace("away"))
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        stream.flowing()
        lab.run("ip", "link", "set", "to-green", "netns", "away")
        stream.silent()
        lab.wait_until(lambda: not works(network.switch, "to-green"), "the port's state says so")
        away.run("ip", "link", "set", "to-green", "netns", lab.thread())
        lab.run("ip", "link", "set", "to-green", "up")
        stream.flowing(RECOVERY)


def test_down_and_up_under_traffic(network):
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        for down in ("to-green", network.host), ("eth0", network.green), ("br0", network.host):
            stream.flowing()
            down[1].run("ip", "link", "set", down[0], "down")
            if down[0] != "br0":
                stream.silent()
            down[1].run("ip", "link", "set", down[0], "up")
        stream.flowing()
    traffic.wait_for_ping(network.red, "10.0.0.100")


def test_container_that_dies(network):
    """The namespace and with it both ends of the wire disappear, as when a container is killed."""
    problems_of_devices(network.switch)
    network.green.close()
    lab.wait_until(lambda: not works(network.switch, "to-green"), "the port's state says so")
    assert traffic.ping(network.red, "10.0.0.3") == 3
    network.switch.vsctl("del-port", "br0", "to-green")
    assert network.switch.process.running()


@pytest.mark.usefixtures("nothing_vanishes")
def test_largest_mtu(network):
    big = [network.add_container(f"big{n}", 20 + n, mtu=3498) for n in (1, 2)]
    assert traffic.ping(big[0], "10.0.0.22", size=3470, options=("-M", "do")) == 3
    traffic.tcp(big[0], big[1], "10.0.0.22")


@pytest.mark.parametrize("asked, expected, hook", (
    (None, "native", "native"), ("best-effort", "native", "native"), ("native", "native", "native"),
    ("generic", "generic", "generic")))
def test_xdp_mode(network, asked, expected, hook):
    interface = [f"options:xdp-mode={asked}"] if asked else []
    if asked:
        network.switch.vsctl("set", "interface", "to-green", *interface)
    lab.wait_until(lambda: (xdp.attached("to-green") or [0])[0] == hook, f"a program attached in mode {hook}")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
    assert lab.wait_until(lambda: network.switch.status("to-green").get("xdp-mode"), "status").startswith(expected)


def test_mode_changed_under_traffic(network):
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        for mode in "generic", "native", "generic", "best-effort":
            stream.flowing()
            network.switch.vsctl("set", "interface", "to-green", f"options:xdp-mode={mode}")
            lab.wait_until(lambda: (xdp.attached("to-green") or [0])[0] == mode.replace("best-effort", "native"), mode)
        stream.flowing()


def test_foreign_xdp_program(network):
    """A foreign program stays where it is, and the port says why it is not at XDP."""
    network.switch.expected += ["to-extra"]
    network.plug("extra")
    xdp.pin_foreign_program("/sys/fs/bpf/foreign")
    lab.run("ip", "link", "set", "dev", "to-extra", "xdp", "pinned", "/sys/fs/bpf/foreign")
    before = xdp.attached("to-extra")
    network.switch.vsctl("add-port", "br0", "to-extra", "--", "set", "interface", "to-extra", "options:xdp-hook=xdp")
    error = lab.wait_until(lambda: network.switch.error("to-extra"), "an error")
    # Without CAP_SYS_ADMIN the kernel does not tell its name.
    said = f"to-extra is in use by {'another ' if switches.USER else ''}XDP program"
    assert said in error and error.endswith("tcx is used")
    assert any(said in line for line in network.switch.log())
    assert xdp.attached("to-extra") == before
    lab.run("ip", "link", "set", "dev", "to-extra", "xdp", "off")
    lab.wait_until(lambda: not network.switch.error("to-extra"), "no more error")
    assert xdp.attached("to-extra")


@pytest.mark.usefixtures("nothing_vanishes")
def test_tap_and_bridge_as_ports(network):
    """Other kinds of devices: a tap, and a Linux bridge that holds a container."""
    lab.run("ip", "tuntap", "add", "tap0", "mode", "tap")
    lab.run("ip", "link", "set", "tap0", "up")
    network.switch.add_port("tap0")
    far = network.plug("far")
    lab.add_addresses(far, "eth0", "10.0.0.9/24")
    lab.run("ip", "link", "add", "linuxbr", "type", "bridge")
    lab.run("ip", "link", "set", "to-far", "master", "linuxbr")
    lab.run("ip", "link", "set", "linuxbr", "up")
    network.switch.expected += ["linuxbr: .*generic XDP"]
    network.switch.add_port("linuxbr")
    traffic.wait_for_ping(network.red, "10.0.0.9")
    traffic.tcp(network.red, far, "10.0.0.9", size=1 << 20)


def test_internal_ports(network):
    """An internal port besides the bridge's own."""
    network.switch.expected += [r"\binside\b"]          # It may leave while it is being set up.
    network.switch.vsctl("add-port", "br0", "inside", "--", "set", "interface", "inside", "type=internal")
    inner = network.world.enter_context(lab.Namespace("inner"))
    lab.run("ip", "link", "set", "inside", "netns", "inner")
    inner.run("ip", "link", "set", "inside", "up")
    lab.add_addresses(inner, "inside", "10.0.0.50/24")
    assert traffic.ping(inner, "10.0.0.1") == 3
    traffic.tcp(network.red, inner, "10.0.0.50", size=1 << 20)
    traffic.tcp(inner, network.host, "10.0.0.100", size=1 << 20)


def test_two_bridges_and_a_patch(network):
    switch = network.switch
    switch.add_bridge("br1")
    far = network.plug("far")
    lab.add_addresses(far, "eth0", "10.0.0.9/24")
    switch.add_port("to-far", bridge="br1")
    switch.vsctl("add-port", "br0", "p0", "--", "set", "interface", "p0", "type=patch", "options:peer=p1",
                 "--", "add-port", "br1", "p1", "--", "set", "interface", "p1", "type=patch", "options:peer=p0")
    traffic.wait_for_ping(network.red, "10.0.0.9")
    traffic.tcp(network.red, far, "10.0.0.9")
    assert traffic.udp(far, network.blue, "10.0.0.3") == 100
    switch.vsctl("del-port", "p1")
    lab.wait_until(lambda: not traffic.ping(network.red, "10.0.0.9", count=1, limit=1), "the way is cut")
    switch.vsctl("del-br", "br1")
    assert xdp.attached("to-far") is None
    assert traffic.ping(network.red, "10.0.0.2") == 3
