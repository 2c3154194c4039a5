# SPDX-License-Identifier: Apache-2.0
from bench.lib import ovs
from bench.peers import ours


class Peer(ours.Peer):
    """Every flow run in the engine, one thread of it on the CPU where stock Open vSwitch polls."""

    name = "ours-engine"
    title = "OVS-XDP, engine alone"
    role = "part"
    own_core = True
    hook = "xdp"
    only = {"forward", "match", "megaflows", "latency", "upcalls", "gre", "rxdrop", "l2fwd", "tcp", "megaflow_scale",
            "masks", "storm", "flood", "ct", "ct_begin", "cps", "cps_tcp", "ct_hosts",
            "ct_flood"}
    rules = ovs.OvsPeer.rules
    options = {"xdp-offload": "false"}
