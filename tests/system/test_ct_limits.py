# SPDX-License-Identifier: Apache-2.0
"""What tables of connections refuse, and what stays consistent while connections begin: limits, full buckets, flushing, zones
that go, policies that change, daemons that are killed; on each tier.

    red: zone 1 --\
                   blue, where all frames arrive
    green: zone 2 -/
"""
import json
import pathlib
import random
import re
import time

import pytest

import floods
import lab
import switch as switches
import tracking

FOLDER = pathlib.Path("/sys/fs/bpf/ovs-xdp")
HOOKS = {"xdp": {"xdp-hook": "xdp"}, "tcx": {"xdp-hook": "tcx"}, "both": {"xdp-hook": "both"}}
TIERS = {**HOOKS, "engine": {"xdp-offload": "false"}}
ROOM = 1024
ALONE = 964                             # What one zone gets of it.
MUCH = 1 << 20                          # More than the default.
HASH_KEYS = slice(48, 96)               # Bytes of struct dp_ct_head.
SLOTS = 14                              # Of a bucket and its alternative.
RULES = ("table=0,ip,in_port=to-red,actions=ct(commit,zone=1),output:to-blue",
         "table=0,ip,in_port=to-green,actions=ct(commit,zone=2),output:to-blue", "table=0,priority=0,actions=drop")
# The engine makes those of zone 2, which have a helper.
HELPED = (RULES[0], "table=0,tcp,in_port=to-green,actions=ct(commit,zone=2,alg=ftp),output:to-blue", RULES[2])


@pytest.fixture(name="tier", params=TIERS)
def chosen_tier(request):
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch has no xdp/ct-show")
    return request.param


@pytest.fixture(name="hook", params=HOOKS)
def chosen_hook(request):
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch has no programs")
    return request.param


@pytest.fixture(name="wires")
def silent_hosts(request):
    """(switch, ends), with programs that track where the tier has some, and no connection."""
    tier = request.getfixturevalue("hook" if "hook" in request.fixturenames else "tier")
    with tracking.served({**TIERS[tier], "xdp-ct-max": str(ROOM)}) as (switch, ends):
        switch.expected.append("entries for connections and gets no more")
        switch.flows("br0", *RULES)
        for name in "red", "green":
            ends[name].send(*floods.syns(1))
            assert len(ends["blue"].receive()) == 1
        if tier != "engine":
            tracking.tracks(switch)
        empty(switch)
        yield switch, ends


def empty(switch):
    """Flushes, and returns when all entries are free."""
    switch.appctl("dpctl/flush-conntrack")
    lab.wait_until(lambda: floods.shown(switch)["held"] == 0, "free entries")
    assert floods.shown(switch)["connections"] == 0


def carried(ends, name, frames):
    """Whether all 'frames' of 'name' arrive: who makes no connection is +new, and goes on."""
    for i in range(0, len(frames), 100):
        part = frames[i:i + 100]
        ends[name].send(*part)
        if len(ends["blue"].receive(count=len(part))) != len(part):
            return False
    return True


def zone(switch, number):
    return floods.shown(switch)["zones"].get(number, {"connections": 0, "refused": 0})


def test_limits(tier, wires):
    """Of zones, and of all: what is beyond is refused and counted, nothing that is there ends."""
    switch, ends = wires
    switch.appctl("dpctl/ct-set-limits", "zone=1,limit=50", "zone=2,limit=30")
    before = floods.shown(switch)["refused"]
    frames = floods.syns(200)
    assert carried(ends, "red", frames)
    assert zone(switch, 1)["connections"] == 50 and zone(switch, 1)["refused"] == 150
    assert carried(ends, "green", frames[:100])
    assert zone(switch, 2)["connections"] == 30
    first = set(re.findall(r"sport=(\d+)", switch.appctl("dpctl/dump-conntrack", "zone=1")))
    switch.appctl("dpctl/ct-del-limits", "zone=1,2")
    switch.appctl("dpctl/ct-set-maxconns", "100")
    assert carried(ends, "red", frames)
    assert zone(switch, 1)["connections"] == 70 and switch.appctl("dpctl/ct-get-nconns").strip() == "100"
    assert first < set(re.findall(r"sport=(\d+)", switch.appctl("dpctl/dump-conntrack", "zone=1")))
    after = floods.shown(switch)["refused"]
    assert (after["limit"] - before["limit"], after["maxconns"] - before["maxconns"]) == (220, 130)
    switch.appctl("dpctl/ct-set-maxconns", "3000000")
    assert carried(ends, "red", frames) and zone(switch, 1)["connections"] == 200


