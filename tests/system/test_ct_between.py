# SPDX-License-Identifier: Apache-2.0
"""A flow with two ct() changes, or goes, while a packet is between them: programs did the first, and leave the second to the
engine, which goes on with the same actions, or drops the packet and counts it."""
import json
import re
import time

import pytest

import conversations
import floods
import lab
import switch as switches
import threads
import tracking

HOOKS = ("xdp", "tcx", "both")
N = 20
MATCH = "ip,in_port=to-red"
SWEPT = 2.5                             # Seconds after which a deleted flow's entry is another's.


def actions(mark):
    """The second ct() changes the mark of a connection that is there with another: programs leave that to the engine."""
    return f"ct(commit,zone=1),ct(commit,zone=2,exec(load:{mark}->NXM_NX_CT_MARK[])),output:to-green"


def is_in_programs(switch, mark):
    """Whether programs run the flow with this mark, and there is no other."""
    marks = re.findall(r"dp:(?:xdp|tcx|both),.*zone=2,mark=(0x\w+)", "\n".join(switch.dump_flows("-m")))
    return marks == [f"{mark:#x}"]


def left_to_the_engine(switch):
    return sum(tier.get("to_engine", {}).get("up_ct_mark", 0) for tier in floods.shown(switch)["tiers"].values())


def gone(switch):
    (report,) = json.loads(switch.appctl("xdp/stats", "-f", "json"))["datapaths"]
    return report["engine"]["drops"]["flow_gone"]


@pytest.fixture(name="begun", params=HOOKS)
def connection_with_another_mark(request):
    """(switch, ends, a frame of a connection that has mark 5 while the flow in programs sets 6)."""
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch has no programs")
    with tracking.served({"xdp-hook": request.param}) as (switch, ends):
        frame = conversations.udp(7000)[0][1]
        switch.flows("br0", f"{MATCH},actions={actions(5)}", "priority=0,actions=drop")
        ends["red"].send(frame)
        assert ends["green"].receive()
        tracking.tracks(switch)
        lab.wait_until(lambda: is_in_programs(switch, 5), "the flow in programs")
        switch.ofctl("mod-flows", "br0", f"{MATCH},actions={actions(6)}")
        lab.wait_until(lambda: is_in_programs(switch, 6), "the flow with another mark")
        assert mark_of(switch) == 5 and gone(switch) == 0
        yield switch, ends, frame


def mark_of(switch):
    return int(re.search(r"mark=(\d+)", switch.appctl("dpctl/dump-conntrack", "zone=2"))[1])


def send_between(switch, ends, frame):
    """N packets of which the first ct() is done, and which the engine, that stands still, has not seen."""
    before = left_to_the_engine(switch)
    ends["red"].send(*[frame] * N)
    lab.wait_until(lambda: left_to_the_engine(switch) == before + N, "packets that wait for the engine")


def test_it_goes_on(begun):
    switch, ends, frame = begun
    with threads.stopped(threads.named(switch.process.pid, "xdp-engine")):
        send_between(switch, ends, frame)
    assert len(ends["green"].receive(count=N)) == N
    assert gone(switch) == 0 and mark_of(switch) == 6


def test_the_flow_changes(begun):
    switch, ends, frame = begun
    with threads.stopped(threads.named(switch.process.pid, "xdp-engine")):
        send_between(switch, ends, frame)
        switch.ofctl("mod-flows", "br0", f"{MATCH},actions={actions(7)}")
        lab.wait_until(lambda: is_in_programs(switch, 7), "the flow with a third mark")
    lab.wait_until(lambda: gone(switch) == N, "packets that are dropped and counted")
    assert not ends["green"].receive(limit=0.2) and mark_of(switch) == 5
    ends["red"].send(frame)
    assert len(ends["green"].receive()) == 1 and mark_of(switch) == 7 and gone(switch) == N


def test_the_flow_goes(begun):
    switch, ends, frame = begun
    with threads.stopped(threads.named(switch.process.pid, "xdp-engine")):
        send_between(switch, ends, frame)
        switch.ofctl("del-flows", "br0", MATCH)
        lab.wait_until(lambda: not any("zone=2" in flow for flow in switch.dump_flows("-m")), "the end of the flow")
        time.sleep(SWEPT)
    lab.wait_until(lambda: gone(switch) == N, "packets that are dropped and counted")
    assert not ends["green"].receive(limit=0.2) and mark_of(switch) == 5
