# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure, world

TITLE = "What is left of the cores"
GROUP = "XDP against OVS: CPU cost"
QUESTION = ("A switch that forwards by VLAN and destination MAC address carries frames at a given rate, to one "
            "receiver or in turn to two, beside a busy user process of low priority on each of the two cores: "
            "how much of two cores do these get? The first line is what generator and sink leave; "
            "hollow marks: packets were lost. Below: how much of it was left on the generator's core, where "
            "switches in the kernel forward, and on the other, where daemons poll. (A kernel that counts ticks does "
            "not see softirqs as short as these; what a process gets done is measured instead.)")
RULE = "l2"
ALSO = ("ours-tcx",)                        # Both hooks.
PLOT = "lines"
AXIS = "packets per second"
RATES = {"50k": 50000, "200k": 200000, "500k": 500000, "1M": 1000000, "2M": 2000000}
ROWS = {f"{rate}-{n}": {"title": f"{rate} pps" + (" to two" if n == 2 else ""), "unit": "cores", "better": "more"}
        for n in (1, 2) for rate in RATES}


def run(w, peer, settings):
    spare = measure.Spare(w)
    ports = w.make_path()
    w.make_receiver("sw2", "s1")
    sinks = [w.sink(*peer.sink_at)]
    if peer.sink_at[1] == "sink":
        sinks.append(w.sink("s1", "sink"))
    peer.start(w, [*ports, "sw2"], RULE)
    w.wait_for_path(sinks[0])
    answers = {}
    for n in 1, 2:
        w.frames = ["--receivers", str(n)]
        for name, rate in RATES.items():
            answers[f"{name}-{n}"] = measure.left_over(w, sinks, max(0.3, settings["seconds"] / 2), rate, spare)
    return answers
