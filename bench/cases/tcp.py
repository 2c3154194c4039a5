# SPDX-License-Identifier: Apache-2.0
from bench.lib import iperf, world

TITLE = "TCP between two containers"
GROUP = "Containers: sockets on both sides"
QUESTION = ("What throughput have one TCP stream, and eight together, between two network namespaces behind the "
            "switch, with iperf3 and cubic (SIGCOMM 2021 measured the first)? The containers leave segmentation and "
            "checksums to their devices where the switch can live with that.")
RULE = "normal"
SOCKETS = True
QUICK = True
SAYS = ("rate", "rate-8")
ROWS = {
    "rate": {"title": "1 stream", "unit": "Gb/s", "better": "more"},
    "rate-8": {"title": "8 streams", "unit": "Gb/s", "better": "more"},
    "retransmits": {"title": "1 stream, retransmitted", "unit": "segments/s", "better": "less"},
}


def run(w, peer, settings):
    make_path(w, peer, RULE)
    return iperf.tcp(w, peer, settings) | {"rate-8": iperf.tcp(w, peer, settings, streams=8)["rate"]}


def make_path(w, peer, rule, mtu=None):
    """Starts the switch between two containers that know each other, with devices of this MTU."""
    ports = w.make_path()
    for where, device in (([], "sw0"), ([], "sw1"), (["-n", "gen"], "g0"), (["-n", "sink"], "s0")) if mtu else ():
        world.command("ip", *where, "link", "set", device, "mtu", str(mtu))
    w.give_addresses(peer.offloads)
    if not peer.offloads:
        for port in ports:                  # Segments that GRO has joined are longer than such a switch takes.
            world.command("ethtool", "-K", port, "gro", "off")
    peer.start(w, ports, rule)
    w.introduce()
