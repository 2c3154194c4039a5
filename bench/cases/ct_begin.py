# SPDX-License-Identifier: Apache-2.0
import time

from bench.cases import ct
from bench.lib import world

TITLE = "The first seconds of connections"
GROUP = ct.GROUP
QUESTION = ("1,000 UDP connections through three zones with NAT of both addresses, as in \"Established connections\": how many "
            "of their packets are forwarded right after they were made, in parts of 0.2 s?")
RULE = "ct-zones"
PART = 0.2                      # Seconds.
PARTS = 25
ROWS = {f"{i * PART:.1f}": {"title": f"until {i * PART:.1f} s", "unit": "Mpps", "better": "more"}
        for i in (1, 2, 3, 4, 5, 10, 15, 20, 25)}
CONNECTIONS = 1000


def run(w, peer, settings):
    ct.raise_limit(peer)
    ports = w.make_path()
    peer.start(w, ports, RULE)
    ct.make(w, CONNECTIONS)
    sink = w.sink(*peer.sink_at)
    generator = w.generate((PARTS + 1) * PART, flows=CONNECTIONS)
    begin = sink.read()
    world.wait_for(lambda: sink.read()["packets"] > begin["packets"], "a packet at the sink")
    rates = [_rate(sink) for _ in range(PARTS)]
    world.generated(generator)
    w.release(sink.child)
    return {row: {"value": rates[round(float(row) / PART) - 1], "parts": rates} for row in ROWS}


def _rate(sink):
    before = sink.read()
    time.sleep(PART)
    after = sink.read()
    return (after["packets"] - before["packets"]) / (after["ns"] - before["ns"]) * 1e9
