# SPDX-License-Identifier: Apache-2.0
from bench.cases import tcp
from bench.lib import measure

TITLE = "Small datagrams between two containers"
GROUP = tcp.GROUP
QUESTION = ("How many UDP frames of 64 bytes per second get from an application's socket in one network namespace to "
            "one in another, when the first sends all it can?")
RULE = "normal"
SOCKETS = True
ROWS = {"rate": {"title": "received", "unit": "Mpps", "better": "more"}}


def run(w, peer, settings):
    tcp.make_path(w, peer, RULE)
    return {"rate": measure.socket_rate(w, peer, settings["seconds"])}
