# SPDX-License-Identifier: Apache-2.0
from bench.peers import ours


class Peer(ours.Peer):
    """tcx in front of sockets: they keep the offloads of their devices."""

    name = "ours-tcx"
    title = "OVS-XDP, xdp-hook=tcx"
    hook = "tcx"
    sockets_only = True
