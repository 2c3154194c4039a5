# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure

TITLE = "l2fwd: set MAC, back out of the receiving port"
GROUP = "OVS-AF_XDP"
ABOUT = "ours-engine"
QUESTION = ("How many frames per second does a datapath take in, give another destination MAC address, and send back out of "
            "the port that they came from? The minimal AF_XDP program sends them back as they are.")
RULE = "hairpin"
ROWS = {"1": {"title": "1 flow, sent back", "unit": "Mpps", "better": "more"}}


def run(w, peer, settings):
    ports = w.make_path()
    sink = w.sink("g0", "gen")
    peer.start(w, ports, RULE)
    w.wait_for_path(sink)
    return {"1": measure.received_rate(w, peer, sink, settings["seconds"], 1)}
