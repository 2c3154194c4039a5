# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure

TITLE = "l2fwd: set MAC, back out of the receiving port"
GROUP = "OVS-AF_XDP"
ABOUT = "ours-engine"
QUESTION = ("The same with a rule that sets the destination MAC address and sends frames back to where they "
            "came from. The minimal AF_XDP program sends them back as they are.")
RULE = "hairpin"
ROWS = {"1": {"title": "1 flow, sent back", "unit": "Mpps", "better": "more"}}


def run(w, peer, settings):
    ports = w.make_path()
    sink = w.sink("g0", "gen")
    peer.start(w, ports, RULE)
    w.wait_for_path(sink)
    return {"1": measure.received_rate(w, peer, sink, settings["seconds"], 1)}
