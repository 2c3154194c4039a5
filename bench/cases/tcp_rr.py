# SPDX-License-Identifier: Apache-2.0
from bench.cases import tcp
from bench.lib import measure

TITLE = "Requests and connections over TCP"
GROUP = tcp.GROUP
QUESTION = ("How long does an application wait for a small answer over a TCP connection between two network "
            "namespaces, in the middle and at worst but for one in a hundred; and how many connections a second, one "
            "after the other, are made, used for one request and closed?")
RULE = "normal"
SOCKETS = True
SAYS = ("p50", "connections")
ROWS = {
    "p50": {"title": "median", "unit": "us", "better": "less"},
    "p99": {"title": "99th percentile", "unit": "us", "better": "less"},
    "connections": {"title": "new connections", "unit": "thousand/s", "better": "more"},
}


def run(w, peer, settings):
    tcp.make_path(w, peer, RULE)
    w.lend_many_ports("gen")
    w.start_echo()
    w.wait_for_answers()
    return measure.tcp_latency(w, peer, settings["seconds"])
