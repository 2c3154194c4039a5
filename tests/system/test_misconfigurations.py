# SPDX-License-Identifier: Apache-2.0
"""Misconfigurations, in tables: what was given, and the sentence that says what is wrong with it and what to do.

After each row the switch forwards as before.  The tests of one feature have its details (test_options.py,
test_device_in_use.py, test_settings.py ...); a row here is the promise that nothing is taken or ignored silently.
"""
import contextlib
import re

import pytest

import jumbo as sizes
import lab
import switch as switches
import traffic
import xdp

LONG = "a-name-longer-than-fifteen"


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("these are settings of type xdp")


class Rows:
    """Tries all rows of a table, then says which failed."""

    def __init__(self, network):
        self._network, self._failed, self.n = network, [], 0

    @contextlib.contextmanager
    def row(self, what):
        self.n += 1
        try:
            yield
        except (AssertionError, lab.Failed) as failed:
            self._failed.append(f"{what}: {failed}")

    def finish(self):
        assert traffic.ping(self._network.red, "10.0.0.2") == 3
        assert not self._failed, "\n".join(self._failed)


def until_said(said, *parts):
    """Waits until said() has all 'parts'; the failure shows what it said instead."""
    try:
        lab.wait_until(lambda: all(part in said() for part in parts), "", 10)
    except lab.Failed as late:
        raise lab.Failed(f"expected {parts}, but it says {said()!r}") from late


# Options of the Interface of a working port (and hook): key, value, and what "error" says.
WRONG_VALUES = (
    ("xdp-mode", "bogus", ("expected best-effort, native-with-zerocopy, native or generic", "is used")),
    ("xdp-mode", "Native", ("unsupported value", "best-effort is used")),
    ("xdp-mode", "", ("unsupported value", "best-effort is used")),
    ("xdp-mode", "native-with-zerocopy", ("driver 'veth' of to-green has no zero-copy AF_XDP", "best-effort or native")),
    ("xdp-hook", "tc", ("expected auto, xdp, tcx or both", "auto is used")),
    ("xdp-hook", "xdp,tcx", ("expected auto, xdp, tcx or both",)),
    ("xdp-hook", "", ("unsupported value",)),
    ("xdp-peer", "maybe", ("expected true or false", "true is used")),
    ("xdp-obj", "program.o", ("expected the absolute path of a BPF object, or builtin",)),
    ("xdp-obj", "/nonexistent/program.o", ("/nonexistent/program.o", "No such file")),
    ("xdp-obj", "/etc/passwd", ("/etc/passwd", "not an ELF object")),
    ("xdp-obj", "/bin/true", ("/bin/true", "not a BPF object")),
    ("xdp-obj", "/", ("it is not a regular file",)),
    ("xdp-obj", str(switches.BUILD / "bpf/grace.bpf.o"), ("it has no program 'oxdp_xdp'",)),
)

# Keys that do not exist: and what status:xdp-warning says.
WRONG_KEYS = (
    ("xdp_hook", "xdp", ("unknown option, ignored: did you mean xdp-hook?",)),
    ("xdp_mode", "native", ("did you mean xdp-mode?",)),
    ("xdp-hok", "tcx", ("did you mean xdp-hook?",)),
    ("XDP-hook", "tcx", ("did you mean xdp-hook?",)),
    ("xdp-objs", "/x.o", ("did you mean xdp-obj?",)),
    ("xdp-peers", "true", ("did you mean xdp-peer?",)),
    ("xdp", "true", ("options:xdp=true: unknown option, ignored",)),
    ("bogus", "1", ("options:bogus=1: unknown option, ignored",)),
    ("n_rxq", "4", ("options:n_rxq=4: no effect, all receive queues of the device are served",)),
    ("use-need-wakeup", "false", ("options:use-need-wakeup=false: no effect, it is in use where the kernel has it",)),
    ("rx-steering", "rss+lacp", ("options:rx-steering=rss+lacp: unknown option, ignored",)),
)


def test_options(network):
    switch, rows = network.switch, Rows(network)
    switch.expected += ["to-green"]
    number = switch.ofport("to-green")
    for key, value, parts in WRONG_VALUES:
        with rows.row(f"options:{key}={value}"):
            settings = [f'options:{key}="{value}"'] + (["options:xdp-hook=xdp"] if key == "xdp-obj" else [])
            switch.vsctl("clear", "interface", "to-green", "options", "--", "set", "interface", "to-green", *settings)
            until_said(lambda: switch.error("to-green") or "", *parts)
            assert switch.ofport("to-green") == number
            assert f"\n    error: {switch.error('to-green')}\n" in switch.appctl("xdp/show", "to-green")
    for key, value, parts in WRONG_KEYS:
        with rows.row(f"options:{key}={value}"):
            switch.vsctl("clear", "interface", "to-green", "options", "--", "set", "interface", "to-green",
                         f'options:{key}="{value}"')
            until_said(lambda: switch.status("to-green").get("xdp-warning", ""), *parts)
            until_said(lambda: switch.appctl("xdp/show", "to-green"), "\n    warning: ", *parts)
    switch.vsctl("clear", "interface", "to-green", "options")
    lab.wait_until(lambda: not switch.error("to-green") and "xdp-warning" not in switch.status("to-green"), "no complaint")
    assert switch.ofport("to-green") == number and not re.search("error: |warning: ", switch.appctl("xdp/show", "to-green"))
    rows.finish()


