# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import measure, world

TITLE = "Established connections"
GROUP = "Connection tracking"
QUESTION = ("\"Forwarding from veth to veth\" through ct(): UDP connections that are there before, in one zone, in one zone "
            "with NAT of the source, and as OVN has them from a pod to a service: three zones, NAT of both addresses, "
            "three recirculations. The bare redirect, for comparison, tracks nothing.")
RULE = "ct"
ROWS = {
    "1": {"title": "one zone, 1 connection", "unit": "Mpps", "better": "more"},
    "1k": {"title": "one zone, 1,000 connections", "unit": "Mpps", "better": "more"},
    "nat-1": {"title": "NAT, 1 connection", "unit": "Mpps", "better": "more"},
    "nat-1k": {"title": "NAT, 1,000 connections", "unit": "Mpps", "better": "more"},
    "zones-1k": {"title": "three zones, 1,000 connections", "unit": "Mpps", "better": "more"},
    "zones-16k": {"title": "three zones, 16,000 connections", "unit": "Mpps", "better": "more"},
    "zones-100k": {"title": "three zones, 100,000 connections", "unit": "Mpps", "better": "more"},
}
RULES = {"1": "ct", "1k": "ct", "nat-1": "ct-nat", "nat-1k": "ct-nat"}
CONNECTIONS = {"1": 1, "1k": 1000, "16k": 16000, "100k": 100000}
MAKING_RATE = 100000            # Connections per second while they are made: no switch loses many of these.


def run(w, peer, settings):
    raise_limit(peer)
    sink = forward.make_path(w, peer, RULE)
    answers, rule = {}, RULE
    for row in ROWS:
        try:
            if RULES.get(row, "ct-zones") != rule:
                rule = RULES.get(row, "ct-zones")
                peer.change_rule(rule)
                w.wait_for_path(sink)
            answers[row] = _established(w, peer, sink, settings, CONNECTIONS[row.rpartition("-")[2]])
        except world.Failed as failure:
            answers[row] = {"failed": str(failure)}
    return answers


def _established(w, peer, sink, settings, n):
    """Makes 'n' connections, and measures how fast their packets are forwarded."""
    for _ in range(2):                      # What was lost while flows were installed is made then.
        world.generated(w.generate(max(0.2, n / MAKING_RATE), flows=n, rate=min(n * 10, MAKING_RATE)))
    peer.rest()
    return measure.received_rate(w, peer, sink, settings["seconds"], n)


def raise_limit(peer):
    """Lets ours have as many connections as Open vSwitch has by default."""
    if peer.role in ("ours", "part"):
        peer.options = {**peer.options, "xdp-ct-max": "3000000"}
