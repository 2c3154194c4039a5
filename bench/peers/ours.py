# SPDX-License-Identifier: Apache-2.0
import os

from bench.lib import ovs


class Peer(ovs.OvsPeer):
    """With the hook that the switch picks itself where there are sockets behind the ports; where frames come from the
    generator, as from a wire, with XDP."""

    name = "ours"
    title = "OVS-XDP"
    role = "ours"
    datapath_type = "xdp"
    offloads = True
    hook = None                             # options:xdp-hook; None: as said above.
    rules = ovs.OvsPeer.rules | {"program"}

    def missing(self, settings):
        self.daemon = os.path.join(settings["build"], "ovs-vswitchd-xdp")
        return super().missing(settings)

    def interface(self, port):
        hook = self.hook or ("auto" if self.sockets else "xdp")
        return [f"options:xdp-hook={hook}"]
