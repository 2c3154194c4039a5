# SPDX-License-Identifier: Apache-2.0
"""Options, and all else of a port that can change while packets flow: it keeps its OpenFlow number, and goes on."""
import itertools

import pytest

import lab
import switch as switches
import traffic
import wire
import xdp

# Hook and mode asked for, and what is in use then; the order goes through every pair of hooks, both ways.
HOOKS = ("xdp", "tcx", "both")
PAIRS = list(itertools.permutations(HOOKS, 2))
MODES = ("generic", "native", "best-effort")
RATE = 10000                            # Datagrams a second, of which none may be lost.


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("these are options of type xdp")


def in_use(switch, device):
    status = switch.status(device)
    return status["xdp-hook"], status["xdp-mode"]


def change(switch, device, hook, mode):
    """Asks for them, and returns when they are in use."""
    switch.vsctl("set", "interface", device, f"options:xdp-hook={hook}", f"options:xdp-mode={mode}")
    used = "none" if hook == "tcx" else mode.replace("best-effort", "native")
    lab.wait_until(lambda: in_use(switch, device) == (hook, used), f"{hook}, {used}")


@pytest.mark.parametrize("device", ("to-red", "to-green"))
def test_every_change_of_hook_and_mode(network, device):
    """Of the port where the datagrams arrive, and of the port to which they go."""
    switch = network.switch
    number = switch.ofport(device)
    traffic.wait_for_ping(network.red, "10.0.0.2")
    traffic.introduce(network.red, network.green, "10.0.0.2")
    with traffic.Numbered(network.red, network.green, "10.0.0.2", RATE) as stream:
        change(switch, device, "xdp", "generic")        # While no port has XDP yet.
        for before, after in PAIRS:
            change(switch, device, before, "best-effort")
            change(switch, device, after, "best-effort")
        for hook in "xdp", "both":
            for before, after in itertools.permutations(MODES, 2):
                change(switch, device, hook, before)
                change(switch, device, hook, after)
        sent, lost, gaps, _ = stream.end()
    assert not switch.error(device) and switch.ofport(device) == number
    assert not [line for line in switch.log() if "opening again" in line]
    assert sent > RATE and lost == 0, f"{lost} of {sent} lost: {gaps}"


def test_generic_before_tcx(network):
    """After generic XDP has passed a packet on, the kernel has programs at tcx see it without its Ethernet header: what XDP
    cannot run goes to the engine instead."""
    switch = network.switch
    change(switch, "to-red", "both", "generic")
    switch.flows("br0", "in_port=to-red,udp,actions=mod_tp_dst:77,output:to-green,mod_tp_dst:78,output:to-blue", "actions=drop")
    green = lab.mac_of(network.green)
    with wire.Wire(network.red) as red, wire.Wire(network.green) as seen, wire.Wire(network.blue) as other:
        for number in range(3):
            red.send(wire.udp_frame("02:00:00:00:00:01", green, b"left to tcx %d" % number))
            for end, port in (seen, b"\0\x4d"), (other, b"\0\x4e"):
                (frame,) = end.receive(lambda frame: b"left to tcx" in frame, 1)
                assert frame[36:38] == port and frame[:6] == bytes.fromhex(green.replace(":", ""))


def test_mode_that_the_device_has_not(network):
    """veth has no zero-copy: what was in use stays in use."""
    switch = network.switch
    switch.expected += ["zero-copy"]
    traffic.wait_for_ping(network.red, "10.0.0.2")
    change(switch, "to-green", "xdp", "native")
    traffic.introduce(network.red, network.green, "10.0.0.2")
    with traffic.Numbered(network.red, network.green, "10.0.0.2", RATE) as stream:
        switch.vsctl("set", "interface", "to-green", "options:xdp-mode=native-with-zerocopy")
        lab.wait_until(lambda: "has no zero-copy AF_XDP" in (switch.error("to-green") or ""), "an error")
        assert in_use(switch, "to-green") == ("xdp", "native")
        assert switch.error("to-green").endswith("XDP in mode native is used")
        sent, lost, gaps, _ = stream.end()
    assert lost == 0, f"{lost} of {sent} lost: {gaps}"
    change(switch, "to-green", "xdp", "native")
    assert not switch.error("to-green")


