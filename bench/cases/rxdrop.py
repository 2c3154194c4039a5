# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure

TITLE = "rxdrop: parse, look up, drop"
GROUP = "OVS-AF_XDP"
ABOUT = "ours-engine"
QUESTION = ("How many frames per second does a datapath take in, parse, look up and drop? The minimal AF_XDP "
            "program takes them in and drops them without a look; copy mode, one thread on a core of its own.")
RULE = "drop"
ROWS = {"1": {"title": "1 flow, dropped", "unit": "Mpps", "better": "more"}}


def run(w, peer, settings):
    peer.start(w, w.make_path(), RULE)
    return {"1": measure.handled_rate(w, peer, settings["seconds"])}
