# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward

TITLE = "Into a GRE tunnel"
GROUP = "OVS-eBPF"
QUESTION = "One flow whose rule sends it into a GRE tunnel, whose other end is behind the second port."
RULE = "gre"
ROWS = {"1": {"title": "set tunnel, output", "unit": "Mpps", "better": "more"}}


def run(w, peer, settings):
    return forward.carry(w, peer, settings, RULE, ROWS)
