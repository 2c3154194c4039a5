# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import datapath, measure

TITLE = "More masks"
GROUP = "Scale"
QUESTION = ("A million microflows share as many megaflows as there are masks; one of them is exact, so that "
            "every cache by signature has to tell all microflows apart and none helps: what does walking masks "
            "cost?")
RULE = "output"
DAEMONS_ONLY = True
PLOT = "lines"
ROWS = {str(n): {"title": f"{n}", "unit": "Mpps", "better": "more"} for n in (2, 5, 17, 33, 128)}


def run(w, peer, settings):
    sink = forward.make_path(w, peer, RULE)
    answers = {}
    for row in ROWS:
        datapath.replace_flows(peer, datapath.prefix_flows(int(row) - 1))
        answers[row] = measure.received_rate(w, peer, sink, settings["seconds"], 1000000)
    return answers
