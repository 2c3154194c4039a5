# SPDX-License-Identifier: Apache-2.0
from bench.lib import kernel, world


class Peer(kernel.KernelPeer):
    name = "bridge"
    title = "Linux bridge"
    rules = frozenset({"output", "per-source", "normal"})

    def start(self, _w, ports, _rule):
        world.command("ip", "link", "add", "br0", "type", "bridge")
        for port in ports:
            world.command("ip", "link", "set", port, "master", "br0")
        world.command("ip", "link", "set", "br0", "up")
