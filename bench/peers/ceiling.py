# SPDX-License-Identifier: Apache-2.0
from bench.lib import kernel, world


class Peer(kernel.KernelPeer):
    """The least that an XDP switch can do: it looks at nothing."""

    name = "ceiling"
    title = "bare bpf_redirect_map"
    role = "baseline"
    rules = frozenset({"output", "match", "per-source", "set", "set-mac", "push-vlan", "pop-vlan", "ip6", "chain", "ct",
                       "ct-new", "tunnel"})

    def __init__(self):
        self._chain = []

    def start(self, w, ports, rule):
        if rule == "chain":
            return
        for one, other in world.pairs(ports):
            w.hold("forward", "--dev", one, "--to", other)
            w.hold("forward", "--dev", other, "--to", one)

    def change_chain(self, w, ports):
        for child in self._chain:
            w.release(child)
        self._chain = [w.hold("forward", "--dev", one, "--to", other)
                       for one, other in zip(ports, [*ports[1:], ports[0]])]
