# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import attack, measure

TITLE = "A victim under attack"
GROUP = "Scale"
QUESTION = ("Somebody sends few packets that each make Open vSwitch install a flow with a mask of its own (tuple space "
            "explosion), to the port and through the access list that a victim's traffic passes: how much of a "
            "victim's thousand flows, and of its million, still comes through, with 512 such packets, 500 a second?")
RULE = "access-list"
DAEMONS_ONLY = True
SAYS = ("quiet-1M", "storm-1M")
ROWS = {f"{when}-{flows}": {"title": f"{title}, {forward.ROWS[flows]['title']}", "unit": "Mpps", "better": "more"}
        for when, title in (("quiet", "before"), ("storm", "attacked")) for flows in ("1k", "1M")}


def run(w, peer, settings):
    sink = forward.make_path(w, peer, RULE)
    answers = rates(w, peer, sink, settings, "quiet")
    storm = attack.Storm(w)
    try:
        storm.wait_until_all_sent()
        return answers | rates(w, peer, sink, settings, "storm")
    finally:
        storm.stop()


def rates(w, peer, sink, settings, when):
    return {f"{when}-{flows}": measure.received_rate(w, peer, sink, settings["seconds"], forward.FLOWS[flows])
            for flows in ("1k", "1M")}