# Open_vSwitch:other_config: key, value, and what "xdp/show" says.
WRONG_SETTINGS = (
    ("xdp-umem-frames", "12", ("allowed are numbers from 256 to", "256 is used")),
    ("xdp-umem-frames", "abc", ("allowed are numbers from 256 to", "8192 is used")),
    ("xdp-umem-frames", "-5", ("allowed are numbers",)),
    ("xdp-umem-frames", "1e4", ("allowed are numbers",)),
    ("xdp-flows", "99999999", ("allowed are numbers from 0 to 2097152, 2097152 is used",)),
    ("xdp-flows", "-5", ("200000 is used",)),
    ("xdp-flows", "12 000", ("200000 is used",)),
    ("xdp-hook", "bogus", ("expected auto, xdp, tcx or both; auto is used",)),
    ("xdp-offload", "nope", ("allowed are true and false",)),
    ("xdp-obj", "program.o", ("expected the absolute path of a BPF object, or builtin",)),
    ("xdp-obj", "/nonexistent.o", ("cannot read the file",)),
    ("xdp-hok", "xdp", ("did you mean xdp-hook?",)),
    ("xdp_flows", "10", ("did you mean xdp-flows?",)),
    ("xdp-mode", "native", ("there is no such setting, it is not used",)),
    ("pmd-cpu-mask", "zzz", ("pmd-cpu-mask=zzz",)),
    ("pmd-cpu-mask", "3" + "0" * 64, ("there are no CPUs 256, 257",)),
)


def test_settings(network):
    switch, rows = network.switch, Rows(network)
    switch.expected += ["other_config", "[Ii]nvalid cpu mask", "xdp-obj"]
    for key, value, parts in WRONG_SETTINGS:
        with rows.row(f"other_config:{key}={value}"):
            switch.vsctl("clear", "open", ".", "other_config", "--", "set", "open", ".", f'other_config:{key}="{value}"')
            until_said(lambda: switch.appctl("xdp/show"), f"other_config:{key}", *parts)
            assert any("WARN" in line and f"other_config:{key}" in line for line in switch.log())
    switch.vsctl("clear", "open", ".", "other_config")
    lab.wait_until(lambda: "other_config:" not in switch.appctl("xdp/show"), "no complaint")
    rows.finish()


def veth(name, *settings):
    lab.run("ip", "link", "add", name, *settings, "type", "veth", "peer", "name", f"{name}-peer")
    lab.run("ip", "link", "set", name, "up")


def bridged(name):
    veth(name)
    lab.run("ip", "link", "add", f"{name}-br", "type", "bridge")
    lab.run("ip", "link", "set", name, "master", f"{name}-br")


def below_macvlan(name):
    veth(name)
    lab.run("ip", "link", "add", f"{name}-mv", "link", name, "type", "macvlan")


def tun(name):
    lab.run("ip", "tuntap", "add", name, "mode", "tun")


def with_program(name):
    veth(name)
    xdp.pin_foreign_program(f"/sys/fs/bpf/{name}")
    lab.run("ip", "link", "set", "dev", name, "xdp", "pinned", f"/sys/fs/bpf/{name}")


def alias(name):
    lab.run("ip", "link", "property", "add", "dev", "to-red", "altname", name)


def for_tunnels(name):
    """As the switch makes one (core/kernel/tunnel_device.c)."""
    lab.run("ip", "link", "add", name, "type", "vxlan", "external", "dstport", "4789")
    lab.run("ip", "link", "set", name, "alias", "OVS-XDP: tunnels by the routes of the host")


def nothing(_):
    pass


# Devices that cannot be ports, at XDP or at all: how to make one, its name, and what "error" says.
UNFIT = (
    (nothing, "nosuchdev", ("No such device",)),
    (nothing, LONG, (LONG,)),
    (nothing, "lo", ("lo is the loopback device", "type=internal")),
    (nothing, "br0-xdp", ("br0-xdp",)),
    (nothing, "ovs-xdp-up", ("ovs-xdp-up belongs to the switch",)),
    (for_tunnels, "vxlan4789-host", ("vxlan4789-host belongs to the switch",)),
    (bridged, "d1", ("d1 is in bridge d1-br: remove it there first",)),
    (below_macvlan, "d2", ("d2 carries the macvlan d2-mv",)),
    (tun, "d3", ("d3 is not an Ethernet device", "mode tap")),
    (alias, "another-name", ("the device is already a port of this datapath",)),
)


