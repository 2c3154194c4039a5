# SPDX-License-Identifier: Apache-2.0
from bench.lib import ovs
from bench.peers import ours


class Peer(ours.Peer):
    """Every flow run in the engine, one thread of it on the CPU where stock Open vSwitch polls."""

    name = "ours-engine"
    title = "OVS-XDP, engine alone"
    role = "part"
    hook = "xdp"
    rules = ovs.OvsPeer.rules
    options = {"xdp-offload": "false"}
