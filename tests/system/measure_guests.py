#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""TCP of a guest through this switch and through a Linux bridge, in turns: `tests/system/measure_guests.py [ROUNDS]`.

    guest (emulated) ===[ tap0 ]--- switch or bridge --- red (container)

Prints for each direction, and for a tap of one queue and of two, the medians in Gb/s and the median of the rounds' ratios.
Emulation makes the guest slow: only ratios mean something.
"""
import contextlib
import json
import os
import statistics
import sys

sys.dont_write_bytecode = True

import guest as guests  # noqa: E402
import lab  # noqa: E402
import switch as switches  # noqa: E402

SECONDS = 1


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    lab.enter()
    cards = guests.Card("one", "virtio-net-pci"), guests.Card("two", "virtio-net-pci", 2)
    with contextlib.ExitStack() as stack:
        stack.enter_context(guests.Guest(*cards))
        red = stack.enter_context(lab.Namespace("red"))
        lab.make_veth("to-red", red)
        lab.add_addresses(red, "eth0", "10.0.0.1/24")
        for number, card in enumerate(cards, 11):
            card.run("ip", "address", "add", f"10.0.0.{number}/24", "dev", "eth0")
        stack.enter_context(red.start("iperf3", "-s"))
        switch = stack.enter_context(switches.Switch())
        switch.add_bridge("br0")
        lab.run("ip", "link", "add", "bridge", "type", "bridge")
        lab.run("ip", "link", "set", "bridge", "up")
        found = {}
        for number in range(rounds):
            for kind in ("ours", "bridge") if number % 2 else ("bridge", "ours"):
                with plugged(switch, kind, "to-red", *(card.tap for card in cards)):
                    for card in cards:
                        for way in "to", "from":
                            found.setdefault((card.queues, way, kind), []).append(rate(card, way))
        report(found)


@contextlib.contextmanager
def plugged(switch, kind, *devices):
    for device in devices:
        if kind == "ours":
            switch.add_port(device)
        else:
            lab.run("ip", "link", "set", device, "master", "bridge")
    yield
    for device in devices:
        if kind == "ours":
            switch.vsctl("del-port", device)
        else:
            lab.run("ip", "link", "set", device, "nomaster")


def rate(card, way):
    said = json.loads(card.run("iperf3", "-c", "10.0.0.1", "-t", SECONDS, "-J", *(["-R"] if way == "to" else [])))
    return said["end"]["sum_received"]["bits_per_second"] / 1e9


def report(found):
    for queues, way, kind in found:
        if kind == "ours":
            ours, bridge = found[queues, way, "ours"], found[queues, way, "bridge"]
            ratio = statistics.median(a / b for a, b in zip(ours, bridge))
            print(f"{queues} queue(s), {way} the guest: {statistics.median(ours):.2f} Gb/s, bridge "
                  f"{statistics.median(bridge):.2f}, ratio {ratio:.2f} "
                  f"({' '.join(f'{a / b:.2f}' for a, b in zip(ours, bridge))})")


if __name__ == "__main__":
    main()