def test_default_limit(tier, wires):
    """Zones without a limit of their own share the default one."""
    switch, ends = wires
    switch.appctl("dpctl/ct-set-limits", "default=40")
    frames = floods.syns(100)
    assert carried(ends, "red", frames[:30]) and zone(switch, 1)["connections"] == 30
    assert carried(ends, "green", frames) and zone(switch, 2)["connections"] == 10 and zone(switch, 2)["refused"] == 90
    assert carried(ends, "red", frames) and zone(switch, 1)["connections"] == 30
    switch.appctl("dpctl/ct-set-limits", "zone=2,limit=50")
    assert carried(ends, "green", frames) and 50 <= zone(switch, 2)["connections"] <= 60
    switch.appctl("dpctl/flush-conntrack", "zone=1")
    assert carried(ends, "red", frames) and zone(switch, 1)["connections"] == 30


def test_much_room():
    """Tables for more connections than the default's are made before a packet wants them: making them takes long.  A datapath may
    end meanwhile."""
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch has no other_config:xdp-ct-max")
    with tracking.served({}) as (switch, ends):
        switch.flows("br0", "table=0,in_port=to-red,actions=output:to-blue")
        assert carried(ends, "red", floods.syns(10)) and not rooms(switch)
        switch.vsctl("set", "open", ".", f"other_config:xdp-ct-max={MUCH}")
        lab.wait_until(lambda: rooms(switch) == [MUCH], "tables")
        for _ in range(3):
            switch.vsctl("del-br", "br0")
            switch.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=xdp")
        lab.wait_until(lambda: len(rooms(switch)) == 4, "tables of each datapath")
        assert set(rooms(switch)) == {MUCH}


def rooms(switch):
    """For how many connections tables were made, each time."""
    return [int(room) for room in re.findall(r"room for (\d+) connections, ", "\n".join(switch.log()))]


def test_less_room_after_a_restart(hook):
    """As many connections as there is room for go on, each as it was; the log says how many do not."""
    with tracking.served({**HOOKS[hook], "xdp-ct-max": str(2 * ROOM)}) as (switch, ends):
        switch.expected += ["there was no room for", "left allocated when ofproto"]
        switch.flows("br0", *RULES)
        ends["red"].send(*floods.syns(1))
        assert len(ends["blue"].receive()) == 1
        tracking.tracks(switch)
        assert carried(ends, "red", floods.syns(1500))
        before = lines(switch)
        switch.vsctl("set", "open", ".", f"other_config:xdp-ct-max={ROOM}", "other_config:flow-restore-wait=true")
        switch.crash()
        switch.start()
        lab.wait_until(lambda: "there was no room for" in "\n".join(switch.log()), "a warning")
        kept, lost = (int(re.search(pattern, "\n".join(switch.log()))[1]) for pattern in (
            r"(\d+) connections of the previous instance go on", r"there was no room for (\d+) more"))
        assert kept + lost == len(before) and 0.9 * ROOM < kept <= ROOM
        assert len(lines(switch)) == kept and lines(switch) < before
        switch.vsctl("remove", "open", ".", "other_config", "flow-restore-wait")


def lines(switch):
    return set(switch.appctl("dpctl/dump-conntrack", "zone=1").splitlines())


