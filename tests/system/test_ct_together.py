# SPDX-License-Identifier: Apache-2.0
"""Both ends begin the same connections at the same moment, on two CPUs, for few ports of NAT and under flushes: no tuple belongs
to two connections, in programs, in the engine, and where both make them.

    red (10.0.0.1, CLIENTS ports; seen as 10.0.0.77, PORTS ports) == zone 1 == green (10.0.0.2:7)

green sends to each port of 10.0.0.77: to a connection of red's, if one has it, else green begins one, and red cannot have it.
"""
import collections
import contextlib
import os
import re

import pytest
from scapy.all import Ether, IP, Raw, UDP, raw

import conversations
import floods
import lab
import switch as switches
import tracking

CLIENTS, PORTS = range(2000, 2024), range(5000, 5008)
ROUNDS, FLUSHES = 15, 20
# Name: (other_config, what makes green's connections the engine's).
TIERS = {"xdp": ({"xdp-hook": "xdp"}, ""), "tcx": ({"xdp-hook": "tcx"}, ""), "xdp-and-engine": ({"xdp-hook": "xdp"}, ",alg=tftp"),
         "tcx-and-engine": ({"xdp-hook": "tcx"}, ",alg=tftp"), "engine": ({"xdp-offload": "false"}, "")}
TUPLE = re.compile(r"\(src=([\d.]+),dst=([\d.]+),sport=(\d+),dport=(\d+)\)")


def rules(helper):
    yield (f"table=0,udp,in_port=to-red,actions=ct(commit,zone=1,nat(src={conversations.SEEN}:{PORTS[0]}-{PORTS[-1]})),"
           "output:to-blue")
    yield f"table=0,udp,in_port=to-green,actions=ct(commit,zone=1{helper}),output:to-blue"
    yield "table=0,priority=0,actions=drop"


def frame(source, sport, destination, dport):
    ends = Ether(src="02:00:00:00:00:01", dst=floods.NOBODY) / IP(src=source, dst=destination, flags="DF")
    return raw(ends / UDP(sport=sport, dport=dport) / Raw(bytes(18)))


@pytest.fixture(name="wires", params=TIERS)
def silent_hosts(request):
    """(switch, ends, what red sends, what green sends), with the flows there, and programs that track where the tier has some."""
    if switches.DATAPATH != "xdp":
        pytest.skip("looks at the programs")
    config, helper = TIERS[request.param]
    red = [frame(conversations.RED, port, conversations.GREEN, 7) for port in CLIENTS]
    green = [frame(conversations.GREEN, 7, conversations.SEEN, port) for port in PORTS]
    with tracking.served(config) as (switch, ends):
        switch.expected.append("due to tuple space exhaustion")
        switch.flows("br0", *rules(helper))
        for name, sent in ("red", red), ("green", green):
            ends[name].send(sent[0])
            assert len(ends["blue"].receive()) == 1
        if request.param != "engine":
            tracking.tracks(switch)
        yield switch, ends, red, green


def burst(frames):
    """These again and again, so that they come as fast as an end can send: one and the same from both within a microsecond."""
    return frames * (floods.PAUSE_AFTER // len(frames))


def twice(switch):
    """Tuples that more than one connection has, in either direction; and how many connections there are."""
    lines = switch.appctl("dpctl/dump-conntrack", "zone=1").splitlines()
    tuples = collections.Counter(found for line in lines for found in TUPLE.findall(line))
    assert sum(tuples.values()) == 2 * len(lines)
    return [found for found, n in tuples.items() if n > 1], len(lines)


def test_no_tuple_twice(wires):
    switch, ends, red, green = wires
    cpus = sorted(os.sched_getaffinity(0))
    for i in range(ROUNDS):
        with contextlib.ExitStack() as stack:
            senders = [stack.enter_context(floods.Flood(ends[name], burst(sent), cpu=cpus[n % len(cpus)]))
                       for n, (name, sent) in enumerate((("red", red), ("green", green)))]
            for _ in range(FLUSHES):
                switch.appctl("dpctl/flush-conntrack", *(["zone=1"] if i % 2 else []))
            rounds = [sender.rounds for sender in senders]
            lab.wait_until(lambda: all(sender.rounds > n + 2 for sender, n in zip(senders, rounds)), "packets after the flush")
        lab.wait_until(lambda: twice(switch) == ([], len(PORTS)), f"each port of NAT to be that of one connection, round {i}")
    switch.appctl("dpctl/flush-conntrack")
    lab.wait_until(lambda: floods.shown(switch)["held"] == 0, "free entries")
