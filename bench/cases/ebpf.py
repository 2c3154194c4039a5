# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward

TITLE = "Output, and set a destination address"
GROUP = "OVS-eBPF"
QUESTION = ("One flow, by the action of its rule: output, or set the destination MAC address and output. The bare "
            "redirect stands for \"redirect only\", and does no more in the second table.")
RULE = "set-mac"
ROWS = {"1": {"title": "set MAC, output", "unit": "Mpps", "better": "more"}}


def run(w, peer, settings):
    return forward.carry(w, peer, settings, RULE, ROWS)
