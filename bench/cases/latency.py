# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure

TITLE = "Latency"
GROUP = "Latency and decisions"
QUESTION = ("How long does an application wait for the answer to a small UDP request, both ways through the "
            "switch: in the middle, at worst but for one in a hundred, one in a thousand, and when every "
            "request is the first packet of a flow that the switch must decide about?")
RULE = "per-source"
SOCKETS = True
QUICK = True
SAYS = ("p50", "first")
ROWS = {
    "p50": {"title": "median", "unit": "us", "better": "less"},
    "p99": {"title": "99th percentile", "unit": "us", "better": "less"},
    "p999": {"title": "99.9th percentile", "unit": "us", "better": "less"},
    "first": {"title": "first packet, median", "unit": "us", "better": "less"},
}


def run(w, peer, settings):
    ports = w.make_path()
    w.give_addresses()
    peer.start(w, ports, RULE)
    w.start_echo()
    w.wait_for_answers()
    return measure.latency(w, peer, settings["seconds"])
