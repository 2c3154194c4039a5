# SPDX-License-Identifier: Apache-2.0
"""ct() in the programs of XDP and tcx: frames and connections are those of the engine, and packets of connections, also those that
begin one, stay in the programs."""
import re

import pytest

import conversations
import floods
import switch as switches
import tracking
import wire

HOOKS = ("xdp", "tcx", "both")
TALKS = (("udp", conversations.udp), ("tcp", conversations.tcp), ("icmp", conversations.icmp), ("stray", conversations.stray),
         ("damaged", conversations.damaged))
WORLDS = {"firewall": (conversations.firewall, conversations.RED), "translated": (conversations.translated, conversations.SEEN),
          "several": (conversations.several, conversations.RED)}


# A zone translates a packet, and sees it again; and one whose packets a helper reads, of either end.
TWICE = (f"priority=9,udp,in_port=to-red,actions=ct(commit,zone=7,nat(src={conversations.SEEN}),table=20)",
         "table=20,ip,actions=ct(zone=7,table=21)", "table=21,actions=output:to-green")
HELPED = ("priority=10,udp,udp_dst=69,actions=ct(commit,zone=8,alg=tftp),output:to-green",
          "priority=10,udp,udp_src=69,actions=ct(zone=8,table=22)", "table=22,actions=output:to-red")


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch has no programs")


def warm_up(switch, ends, name):
    """Holds each talk once, so that flows are there, and forgets the connections."""
    for _, talk in TALKS:
        for v6 in False, True:
            conversations.hold(ends, talk(4000, WORLDS[name][1], v6))
    switch.appctl("dpctl/flush-conntrack")


def start(switch, ends, name, tracks):
    """Sets the rules and warms up; if programs are to track, waits until they do."""
    switch.flows("br0", *WORLDS[name][0](), "table=0,priority=0,actions=drop")
    warm_up(switch, ends, name)
    if tracks:
        tracking.tracks(switch)


def observe(switch, ends, name, hook):
    """What becomes of each talk, and the connections after them.  tcx verifies no transport checksums."""
    seen, port = {}, 5000
    for talk_name, talk in TALKS:
        for v6 in (False, True) if (hook, talk_name) != ("tcx", "damaged") else ():
            port += 1
            seen[talk_name, v6] = conversations.hold(ends, talk(port, WORLDS[name][1], v6))
    seen["connections"] = conversations.connections(switch)
    return seen


def up(switch):
    """Packets that programs handed to the engine, by reason."""
    return {text: n for text, n in switch.stats("programs").items() if text.startswith("handed to the engine") and n}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("hook", HOOKS)
def test_as_the_engine(hook, name):
    engine, programs = tracking.results_of(hook, lambda switch, ends, tracks: start(switch, ends, name, tracks),
                                           lambda switch, ends: observe(switch, ends, name, hook))
    wrong = list(tracking.differences(engine, programs))
    assert not wrong, "\n".join(wrong)
    assert len(engine["connections"]) > 4


@pytest.mark.parametrize("hook", HOOKS)
def test_established_stay_in_the_programs(hook):
    with tracking.served({"xdp-hook": hook}) as (switch, ends):
        start(switch, ends, "translated", True)
        warm_up(switch, ends, "translated")
        before = up(switch)
        for v6 in False, True:
            for talk in conversations.udp, conversations.tcp:
                came = conversations.hold(ends, talk(6000, conversations.SEEN, v6))
                assert sum(frame is None for _, frame in came) == (talk is conversations.tcp)
        assert up(switch) == before
        runs = [line for line in switch.dump_flows("-m") if "ct(" in line]
        assert runs and all(re.search(r"dp:(xdp|tcx)", line) for line in runs if "packets:0," not in line)


TIERS = {**{hook: {"xdp-hook": hook} for hook in HOOKS}, "engine": {"xdp-offload": "false"}}


@pytest.mark.parametrize("tier", TIERS)
def test_sequence_check(tier):
    """A segment far outside the window is +inv; not while the check is disabled, for connections that are there, too."""
    with tracking.served(TIERS[tier]) as (switch, ends):
        start(switch, ends, "firewall", tier != "engine")
        for v6 in False, True:
            steps = conversations.tcp(8000, v6=v6)
            outside = next(i for i, (_, frame) in enumerate(steps) if b"outside" in frame)
            conversations.hold(ends, steps[:outside])
            for command, n in ("ct-enable-tcp-seq-chk", 0), ("ct-disable-tcp-seq-chk", 1), ("ct-enable-tcp-seq-chk", 0):
                switch.appctl(f"dpctl/{command}")
                came = conversations.hold(ends, steps[outside:outside + 1])
                assert sum(frame is not None for _, frame in came) == n, (command, v6)


def original(port):
    """Rules that let only the packets of one connection pass, which they know by its tuple before NAT."""
    for family, kind, seen, addresses in (("udp", "nw", conversations.SEEN, (conversations.RED, conversations.GREEN)),
                                          ("udp6", "ipv6", "fc00::77", ("fc00::1", "fc00::2"))):
        tuple_ = f"ct_{kind}_src={addresses[0]},ct_{kind}_dst={addresses[1]},ct_nw_proto=17,ct_tp_src={port},ct_tp_dst=7"
        yield f"table=0,in_port=to-red,{family},actions=ct(commit,zone=9,nat(src={seen}),table=1)"
        yield f"table=0,in_port=to-green,{family},actions=ct(zone=9,nat,table=1)"
        yield f"table=1,in_port=to-red,{family},ct_state=+trk-inv-rpl,{tuple_},actions=output:to-green"
        yield f"table=1,in_port=to-green,{family},ct_state=+trk+rpl,{tuple_},actions=output:to-red"


