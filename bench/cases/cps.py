# SPDX-License-Identifier: Apache-2.0
from bench.cases import ct, forward
from bench.lib import measure

TITLE = "New connections"
GROUP = ct.GROUP
QUESTION = ("Each packet of a million UDP flows makes a connection (ct(commit)), without and with NAT of the source. How many "
            "connections are made per second? The bare redirect, for comparison, tracks nothing.")
RULE = "ct-new"
ROWS = {
    "udp": {"title": "one zone", "unit": "Mpps", "better": "more"},
    "udp-nat": {"title": "NAT", "unit": "Mpps", "better": "more"},
}
FLOWS = 1000000                 # More than any switch tracks in a measurement, its warm-up included.
SECONDS = 0.4


def run(w, peer, settings):
    ct.raise_limit(peer)
    sink = forward.make_path(w, peer, RULE)
    answers = {"udp": measure.received_rate(w, peer, sink, min(settings["seconds"], SECONDS), FLOWS)}
    peer.change_rule("ct-new-nat")          # In another zone: those of the first are there.
    w.wait_for_path(sink)
    peer.rest()
    answers["udp-nat"] = measure.received_rate(w, peer, sink, min(settings["seconds"], SECONDS), FLOWS)
    return answers
