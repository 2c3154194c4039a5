# SPDX-License-Identifier: Apache-2.0
"""A million connections at once: what they take, dumps that hold nobody up, a table that gets full, a daemon that is killed.

    red: 900,000 connections in zone 1;   green: 100,000 in zone 2;   red talks to blue in zone 3
"""
import os
import pathlib
import re
import time

import pytest

import floods
import lab
import switch as switches
import tracking
import wire

HOOKS = ("xdp", "tcx")
ROOM = 1 << 20
RED, GREEN = 900_000, 100_000
BYTES_EACH = 320 + 128                  # A connection and a microflow: docs/reference/bounds.md.
FEW = 20                                # Of a million, at most: both their buckets are full.
OTHERS = 16 << 20                       # Bytes that do not depend on the room, at most.
TALK = 9                                # The port of blue.
RULES = ("table=0,priority=2,udp,in_port=to-red,tp_dst=9,actions=ct(zone=3,table=1)",
         "table=1,ct_state=+trk+new,udp,actions=ct(commit,zone=3),output:to-blue",
         "table=1,ct_state=+trk+est,udp,actions=output:to-blue",
         "table=0,udp,in_port=to-blue,actions=ct(zone=3,table=2)", "table=2,ct_state=+trk+est,udp,actions=output:to-red",
         "table=0,priority=1,udp,in_port=to-red,actions=ct(commit,zone=1)",
         "table=0,priority=1,udp,in_port=to-green,actions=ct(commit,zone=2)", "table=0,priority=0,actions=drop")
MAIN = 0.5                              # The main thread's part, at most, of the CPU time of a command: it sends the answer.


@pytest.fixture(name="wires", params=HOOKS)
def silent_hosts(request):
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch has no xdp/ct-show")
    available = int(re.search(r"MemAvailable: +(\d+) kB", open("/proc/meminfo", encoding="ascii").read())[1]) << 10
    if available < 4 * ROOM * BYTES_EACH:
        pytest.skip(f"a million connections and their dump take 2 GB, {available >> 20} MB are available")
    with tracking.served({"xdp-hook": request.param, "xdp-ct-max": str(ROOM)}) as (switch, ends):
        switch.expected += ["no room for more connections", "entries for connections and gets no more", "left allocated when ofproto"]
        switch.flows("br0", *RULES)
        for name in "red", "green":
            ends[name].send(*floods.datagrams([1]))
        assert talks(ends) is not None
        tracking.tracks(switch)
        floods.keep(switch, {1: ends["red"], 2: ends["green"]})
        switch.appctl("dpctl/flush-conntrack")
        assert talks(ends) is not None
        yield switch, ends


def talks(ends):
    """How long a datagram and its answer took, None if they did not come."""
    since = time.monotonic()
    ends["red"].send(wire.udp_frame("02:00:00:00:00:01", "02:00:00:00:00:03", b"question", ports=(5000, TALK)))
    if not ends["blue"].receive(limit=5):
        return None
    ends["blue"].send(wire.udp_frame("02:00:00:00:00:03", "02:00:00:00:00:01", b"answer", addresses=("10.0.0.2", "10.0.0.1"),
                                     ports=(TALK, 5000)))
    return time.monotonic() - since if ends["red"].receive(limit=5) else None


def cpu_seconds(pid):
    """CPU time of a process, and of its main thread."""
    ticks = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    main = pathlib.Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()[0]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), int(main) / 1e9


