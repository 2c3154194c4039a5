# SPDX-License-Identifier: Apache-2.0
from bench.peers import ours


class Peer(ours.Peer):
    """XDP also in front of sockets."""

    name = "ours-xdp"
    title = "OVS-XDP, xdp-hook=xdp"
    hook = "xdp"
    sockets_only = True                     # Elsewhere it is the peer "ours".
