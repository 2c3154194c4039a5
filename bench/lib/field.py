# SPDX-License-Identifier: Apache-2.0
"""Which cases and peers there are: one file each in bench/cases and bench/peers."""

import importlib
import pathlib

HERE = pathlib.Path(__file__).resolve().parent.parent
REFERENCE = "stock-afxdp"                   # Whom ratios compare with.

# How they are shown; files that are not named here come after these.
CASE_ORDER = ["forward", "turns", "trace", "plain", "rfc2544", "match", "megaflows", "set_fields", "push_vlan",
              "pop_vlan", "ip6", "normal", "latency", "upcalls", "tcp", "jumbo", "udp", "tcp_rr", "guest", "host",
              "offload", "ebpf", "gre", "tunnel", "tunnel_tcp", "ovn", "rxdrop", "ct", "ct_begin", "cps", "cps_tcp",
              "ct_hosts", "ct_flood", "l2fwd", "veth_xdp", "chain", "flood", "cpu_cost", "pvp", "pcp", "microflows",
              "megaflow_scale", "masks", "storm", "cores", "churn", "flow_api", "flows", "idle", "program"]
PEER_ORDER = ["alone", "direct", "ceiling", "l2-xdp", "minimal", "ours", "ours-xdp", "ours-tcx", "ours-engine",
              "ours-engine-free", "stock-afxdp", "stock-packet", "dpdk-afxdp", "dpdk-packet", "kernel-module", "bridge",
              "bridge-ct"]
QUICK_PEERS = ["alone", "ceiling", "ours", "ours-xdp", "stock-afxdp", "dpdk-afxdp", "bridge"]

# What one of a unit is in base units.
UNITS = {"Mpps": 1e6, "thousand/s": 1e3, "us": 1e-6, "ms": 1e-3, "ns": 1e-9, "Gb/s": 1e9, "%": 1e-2}


def cases():
    return _sorted({path.stem: importlib.import_module(f"bench.cases.{path.stem}")
                    for path in (HERE / "cases").glob("*.py")}, CASE_ORDER)


def peers():
    found = [importlib.import_module(f"bench.peers.{path.stem}").Peer
             for path in (HERE / "peers").glob("*.py")]
    return _sorted({peer.name: peer for peer in found}, PEER_ORDER)


def takes_part(case, peer):
    """Whether the question of 'case' makes sense for 'peer': it can do what the case asks for, and is a
    daemon if the case asks about daemons."""
    if peer.sockets_only and not (getattr(case, "SOCKETS", False) or peer.name in getattr(case, "ALSO", ())):
        return False
    if peer.only and case.__name__.rpartition(".")[2] not in peer.only:
        return False
    if getattr(case, "DAEMONS_ONLY", False) and not hasattr(peer, "daemon"):
        return False
    return case.RULE is None or case.RULE in peer.rules


def _sorted(items, order):
    def rank(name):
        return (order.index(name) if name in order else len(order), name)

    return {name: items[name] for name in sorted(items, key=rank)}