def test_hook_of_all_ports(network):
    """other_config:xdp-hook is the hook of ports that have "auto"."""
    switch = network.switch
    numbers = [switch.ofport(f"to-{name}") for name in ("red", "green", "blue")]
    traffic.wait_for_ping(network.red, "10.0.0.2")
    traffic.introduce(network.red, network.green, "10.0.0.2")
    with traffic.Numbered(network.red, network.green, "10.0.0.2", RATE) as stream:
        for hook in "xdp", "both", "tcx", "both", "xdp", "auto":
            switch.vsctl("set", "open", ".", f"other_config:xdp-hook={hook}")
            for name in "red", "green", "blue":
                lab.wait_until(lambda: in_use(switch, f"to-{name}")[0] == hook.replace("auto", "tcx"), hook)
        sent, lost, gaps, _ = stream.end()
    assert [switch.ofport(f"to-{name}") for name in ("red", "green", "blue")] == numbers
    assert lost == 0, f"{lost} of {sent} lost: {gaps}"


@pytest.mark.parametrize("hook", HOOKS)
def test_nothing_stays_at_a_port_that_goes(network, hook):
    switch = network.switch
    change(switch, "to-blue", hook, "best-effort")
    assert bool(xdp.attached("to-blue")) == (hook != "tcx") and bool(xdp.at_ingress("to-blue")) == (hook != "xdp")
    switch.vsctl("del-port", "to-blue")
    lab.wait_until(lambda: not xdp.attached("to-blue") and not xdp.at_ingress("to-blue"), "a device without programs")


# Right and wrong, one after the other; of to-green.
OPTIONS = ("xdp-hook=xdp", "xdp-mode=generic", "xdp-mode=bogus", "xdp-mode=native", f"xdp-obj={switches.BUILD}/bpf/xdp.bpf.o",
           "xdp-obj=/nonexistent.o", "xdp-obj=builtin", "xdp-hook=both", "xdp-hook=bogus", "xdp-hook=tcx", "xdp-peer=false",
           "xdp-peer=true", "bogus=1", "xdp-hook=auto")
# Settings of a device, here and in the container, and what follows them; "down" is a lost carrier for its peer.
LINK = (("mtu", "9000"), ("mtu", "1400"), ("mtu", "1500"), ("down",), ("up",), ("txqueuelen", "10"), ("multicast", "off"),
        ("promisc", "on"), ("promisc", "off"), ("alias", "another"))


def changes(network):
    """(what, a function that changes it, whether packets flow then)."""
    switch, program = network.switch, "/sys/fs/bpf/of-another"
    for option in OPTIONS:
        yield option, lambda option=option: switch.vsctl("set", "interface", "to-green", f"options:{option}"), True
    yield "no options", lambda: switch.vsctl("clear", "interface", "to-green", "options"), True
    for namespace, device in (network.host, "to-green"), (network.green, "eth0"):
        for words in LINK:
            yield (f"{device} {' '.join(words)}",
                   lambda end=namespace, device=device, words=words: end.run("ip", "link", "set", "dev", device, *words),
                   words != ("down",))
    xdp.pin_foreign_program(program)
    for namespace, device in (network.green, "eth0"), (network.host, "to-green"):
        for words in ("pinned", program), ("off",):
            yield f"an XDP program at {device}: {words[0]}", lambda end=namespace, device=device, words=words: attach(
                end, device, *words), True
    for hook in "xdp", "tcx", "auto":
        yield f"other_config:xdp-hook={hook}", lambda hook=hook: switch.vsctl("set", "open", ".", f"other_config:xdp-hook={hook}"), \
            True
    yield "mtu_request", lambda: switch.vsctl("set", "interface", "to-green", "mtu_request=1450"), True
    yield "engine threads", lambda: switch.vsctl("set", "open", ".", "other_config:pmd-cpu-mask=1"), True
    yield "a tag", lambda: switch.vsctl("set", "port", "to-green", "vlan_mode=access", "other_config:x=1"), True


def attach(namespace, device, *program):
    with namespace.entered():           # Its /sys/fs/bpf is another in "ip netns exec".
        lab.run("ip", "link", "set", "dev", device, "xdp", *program)


def test_nothing_else_changes_the_number(network):
    """Each option right and wrong, MTU, carrier, flags, foreign programs, threads: the numbers of OpenFlow and of the datapath
    stay, and packets go on."""
    switch = network.switch
    switch.expected += ["to-green", "xdp-hook"]
    numbers = switch.ofport("to-green"), switch.dp_port("to-green")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    traffic.introduce(network.red, network.green, "10.0.0.2")
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        for what, change_it, flows in changes(network):
            change_it()
            try:
                if flows:
                    stream.flowing()
                else:
                    stream.silent()
            except lab.Failed as failed:
                raise lab.Failed(f"{what}: {failed}") from failed
            assert (switch.ofport("to-green"), switch.dp_port("to-green")) == numbers, what
        assert not [line for line in switch.log() if "deleted interface to-green" in line or "opening again" in line]
