# SPDX-License-Identifier: Apache-2.0
from bench.lib import kernel


class Peer(kernel.KernelPeer):
    """No switch: what the generator and the sink cost by themselves."""

    name = "alone"
    title = "generator and sink alone"
    role = "baseline"
    rules = frozenset({"output", "l2"})
    only = {"forward", "rfc2544", "cores", "cpu_cost"}
    sink_at = ("sw0", None)

    def start(self, _w, _ports, _rule):
        pass
