# SPDX-License-Identifier: Apache-2.0
from bench.peers import ours_engine


class Peer(ours_engine.Peer):
    """The engine as it is without settings: a thread per core, where the kernel puts them."""

    name = "ours-engine-free"
    title = "OVS-XDP, engine alone, not pinned"
    by_default = False                      # Measured when asked for.
    cpu_mask = None
