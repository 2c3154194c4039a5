# SPDX-License-Identifier: Apache-2.0
from bench.cases import tcp
from bench.lib import iperf, measure, tunnel, world

TITLE = "TCP through a VXLAN tunnel"
GROUP = tcp.GROUP
QUESTION = ("What throughput has TCP between a container behind the switch and one on another host, which has the kernel's "
            "vxlan device, with iperf3 and cubic; and how long does an application wait for a small answer? Both hosts are on "
            "this machine. The other one sends frames of 1,500 bytes, as a wire brings them; here segments leave as large as "
            "the switch leaves them.")
RULE = "tunnel-tcp"
SOCKETS = True
SAYS = ("out", "in")
MTU = "1450"
TUNNEL_MAC = "02:00:00:00:00:77"
ROWS = {
    "out": {"title": "1 stream, to the other host", "unit": "Gb/s", "better": "more"},
    "in": {"title": "1 stream, from there", "unit": "Gb/s", "better": "more"},
    "in-8": {"title": "8 streams, from there", "unit": "Gb/s", "better": "more"},
    "p50": {"title": "request and response, median", "unit": "us", "better": "less"},
    "csum-out": {"title": "1 stream, to the other host, with a checksum in the outer UDP header", "unit": "Gb/s",
                 "better": "more"},
    "csum-p50": {"title": "request and response with that, median", "unit": "us", "better": "less"},
}


def run(w, peer, settings):
    ports = w.make_path()
    far = ["ip", "-n", "sink"]
    w.give_address("sink", "s0", f"{tunnel.there()}/{tunnel.NETWORK}", (tunnel.HERE, tunnel.HERE_MAC), peer.offloads)
    world.command(*far, "link", "add", "tun0", "address", TUNNEL_MAC, "mtu", MTU, "type", "vxlan", "id", "0",
                  "dstport", "4789", "local", tunnel.there(), "remote", tunnel.HERE)
    world.command(*far, "link", "set", "tun0", "up")
    w.give_address("sink", "tun0", world.SINK_IP, (world.GENERATOR_IP, world.GENERATOR_MAC), offloads=True)
    w.inside("sink", "ethtool", "-K", "s0", "tso", "off", "gso", "off")
    world.command("ip", "-n", "gen", "link", "set", "g0", "mtu", MTU)
    w.give_address("gen", "g0", world.GENERATOR_IP, (world.SINK_IP, TUNNEL_MAC), peer.offloads)
    if not peer.offloads:
        for port in ports:
            world.command("ethtool", "-K", port, "gro", "off")
    peer.start(w, ports, RULE)
    w.start_echo()
    w.wait_for_answers()
    found = {"out": iperf.tcp(w, peer, settings)["rate"], "in": iperf.tcp(w, peer, settings, back=True)["rate"],
             "in-8": iperf.tcp(w, peer, settings, streams=8, back=True)["rate"],
             "p50": measure.tcp_latency(w, peer, settings["seconds"])["p50"]}
    tunnel.ask_for_checksums(w, peer)
    return {**found, "csum-out": iperf.tcp(w, peer, settings)["rate"],
            "csum-p50": measure.tcp_latency(w, peer, settings["seconds"])["p50"]}
