# SPDX-License-Identifier: Apache-2.0
"""The path cache: packets of a connection that crosses zones, recirculations and rewrites are done in one lookup, and nobody sees a
difference, but for the counters of the cache.  Until a flow, a connection or its mark changes."""
import json
import re

import pytest
from scapy.all import Ether, IP, raw

import conversations
import lab
import switch as switches
import tracking

HOOKS = ("xdp", "tcx", "both")
TAG = bytes.fromhex("81000005")
ROUNDS = 6
HELD = (("udp", False), ("udp", True), ("tcp", False), ("tcp", True))


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch has no programs")


def tagged():
    """Two zones; frames arrive in VLAN 5 and leave in VLAN 7, and the other way back."""
    for family in "ip", "ipv6":
        yield f"table=0,in_port=to-red,dl_vlan=5,{family},actions=pop_vlan,ct(zone=1,table=1)"
        yield f"table=1,priority=2,ct_state=+trk+new,{family},actions=ct(commit,zone=1),ct(zone=2,table=2)"
        yield f"table=1,ct_state=+trk+est,{family},actions=ct(zone=2,table=2)"
        yield (f"table=2,priority=2,ct_state=+trk+new,{family},"
               "actions=ct(commit,zone=2),push_vlan:0x8100,set_field:0x1007->vlan_vid,output:to-green")
        yield f"table=2,ct_state=+trk+est,{family},actions=push_vlan:0x8100,set_field:0x1007->vlan_vid,output:to-green"
        yield f"table=0,in_port=to-green,{family},actions=ct(zone=2,table=3)"
        yield f"table=3,ct_state=+trk+est,{family},actions=ct(zone=1,table=4)"
        yield f"table=4,ct_state=+trk+est,{family},actions=push_vlan:0x8100,set_field:0x1005->vlan_vid,output:to-red"


def three_zones():
    """As translated(), with the destination's address translated in a third zone before."""
    for rule in conversations.translated():
        if rule.startswith("table=0,in_port=to-red"):
            family = "ipv6" if "ipv6" in rule else "ip"
            yield f"table=0,in_port=to-red,{family},actions=ct(zone=3,nat,table=5)"
            yield (f"table=5,priority=2,in_port=to-red,{family},ct_state=+trk+new,"
                   f"actions=ct(commit,zone=3,nat(dst={conversations.GREEN if family == 'ip' else 'fc00::2'})),ct(zone=1,table=1)")
            yield f"table=5,priority=1,in_port=to-red,{family},ct_state=+trk-inv,actions=ct(zone=1,table=1)"
        elif rule.startswith("table=4"):
            family = "ipv6" if "ipv6" in rule else "ip"
            yield rule.replace("output:to-red", "ct(zone=3,nat,table=6)")
            yield f"table=6,in_port=to-green,{family},ct_state=+trk+est,actions=output:to-red"
        else:
            yield rule


WORLDS = {"translated": (conversations.translated, conversations.SEEN), "three zones": (three_zones, conversations.SEEN),
          "tagged": (tagged, conversations.RED)}


def talk(kind, port, seen, v6, tags):
    """A conversation with more of what established connections send."""
    steps = getattr(conversations, kind)(port, seen, v6)
    if kind == "udp":
        steps += steps[3:5] * ROUNDS
    return [(who, frame[:12] + TAG + frame[12:] if tags and who == "red" else frame) for who, frame in steps]


def counters(switch):
    line = re.search(r"path cache: microflows:(\d+) .*hits:(\d+) misses:(\d+)", switch.appctl("xdp/ct-show"))
    return dict(zip(("microflows", "hits", "misses"), map(int, line.groups()))) if line else {"microflows": 0, "hits": 0}


def shown(switch):
    """Connections, microflows, paths, as xdp/show has them."""
    line = re.search(r"^  connections: (\d+) of 262144, path cache: (\d+) of 262144 microflows, (\d+) of 4096 paths$",
                     switch.appctl("xdp/show"), re.MULTILINE)
    (report,) = json.loads(switch.appctl("xdp/show", "-f", "json"))["datapaths"]
    assert report["tracking"]["max_connections"] == report["tracking"]["max_microflows"] == 262144
    return tuple(map(int, line.groups()))


def rule_counts(switch):
    """Packets and bytes of each OpenFlow rule, with what megaflows have counted until now."""
    switch.appctl("revalidator/purge")
    return sorted(re.sub(r"(cookie|duration|idle_age|hard_age)=[^,]*, *", "", line).strip()
                  for line in switch.ofctl("dump-flows", "br0").splitlines() if "n_packets" in line)


def observe(switch, ends, name):
    """What becomes of each conversation, and what is counted; and how many packets met a path, on how many microflows."""
    seen, port, before = {}, 7000, counters(switch)["hits"]
    for kind, v6 in HELD:
        port += 1
        seen[kind, v6] = conversations.hold(ends, talk(kind, port, WORLDS[name][1], v6, name == "tagged"))
    seen["connections"] = conversations.connections(switch)
    seen["rules"] = rule_counts(switch)
    after = counters(switch)
    return seen, after["hits"] - before, after["microflows"]