def dump_beside_others(switch, ends):
    """Dumps all connections into a file, and asks for something else meanwhile.  Returns (lines, CPU time of the daemon and of its
    main thread, longest time of another command)."""
    path = switch.rundir / "dump"
    commands, answers, before_all = [], [], cpu_seconds(switch.process.pid)
    with open(path, "wb") as file, lab.Process(switches.tool("ovs-appctl"), "-t", switch.rundir / "ovs-vswitchd.ctl",
                                               "dpctl/dump-conntrack", stdout=file) as dump:
        while dump.running():
            before = time.monotonic()
            switch.appctl("version")
            commands.append(time.monotonic() - before)
            for _ in range(20):
                answers.append(talks(ends))
        assert not dump.wait()
    all_of_it, main = (after - before for before, after in zip(before_all, cpu_seconds(switch.process.pid)))
    with open(path, "rb") as file:
        lines = sum(1 for _ in file)
    path.unlink()
    assert None not in answers
    return lines, all_of_it, main, max(commands)


def walk(switch, *command):
    """Has the daemon do something with all connections, which takes its main thread little of the time."""
    since, before = time.monotonic(), cpu_seconds(switch.process.pid)
    answer = switch.appctl(*command)
    cpu, main = (after - before for before, after in zip(before, cpu_seconds(switch.process.pid)))
    print(f"{' '.join(command)}: {time.monotonic() - since:.2f} s, {cpu:.2f} s of CPU time, of which the main thread had {main:.3f}")
    assert main < MAIN * cpu
    return answer


def restart(switch):
    switch.vsctl("set", "open", ".", "other_config:flow-restore-wait=true")
    switch.crash()
    since = time.monotonic()
    switch.start()
    lab.wait_until(lambda: "to-blue" in switch.appctl("dpctl/show", check=False), "the ports")
    seconds = time.monotonic() - since
    switch.flows("br0", *RULES)
    switch.vsctl("remove", "open", ".", "other_config", "flow-restore-wait")
    return seconds


def test_a_million(wires):
    switch, ends = wires
    since = time.monotonic()
    red, green = (floods.begin(switch, ends["red"], 1, range(RED)), floods.begin(switch, ends["green"], 2, range(GREEN)))
    shown = floods.shown(switch)
    print(f"{shown['connections']} connections after {time.monotonic() - since:.1f} s, {shown['bytes'] / ROOM:.0f} bytes for each, "
          f"{RED + GREEN - red - green} had no place")
    assert red >= RED - FEW and green >= GREEN - FEW and shown["connections"] >= red + green
    assert not shown["refused"]["share"] and shown["bytes"] < ROOM * BYTES_EACH + OTHERS

    lines, cpu, main, longest = dump_beside_others(switch, ends)
    print(f"dump: {lines} lines, {cpu:.2f} s of CPU time, of which the main thread had {main:.2f}; another command waited for "
          f"{longest:.2f} s")
    assert lines - red - green in (0, 1)        # That of zone 3 is forgotten after half a minute.
    assert main < MAIN * cpu

    for command, number in ("dpctl/ct-stats-show", r"  UDP: (\d+)"), ("dpctl/ct-bkts", r"Current Connections: (\d+)"):
        assert int(re.search(number, walk(switch, command))[1]) - red - green in (0, 1)

    # Zone 1 has its share, zone 2 takes what it gets, others still have room; nobody's connection ends.
    assert floods.begin(switch, ends["red"], 1, range(RED, RED + 1000)) == red
    more = floods.begin(switch, ends["green"], 2, range(GREEN, GREEN + 60_000))
    shown = floods.shown(switch)
    assert 16 * (ROOM - shown["held"]) <= more < GREEN + 60_000 and shown["zones"][1]["connections"] == red
    assert shown["refused"]["share"]
    switch.appctl("dpctl/flush-conntrack", "zone=3")
    assert talks(ends) is not None and talks(ends) is not None

    seconds = restart(switch)
    shown = floods.shown(switch)
    print(f"a new daemon had the ports after {seconds:.1f} s, and {shown['kept']} connections")
    assert shown["kept"] >= red + more and shown["zones"][1]["connections"] == red and shown["zones"][2]["connections"] == more
    assert talks(ends) is not None

    walk(switch, "dpctl/flush-conntrack")
    lab.wait_until(lambda: floods.shown(switch)["held"] == 0, "free entries")
    assert talks(ends) is not None
