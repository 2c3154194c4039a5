# SPDX-License-Identifier: Apache-2.0
from bench.lib import ovs


class Peer(ovs.StockPeer):
    name = "stock-packet"
    title = "stock OVS, AF_PACKET ports"
    every = 3                               # The slow driver: a round or two say enough.
    rules = ovs.StockPeer.rules | {"ovn"}   # Whose hosts sleep: three that poll have no room on two cores.
