# SPDX-License-Identifier: Apache-2.0
from bench.lib import kernel, world


class Peer(kernel.KernelPeer):
    """The least that a program with an AF_XDP socket can do: it looks at no packet."""

    name = "minimal"
    title = "minimal AF_XDP program"
    role = "baseline"
    rules = frozenset({"drop", "hairpin"})

    def __init__(self):
        self._counts = None

    def start(self, w, ports, rule):
        more = ["--back"] if rule == "hairpin" else []
        self._counts = w.counting("socket", "--dev", ports[0], "--cpu", str(world.SWITCH_CPU), *more)

    def handled(self):
        return self._counts.read()["packets"]
