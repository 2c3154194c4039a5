# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import measure

TITLE = "With a plain generator"
GROUP = "Forwarding"
QUESTION = ("\"Forwarding from veth to veth\" with a generator that keeps no program attached to a device, as others do "
            "it: each test run of 65,536 live frames then waits twice for RCU, during which nothing is sent. Compare shares "
            "with those of other people by this page, and costs by that one.")
RULE = "output"
ROWS = {row: forward.ROWS[row] for row in ("1", "1k", "1M")}


def run(w, peer, settings):
    w.frames = ["--plain", "--call", "65536"]
    return forward.carry(w, peer, settings, RULE, ROWS)
