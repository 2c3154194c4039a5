# SPDX-License-Identifier: Apache-2.0
from bench.lib import kernel


class Peer(kernel.KernelPeer):
    name = "ceiling"
    title = "bare bpf_redirect_map"
    rules = frozenset({"output", "per-source", "set", "push-vlan", "pop-vlan", "ip6"})

    def start(self, w, ports, _rule):
        first, second = ports
        w.hold("forward", "--dev", first, "--to", second)
        w.hold("forward", "--dev", second, "--to", first)
