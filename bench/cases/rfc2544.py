# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import measure

TITLE = "Without loss"
GROUP = "Forwarding"
QUESTION = ("What is the most that comes through while the generator sends all it can, and the most that can be "
            "sent so that next to nothing is lost (RFC 2544, a binary search; the threshold is --loss)?")
RULE = "output"
QUICK = True
SAYS = ("lossless-1",)
ROWS = {
    "max-1": {"title": "1 flow, received", "unit": "Mpps", "better": "more"},
    "lossless-1": {"title": "1 flow, without loss", "unit": "Mpps", "better": "more"},
    "max-1k": {"title": "1,000 flows, received", "unit": "Mpps", "better": "more"},
    "lossless-1k": {"title": "1,000 flows, without loss", "unit": "Mpps", "better": "more"},
}


def run(w, peer, settings):
    sink = forward.make_path(w, peer, RULE)
    answers = {}
    for flows in "1", "1k":
        most, lossless = measure.limited_rate(w, peer, sink, settings, forward.FLOWS[flows])
        answers |= {f"max-{flows}": most, f"lossless-{flows}": lossless}
    return answers
