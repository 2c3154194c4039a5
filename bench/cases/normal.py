# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward

TITLE = "Learning switch"
GROUP = "Forwarding"
QUESTION = "\"Forwarding from veth to veth\" with the action NORMAL (learning by MAC address)."
RULE = "normal"
QUICK = True
ROWS = {"1k": forward.ROWS["1k"]}


def run(w, peer, settings):
    return forward.carry(w, peer, settings, RULE, ROWS)
