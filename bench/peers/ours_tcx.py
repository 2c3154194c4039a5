# SPDX-License-Identifier: Apache-2.0
from bench.peers import ours


class Peer(ours.Peer):
    """tcx where frames come from the generator.  Where sockets are behind the ports, xdp-hook=auto is tcx: that is the peer
    "ours"."""

    name = "ours-tcx"
    title = "OVS-XDP, xdp-hook=tcx"
    hook = "tcx"
    only = {"chain", "cpu_cost", "trace"}
