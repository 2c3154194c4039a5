# SPDX-License-Identifier: Apache-2.0
"""Rounds of ofproto's revalidators with many flows: those that are quiet dump only flows with new packets (ovs/flows/round.c).

    q0 ==== p0   br0   p1 ==== q1       thousands of flows from p0 to p1, one for each UDP source port
"""
import json
import re
import time

import pytest

import lab
import switch as switches
import wire

# More than MIN_FLOWS of round.c.
FLOWS = 4500
FIRST = 10_000
BURST = 100             # Frames at once: a queue is lent 384 buffers beforehand (docs/reference/bounds.md).
MAC = "02:00:00:00:00:01"
# Where flows run: the hook, other_config, and what they do with a packet.  Those of ENGINE are in the tables of programs and
# run in the engine; of those of "full" some find no room there.
ENGINE, FULL = "engine in tables", "full"
TIERS = {
    "xdp": ("xdp", (), "output:{}"),
    "tcx": ("tcx", (), "output:{}"),
    ENGINE: ("tcx", (), "output(port={},max_len=50)"),
    FULL: ("xdp", (f"other_config:xdp-flows={FLOWS - 20}",), "output:{}"),
    "engine": ("xdp", ("other_config:xdp-offload=false",), "output:{}"),
}
REASONS = {"xdp": "ok", "tcx": "ok", ENGINE: "action", FULL: "full", "engine": "off"}


@pytest.fixture(params=TIERS)
def tier(request):
    return request.param


@pytest.fixture(name="busy")
def make_busy(switch, host, tier, world):
    """A switch with FLOWS flows that do not expire while a test runs; what sends to it."""
    hook, options, action = TIERS[tier]
    for n in 0, 1:
        lab.run("ip", "link", "add", f"p{n}", "type", "veth", "peer", "name", f"q{n}")
        lab.run("ip", "link", "set", f"p{n}", "up")
        lab.run("ip", "link", "set", f"q{n}", "up")
    switch.vsctl("set", "open", ".", "other_config:max-idle=1000000", *options)
    switch.add_bridge("br0")
    switch.add_port("p0", interface=(f"options:xdp-hook={hook}",))
    switch.add_port("p1", interface=(f"options:xdp-hook={hook}",))
    switch.flows("br0", f"cookie=7,{match(switch)},actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],"
                 + action.format(switch.ofport("p1")),
                 "cookie=8,actions=drop")
    sender = Sender(switch, world.enter_context(wire.Wire(host, "q0")))
    lab.wait_until(sender.all_flows, "the flows")
    sender.send(*range(FLOWS))          # Flows that no packet has met yet are in every dump.
    lab.wait_until(sender.all_met, "a packet for each flow")
    wait_for_quiet(switch)
    return sender


def match(switch):
    return f"in_port={switch.ofport('p0')},udp"


class Sender:
    def __init__(self, switch, end):
        self.switch, self._end, self.sent = switch, end, 0

    def send(self, *numbers):
        """Not all at once: the engine's thread may have to wake up, and until then a queue has only the buffers that it had."""
        for count, number in enumerate(numbers, 1):
            if count % BURST == 0:
                time.sleep(0.01)
            self._end.send(wire.udp_frame(MAC, "02:00:00:00:00:02", b"round", ports=(FIRST + number, 2000)))
        self.sent += len(numbers)

    def all_flows(self):
        """Sends what may have been lost on a busy machine, too; whether there is a flow for each number."""
        there = set(self.counts())
        self.send(*(number for number in range(FLOWS) if number not in there))
        return len(there) == FLOWS

    def all_met(self):
        """The same; whether each flow met a packet."""
        counts = self.counts()
        self.send(*(number for number, packets in counts.items() if not packets))
        return all(counts.values())

    def counts(self):
        """The packets of each flow, by number, as dpctl/dump-flows has them."""
        return {int(number) - FIRST: int(packets) for number, packets in
                re.findall(r"udp\(src=(\d+)\), packets:(\d+)", "\n".join(self.switch.dump_flows()))}


def rounds(switch, kind):
    return int(switch.appctl("coverage/read-counter", f"xdp_round_{kind}"))


def wait_for_quiet(switch):
    """Until several quiet rounds have passed; the numbers that are told are those of up to a second ago."""
    before = rounds(switch, "quiet")
    lab.wait_until(lambda: rounds(switch, "quiet") > before + 3, "quiet rounds")


