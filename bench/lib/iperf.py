# SPDX-License-Identifier: Apache-2.0
"""TCP throughput, by iperf3 from the namespace gen to the namespace sink, or to the host."""

import json
import time

from bench.lib import cpu, world

WARM_UP = 1             # Seconds before what is measured: slow start.

# Linux's own default, whatever the machine's is.  BBR, say, sends at the rate that it believes in: what is measured then
# is what it happened to believe, half or twice as much from one time to the next, with a switch or without.
CONGESTION = "cubic"

TRIES = 4               # Of one run, if the hypervisor takes too much meanwhile.


def tcp(w, peer, settings, streams=1, server="sink", back=False):
    """Goodput in bits per second, of all streams, and retransmitted segments per second.  'server': the namespace of
    the peer; None: the switch's own.  'back': from there to gen.  Of several runs the least disturbed counts.

    A first second shows the switch its flows.  What it does about them later takes CPU time: OVS-XDP loads the programs that
    fit them two seconds afterwards, in the midst of what was measured before this waited for it."""
    _once(w, peer, 1, streams, server, back)
    peer.rest()
    tries = []
    while len(tries) < TRIES and (not tries or tries[-1][0] > settings["stolen"]):
        theft = cpu.Theft()
        rows = _once(w, peer, max(2, settings["seconds"]), streams, server, back)
        tries.append((round(theft.share(), 4), rows))
    stolen, rows = min(tries, key=lambda one: one[0])
    return {name: row | {"stolen": stolen} for name, row in rows.items()}


def start_server(w, namespace, *options, cpu=None):
    """Starts iperf3's server, on 'cpu' if there is one, and returns it when it listens."""
    prefix = [] if cpu is None else ["taskset", "-c", str(cpu)]
    server = w.start(*prefix, "iperf3", "--server", "--forceflush", *options, namespace=namespace)
    while "listening" not in server.stdout.readline():
        if server.poll() is not None:
            raise world.Failed(f"iperf3: {server.stderr.read().strip()}")
    return server


def _once(w, peer, seconds, streams, server, back):
    """On two cores a stream is up to three times as fast as on one, and the scheduler chooses now this, now that.  So client
    and server have a core each, unless a daemon has one of them for itself: then they share the other."""
    listening = start_server(w, server, "--one-off", "--bind", world.SINK_IP)
    cores = world.GENERATOR_CPU, world.GENERATOR_CPU if peer.own_core else world.SWITCH_CPU
    meter = cpu.Meter(peer.pids(), time.monotonic())
    w.record(f"tcp-{streams}{'-back' if back else ''}", WARM_UP + seconds * 0.8)
    answer = json.loads(w.inside("gen", "timeout", str(WARM_UP + round(seconds) + 8), "iperf3", "--client",
                                 world.SINK_IP, "--json", "--omit", str(WARM_UP), "--time", str(round(seconds)),
                                 "--connect-timeout", "5000", "--congestion", CONGESTION, "--parallel", str(streams),
                                 "--affinity", ",".join(map(str, cores)),
                                 *["--reverse"] * back))["end"]
    used = meter.stop(time.monotonic())
    listening.communicate(timeout=10)       # The next one needs its port.
    return {"rate": {"value": answer["sum_received"]["bits_per_second"], **used},
            "retransmits": {"value": answer["sum_sent"]["retransmits"] / answer["sum_sent"]["seconds"]}}
