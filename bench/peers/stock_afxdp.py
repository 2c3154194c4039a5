# SPDX-License-Identifier: Apache-2.0
from bench.lib import ovs


class Peer(ovs.OvsPeer):
    name = "stock-afxdp"
    title = "stock OVS, AF_XDP ports"
    port_type = "afxdp"
