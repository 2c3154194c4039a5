# SPDX-License-Identifier: Apache-2.0
"""Options that change while packets flow: the port keeps its OpenFlow number, and goes on."""
import itertools

import pytest

import lab
import switch as switches
import traffic

# Hook and mode asked for, and what is in use then; the order goes through every pair of hooks, both ways.
HOOKS = ("xdp", "tcx", "both")
PAIRS = list(itertools.permutations(HOOKS, 2))
MODES = ("generic", "native", "best-effort")
# Opening a port anew takes tens of milliseconds: with that, several in a hundred were lost.  On a busy machine the receiver
# loses some.
INTERVAL = 0.0002                       # Seconds between datagrams: two to five thousand a second of a thread here.


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
    with traffic.Stream(network.red, network.green, "10.0.0.2", interval=INTERVAL) as stream:
        stream.flowing()
        for before, after in PAIRS:
            change(switch, device, before, "best-effort")
            change(switch, device, after, "best-effort")
            stream.flowing()
        for hook in "xdp", "both":
            for before, after in itertools.permutations(MODES, 2):
                change(switch, device, hook, before)
                change(switch, device, hook, after)
                stream.flowing()
        sent, lost = stream.sent, stream.lost()
    assert not switch.error(device) and switch.ofport(device) == number
    assert not [line for line in switch.log() if "opening again" in line]
    assert sent > 1000 and lost <= sent // 100, f"{lost} of {sent} lost"


def test_mode_that_the_device_has_not(network):
    """veth has no zero-copy: what was in use stays in use."""
    switch = network.switch
    switch.expected += ["zero-copy"]
    traffic.wait_for_ping(network.red, "10.0.0.2")
    change(switch, "to-green", "xdp", "native")
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        stream.flowing()
        switch.vsctl("set", "interface", "to-green", "options:xdp-mode=native-with-zerocopy")
        lab.wait_until(lambda: "has no zero-copy AF_XDP" in (switch.error("to-green") or ""), "an error")
        assert in_use(switch, "to-green") == ("xdp", "native")
        assert switch.error("to-green").endswith("XDP in mode native is used")
        sent, lost = stream.sent, stream.lost()
    assert lost <= sent // 100, f"{lost} of {sent} lost"
    change(switch, "to-green", "xdp", "native")
    assert not switch.error("to-green")


def test_hook_of_all_ports(network):
    """other_config:xdp-hook is the hook of ports that have "auto"."""
    switch = network.switch
    numbers = [switch.ofport(f"to-{name}") for name in ("red", "green", "blue")]
    traffic.wait_for_ping(network.red, "10.0.0.2")
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        stream.flowing()
        for hook in "xdp", "both", "tcx", "both", "xdp", "auto":
            switch.vsctl("set", "open", ".", f"other_config:xdp-hook={hook}")
            for name in "red", "green", "blue":
                lab.wait_until(lambda: in_use(switch, f"to-{name}")[0] == hook.replace("auto", "tcx"), hook)
            stream.flowing()
        sent, lost = stream.sent, stream.lost()
    assert [switch.ofport(f"to-{name}") for name in ("red", "green", "blue")] == numbers
    assert lost <= sent // 100, f"{lost} of {sent} lost"
