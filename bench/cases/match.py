# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward

TITLE = "A rule that looks at addresses and ports"
GROUP = "Forwarding"
QUESTION = ("\"Forwarding from veth to veth\" with a rule that matches the destination network and the UDP port: Open "
            "vSwitch's userspace datapath has a short cut for rules that look at the input port only, and this rule cannot "
            "take it.")
RULE = "match"
ROWS = {row: forward.ROWS[row] for row in ("1k", "1M")}


def run(w, peer, settings):
    return forward.carry(w, peer, settings, RULE, ROWS)
