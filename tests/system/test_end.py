# SPDX-License-Identifier: Apache-2.0
"""Signals while the daemon ends, and an end that something holds up (refuse.c): who stops a daemon waits for its end, and
devices that stay keep the next one from serving."""
import pathlib
import re
import signal

import pytest

import lab
import switch as switches
import traffic

REFUSE = pathlib.Path("/run/refuse")
PINS = pathlib.Path("/sys/fs/bpf/ovs-xdp")


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("the end of stock Open vSwitch is its own")


@pytest.fixture
def environment():
    REFUSE.write_text("", encoding="ascii")
    return {"LD_PRELOAD": str(switches.BUILD / "tests/system/refuse.so"), "REFUSE": str(REFUSE)}


def begins(switch, what):
    """Ends the daemon and returns when it has come to 'what', which takes long."""
    mark = pathlib.Path(f"{REFUSE}.{what}")
    mark.unlink(missing_ok=True)
    REFUSE.write_text(what, encoding="ascii")
    switch.appctl("exit", "--cleanup")
    lab.wait_until(mark.exists, what)


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
def test_signal_during_cleanup(network, number):
    """"ovs-appctl exit --cleanup" removes everything also if a signal comes in the midst of it."""
    switch = network.switch
    begins(switch, "detach")
    assert switch.process.kill(number) == 0
    assert not re.search(r"ovs-xdp|br0", lab.run("ip", "-o", "link"))
    assert not PINS.exists()
    REFUSE.write_text("", encoding="ascii")
    switch.start()
    traffic.wait_for_ping(network.red, "10.0.0.2")


def test_end_that_is_held_up(network):
    """After a signal the daemon ends even if a thread waits for ever; programs stay, and the next daemon takes them over."""
    switch = network.switch
    switch.expected += ["terminating with signal"]
    traffic.wait_for_ping(network.red, "10.0.0.2")
    REFUSE.write_text("flush", encoding="ascii")
    assert switch.process.kill(signal.SIGTERM) == -signal.SIGKILL
    assert list(PINS.glob("*/ovs-xdp/tcx-*"))
    REFUSE.write_text("", encoding="ascii")
    switch.start()
    lab.wait_until(lambda: any("took over" in line for line in switch.log()), "the take-over")
    traffic.wait_for_ping(network.red, "10.0.0.2")