def test_counts_are_exact(busy, tier):
    """Statistics at OpenFlow, and the complete dump, while rounds are quiet."""
    switch = busy.switch
    assert flows_of(switch, REASONS[tier]) >= 20
    before, sent = busy.counts(), busy.sent
    complete = rounds(switch, "complete")
    rule = lab.wait_until(lambda: settled_rule(switch), "the rule's count")
    for numbers in (5,), (6, 7, 8), range(0, FLOWS, 9), (5,) * 40:
        busy.send(*numbers)
        rule += len(numbers)
        total = sum(before.values()) + busy.sent - sent
        lab.wait_until(lambda: sum(busy.counts().values()) == total, "the flows' counts")
        wait_for_rounds(switch)
        assert rule_count(switch) == rule
    after = busy.counts()
    assert len(after) == FLOWS
    wanted = {number: before[number] + (number % 9 == 0) + (41 if number == 5 else 0) + (number in (6, 7, 8))
              for number in before}
    assert after == wanted
    wait_for_quiet(switch)
    assert rule_count(switch) == rule
    assert rounds(switch, "complete") - complete < rounds(switch, "quiet")


def flows_of(switch, reason):
    """How many flows run where they do for that reason; None: there are no programs."""
    fast_path = json.loads(switch.appctl("xdp/show", "--format=json")).get("fast_path", {})
    return {each["reason"]: each["flows"] for each in fast_path.get("flows_by_reason", ())}.get(reason, FLOWS)


def rule_count(switch):
    return int(re.search(r"cookie=0x7.*n_packets=(\d+)", switch.ofctl("dump-flows", "br0"))[1])


def settled_rule(switch):
    """The rule's packets, when it has those of all flows."""
    switch.appctl("revalidator/wait")
    before = rule_count(switch)
    switch.appctl("revalidator/wait")
    return rule_count(switch) == before and before


@pytest.mark.parametrize("tier", ("xdp",), indirect=True)
def test_openflow_changes_are_followed(busy):
    """The flows of a rule change with the first round after the rule did, or was deleted, though they had no packet."""
    switch = busy.switch
    switch.ofctl("mod-flows", "br0", f"{match(switch)},actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],in_port")
    wait_for_rounds(switch)
    dumped = switch.dump_flows()
    port = switch.dp_port("p0")
    assert sum(flow.endswith(f"actions:{port}") for flow in dumped) == FLOWS
    wait_for_quiet(switch)
    switch.ofctl("del-flows", "br0", "cookie=7/-1")
    wait_for_rounds(switch)
    assert sum(flow.endswith("actions:drop") for flow in switch.dump_flows() if "udp(src=" in flow) == FLOWS


def wait_for_rounds(switch):
    """Until a round that began after this call is over, or the one after it: the first may have begun before."""
    for _ in range(3):
        switch.appctl("revalidator/wait")


@pytest.mark.parametrize("tier", ("xdp",), indirect=True)
def test_an_idle_flow_expires(busy):
    """It does so in a quiet round, too, before another that met its last packet some rounds later: not both in a complete one."""
    switch = busy.switch
    switch.vsctl("set", "open", ".", "other_config:max-idle=4000")

    def wait_until(condition, what, alive=range(2, FLOWS)):
        """Meanwhile the flows 'alive' stay so."""
        lab.wait_until(lambda: [busy.send(*alive[part:part + 500]) for part in range(0, len(alive), 500)] and condition(), what)

    wait_until(lambda: len(busy.counts()) == FLOWS and all(busy.counts().values()), "the flows", range(FLOWS))
    complete = rounds(switch, "complete")
    wait_until(lambda: rounds(switch, "complete") > complete, "a complete round", range(FLOWS))
    busy.send(0)
    quiet = rounds(switch, "quiet")
    wait_until(lambda: rounds(switch, "quiet") > quiet + 4, "quiet rounds")
    busy.send(1)
    seen = []
    wait_until(lambda: seen.append(busy.counts()) or 0 not in seen[-1], "the end of a flow")
    assert 1 in seen[-1]


@pytest.mark.parametrize("tier", ("xdp",), indirect=True)
def test_deletion_without_ofproto(busy):
    """Behind a flow that the operator deletes come complete rounds, by which Open vSwitch 3.3 and newer notice that."""
    switch = busy.switch
    (ufid,) = [re.match(r"ufid:(\S+),", flow)[1] for flow in switch.dump_flows("-m") if f"udp(src={FIRST}" in flow]
    complete, quiet = rounds(switch, "complete"), rounds(switch, "quiet")
    switch.expected.append("failed to flow_del")    # Open vSwitch 3.1 deletes it once more at its end.
    switch.appctl("dpctl/del-flow", f"ufid:{ufid}")
    lab.wait_until(lambda: rounds(switch, "complete") > complete + 4, "complete rounds")
    assert rounds(switch, "quiet") < quiet + 15
    wait_for_quiet(switch)
