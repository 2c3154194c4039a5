# SPDX-License-Identifier: Apache-2.0
from bench.lib import kernel, world


class Peer(kernel.KernelPeer):
    """No switch: one veth pair between the two containers, which no switch of containers on veth can beat by much."""

    name = "direct"
    title = "one veth pair, no switch"
    role = "baseline"
    rules = frozenset({"normal"})
    only = frozenset({"tcp", "udp", "tcp_rr"})

    def start(self, w, ports, _rule):
        for port in ports:
            world.command("ip", "link", "delete", port)
        world.command("ip", "link", "add", "g0", "netns", "gen", "address", world.GENERATOR_MAC,
                      "type", "veth", "peer", "name", "s0", "netns", "sink", "address", world.SINK_MAC)
        for namespace, device in (("gen", "g0"), ("sink", "s0")):
            world.command("ip", "-n", namespace, "link", "set", device, "up")
        w.give_addresses(True)