def test_full_bucket(hook, wires):
    """All tuples on purpose in one bucket, whose alternative is theirs, too: a connection has two places, or is not made."""
    switch, ends = wires
    (head,) = FOLDER.glob("*/ovs-xdp/state-ct_head-*")
    value = bytes(int(byte, 16) for byte in map_value(head))
    lab.run("bpftool", "map", "update", "pinned", head, "key", "hex", "00", "00", "00", "00", "value", "hex",
            *(value[:HASH_KEYS.start] + bytes(48) + value[HASH_KEYS.stop:]).hex(" ").split())
    frames = floods.syns(40)
    for _ in range(2):
        refused = floods.shown(switch)["refused"]["full"]
        for again in range(2):
            assert carried(ends, "red", frames), hook
            assert zone(switch, 1)["connections"] == SLOTS // 2
            assert floods.shown(switch)["refused"]["full"] == refused + (1 + again) * (len(frames) - SLOTS // 2)
        empty(switch)
    switch.expected.append("no room for more connections")


def map_value(pin):
    (entry,) = json.loads(lab.run("bpftool", "-j", "map", "dump", "pinned", pin))
    return entry["value"]


def test_zones_go_while_connections_begin(tier, wires):
    """Flushes, limits and rules of a zone come and go while others begin connections there."""
    switch, ends = wires
    with floods.Flood(ends["red"], floods.syns(3000)) as flood:
        for i in range(12):
            switch.appctl("dpctl/flush-conntrack", *(["zone=1"] if i % 2 else []))
            switch.appctl("dpctl/ct-set-limits", "zone=1,limit=300")
            switch.appctl("dpctl/flush-conntrack", "zone=1")
            switch.appctl("dpctl/ct-del-limits", "zone=1")
            if i % 4 == 3:
                switch.flows("br0", RULES[2])
                switch.flows("br0", *RULES)
        lab.wait_until(lambda: flood.rounds, "a round")
    all_there(switch, ends)


def all_there(switch, ends):
    """No entry is lost, and no count is wrong."""
    lab.wait_until(lambda: len(switch.appctl("dpctl/dump-conntrack").splitlines()) == floods.shown(switch)["connections"],
                   "as many connections as are counted")
    empty(switch)
    full = floods.shown(switch)["refused"]["full"]
    frames = floods.syns(1100, seed=9)      # More than once: some are lost while programs are exchanged.
    lab.wait_until(lambda: ends["red"].send(*frames) or zone(switch, 1)["connections"] == ALONE, "a zone with its share")
    assert floods.shown(switch)["refused"]["full"] == full and floods.shown(switch)["held"] == ALONE


def test_policies_change(tier, wires):
    """A connection keeps the timeouts that it began with; those that begin later have others."""
    switch, ends = wires
    switch.vsctl("--", "--id=@m", "create", "Datapath", "datapath_version=0", "--", "set", "Open_vSwitch", ".",
                 "datapaths:xdp=@m")
    frames = floods.syns(30)
    for i, seconds in enumerate((200, 500, 800)):
        switch.vsctl("--if-exists", "del-zone-tp", "xdp", "zone=1")
        switch.vsctl("add-zone-tp", "xdp", "zone=1", f"tcp_syn_sent={seconds}")
        lab.wait_until(lambda: _begins(switch, ends, frames[i::3], seconds), f"connections with {seconds} s")
    assert all(any(low < timeout <= low + 200 for timeout in timeouts(switch)) for low in (0, 300, 600))


def _begins(switch, ends, frames, seconds):
    """Flows follow a policy after a moment: those that came too early end, and come again."""
    ends["red"].send(*frames)
    ports = {int.from_bytes(frame[34:36], "big") for frame in frames}
    mine = [timeout for port, timeout in by_port(switch) if port in ports]
    if len(mine) == len(frames) and all(seconds - 200 < timeout <= seconds for timeout in mine):
        return True
    for port in ports:
        for line in switch.appctl("dpctl/dump-conntrack", "zone=1").splitlines():
            found = re.search(rf"orig=\(src=([\d.]+),dst=([\d.]+),sport={port},dport=(\d+)\)", line)
            if found:
                switch.appctl("dpctl/flush-conntrack", "zone=1", f"ct_nw_src={found[1]},ct_nw_dst={found[2]},ct_nw_proto=6,"
                              f"ct_tp_src={port},ct_tp_dst={found[3]}")
    return False


def by_port(switch):
    return [(int(port), int(timeout)) for port, timeout in re.findall(
        r"orig=\([^)]*sport=(\d+)[^\n]*timeout=(\d+)", switch.appctl("dpctl/dump-conntrack", "-s", "zone=1"))]


def timeouts(switch):
    return [timeout for _, timeout in by_port(switch)]


def test_killed_while_connections_begin(hook, wires):
    """In programs and in the engine, at any moment, again and again."""
    switch, ends = wires
    choose = random.Random(hook)
    switch.expected += ["left allocated when ofproto", "no room for more connections"]
    switch.flows("br0", *HELPED)
    with floods.Flood(ends["red"], floods.syns(3000)), floods.Flood(ends["green"], floods.syns(3000, seed=2)):
        for _ in range(4):
            lab.wait_until(lambda: zone(switch, 1)["connections"] and zone(switch, 2)["connections"], "connections of both")
            switch.appctl("dpctl/flush-conntrack")
            time.sleep(choose.uniform(0, 0.3))
            switch.vsctl("set", "open", ".", "other_config:flow-restore-wait=true")
            switch.crash()
            time.sleep(choose.uniform(0, 0.2))
            switch.start()
            lab.wait_until(lambda: "to-blue" in switch.appctl("dpctl/show", check=False), "the ports")
            switch.flows("br0", *HELPED)
            switch.vsctl("remove", "open", ".", "other_config", "flow-restore-wait")
    lab.wait_until(lambda: floods.shown(switch)["programs_track"], "programs that track")
    all_there(switch, ends)
