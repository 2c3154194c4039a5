# SPDX-License-Identifier: Apache-2.0
import threading

from bench.lib import measure, world

TITLE = "Established connections"
GROUP = "Connection tracking"
QUESTION = ("\"Forwarding from veth to veth\" through ct(): UDP connections that have been answered before, in one zone, in one "
            "zone with NAT of the source, and as OVN has them from a pod to a service: three zones, NAT of both addresses, "
            "three recirculations. The bare redirect, for comparison, tracks nothing.")
RULE = "ct"
ROWS = {
    "1": {"title": "one zone, 1 connection", "unit": "Mpps", "better": "more"},
    "1k": {"title": "one zone, 1,000 connections", "unit": "Mpps", "better": "more"},
    "nat-1": {"title": "NAT, 1 connection", "unit": "Mpps", "better": "more"},
    "nat-1k": {"title": "NAT, 1,000 connections", "unit": "Mpps", "better": "more"},
    "zones-1k": {"title": "three zones, 1,000 connections", "unit": "Mpps", "better": "more"},
    "zones-16k": {"title": "three zones, 16,000 connections", "unit": "Mpps", "better": "more"},
    "zones-100k": {"title": "three zones, 100,000 connections", "unit": "Mpps", "better": "more"},
}
RULES = {"1": "ct", "1k": "ct", "nat-1": "ct-nat", "nat-1k": "ct-nat"}
CONNECTIONS = {"1": 1, "1k": 1000, "16k": 16000, "100k": 100000}
MAKING_RATE = 25000             # Connections per second while they are made: the one who answers is a script.
ETH_P_ALL = 3


def run(w, peer, settings):
    raise_limit(peer)
    ports = w.make_path()
    peer.start(w, ports, RULE)
    answers, rule = {}, RULE
    for row in ROWS:
        try:
            if RULES.get(row, "ct-zones") != rule:
                rule = RULES.get(row, "ct-zones")
                peer.change_rule(rule)
            answers[row] = _established(w, peer, settings, CONNECTIONS[row.rpartition("-")[2]])
        except world.Failed as failure:
            answers[row] = {"failed": str(failure)}
    return answers


def _established(w, peer, settings, n):
    """Makes 'n' connections, and measures how fast their packets are forwarded."""
    make(w, n)
    sink = w.sink(*peer.sink_at)
    w.wait_for_path(sink)
    peer.rest()
    answer = measure.received_rate(w, peer, sink, settings["seconds"], n)
    w.release(sink.child)
    return answer


def make(w, n):
    """Makes 'n' connections from the generator to the sink's device, where nothing else may answer."""
    w.announce_sink()
    with Answerer(w):
        for _ in range(3):                  # What was lost while flows were installed is made then.
            world.generated(w.generate(max(0.3, 1.2 * n / MAKING_RATE), flows=n, rate=min(n * 10, MAKING_RATE)))


class Answerer:
    """Answers UDP datagrams that arrive at the sink's device, addresses and ports exchanged."""

    def __init__(self, w):
        self._socket = w.raw_socket("sink", "s0")
        self._socket.bind(("s0", ETH_P_ALL))
        self._socket.settimeout(0.2)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        self._socket.close()

    def _work(self):
        while not self._done.is_set():
            try:
                frame, address = self._socket.recvfrom(2048)
            except TimeoutError:
                continue
            if address[2] != 4 and frame[12:14] == b"\x08\x00" and frame[23] == 17:   # Not what this socket sent.
                self._socket.send(frame[6:12] + frame[:6] + frame[12:26] + frame[30:34] + frame[26:30] + frame[36:38]
                                  + frame[34:36] + frame[38:])


def raise_limit(peer):
    """Lets ours have as many connections as Open vSwitch has by default."""
    if peer.role in ("ours", "part"):
        peer.options = {**peer.options, "xdp-ct-max": "3000000"}