def start(switch, ends, name, tracks):
    """Holds all conversations once, and forgets them."""
    switch.flows("br0", *WORLDS[name][0](), "table=0,priority=0,actions=drop")
    for kind, v6 in HELD:
        conversations.hold(ends, talk(kind, 6000, WORLDS[name][1], v6, name == "tagged"))
    switch.appctl("dpctl/flush-conntrack")
    if tracks:
        tracking.tracks(switch)
    for kind, v6 in HELD:
        conversations.hold(ends, talk(kind, 6500, WORLDS[name][1], v6, name == "tagged"))


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("hook", HOOKS)
def test_as_the_engine(hook, name):
    (engine, _, _), (programs, hits, microflows) = tracking.results_of(
        hook, lambda switch, ends, tracks: start(switch, ends, name, tracks), lambda switch, ends: observe(switch, ends, name))
    wrong = list(tracking.differences(engine, programs))
    assert not wrong, "\n".join(wrong)
    assert hits >= 4 * ROUNDS and microflows >= 4, (hits, microflows)


class Talk:
    """An established UDP connection of the rules with names."""

    def __init__(self, switch, ends, port):
        self._switch, self._ends = switch, ends
        self._steps = conversations.udp(port, conversations.SEEN)
        conversations.hold(ends, self._steps)
        self.passes("red", "green", "red", "green")
        before = counters(switch)["hits"]
        self.passes("red", "green")
        assert counters(switch)["hits"] == before + 2

    def send(self, who):
        (_, frame), = conversations.hold(self._ends, [next(step for step in self._steps if step[0] == who)])
        return frame is not None

    def passes(self, *senders):
        assert all(self.send(who) for who in senders)


@pytest.fixture(name="held", params=("xdp", "tcx"))
def held_talk(request):
    with tracking.served({"xdp-hook": request.param}) as (switch, ends):
        start(switch, ends, "translated", True)
        yield switch, ends, Talk(switch, ends, 6700)


def test_traced(held):
    """A trace names the flows that one lookup stood for, and sends the packet no other way."""
    switch, _, held_talk_ = held
    session = switch.appctl("xdp/trace-start", "udp").strip()
    before = counters(switch)["hits"]
    held_talk_.passes("red", "green")
    assert counters(switch)["hits"] == before + 2
    found, = json.loads(switch.appctl("xdp/trace-read", session))["datapaths"]
    switch.appctl("xdp/trace-stop", session)
    flows = "\n".join(switch.dump_flows("-m"))
    assert [packet["port_name"] for packet in found["packets"]] == ["to-red", "to-green"]
    for packet in found["packets"]:
        assert packet["verdict"] == "forwarded" and len(packet["passes"]) >= 3, packet
        assert {one["found"] for one in packet["passes"]} == {"path cache"}, packet
        assert all(one["ufid"] in flows for one in packet["passes"]), packet
        assert "ct(" in packet["passes"][0]["actions"] and "ct_state(" in packet["passes"][1]["match"], packet


def test_a_flow_changes(held):
    switch, _, held_talk_ = held
    rule = "table=2,priority=1,in_port=to-red,ip,ct_state=+trk-inv"
    switch.ofctl("mod-flows", "br0", "--strict", f"{rule},actions=drop")
    lab.wait_until(lambda: not held_talk_.send("red"), "a rule that drops")
    held_talk_.passes("green")
    switch.ofctl("mod-flows", "br0", "--strict", f"{rule},actions=output:to-green")
    lab.wait_until(lambda: held_talk_.send("red"), "a rule that does not")
    held_talk_.passes("red", "red")
    before = counters(switch)["hits"]
    held_talk_.passes("red")
    assert counters(switch)["hits"] == before + 1


def test_a_connection_goes(held):
    switch, _, held_talk_ = held
    switch.appctl("dpctl/flush-conntrack", "zone=1")
    assert not held_talk_.send("green")         # Of no connection in zone 1.
    held_talk_.passes("red", "green", "red", "green")
    assert sum("sport=6700" in line for line in conversations.connections(switch)) == 2
    switch.appctl("dpctl/flush-conntrack")
    assert not held_talk_.send("green")
    assert not conversations.connections(switch)


def test_a_mark_changes(held):
    """A packet with another TOS changes the mark, which a rule asks for."""
    switch, ends, held_talk_ = held
    switch.ofctl("add-flow", "br0", "table=0,priority=40000,in_port=to-red,ip,nw_tos=32,"
                 "actions=ct(commit,zone=1,exec(load:0x99->NXM_NX_CT_MARK[]))")
    held_talk_.passes("red", "green", "red")
    frame = Ether(next(frame for who, frame in conversations.udp(6700, conversations.SEEN) if who == "red"))
    frame[IP].tos = 32
    del frame[IP].chksum
    ends["red"].send(raw(frame))
    lab.wait_until(lambda: "mark=153" in switch.appctl("dpctl/dump-conntrack", "zone=1"), "the new mark")
    assert not held_talk_.send("red")


def test_stale_entries_go(held):
    switch, _, _ = held
    assert counters(switch)["microflows"] and all(shown(switch)[1:])
    switch.appctl("dpctl/flush-conntrack")
    lab.wait_until(lambda: not counters(switch)["microflows"], "an empty cache")
    lab.wait_until(lambda: shown(switch)[:2] == (0, 0), "no connections")
