# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure

TITLE = "Forwarding from veth to veth"
GROUP = "Forwarding"
QUESTION = ("How many 64-byte UDP frames per second does a switch carry from one veth to another, "
            "one OpenFlow rule, when they belong to one flow, to a thousand, to a million?")
RULE = "output"
QUICK = True
FLOWS = {"1": 1, "100": 100, "1k": 1000, "10k": 10000, "100k": 100000, "1M": 1000000}
ROWS = {
    "1": {"title": "1 flow", "unit": "Mpps", "better": "more"},
    "1k": {"title": "1,000 flows", "unit": "Mpps", "better": "more"},
    "1M": {"title": "1,000,000 flows", "unit": "Mpps", "better": "more"},
}


def run(w, peer, settings):
    return carry(w, peer, settings, RULE, ROWS)


def carry(w, peer, settings, rule, rows):
    sink = make_path(w, peer, rule)
    return {row: measure.received_rate(w, peer, sink, settings["seconds"], FLOWS[row]) for row in rows}


def make_path(w, peer, rule):
    """Starts the switch between generator and sink, and returns the sink when frames arrive there."""
    ports = w.make_path()
    sink = w.sink(*peer.sink_at)
    peer.start(w, ports, rule)
    w.wait_for_path(sink)
    peer.rest()
    return sink
