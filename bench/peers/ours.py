# SPDX-License-Identifier: Apache-2.0
import os

from bench.lib import ovs


class Peer(ovs.OvsPeer):
    name = "ours"
    title = "OVS-XDP"
    datapath_type = "xdp"
    offloads = True
    rules = ovs.OvsPeer.rules | {"program"}

    def missing(self, settings):
        self.daemon = os.path.join(settings["build"], "ovs-vswitchd-xdp")
        return super().missing(settings)
