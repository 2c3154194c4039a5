# SPDX-License-Identifier: Apache-2.0
"""Flows put into a datapath directly, by ovs-appctl dpctl."""

import time

from bench.lib import cpu, ovs, world

FLOWS = ovs.RUN / "datapath-flows"


def exact_flows(n, n_masks):
    """'n' flows for the first 'n' microflows of the generator: each matches a 5-tuple, and with one of 'n_masks'
    masks the end of the destination MAC address."""
    return [_exact(f"10.0.{i >> 8}.{i & 255}", 1 + i % n_masks) for i in range(n)]


def prefix_flows(n_masks):
    """Flows, a power of two, that part the generator's microflows by the end of the source address; each has a mask
    of its own.  One more matches exactly what the generator never sends: a cache by signature, also of masked
    packets, has to tell all microflows apart."""
    return [f"in_port({{from}}),{_mac(1 + i)},eth_type(0x0800),ipv4(src=0.0.0.{i}/0.0.0.{n_masks - 1},frag=no)"
            for i in range(n_masks)] + [_exact("10.255.0.1", 1)]


def _exact(source, n_bits):
    return (f"in_port({{from}}),{_mac(n_bits)},eth_type(0x0800),ipv4(src={source},dst=10.1.0.1,proto=17,frag=no),"
            "udp(src=1024,dst=9)")


def _mac(n_bits):
    """Matches 'n_bits' of the destination MAC address, from its low end."""
    mask = (1 << n_bits) - 1
    value = int(world.SINK_MAC.replace(":", ""), 16) & mask
    return f"eth(dst={_colons(value)}/{_colons(mask)})"


def _colons(number):
    return ":".join(f"{number:012x}"[i:i + 2] for i in range(0, 12, 2))


def replace_flows(peer, flows):
    _keep_flows(peer)
    peer.appctl("dpctl/del-flows", peer.datapath())
    _write(peer, flows)
    peer.appctl("dpctl/add-flows", peer.datapath(), str(FLOWS))


def handle_flows(peer, n):
    """Flows per second installed and deleted, and CPU seconds of a dump of 'n' flows."""
    _keep_flows(peer)
    peer.appctl("dpctl/del-flows", peer.datapath())
    _write(peer, [_exact(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", 48) for i in range(n)])
    add, _ = _time(peer, "dpctl/add-flows", str(FLOWS))
    _, dump = _time(peer, "dpctl/dump-flows")
    delete, _ = _time(peer, "dpctl/del-flows")
    return {"add": {"value": n / add}, "dump": {"value": dump}, "del": {"value": n / delete}}


def _keep_flows(peer):
    peer.vsctl("set", "open", ".", "other_config:max-idle=600000", "other_config:max-revalidator=600000",
               "other_config:flow-limit=200000")


def _write(peer, flows):
    numbers = {"from": peer.port_number("sw0")}
    to = peer.port_number("sw1")
    FLOWS.write_text("".join(f"{flow.format(**numbers)} {to}\n" for flow in flows), encoding="ascii")


def _time(peer, command, *args):
    """Seconds, and CPU seconds of the daemon's main thread, that a command takes.  (Other threads may poll.)"""
    start, used = time.monotonic(), cpu.of_main_threads(peer.pids())
    peer.appctl(command, peer.datapath(), *args)
    return time.monotonic() - start, cpu.of_main_threads(peer.pids()) - used
