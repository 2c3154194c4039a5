# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import datapath, measure

TITLE = "Many megaflows, many masks"
GROUP = "Forwarding"
QUESTION = ("How many frames per second, when they are spread over 1,000 megaflows (exact 5-tuples) with 20 "
            "masks, and when a million microflows share 16 megaflows of 16 masks, and a 17th, exact one, makes "
            "every cache by packet signature tell them all apart, so that none helps and half of the masks are "
            "tried for each packet?")
RULE = "output"
DAEMONS_ONLY = True
ROWS = {
    "exact": {"title": "1,000 megaflows, 20 masks", "unit": "Mpps", "better": "more"},
    "masks": {"title": "16 masks, 1,000,000 flows", "unit": "Mpps", "better": "more"},
}


def run(w, peer, settings):
    sink = forward.make_path(w, peer, RULE)
    answers = {}
    for row, flows, n_flows in (("exact", datapath.exact_flows(1000, 20), 1000),
                                ("masks", datapath.prefix_flows(16), 1000000)):
        datapath.replace_flows(peer, flows)
        answers[row] = measure.received_rate(w, peer, sink, settings["seconds"], n_flows)
    return answers
