# SPDX-License-Identifier: Apache-2.0
"""The measurements that cases are made of.  Each returns a dictionary whose 'value' is the result."""

import pathlib
import sys
import time

from bench.lib import cpu, world


SEARCH_STEPS = 7                # The result is exact to 1 % of the rate that was received at most.
DRAIN = 0.1                     # Seconds that frames may take through the switch.


def received_rate(w, peer, sink, seconds, flows, **generator):
    """Packets per second that arrive at the sink while the generator sends at full speed.  'generator' holds more
    arguments of World.generate()."""
    warm_up = max(0.3, seconds / 4)
    generator = w.generate(warm_up + seconds + 0.2, flows=flows, **generator)
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


def received_on_two(w, peer, sinks, seconds, flows):
    """Packets per second that arrive at two sinks from two generators, g0 and g1, on a core each; the second one holds
    its program at the idle device "hold"."""
    warm_up = max(0.3, seconds / 4)
    generators = [w.generate(warm_up + seconds + 0.2, flows=flows, device=device, cpu=core, hold=hold)
                  for device, core, hold in (("g0", world.GENERATOR_CPU, "lo"), ("g1", world.SWITCH_CPU, "hold"))]
    time.sleep(warm_up)
    before, start = [sink.read() for sink in sinks], time.monotonic()
    meter = cpu.Meter(peer.pids(), start)
    time.sleep(seconds)
    after, used = [sink.read() for sink in sinks], meter.stop(time.monotonic())
    for generator in generators:
        world.generated(generator)
    return {"value": sum((b["packets"] - a["packets"]) / (b["ns"] - a["ns"]) * 1e9 for a, b in zip(before, after)),
            **used}


def limited_rate(w, peer, sink, settings, flows, **generator):
    """The greatest rate at which the sink misses at most the share settings["loss"] of the frames: a binary search
    (RFC 2544, 26.1), each trial "seconds" long.  A trial below the rate that passed is not repeated."""
    seconds = max(0.3, settings["seconds"] / 2)
    unlimited = received_rate(w, peer, sink, seconds, flows, **generator)
    low, high = 0.0, unlimited["value"] * 1.1
    for _ in range(SEARCH_STEPS):
        rate = (low + high) / 2
        if _loss(w, sink, seconds, flows, rate, generator) <= settings["loss"]:
            low = rate
        else:
            high = rate
    return unlimited, {"value": low, "step": high - low}


def _loss(w, sink, seconds, flows, rate, generator):
    """Share of the frames sent at 'rate' that the sink does not see."""
    before = sink.read()["packets"]
    sent = world.generated(w.generate(seconds, flows=flows, rate=round(rate), **generator))["sent"]
    arrived, end = sink.read()["packets"] - before, time.monotonic() + DRAIN
    while arrived < sent and time.monotonic() < end:
        time.sleep(0.01)
        arrived = sink.read()["packets"] - before
    return 1 - arrived / sent if sent else 0


def left_over(w, sinks, seconds, rate, spare, **generator):
    """CPU time, in cores, that is left to busy user processes (the class Spare) while frames come at 'rate'."""
    child = w.generate(seconds + 0.5, rate=rate, **generator)
    time.sleep(0.3)
    before, start = sum(sink.read()["packets"] for sink in sinks), time.monotonic()
    left = spare.during(seconds)
    arrived = sum(sink.read()["packets"] for sink in sinks) - before
    arrived /= time.monotonic() - start
    world.generated(child)
    return {"value": left, "received_rate": arrived, "lost": max(0, 1 - arrived / rate)}


class Spare:
    """A busy user process of low priority on each CPU; made before the switch starts, to learn how much it does in a
    second of CPU time when no packets interrupt it."""

    def __init__(self, w):
        self._processes = []
        for core in {world.GENERATOR_CPU, world.SWITCH_CPU}:
            file = pathlib.Path(f"/run/busy-{core}")
            child = w.hold("busy", "--cpu", str(core), "--file", str(file))
            self._processes.append((child.pid, file))
        self._speeds = [rounds / seconds for rounds, seconds in self._progress(0.3)]

    def during(self, seconds):
        """Cores' worth of work that they do during the next 'seconds'."""
        start = time.monotonic()
        done = self._progress(seconds)
        took = time.monotonic() - start
        return sum(rounds / speed / took for (rounds, _), speed in zip(done, self._speeds))

    def _progress(self, seconds):
        """Of each: rounds, seconds of CPU time."""
        before = self._read()
        time.sleep(seconds)
        return [(after[0] - start[0], after[1] - start[1]) for start, after in zip(before, self._read())]

    def _read(self):
        return [(int.from_bytes(file.read_bytes(), sys.byteorder), cpu.of_processes([pid]))
                for pid, file in self._processes]


def handled_rate(w, peer, seconds):
    """Packets per second that a switch says it has handled, where none comes out of it."""
    warm_up = max(0.3, seconds / 4)
    generator = w.generate(warm_up + seconds + 0.3)
    time.sleep(warm_up)
    before, start = peer.handled(), time.monotonic()
    meter = cpu.Meter(peer.pids(), start)
    time.sleep(seconds)
    after, end = peer.handled(), time.monotonic()
    used = meter.stop(end)
    world.generated(generator)
    return {"value": (after - before) / (end - start), **used}


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
            "p99": {"value": known["p99"] / 1e9}, "p999": {"value": known["p999"] / 1e9},
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
