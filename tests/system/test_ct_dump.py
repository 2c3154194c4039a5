# SPDX-License-Identifier: Apache-2.0
"""Commands that walk over all connections: a thread runs them, and the daemon does other things meanwhile, also those that end them."""
import contextlib
import re
import time

import pytest

import floods
import lab
import switch as switches
import threads
import tracking

N = 60_000
RULES = ("udp,in_port=to-red,actions=ct(commit,zone=1)", "udp,in_port=to-green,actions=ct(commit,zone=2)",
         "priority=0,actions=drop")


@pytest.fixture(name="full")
def many_connections():
    """A switch with N connections in zone 1 and one in zone 2."""
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch writes the answer in its main thread")
    with tracking.served({}) as (switch, ends):
        switch.flows("br0", *RULES)
        for name in "red", "green":
            ends[name].send(*floods.datagrams([1]))
        tracking.tracks(switch)
        floods.keep(switch, {1: ends["red"], 2: ends["green"]})
        assert floods.begin(switch, ends["red"], 1, range(N)) >= N
        yield switch


class Dump:
    """dpctl/dump-conntrack in the background, and what it prints."""

    def __init__(self, switch, name, *words):
        self._path = switch.rundir / name
        with open(self._path, "wb") as file:
            self.process = lab.Process(switches.tool("ovs-appctl"), "-t", switch.rundir / "ovs-vswitchd.ctl", "dpctl/dump-conntrack",
                                       *words, stdout=file)

    def lines(self):
        """What it printed, when it has ended, and its exit status."""
        status = self.process.wait()
        return status, self._path.read_text(encoding="ascii").splitlines()


def _stop(stack, switch):
    """Whether there is a thread that dumps, which stands still now."""
    with contextlib.suppress(lab.Failed, OSError):
        stack.enter_context(threads.stopped(threads.named(switch.process.pid, "ct_command")))
        return True
    return False


@contextlib.contextmanager
def held(switch):
    """A dump whose thread stands still within the "with" block."""
    with contextlib.ExitStack() as stack:
        for i in range(100):
            dump = Dump(switch, f"held-{i}")
            while dump.process.running():
                if _stop(stack, switch):
                    yield dump
                    return
    raise lab.Failed("no dump took long enough to be stopped")


def is_complete(dump, n=N):
    status, lines = dump.lines()
    return status == 0 and len(lines) >= n and all(re.match(r"udp,orig=\(src=10\.0\.0\.1,", line) for line in lines)


def test_others_go_on(full):
    switch = full
    with held(switch) as dump:
        assert "OVS-XDP" in switch.appctl("version")
        assert "actions=ct" in switch.ofctl("dump-flows", "br0")
        other = Dump(switch, "other", "-m", "-s", "zone=2")
        assert switch.appctl("dpctl/ct-get-nconns").strip() == str(floods.shown(switch)["connections"])
        assert other.process.running() and dump.process.running()
    assert is_complete(dump)
    status, (line,) = other.lines()
    assert status == 0 and "zone=2" in line and "timeout=" in line


def test_who_asked_goes(full):
    switch = full
    switch.expected.append("jsonrpc.*send error: Broken pipe")
    with held(switch) as dump:
        dump.process.kill()
    assert is_complete(Dump(switch, "next"))


def test_the_bridge_goes(full):
    switch = full
    with held(switch) as dump:
        waits = Dump(switch, "waits")
        switch.vsctl("--no-wait", "del-br", "br0")
    for one in dump, waits:
        status, lines = one.lines()
        assert (status, "gone" in lines[0]) == (2, True) or is_complete(one)
    lab.wait_until(lambda: "xdp@" not in switch.appctl("dpctl/dump-dps"), "the end of the datapath")
    switch.add_bridge()
    assert is_complete(Dump(switch, "anew"), 0)


def test_the_daemon_ends(full):
    switch = full
    with held(switch) as dump:
        switch.appctl("exit")
        time.sleep(0.3)                 # It waits for the thread.
        assert switch.process.running() and dump.process.running()
    assert dump.process.wait() in (0, 1, 2) and switch.process.wait() == 0
    switch.start()
    assert is_complete(Dump(switch, "anew"))


@pytest.mark.parametrize("words", (["zone=2"], ["-s", "zone=2"], ["xdp@ovs-xdp", "zone=2"], ["--statistics", "--more", "xdp@ovs-xdp"]))
def test_words(full, words):
    status, lines = Dump(full, "plain", *words).lines()
    assert status == 0 and len(lines) >= 1
    assert all(("timeout=" in line) == bool({"-s", "--statistics"} & set(words)) for line in lines)


def test_other_commands(full):
    """They run in that thread, too, and answer what Open vSwitch's answer."""
    switch = full
    call = lambda command, *words, **how: switch.appctl(f"dpctl/{command}", *words, **how)
    with held(switch) as dump:
        others = [lab.Process(switches.tool("ovs-appctl"), "-t", switch.rundir / "ovs-vswitchd.ctl", f"dpctl/{command}", *words)
                  for command, *words in (["ct-stats-show", "zone=2"], ["ct-bkts"], ["flush-conntrack", "zone=2"])]
        assert "OVS-XDP" in switch.appctl("version")
        assert all(other.running() for other in others)
    assert is_complete(dump)
    assert [other.wait() for other in others] == [0, 0, 0]
    n = floods.shown(switch)["zones"][1]["connections"]
    assert call("ct-stats-show", "xdp@ovs-xdp", "zone=1") == f"Connections Stats:\n    Total: {n}\n  UDP: {n}\n"
    assert call("ct-stats-show", "zone=2") == "Connections Stats:\n    Total: 0\n"
    assert call("ct-bkts", "gt=1").startswith(f"Total Buckets: 1\nCurrent Connections: {n}\n\n+----")
    ports = re.search(r"sport=(\d+),dport=(\d+)", call("dump-conntrack", "zone=1")).groups()
    one = "zone=1", "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src={},ct_tp_dst={}".format(*ports)
    assert call("flush-conntrack", *one) == "" and call("ct-get-nconns").strip() == str(n - 1)
    switch.expected.append("Must flush tuple")
    assert "failed to flush conntrack" in call("flush-conntrack", *one, check=False)
    assert call("flush-conntrack") == "" and call("dump-conntrack") == "" and call("ct-get-nconns").strip() == "0"


@pytest.mark.parametrize("words", (["zone=x"], ["-x"], ["nosuchdp"], ["netdev@ovs-xdp"]))
def test_mistakes(full, words):
    """Open vSwitch's own command says what is wrong."""
    status, _ = Dump(full, "mistaken", *words).lines()
    assert status == 2
    assert "OVS-XDP" in full.appctl("version")
