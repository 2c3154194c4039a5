# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward

TITLE = "More microflows"
GROUP = "Scale"
QUESTION = "One rule, one megaflow, and ever more microflows: what do caches by packet signature cost when they miss?"
RULE = "match"
PLOT = "lines"
AXIS = "microflows"
ROWS = {row: {"title": f"{flows:,}", "unit": "Mpps", "better": "more"} for row, flows in forward.FLOWS.items()}


def run(w, peer, settings):
    return forward.carry(w, peer, settings, RULE, ROWS)
