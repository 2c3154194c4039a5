# SPDX-License-Identifier: Apache-2.0
from bench.cases import forward
from bench.lib import measure, world

TITLE = "A chain of three containers"
GROUP = "Veth XDP"
QUESTION = ("Rules send each frame through three containers, one after the other, and then to the sink; in each an XDP "
            "program exchanges the Ethernet addresses and sends the frame back out (XDP_TX). How many frames per "
            "second get through all of it, four passes through the switch?")
RULE = "chain"
ROWS = {row: forward.ROWS[row] for row in ("1", "1k")}
N_FUNCTIONS = 3


def run(w, peer, settings):
    first, last = w.make_path()
    functions = [f"sw{2 + i}" for i in range(N_FUNCTIONS)]
    for i, port in enumerate(functions):
        w.make_namespace(f"box{i}")
        w.make_veth(port, f"box{i}", "c0", f"02:00:00:00:00:{0x11 + i:02x}")
    sink = w.sink(*peer.sink_at)
    peer.start(w, [first, *functions, last], RULE)
    for i in range(N_FUNCTIONS):            # After the switch: XDP_TX needs its program on the other end.
        w.hold("return", "--dev", "c0", namespace=f"box{i}")
    try:
        w.wait_for_path(sink, limit=3)
    except world.Failed as failure:
        return {row: {"failed": f"{failure}; XDP_TX on a veth needs an XDP program on its peer, too"} for row in ROWS}
    return {row: measure.received_rate(w, peer, sink, settings["seconds"], forward.FLOWS[row]) for row in ROWS}
