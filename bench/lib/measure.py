# SPDX-License-Identifier: Apache-2.0
"""The measurements that cases are made of.  Each returns a dictionary whose 'value' is the result."""

import time

from bench.lib import cpu, world


def received_rate(w, peer, sink, seconds, flows, rate=0):
    """Packets per second that arrive at the sink while the generator sends at full speed (or at 'rate')."""
    warm_up = max(0.3, seconds / 4)
    generator = w.generate(warm_up + seconds + 0.2, flows=flows, rate=rate)
    time.sleep(warm_up)
    before = sink.read()
    meter = cpu.Meter(peer.pids(), before["ns"] / 1e9)
    w.record(f"{flows}-flows", seconds * 0.8)
    time.sleep(seconds)
    after = sink.read()
    used = meter.stop(after["ns"] / 1e9)
    sent = world.generated(generator)
    return {"value": (after["packets"] - before["packets"]) / (after["ns"] - before["ns"]) * 1e9,
            "sent_rate": sent["sent"] / sent["seconds"],
            "generator_cpu": sent["cpu_seconds"] / sent["seconds"], **used}


def latency(w, peer, seconds):
    """Percentiles of request and response: of one flow, then of first packets."""
    start = time.monotonic()
    meter = cpu.Meter(peer.pids(), start)
    known = w.ping(seconds)
    used = meter.stop(time.monotonic())
    new = w.ping(seconds, new_flows=True)
    for answers in known, new:
        if not answers["answers"]:
            raise world.Failed(f"none of {answers['lost']} requests was answered")
    return {"p50": {"value": known["p50"] / 1e9, "answers": known["answers"], "lost": known["lost"], **used},
            "p99": {"value": known["p99"] / 1e9},
            "first": {"value": new["p50"] / 1e9, "answers": new["answers"], "lost": new["lost"]}}


def idle_cpu(peer, seconds):
    """Cores that the daemon uses while nothing happens."""
    start = time.monotonic()
    meter = cpu.Meter(peer.pids(), start)
    time.sleep(seconds)
    used = meter.stop(time.monotonic())
    return {"value": used["daemon_cpu"], **used}


def upcall_rate(w, peer, seconds, offered):
    """Upcalls per second while each packet of the generator is a new flow.  It is counted from the first
    packet on, because a full flow table changes what is measured."""
    before = peer.upcalls()
    start = time.monotonic()
    meter = cpu.Meter(peer.pids(), start)
    w.record("upcalls", seconds * 0.8)
    generator = w.generate(seconds, flows=1000000, rate=offered)
    sent = world.generated(generator)
    end = time.monotonic()
    upcalls = peer.upcalls() - before
    return {"value": upcalls / sent["seconds"], "sent_rate": sent["sent"] / sent["seconds"],
            "generator_cpu": sent["cpu_seconds"] / sent["seconds"], **meter.stop(end)}
