# SPDX-License-Identifier: Apache-2.0
from bench.cases import ct, tcp, tcp_rr
from bench.lib import iperf, measure

TITLE = "Connections between two containers"
GROUP = ct.GROUP
QUESTION = ("TCP between two network namespaces through two zones: throughput of one stream, time of a small request and its "
            "answer, and connections that are made, used for one request and closed, a second; and the same without tracking, "
            "right before.")
RULE = "ct-hosts"
SOCKETS = True
ROWS = {
    "untracked-rate": {"title": "1 stream, untracked", "unit": "Gb/s", "better": "more"},
    "rate": {"title": "1 stream", "unit": "Gb/s", "better": "more"},
    "untracked-p50": {"title": "request, untracked, median", "unit": "us", "better": "less"},
    "p50": {"title": "request, median", "unit": "us", "better": "less"},
    "untracked-connections": {"title": "new connections, untracked", "unit": "thousand/s", "better": "more"},
    "connections": {"title": "new connections", "unit": "thousand/s", "better": "more"},
}


def run(w, peer, settings):
    tcp.make_path(w, peer, "normal")
    w.lend_many_ports("gen")
    w.start_echo()
    answers = {f"untracked-{row}": answer for row, answer in _measure(w, peer, settings).items()}
    peer.change_rule(RULE)
    return answers | _measure(w, peer, settings)


def _measure(w, peer, settings):
    w.wait_for_answers()
    found = iperf.tcp(w, peer, settings) | measure.tcp_latency(w, peer, settings["seconds"])
    return {row: found[row] for row in ("rate", *tcp_rr.SAYS)}
