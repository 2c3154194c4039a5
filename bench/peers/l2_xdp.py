# SPDX-License-Identifier: Apache-2.0
from bench.lib import kernel, world


class Peer(kernel.KernelPeer):
    """The least that an XDP switch can do which looks at addresses: a table by VLAN and destination, and no more."""

    name = "l2-xdp"
    title = "bare XDP L2 forwarder"
    role = "baseline"
    rules = frozenset({"output", "l2", "normal", "turns"})
    only = frozenset({"forward", "turns", "plain", "rfc2544", "normal", "cpu_cost"})
    offloads = False                        # XDP leaves checksums as it finds them.

    def start(self, w, ports, _rule):
        macs = [world.GENERATOR_MAC, *(world.sink_mac(i) for i in range(len(ports) - 1))]
        entries = [f"0,{mac},{port}" for mac, port in zip(macs, ports)]
        w.hold("l2", *(word for entry in entries for word in ("--entry", entry)))
