# SPDX-License-Identifier: Apache-2.0
from bench.lib import ovs


class Peer(ovs.DpdkPeer):
    name = "dpdk-packet"
    title = "OVS-DPDK, AF_PACKET driver"
    driver = "net_af_packet"
    every = 3                               # The slow driver: a round or two say enough.
