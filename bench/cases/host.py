# SPDX-License-Identifier: Apache-2.0
from bench.cases import tcp
from bench.lib import iperf, world

TITLE = "TCP between a container and the host"
GROUP = tcp.GROUP
QUESTION = ("What throughput has one TCP stream between a network namespace behind the switch and the host itself, "
            "whose address is on the bridge (Open vSwitch's internal port), in both directions, with iperf3 and cubic?")
RULE = "host"
SOCKETS = True
SAYS = ("in", "out")
ROWS = {
    "in": {"title": "container to host", "unit": "Gb/s", "better": "more"},
    "out": {"title": "host to container", "unit": "Gb/s", "better": "more"},
}


def run(w, peer, settings):
    w.make_veth("sw0", "gen", "g0", world.GENERATOR_MAC)
    peer.start(w, ["sw0"], RULE)
    w.give_host_addresses("br0", peer.offloads)
    if not peer.offloads:
        world.command("ethtool", "-K", "sw0", "gro", "off")
    return {"in": iperf.tcp(w, peer, settings, server=None)["rate"],
            "out": iperf.tcp(w, peer, settings, server=None, back=True)["rate"]}
