# SPDX-License-Identifier: Apache-2.0
import pathlib

from bench.lib import ovs


class Peer(ovs.StockPeer):
    name = "kernel-module"
    title = "stock OVS, openvswitch.ko"
    datapath_type = "system"
    offloads = True
    cpu_mask = None
    own_core = False

    def upcalls(self):
        """The module counts those that found no room on their way to the daemon as missed, too."""
        return self._lookups("missed") - self._lookups("lost")

    def missing(self, settings):
        if not pathlib.Path("/sys/module/openvswitch").exists():
            return "this kernel runs no openvswitch.ko (see the emulated machine)"
        return super().missing(settings)
