# SPDX-License-Identifier: Apache-2.0
"""Options that change while packets flow: the port keeps its OpenFlow number, and goes on."""
import itertools

import pytest

import lab
import switch as switches
import traffic
import wire

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
