# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import datapath, measure

TITLE = "Flows that come and go"
GROUP = "Scale"
QUESTION = ("A thousand flows are forwarded while 2,000 others are installed and deleted over and over, through "
            "ovs-appctl dpctl: what does that cost, and how many a second are changed?")
RULE = "output"
DAEMONS_ONLY = True
SAYS = ("churn", "changed")
ROWS = {
    "quiet": {"title": "forwarded, nothing changes", "unit": "Mpps", "better": "more"},
    "churn": {"title": "forwarded, flows change", "unit": "Mpps", "better": "more"},
    "changed": {"title": "flows changed", "unit": "thousand/s", "better": "more"},
}


def run(w, peer, settings):
    sink = forward.make_path(w, peer, RULE)
    datapath.replace_flows(peer, datapath.exact_flows(1000, 1))
    quiet = measure.received_rate(w, peer, sink, settings["seconds"], 1000)
    churn = datapath.Churn(peer, 2000)
    try:
        busy = measure.received_rate(w, peer, sink, settings["seconds"], 1000)
    finally:
        changed = churn.stop()
    return {"quiet": quiet, "churn": busy, "changed": {"value": changed}}
