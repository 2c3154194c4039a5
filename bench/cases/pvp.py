# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import measure

TITLE = "PVP: through a machine behind taps"
GROUP = "SIGCOMM 2021: the dataplane ten years later"
QUESTION = ("Frames come from the wire, go through the switch to a tap, are copied to another tap by a process "
            "that stands for a virtual machine (one read and one write each, which limits every switch), and go "
            "through the switch to the sink. (P2P is the first table of \"Forwarding\".)")
RULE = "output"
ROWS = {row: forward.ROWS[row] for row in ("1", "1k")}


def run(w, peer, settings):
    first, last = w.make_path()
    w.make_machine("tap0", "tap1")
    return around(w, peer, settings, [first, "tap0", "tap1", last])


def around(w, peer, settings, ports):
    sink = w.sink(*peer.sink_at)
    peer.start(w, ports, RULE)
    w.wait_for_path(sink)
    return {row: measure.received_rate(w, peer, sink, settings["seconds"], forward.FLOWS[row]) for row in ROWS}
