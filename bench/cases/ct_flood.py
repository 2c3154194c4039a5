# SPDX-License-Identifier: Apache-2.0
import contextlib

from bench.cases import ct
from bench.lib import measure, world

TITLE = "Established connections beside a flood"
GROUP = ct.GROUP
QUESTION = ("Packets of 1,000 UDP connections that were answered before, in one zone, from one core: alone; while a second "
            "core sends datagrams through another pair of ports, which track nothing; and while it sends a flood of SYNs, "
            "each of another tuple, which fill the table of connections in another zone. What the flood costs beyond the load "
            "of a second core is the difference between the last two.")
RULE = "ct-flood"
ROWS = {
    "alone": {"title": "alone", "unit": "Mpps", "better": "more"},
    "beside": {"title": "beside plain traffic", "unit": "Mpps", "better": "more"},
    "flood": {"title": "beside a flood of SYNs", "unit": "Mpps", "better": "more"},
}
BESIDE = {"alone": None, "beside": [], "flood": ["--tcp", "--new-flows"]}      # Row: what the other generator's frames are.
CONNECTIONS = 1000
TUPLES = 1 << 26                # More than there is room for, and than are sent.


def run(w, peer, settings):
    ports = w.make_path()
    w.make_pair("gen", "hold", "hold-peer")
    w.make_veth("sw2", "gen", "g1", "02:00:00:00:00:21")
    w.make_receiver("sw3", "s1")
    peer.start(w, [*ports, "sw2", "sw3"], RULE)
    ct.make(w, CONNECTIONS)
    sink = w.sink(*peer.sink_at)
    w.sink("s1")
    w.wait_for_path(sink)
    peer.rest()
    answers = {}
    for row, frames in BESIDE.items():
        with _traffic(w, frames, settings["seconds"]):
            answers[row] = measure.received_rate(w, peer, sink, settings["seconds"], CONNECTIONS)
    return answers


@contextlib.contextmanager
def _traffic(w, frames, seconds):
    """Has a second generator send meanwhile, and longer than that."""
    if frames is None:
        yield
        return
    w.frames = frames
    child = w.generate(2 * seconds + 1.5, flows=TUPLES, device="g1", cpu=world.SWITCH_CPU, hold="hold")
    w.frames = []
    yield
    world.generated(child)
