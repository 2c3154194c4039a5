# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward

TITLE = "Popping a VLAN tag"
GROUP = "Forwarding"
QUESTION = ("\"Forwarding from veth to veth\" with tagged frames and a rule that pops the tag. The bare redirect, for "
            "comparison, changes nothing.")
RULE = "pop-vlan"
FRAMES = ["--vlan", "100"]
ROWS = {"1": forward.ROWS["1"]}


def run(w, peer, settings):
    w.frames = FRAMES
    return forward.carry(w, peer, settings, RULE, ROWS)
