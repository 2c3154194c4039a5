# SPDX-License-Identifier: Apache-2.0
from bench.cases import ct
from bench.lib import measure, world

TITLE = "TCP connections from beginning to end"
GROUP = ct.GROUP
QUESTION = ("TCP connections in one zone, each with its handshake, a request, an answer, and its end: eight frames, a thousand "
            "connections at a time; packets that belong to none are dropped. How many a second does the switch carry, so that "
            "at most one frame of a hundred is lost (a search, as of the rate without loss)?")
RULE = "ct-tcp"
ROWS = {"rate": {"title": "connections", "unit": "thousand/s", "better": "more"}}
FLOWS = 1 << 20
STEPS, BY_CLIENT = 8, 5         # Frames of a connection, bench/gen/frame.h.
LOSS = 0.01                     # What is lost early takes the rest of its connection with it.
SEARCH_STEPS = 10


def run(w, peer, settings):
    ct.raise_limit(peer)
    w.make_veth("sw0", "gen", "g0", world.GENERATOR_MAC)
    w.make_veth("sw1", "gen", "g1", world.SINK_MAC)
    w.frames = ["--tcp", "--to", "g1"]
    w.sink("g0", "gen")
    sink = w.sink("g1", "gen")
    peer.start(w, ["sw0", "sw1"], RULE)
    world.wait_for(lambda: _trial(w, sink, 0.1, 100000)[1] < 0.5, "connections through the switch")
    peer.rest()
    return {"rate": {"value": _greatest(w, sink, max(0.3, settings["seconds"])) / STEPS}}


def _greatest(w, sink, seconds):
    """The greatest rate, in frames per second, at which at most LOSS of them is lost."""
    high, loss = _trial(w, sink, seconds, 0)
    if loss <= LOSS:
        return high
    low = 0.0
    for _ in range(SEARCH_STEPS):
        wanted = (low + high) / 2
        rate, loss = _trial(w, sink, seconds, wanted)
        if loss <= LOSS:
            low = max(low, rate)
        else:
            high = wanted
    return low


def _trial(w, sink, seconds, rate):
    return measure.trial(w, sink, seconds, FLOWS, rate, {}, BY_CLIENT / STEPS)
