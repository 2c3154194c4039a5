# SPDX-License-Identifier: Apache-2.0
from bench.lib import ovs


class Peer(ovs.DpdkPeer):
    name = "dpdk-afxdp"
    title = "OVS-DPDK, AF_XDP driver"
    driver = "net_af_xdp"
    every = 2                               # It takes seconds to start.
