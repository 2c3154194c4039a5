# SPDX-License-Identifier: Apache-2.0
from bench.lib import kernel, world


class Peer(kernel.KernelPeer):
    name = "bridge"
    title = "Linux bridge"
    rules = frozenset({"output", "per-source", "normal", "host", "l2", "flood"})

    def start(self, _w, ports, rule):
        """One bridge for each pair of ports where frames go from port to port, or one for all."""
        groups = world.pairs(ports) if rule == "output" else [ports]
        for i, group in enumerate(groups):
            world.command("ip", "link", "add", f"br{i}", "type", "bridge")
            for port in group:
                world.command("ip", "link", "set", port, "master", f"br{i}")
            world.command("ip", "link", "set", f"br{i}", "up")

    def change_flood(self, _w, ports, n):
        """A bridge of the first port and the next 'n'; they learn nothing, so that they flood all."""
        for i, port in enumerate(ports):
            world.command("ip", "link", "set", port, *(("master", "br0") if i <= n else ("nomaster",)))
