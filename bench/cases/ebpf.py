# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import measure

TITLE = "Output, and set a destination address"
GROUP = "OVS-eBPF"
QUESTION = ("One flow, by the action of its rule: output, or set the destination MAC address and output. The bare "
            "redirect is \"redirect only\", and does no more in the second column.")
RULE = "set-mac"
ROWS = {
    "output": {"title": "output", "unit": "Mpps", "better": "more"},
    "1": {"title": "set MAC, output", "unit": "Mpps", "better": "more"},
}


def run(w, peer, settings):
    sink = forward.make_path(w, peer, "output")
    output = measure.received_rate(w, peer, sink, settings["seconds"], 1)
    peer.change_rule(RULE)
    return {"output": output, "1": measure.received_rate(w, peer, sink, settings["seconds"], 1)}
