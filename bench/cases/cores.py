# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure, world

TITLE = "One core and two"
GROUP = "Scale"
QUESTION = ("Two pairs of ports, first one in use and then both, each with a generator on a core of its own. In "
            "the kernel, switch and sink run on the generator's core; threads that poll have both cores, and "
            "share them with the generators.")
RULE = "output"
ROWS = {
    "one": {"title": "one generator", "unit": "Mpps", "better": "more"},
    "two": {"title": "two generators", "unit": "Mpps", "better": "more"},
}


def run(w, peer, settings):
    ports = w.make_path()
    w.make_pair("gen", "hold", "hold-peer")
    w.make_veth("sw2", "gen", "g1", "02:00:00:00:00:21")
    w.make_receiver("sw3", "s1")
    sinks = [w.sink(*peer.sink_at), w.sink(*(("s1", "sink") if peer.sink_at[1] else ("sw2", None)))]
    if getattr(peer, "cpu_mask", None):
        peer.cpu_mask = 1 << world.GENERATOR_CPU | 1 << world.SWITCH_CPU
    peer.start(w, [*ports, "sw2", "sw3"], RULE)
    w.wait_for_path(sinks[0])
    return {"one": measure.received_rate(w, peer, sinks[0], settings["seconds"], 1000),
            "two": measure.received_on_two(w, peer, sinks, settings["seconds"], 1000)}
