# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward

TITLE = "Pushing a VLAN tag"
GROUP = "Forwarding"
QUESTION = ("\"Forwarding from veth to veth\" with a rule that pushes an 802.1Q tag. The bare redirect, for comparison, "
            "changes nothing.")
RULE = "push-vlan"
ROWS = {"1": forward.ROWS["1"]}


def run(w, peer, settings):
    return forward.carry(w, peer, settings, RULE, ROWS)
