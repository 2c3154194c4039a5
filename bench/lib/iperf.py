# SPDX-License-Identifier: Apache-2.0
"""TCP throughput, by iperf3 between the namespaces gen and sink."""

import json
import time

from bench.lib import cpu, world


def tcp(w, peer, seconds):
    """Goodput of one stream from gen to sink in bits per second, and retransmitted segments per second."""
    server = w.start("iperf3", "--server", "--one-off", "--forceflush", "--bind", world.SINK_IP, namespace="sink")
    while "listening" not in server.stdout.readline():
        if server.poll() is not None:
            raise world.Failed(f"iperf3: {server.stderr.read().strip()}")
    meter = cpu.Meter(peer.pids(), time.monotonic())
    w.record("tcp", seconds * 0.8)
    answer = json.loads(w.inside("gen", "iperf3", "--client", world.SINK_IP, "--json", "--time", str(round(seconds)),
                                 "--connect-timeout", "5000"))
    used = meter.stop(time.monotonic())
    return {"rate": {"value": answer["end"]["sum_received"]["bits_per_second"], **used},
            "retransmits": {"value": answer["end"]["sum_sent"]["retransmits"] / answer["end"]["sum_sent"]["seconds"]}}
