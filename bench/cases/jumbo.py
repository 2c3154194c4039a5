# SPDX-License-Identifier: Apache-2.0
from bench.cases import tcp
from bench.lib import iperf

TITLE = "TCP between two containers with MTU 9,000"
GROUP = tcp.GROUP
QUESTION = ("What throughput have one TCP stream, and eight together, between two network namespaces whose devices have an "
            "MTU of 9,000 bytes, as overlays and storage networks have? Else as the case with 1,500.")
RULE = tcp.RULE
SOCKETS = True
SAYS = tcp.SAYS
ROWS = {name: tcp.ROWS[name] for name in SAYS}
MTU = 9000


def run(w, peer, settings):
    tcp.make_path(w, peer, RULE, mtu=MTU)
    return {"rate": iperf.tcp(w, peer, settings)["rate"], "rate-8": iperf.tcp(w, peer, settings, streams=8)["rate"]}
