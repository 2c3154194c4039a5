#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures service chains: the table in docs/how-to/service-chains.md.

    tests/system/measure_chain.py [ROUNDS]          as root; default: 3

A generator sends 60-byte UDP frames into the switch, which steers them through none, one, two or three functions of
examples/ to a sink.  The chain's ports are on the hook named, the others on XDP.  Medians of millions of frames per second
at the sink, for two seconds a round.
"""
import contextlib
import json
import statistics
import subprocess
import sys
import time

import foreign
import lab
import switch as switches

TRAFFIC = switches.BUILD / "bench/gen/bench-traffic"
FUNCTIONS = (("block", ["eth0"]), ("route", ["eth0", "eth1"]), ("mark", ["eth0"]))
FUNCTION_NAMES = [name for name, _ in FUNCTIONS]
SECONDS = 2


def main():
    lab.enter()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    cases = [(hook, count) for count in range(4) for hook in (("xdp", "tcx") if count else ("xdp",))]
    rates = {case: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            rates[case].append(measure(*case))
    print("| functions in the chain | ports on XDP | ports on tcx |\n|---|---|---|")
    for count in range(4):
        print(f"| {count} | " + " | ".join(text(rates.get((hook, count))) for hook in ("xdp", "tcx")) + " |")


def text(found):
    return f"{statistics.median(found):.2f} Mpps" if found else ""


def measure(hook, count):
    lab.new_host()
    with contextlib.ExitStack() as stack:
        inside = {name: stack.enter_context(lab.Namespace(name)) for name in ("red", "green", "block", "route", "mark")}
        switch = stack.enter_context(switches.Switch())
        switch.add_bridge("br0")
        ports = ["to-red"]
        for name, legs in (("red", ["eth0"]), ("green", ["eth0"]), *FUNCTIONS[:count]):
            for leg in legs:
                device = f"to-{name}" if leg == "eth0" else f"from-{name}"
                lab.make_veth(device, inside[name], inside=leg)
                switch.add_port(device, interface=(f"options:xdp-hook={hook if name in FUNCTION_NAMES else 'xdp'}",))
        for name, legs in FUNCTIONS[:count]:
            foreign.start_function(stack, switch, inside[name], name, *legs)
            ports += [f"to-{name}", f"{'from' if len(legs) > 1 else 'to'}-{name}"]
        ports.append("to-green")
        switch.flows("br0", *(f"in_port={a},actions=output:{b}" for a, b in zip(ports[::2], ports[1::2])))
        return rate(stack, inside)


def rate(stack, inside):
    sink = subprocess.Popen(["ip", "netns", "exec", "green", TRAFFIC, "sink", "--dev", "eth0"], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stack.callback(lambda: (sink.stdin.close(), sink.wait()))
    sink.stdout.readline()

    def read():
        sink.stdin.write("\n")
        sink.stdin.flush()
        return json.loads(sink.stdout.readline())
    stack.enter_context(inside["red"].start(TRAFFIC, "generate", "--dev", "eth0", "--dst", lab.mac_of(inside["green"]),
                                            "--cpu", 0, "--seconds", 3 * lab.PATIENCE))
    lab.wait_until(lambda: read()["packets"] > 100000, "frames at the sink")
    before = read()
    time.sleep(SECONDS)
    after = read()
    return (after["packets"] - before["packets"]) / (after["ns"] - before["ns"]) * 1e3


if __name__ == "__main__":
    sys.exit(main())
