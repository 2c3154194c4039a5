# SPDX-License-Identifier: Apache-2.0
from bench.lib import ovs


class Peer(ovs.StockPeer):
    name = "stock-afxdp"
    title = "stock OVS, AF_XDP ports"
    rules = ovs.StockPeer.rules | {"flow-api"}

    def interface(self, port):
        return ["type=afxdp"]