def test_devices(network):
    switch, rows = network.switch, Rows(network)
    switch.expected += ["nosuchdev", LONG, "lo: ", r"\blo\b", "br0-xdp", "ovs-xdp-up", "vxlan4789-host", r"\bd[0-9]\b",
                        "another-name"]
    for make, name, parts in UNFIT:
        with rows.row(name):
            make(name)
            switch.vsctl("add-port", "br0", name, check=False)
            until_said(lambda name=name: switch.error(name) or "", *parts)
            assert switch.ofport(name) in (-1, None)
        switch.vsctl("--if-exists", "del-port", "br0", name, check=False)
    rows.finish()


def with_address(name):
    veth(name)
    lab.run("ip", "address", "add", "10.8.0.1/24", "dev", name)


def device_of_kind(kind, *settings):
    def make(name):
        lab.run("ip", "link", "add", name, "type", kind, *settings)
        lab.run("ip", "link", "set", name, "up")
    return make


def macvlan(name):
    veth(f"{name}-low")
    lab.run("ip", "link", "add", name, "link", f"{name}-low", "type", "macvlan")
    lab.run("ip", "link", "set", name, "up")


def jumbo(name):
    veth(name, "mtu", str(sizes.LIMIT + 300))


# Devices that are taken: with what options, and what status:xdp-warning says.
DOUBTFUL = (
    (with_address, "w1", (), ("w1 has addresses (10.8.0.1)", "move them to the bridge's own interface")),
    (with_program, "w5", (), ("XDP program", "on w5 runs before the switch", "ip link set dev w5 xdp off")),
    (jumbo, "w2", ("options:xdp-hook=xdp",), (f"larger than XDP takes, which is {sizes.LIMIT}: tcx serves the port",)),
    (veth, "w3", ("ingress_policing_rate=1000",), ("ingress_policing_rate", "OpenFlow meter")),
    (veth, "w4", ("options:xdp-obj=/usr/lib/x.o", "options:xdp-hook=tcx"), ("xdp-obj has no effect on a port with xdp-hook=tcx",)),
    (device_of_kind("bridge"), "w6", ("options:xdp-hook=xdp",),
     ("no native XDP", "generic XDP copies each packet", "options:xdp-hook=tcx is faster")),
    (device_of_kind("vxlan", "id", "7", "dstport", "4789", "remote", "10.0.0.77", "dev", "to-blue"), "w7", ("options:xdp-hook=xdp",),
     ("no native XDP", "options:xdp-hook=tcx is faster")),
    (macvlan, "w8", ("options:xdp-hook=xdp",), ("no native XDP", "options:xdp-hook=tcx is faster")),
    (device_of_kind("ifb"), "w9", ("options:xdp-hook=xdp",), ("no native XDP", "options:xdp-hook=tcx is faster")),
)

# Types of an Interface that do not exist.
WRONG_TYPES = ("dpdk", "dpdkvhostuserclient", "bogus", "System")


def test_types(network):
    switch, rows = network.switch, Rows(network)
    switch.expected += ["typed"]
    for name in WRONG_TYPES:
        with rows.row(f"type={name}"):
            switch.vsctl("add-port", "br0", "typed", "--", "set", "interface", "typed", f"type={name}", check=False)
            until_said(lambda: switch.error("typed") or "", f'there is no interface type "{name}"', "a device of the host has none")
        switch.vsctl("--if-exists", "del-port", "br0", "typed")
    rows.finish()


def test_port_of_two_bridges(network):
    """Open vSwitch's tool refuses it."""
    network.switch.add_bridge("br1")
    said = network.switch.vsctl("add-port", "br1", "to-red", check=False)
    assert "cannot create a port named to-red because a port named to-red already exists on bridge br0" in said
    assert traffic.ping(network.red, "10.0.0.2") == 3


def test_devices_that_work_with_a_warning(network):
    switch, rows = network.switch, Rows(network)
    switch.expected += [r"\bw[0-9]\b"]
    for make, name, settings, parts in DOUBTFUL:
        with rows.row(name):
            make(name)
            switch.vsctl("add-port", "br0", name, *(["--", "set", "interface", name, *settings] if settings else []))
            until_said(lambda name=name: (switch.status(name) or {}).get("xdp-warning", ""), *parts)
            assert switch.ofport(name) > 0
        switch.vsctl("--if-exists", "del-port", "br0", name)
    rows.finish()


# Commands: and what they answer.
COMMANDS = (
    (("xdp/show", "nosuchdp"), ("nosuchdp",)),
    (("xdp/stats", "nosuchport"), ("nosuchport",)),
    (("xdp/show", "--format", "yaml"), ("yaml",)),
    (("xdp/stats", "--nosuchoption"), ("nosuchoption",)),
)


def test_commands(network):
    rows = Rows(network)
    for command, parts in COMMANDS:
        with rows.row(" ".join(command)):
            answer = network.switch.appctl(*command, check=False)
            assert all(part in answer for part in parts), answer
    rows.finish()