def arrived(ends, port, v6, stranger=None):
    """How many datagrams of a conversation arrive; of the first, if a 'stranger' has the place of red or green."""
    with pytest.MonkeyPatch.context() as patch:
        if stranger:
            patch.setattr(conversations, stranger, "10.0.0.99")
        steps = conversations.udp(port, conversations.SEEN, v6)
        return sum(frame is not None for _, frame in conversations.hold(ends, steps[:1] if stranger or port != 8100 else steps))


@pytest.mark.parametrize("tier", TIERS)
def test_original_tuples(tier):
    """ct_nw_src and its like, of IPv4 and IPv6: packets of both ends match the tuple that the first packet had before NAT."""
    with tracking.served(TIERS[tier]) as (switch, ends):
        switch.flows("br0", *original(8100), "table=0,priority=0,actions=drop")
        for v6 in False, True:
            conversations.hold(ends, conversations.udp(8100, conversations.SEEN, v6))
        if tier != "engine":
            tracking.tracks(switch)
        for _ in range(2):
            for v6 in False, True:
                assert arrived(ends, 8100, v6) == 6
                assert [arrived(ends, *other) for other in ((8101, v6), (8100, v6, "RED"), (8100, v6, "GREEN"))] == [0] * 3
                assert arrived(ends, 8100, v6) == 6
        runs = [line for line in switch.dump_flows("-m") if "ct_tuple" in line and "packets:0," not in line]
        assert len(runs) >= 4 and all(re.search("dp:ovs" if tier == "engine" else "dp:(xdp|tcx)", line) for line in runs)


@pytest.mark.parametrize("hook", HOOKS)
def test_reasons_by_tier(hook):
    """xdp/ct-show says what the programs of a hook tracked, and why they left packets to the engine."""
    with tracking.served({"xdp-hook": hook}) as (switch, ends):
        start(switch, ends, "firewall", True)
        warm_up(switch, ends, "firewall")
        before = floods.shown(switch)["tiers"]
        conversations.hold(ends, conversations.icmp(7000))
        assert grown(switch, hook, before) == {"up_ct_error": 1}
        for i, frame in enumerate((first_fragment(conversations.udp(7001)[0][1]),
                                   *fragments6(conversations.udp(7002, v6=True)[0][1]))):
            n = grown(switch, hook, before).get("up_ct_fragment", 0)
            for _ in range(4):              # The first ones wait for their flow.
                conversations.hold(ends, [("red", frame)])
            assert grown(switch, hook, before).get("up_ct_fragment", 0) > n, i
        assert grown(switch, hook, before).keys() == {"up_ct_error", "up_ct_fragment"}

        for mark in 1, 2, 3:
            switch.flows("br0", f"ip,in_port=to-red,actions=ct(commit,zone=5,exec(load:{mark}->NXM_NX_CT_MARK[])),output:to-green")
            switch.appctl("revalidator/wait")
            conversations.hold(ends, [conversations.udp(7100 + i)[0] for i in range(5)])
        assert grown(switch, hook, before).get("up_ct_mark")
        assert "up_ct_nat" not in grown(switch, hook, before)
        switch.flows("br0", *TWICE)
        switch.appctl("revalidator/wait")
        conversations.hold(ends, [conversations.udp(7200)[0] for _ in range(5)])
        assert grown(switch, hook, before).get("up_ct_nat")

        assert "up_ct_helper" not in grown(switch, hook, before)
        switch.flows("br0", *HELPED)
        switch.appctl("revalidator/wait")
        conversations.hold(ends, conversations.tftp(7300))
        assert grown(switch, hook, before).get("up_ct_helper")
        after = floods.shown(switch)["tiers"]
        assert after[hook]["tracked"] > before[hook]["tracked"] and after["engine"]["tracked"] > before["engine"]["tracked"]


def first_fragment(frame):
    """'frame', IPv4, as if others followed."""
    ip = frame[14:20] + b"\x20\x00" + frame[22:24] + b"\0\0" + frame[26:34]
    return frame[:14] + ip[:10] + (~wire.ones_sum(ip) & 0xffff).to_bytes(2, "big") + ip[12:] + frame[34:]


def fragments6(frame):
    """'frame', IPv6 with UDP, as a first fragment and as a later one."""
    for offset in 0x0001, 0x0100:
        header = b"\x11\0" + offset.to_bytes(2, "big") + (7).to_bytes(4, "big")
        length = len(frame) - 54 + len(header)
        yield frame[:18] + length.to_bytes(2, "big") + b"\x2c" + frame[21:54] + header + frame[54:]


def grown(switch, hook, before):
    """How often packets went to the engine since 'before', by reason."""
    now = floods.shown(switch)["tiers"][hook]["to_engine"]
    return {reason: n - before[hook]["to_engine"][reason] for reason, n in now.items() if n > before[hook]["to_engine"][reason]}
