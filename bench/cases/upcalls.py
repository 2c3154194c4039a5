# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure

TITLE = "New flows"
GROUP = "Latency and decisions"
QUESTION = ("How many new flows per second does the switch set up, when the rule looks at the source and so "
            "every packet of a million sources needs a decision of its own?")
RULE = "per-source"
QUICK = True
DAEMONS_ONLY = True
ROWS = {"rate": {"title": "flows set up", "unit": "thousand/s", "better": "more"}}
OFFERED = 500000                            # New flows per second: more than any switch here sets up.


def run(w, peer, settings):
    ports = w.make_path()
    sink = w.sink()
    peer.start(w, ports, RULE)
    w.wait_for_path(sink)
    return {"rate": measure.upcall_rate(w, peer, min(settings["seconds"], 1.5), OFFERED)}
