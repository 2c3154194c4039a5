# SPDX-License-Identifier: Apache-2.0
from bench.lib import iperf, world

TITLE = "TCP between two hosts"
GROUP = "SIGCOMM 2021: the dataplane ten years later"
QUESTION = ("What throughput has one TCP stream between two network namespaces behind the switch, with iperf3? "
            "The hosts leave segmentation and checksums to their devices where the switch can live with that.")
RULE = "normal"
SOCKETS = True
QUICK = True
ROWS = {
    "rate": {"title": "1 stream", "unit": "Gb/s", "better": "more"},
    "retransmits": {"title": "retransmitted", "unit": "segments/s", "better": "less"},
}


def run(w, peer, settings):
    ports = w.make_path()
    w.give_addresses(peer.offloads)
    if not peer.offloads:
        for port in ports:                  # Segments that GRO has joined are longer than such a switch takes.
            world.command("ethtool", "-K", port, "gro", "off")
    peer.start(w, ports, RULE)
    return iperf.tcp(w, peer, max(2, settings["seconds"]))
