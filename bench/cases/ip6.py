# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward

TITLE = "IPv6"
GROUP = "Forwarding"
QUESTION = "\"Forwarding from veth to veth\" with frames of UDP over IPv6 and a rule that matches the 5-tuple."
RULE = "ip6"
FRAMES = ["--ip6", "--size", "62"]
ROWS = {"1": forward.ROWS["1"]}


def run(w, peer, settings):
    w.frames = FRAMES
    return forward.carry(w, peer, settings, RULE, ROWS)
