# SPDX-License-Identifier: Apache-2.0
"""The measurements that cases are made of.  Each returns a dictionary whose 'value' is the result."""

import pathlib
import statistics
import sys
import time

from bench.lib import cpu, world


SEARCH_STEPS = 7                # The result is exact to 1 % of the rate that was received at most.
TAIL = 0.1                      # Seconds that generators go on after a measurement.
DRAIN = 0.1                     # Seconds that frames may take through the switch.


def received_rate(w, peer, sink, seconds, flows, **generator):
    """Packets per second that arrive at the sink while the generator sends at full speed.  'generator' holds more
    arguments of World.generate()."""
    warm_up = max(0.3, seconds / 4)
    generator = w.generate(warm_up + seconds + TAIL, flows=flows, **generator)
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


def over_bare(w, sinks, seconds, flows):
    """Seconds that a frame takes through the switch from g0 to s0 more than through a bare redirect from g1 to s1:
    the median of differences between test runs that follow each other by milliseconds."""
    before = [sink.read()["packets"] for sink in sinks]
    told = w.take_turns("g0", "g1", seconds, flows)
    sent = told["frames"] * len(told["ns"])
    time.sleep(DRAIN)
    for sink, others in zip(sinks, before):
        arrived = sink.read()["packets"] - others
        if arrived < 0.999 * sent:
            raise world.Failed(f"{sent - arrived} of {sent} frames did not arrive: this says nothing about time")
    at_work = told["ns"][len(told["ns"]) // 5:]
    return {"value": statistics.median(mine - bare for mine, bare in at_work) / 1e9,
            "bare": statistics.median(bare for _, bare in at_work) / 1e9}


def socket_rate(w, peer, seconds):
    """Datagrams per second that an application receives while another one sends all it can."""
    drain = w.counting("drain", "--address", world.SINK_IP, namespace="sink")
    wait_until_received(w, drain)
    warm_up = max(0.3, seconds / 4)
    sender = w.flood(warm_up + seconds + TAIL)
    time.sleep(warm_up)
    before = drain.read()
    meter = cpu.Meter(peer.pids(), before["ns"] / 1e9)
    w.record("sockets", seconds * 0.8)
    time.sleep(seconds)
    after = drain.read()
    used = meter.stop(after["ns"] / 1e9)
    sent = world.generated(sender)
    return {"value": (after["packets"] - before["packets"]) / (after["ns"] - before["ns"]) * 1e9,
            "sent_rate": sent["sent"] / sent["seconds"], **used}


def wait_until_received(w, drain):
    """Returns when a datagram comes through the switch."""
    def received():
        world.generated(w.flood(0.01))
        return drain.read()["packets"]

    world.wait_for(received, "a datagram through the switch")


def received_on_two(w, peer, sinks, seconds, flows):
    """Packets per second that arrive at two sinks from two generators, g0 and g1, on a core each; the second one holds
    its program at the idle device "hold"."""
    warm_up = max(0.3, seconds / 4)
    generators = [w.generate(warm_up + seconds + TAIL, flows=flows, device=device, cpu=core, hold=hold)
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
    (RFC 2544, 26.1), each trial "seconds" long.  A trial below the rate that passed is not repeated.  A switch in the
    kernel holds up the generator instead of losing frames: then the greatest rate that it let through is the
    answer."""
    seconds = max(0.3, settings["seconds"] / 2)
    unlimited = received_rate(w, peer, sink, seconds, flows, **generator)
    low, high, best = 0.0, unlimited["value"] * 1.1, 0.0
    for _ in range(SEARCH_STEPS):
        wanted = (low + high) / 2
        rate, loss = trial(w, sink, seconds, flows, wanted, generator)
        if loss > settings["loss"]:
            high = wanted
        else:
            low, best = wanted, max(best, rate)
    return unlimited, {"value": best, "step": high - low}


def trial(w, sink, seconds, flows, rate, generator, share=1):
    """The rate at which frames were sent, at most 'rate' (0: as fast as the generator can), and the share of them that
    the sink does not see, to which 'share' of them are sent."""
    before = sink.read()["packets"]
    done = world.generated(w.generate(seconds, flows=flows, rate=round(rate), **generator))
    sent = done["sent"] * share
    arrived, end = sink.read()["packets"] - before, time.monotonic() + DRAIN
    while arrived < sent and time.monotonic() < end:
        time.sleep(0.01)
        arrived = sink.read()["packets"] - before
    return done["sent"] / done["seconds"], 1 - arrived / sent if sent else 0


def left_over(w, sinks, seconds, rate, spare, **generator):
    """CPU time, in cores, that is left to busy user processes (the class Spare) while frames come at 'rate'."""
    quiet = sum(sink.read()["packets"] for sink in sinks)
    child = w.generate(seconds + 0.3, rate=rate, **generator)
    try:
        world.wait_for(lambda: sum(sink.read()["packets"] for sink in sinks) > quiet, "a frame through the switch")
    except world.Failed:
        world.generated(child)              # It may know better why.
        raise
    time.sleep(0.05)
    before, start = sum(sink.read()["packets"] for sink in sinks), time.monotonic()
    left = spare.during(seconds)
    arrived = sum(sink.read()["packets"] for sink in sinks) - before
    took = time.monotonic() - start
    world.generated(child)
    return {"value": sum(left), "left": left, "received_rate": arrived / took,
            "lost": max(0, 1 - arrived / took / rate)}


class Spare:
    """A busy user process of low priority on each CPU; made before the switch starts, to learn how much it does in a
    second of CPU time when no packets interrupt it."""

    def __init__(self, w):
        self._processes = []
        for core in sorted({world.GENERATOR_CPU, world.SWITCH_CPU}):
            file = pathlib.Path(f"/run/busy-{core}")
            child = w.hold("busy", "--cpu", str(core), "--file", str(file))
            self._processes.append((child.pid, file))
        self._speeds = [rounds / seconds for rounds, seconds in self._progress(0.3)]

    def during(self, seconds):
        """The share of its core's work that each does during the next 'seconds'."""
        start = time.monotonic()
        done = self._progress(seconds)
        took = time.monotonic() - start
        return [rounds / speed / took for (rounds, _), speed in zip(done, self._speeds)]

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
    generator = w.generate(warm_up + seconds + TAIL)
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
    w.record("requests", seconds * 0.8)
    known = w.ping(seconds)
    used = meter.stop(time.monotonic())
    w.record("first-packets", seconds * 0.8)
    new = w.ping(seconds, new_flows=True)
    for answers in known, new:
        if not answers["answers"]:
            raise world.Failed(f"none of {answers['lost']} requests was answered")
    return {"p50": {"value": known["p50"] / 1e9, "answers": known["answers"], "lost": _unanswered(known), **used},
            "p99": {"value": known["p99"] / 1e9}, "p999": {"value": known["p999"] / 1e9},
            "first": {"value": new["p50"] / 1e9, "answers": new["answers"], "lost": _unanswered(new)}}


def tcp_latency(w, peer, seconds):
    """Percentiles of request and response over one TCP connection; new connections per second, one after the other,
    each with a request and its answer."""
    start = time.monotonic()
    meter = cpu.Meter(peer.pids(), start)
    w.record("requests", seconds * 0.8)
    known = w.ping(seconds, tcp=True)
    used = meter.stop(time.monotonic())
    meter = cpu.Meter(peer.pids(), time.monotonic())
    w.record("connections", seconds * 0.8)
    new = w.ping(seconds, tcp=True, new_flows=True)
    used_new = meter.stop(time.monotonic())
    for answers in known, new:
        if not answers["answers"]:
            raise world.Failed(f"none of {answers['lost']} requests was answered")
    return {"p50": {"value": known["p50"] / 1e9, "answers": known["answers"], "lost": _unanswered(known), **used},
            "p99": {"value": known["p99"] / 1e9},
            "connections": {"value": new["answers"] / seconds, "lost": _unanswered(new), **used_new}}


def _unanswered(answers):
    """The share of requests."""
    return answers["lost"] / (answers["lost"] + answers["answers"])


def idle_cpu(peer, seconds):
    """Cores that the daemon uses while nothing happens."""
    start = time.monotonic()
    meter = cpu.Meter(peer.pids(), start)
    time.sleep(seconds)
    used = meter.stop(time.monotonic())
    return {"value": used["daemon_cpu"], **used}


def upcall_rate(w, peer, seconds, offered):
    """Upcalls per second while each packet of the generator is a new flow: between two looks, both while more come than are
    decided. What fills queues at the beginning, and what is left in them at the end, does not count: openvswitch.ko
    counts a packet when it is queued, others when ofproto has decided."""
    warm_up = max(0.2, seconds / 4)
    generator = w.generate(warm_up + 1.5 * seconds + TAIL, flows=1000000, rate=offered)
    time.sleep(warm_up)
    before, start = peer.upcalls(), time.monotonic()
    meter = cpu.Meter(peer.pids(), start)
    w.record("upcalls", seconds * 0.8)
    time.sleep(seconds)
    after, end = peer.upcalls(), time.monotonic()
    used = meter.stop(end)
    sent = world.generated(generator)
    return {"value": (after - before) / (end - start), "sent_rate": sent["sent"] / sent["seconds"],
            "generator_cpu": sent["cpu_seconds"] / sent["seconds"], **used}
