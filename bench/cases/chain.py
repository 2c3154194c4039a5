# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure, world

TITLE = "A chain of containers"
GROUP = "Veth XDP"
QUESTION = ("Rules send each frame through none to three containers, one after the other, and then to the sink; in "
            "each an XDP program exchanges the Ethernet addresses and sends the frame back out (XDP_TX). How many "
            "frames per second, of one flow, get through all of it?")
RULE = "chain"
ALSO = ("ours-tcx",)
PLOT = "lines"
AXIS = "functions in the chain"
N_FUNCTIONS = 3
ROWS = {str(n): {"title": str(n), "unit": "Mpps", "better": "more"} for n in range(N_FUNCTIONS + 1)}


def run(w, peer, settings):
    first, last = w.make_path()
    functions = [f"sw{2 + i}" for i in range(N_FUNCTIONS)]
    for i, port in enumerate(functions):
        w.make_namespace(f"box{i}")
        w.make_veth(port, f"box{i}", "c0", f"02:00:00:00:00:{0x11 + i:02x}")
    sink = w.sink(*peer.sink_at)
    peer.start(w, [first, *functions, last], RULE)
    for i in range(N_FUNCTIONS):            # After the switch: XDP_TX needs its program on the peer.
        w.hold("return", "--dev", "c0", namespace=f"box{i}")
    answers = {}
    for n in range(N_FUNCTIONS + 1):
        peer.change_chain(w, [first, *functions[:n], last])
        try:
            w.wait_for_path(sink, limit=3)
        except world.Failed as failure:
            answers[str(n)] = {"failed": f"{failure}; XDP_TX on a veth needs an XDP program on its peer, too"}
        else:
            answers[str(n)] = measure.received_rate(w, peer, sink, settings["seconds"], 1)
    return answers
