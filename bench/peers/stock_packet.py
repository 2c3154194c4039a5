# SPDX-License-Identifier: Apache-2.0
from bench.lib import ovs


class Peer(ovs.StockPeer):
    name = "stock-packet"
    title = "stock OVS, AF_PACKET ports"
    every = 3                               # The slow driver: a round or two say enough.
