# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward

TITLE = "Setting addresses and decrementing TTL"
GROUP = "Forwarding"
QUESTION = ("\"Forwarding from veth to veth\" with a rule that sets both Ethernet and both IPv4 addresses and decrements "
            "TTL. The bare redirect, for comparison, changes nothing.")
RULE = "set"
ROWS = {"1": forward.ROWS["1"]}


def run(w, peer, settings):
    return forward.carry(w, peer, settings, RULE, ROWS)
