# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import datapath, measure, world

TITLE = "More megaflows"
GROUP = "Scale"
QUESTION = "Each microflow has a megaflow of its own, an exact 5-tuple with one mask: what does a large table cost?"
RULE = "output"
DAEMONS_ONLY = True
PLOT = "lines"
AXIS = "megaflows"
SIZES = {"1": 1, "100": 100, "10k": 10000, "60k": 60000, "200k": 200000}
ROWS = {row: {"title": f"{size:,}", "unit": "Mpps", "better": "more"} for row, size in SIZES.items()}


def run(w, peer, settings):
    sink = forward.make_path(w, peer, RULE)
    answers = {}
    for row, size in SIZES.items():
        try:
            datapath.replace_flows(peer, datapath.exact_flows(size, 1))
        except world.Failed as failure:
            answers[row] = {"failed": f"{size:,} flows cannot be installed: {str(failure)[-80:]}"}
        else:
            answers[row] = measure.received_rate(w, peer, sink, settings["seconds"], size)
    return answers
