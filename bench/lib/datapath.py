# SPDX-License-Identifier: Apache-2.0
"""Flows put into a datapath directly, by ovs-appctl dpctl."""

import threading
import time

from bench.lib import cpu, ovs, world

FLOWS = ovs.RUN / "datapath-flows"


def exact_flows(n, n_masks):
    """'n' flows for the first 'n' microflows of the generator: each matches a 5-tuple, and with one of 'n_masks'
    masks the end of the destination MAC address."""
    return [_exact(f"10.0.{i >> 8 & 255}.{i & 255}", 1 + i % n_masks, 1024 + (i >> 16)) for i in range(n)]


def one_flow():
    """One flow for everything that the generator sends."""
    return ["in_port({from}),eth(),eth_type(0x0800),ipv4(frag=no)"]


def prefix_flows(n_masks):
    """Flows that part the generator's microflows by the end of the source address; each has a mask of its own, unless
    'n_masks' is no power of two.  One more matches exactly what the generator never sends: a cache by signature, also
    of masked packets, has to tell all microflows apart."""
    n = 1 << (n_masks - 1).bit_length()
    return [f"in_port({{from}}),{_mac(min(i, n_masks - 1))},eth_type(0x0800),"
            f"ipv4(src=0.0.0.{i}/0.0.0.{n - 1},frag=no)" for i in range(n)] + [_exact("10.255.0.1", 1)]


def _exact(source, n_bits, port=1024):
    return (f"in_port({{from}}),{_mac(n_bits - 1)},eth_type(0x0800),ipv4(src={source},dst=10.1.0.1,proto=17,frag=no),"
            f"udp(src={port},dst=9)")


def _mac(number):
    """Matches the low ends of the addresses: the 'number'-th way of doing so."""
    to, source = 1 + number % 48, number // 48
    return f"eth({f'src={_low(world.GENERATOR_MAC, source)},' if source else ''}dst={_low(world.SINK_MAC, to)})"


def _low(address, n_bits):
    mask = (1 << n_bits) - 1
    return f"{_colons(int(address.replace(':', ''), 16) & mask)}/{_colons(mask)}"


def _colons(number):
    return ":".join(f"{number:012x}"[i:i + 2] for i in range(0, 12, 2))


def replace_flows(peer, flows):
    keep_flows(peer)
    peer.appctl("dpctl/del-flows", peer.datapath())
    _write(peer, flows)
    peer.appctl("dpctl/add-flows", peer.datapath(), str(FLOWS))


def handle_flows(w, peer, n):
    """Flows per second installed and deleted, and CPU seconds of a dump of 'n' flows."""
    keep_flows(peer)
    peer.appctl("dpctl/del-flows", peer.datapath())
    _write(peer, [_exact(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", 48) for i in range(n)])
    add, _ = _time(peer, "dpctl/add-flows", str(FLOWS))
    _, dump = _time(peer, "dpctl/dump-flows")
    delete, _ = _time(peer, "dpctl/del-flows", under=w.recorder("deleted", "-a"))
    return {"add": {"value": n / add}, "dump": {"value": dump}, "del": {"value": n / delete}}


class Churn:
    """Flows that come and go in batches of 'n' while something else is measured."""

    def __init__(self, peer, n):
        flows = [_exact(f"10.77.{i >> 8}.{i & 255}", 48) for i in range(n)]
        _write(peer, flows)
        lines = FLOWS.read_text(encoding="ascii").splitlines()
        FLOWS.write_text("".join([f"add {line}\n" for line in lines] + [f"delete {line}\n" for line in lines]),
                         encoding="ascii")
        self._peer, self._n, self._done, self._stop = peer, n, 0, threading.Event()
        self._start = time.monotonic()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set():
            self._peer.appctl("dpctl/add-flows", self._peer.datapath(), str(FLOWS))
            self._done += 2 * self._n

    def stop(self):
        """Ends it and returns how many flows were put or deleted per second."""
        self._stop.set()
        self._thread.join()
        return self._done / (time.monotonic() - self._start)


def keep_flows(peer):
    """From here on only we change the flows: ofproto does not know those that come from dpctl, and would delete
    them."""
    peer.vsctl("set", "open", ".", "other_config:max-idle=600000", "other_config:flow-limit=200000")
    peer.appctl("revalidator/pause")


def _write(peer, flows):
    numbers = {"from": peer.port_number("sw0")}
    to = peer.port_number("sw1")
    FLOWS.write_text("".join(f"{flow.format(**numbers)} {to}\n" for flow in flows), encoding="ascii")


def _time(peer, command, *args, under=()):
    """Seconds, and CPU seconds of the daemon's main thread, that a command takes.  (Other threads may poll.)"""
    start, used = time.monotonic(), cpu.of_main_threads(peer.pids())
    peer.appctl(command, peer.datapath(), *args, under=under)
    return time.monotonic() - start, cpu.of_main_threads(peer.pids()) - used
