# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import datapath, measure

TITLE = "More masks"
GROUP = "Scale"
QUESTION = ("A million microflows share as many megaflows as there are masks; from two masks on one of them is exact, "
            "so that every cache by signature has to tell all microflows apart and none helps: what does walking masks "
            "cost?")
RULE = "output"
DAEMONS_ONLY = True
PLOT = "lines"
AXIS = "masks"
ROWS = {str(n): {"title": f"{n}", "unit": "Mpps", "better": "more"} for n in (1, 2, 5, 17, 33, 128)}


def run(w, peer, settings):
    sink = forward.make_path(w, peer, RULE)
    answers = {}
    for row in ROWS:
        n = int(row)
        datapath.replace_flows(peer, datapath.prefix_flows(n - 1) if n > 1 else datapath.one_flow())
        answers[row] = measure.received_rate(w, peer, sink, settings["seconds"], 1000000)
    return answers
