# SPDX-License-Identifier: Apache-2.0
from bench.lib import kernel, tunnel, world


class Peer(kernel.KernelPeer):
    name = "bridge"
    title = "Linux bridge"
    rules = frozenset({"output", "per-source", "normal", "host", "l2", "flood", "tunnel-tcp"})

    def start(self, _w, ports, rule):
        """One bridge for each pair of ports where frames go from port to port, or one for all."""
        if rule == "tunnel-tcp":
            self._make_tunnel(ports[1])
            ports = [ports[0], "vxlan0"]
        groups = world.pairs(ports) if rule == "output" else [ports]
        for i, group in enumerate(groups):
            world.command("ip", "link", "add", f"br{i}", "type", "bridge")
            for port in group:
                world.command("ip", "link", "set", port, "master", f"br{i}")
            world.command("ip", "link", "set", f"br{i}", "up")

    def _make_tunnel(self, wire):
        """The kernel's vxlan device, over 'wire'."""
        world.command("ip", "link", "set", wire, "address", tunnel.HERE_MAC)
        world.command("ip", "address", "add", f"{tunnel.HERE}/{tunnel.NETWORK}", "dev", wire)
        world.command("ip", "neighbour", "replace", tunnel.there(), "lladdr", world.SINK_MAC, "dev", wire)
        world.command("ip", "link", "add", "vxlan0", "type", "vxlan", "id", "0", "dstport", "4789", "local", tunnel.HERE,
                      "remote", tunnel.there())
        world.command("ip", "link", "set", "vxlan0", "up")

    def change_flood(self, _w, ports, n):
        """A bridge of the first port and the next 'n'; they learn nothing, so that they flood all."""
        for i, port in enumerate(ports):
            world.command("ip", "link", "set", port, *(("master", "br0") if i <= n else ("nomaster",)))
