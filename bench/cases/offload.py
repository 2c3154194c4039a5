# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import measure

TITLE = "From a wire to a container, per core"
GROUP = "OVS with XDP (flow offload)"
QUESTION = ("One flow from a port that receives as a NIC does to a veth, one rule, output: how much, and how "
            "much for each core that the whole machine used for it? (The wire is a veth whose far end the "
            "generator fills: its driver runs XDP as a NIC's does, without DMA. From veth to veth is the same "
            "here.)")
RULE = "output"
ROWS = {
    "rate": {"title": "received", "unit": "Mpps", "better": "more"},
    "core": {"title": "per core used", "unit": "Mpps", "better": "more"},
}


def run(w, peer, settings):
    sink = forward.make_path(w, peer, RULE)
    rate = measure.received_rate(w, peer, sink, settings["seconds"], 1)
    return {"rate": rate, "core": {"value": rate["value"] / rate["machine_cpu"]}}
