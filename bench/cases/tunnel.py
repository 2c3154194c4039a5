# SPDX-License-Identifier: Apache-2.0
import time

from bench.cases import forward
from bench.lib import measure, tunnel, world

TITLE = "Into tunnels and out of them"
GROUP = forward.GROUP
QUESTION = ("How many frames per second get the header of a tunnel over IPv4, or lose it: inner frames of 64 bytes, one "
            "rule, one or 32 other ends; VXLAN, Geneve with one option, GRE? And as OVS-DPDK's benchmark of overlays has it: frames "
            "of 128 bytes, 32 other ends, 32 to a million microflows. The bare redirect carries the same frames as they are.")
RULE = "tunnel"
SAYS = ("push-vxlan", "pop-vxlan")
MICROFLOWS = {"32": 32, "1k": 1000, "1M": 1000000}
KINDS = {"vxlan": "VXLAN", "geneve": "Geneve", "gre": "GRE"}
ROWS = {f"{way}-{row}": {"title": f"{title}, {what}", "unit": "Mpps", "better": "more"}
        for way, what in (("push", "in"), ("pop", "out"))
        for row, title in [*KINDS.items(), ("vxlan-many", f"VXLAN, {tunnel.ENDPOINTS} ends"),
                           *((f"vxlan-{n}", f"VXLAN, {tunnel.ENDPOINTS} ends, 128 bytes, {n} microflows") for n in MICROFLOWS)]}


def run(w, peer, settings):
    ports = w.make_path()
    w.make_veth("sw2", "gen", "g1", world.GENERATOR_MAC)
    w.make_veth("sw3", "sink", "s1", world.SINK_MAC)
    ports += ["sw2", "sw3"]
    sinks = {"push": w.sink("s0"), "pop": w.sink("s1")}
    peer.start(w, ports, RULE)
    answers = {}
    for row in ROWS:
        way, kind, *many = row.split("-")
        microflows = MICROFLOWS.get(many[0]) if many else None
        size = 124 if microflows else 60
        if way == "push":
            peer.change_rule(f"push-{kind}-many" if many else row)
            how = {"device": "g0", "size": size}
            w.frames = ["--receivers", str(tunnel.ENDPOINTS)] if many else []
        else:
            how = {"device": "g1", "size": size + tunnel.LENGTHS[kind]}
            w.frames = ["--tunnel", kind, "--endpoints", str(tunnel.ENDPOINTS if many else 1)]
        flows = microflows or (tunnel.ENDPOINTS if many else 1)
        try:
            wait_for_path(w, sinks[way], flows, how)
            peer.rest()
            answers[row] = measure.received_rate(w, peer, sinks[way], settings["seconds"], flows, **how)
        except world.Failed as failure:
            answers[row] = {"failed": str(failure)}
    return answers


def wait_for_path(w, sink, flows, how):
    """Returns when most of what is sent arrives."""
    def arrives():
        before = sink.read()["packets"]
        world.generated(w.generate(0.05, flows=flows, rate=10000, **how))
        time.sleep(measure.DRAIN)
        return sink.read()["packets"] - before > 250

    world.wait_for(arrives, "frames through the tunnel")
