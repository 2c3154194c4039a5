#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""TCP of a guest through this switch and through a Linux bridge, in turns: `tests/system/measure_guests.py [ROUNDS]`.

    guest (emulated) ===[ tap ]--- switch or bridge --- a container; one without offloads, on XDP; the host; another guest

Prints for each way, and for a tap of one queue and of two, the medians in Gb/s and the median of the rounds' ratios.
Emulation makes the guest slow: only ratios mean something.  The guests stay the same in all rounds, because one boot of a guest is up
to a tenth faster than the next.  The guest has one CPU of this machine, its peer another.
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

SECONDS = 2
GUESTS_CPU, OTHER_CPU = 1, 0
CONTAINER, WITHOUT, HOST, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"
TITLES = {CONTAINER: "a container", WITHOUT: "one on XDP", HOST: "the host", OTHER: "a guest"}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    lab.enter()
    cards = guests.Card("one", "virtio-net-pci"), guests.Card("two", "virtio-net-pci", 2)
    other = guests.Card("other", "virtio-net-pci")
    with contextlib.ExitStack() as stack:
        stack.enter_context(guests.Guest(*cards, cpus=1, cpu=GUESTS_CPU))
        stack.enter_context(guests.Guest(other, cpus=1, cpu=OTHER_CPU))
        for number, card in enumerate(cards, 11):
            card.run("ip", "address", "add", f"10.0.0.{number}/24", "dev", "eth0")
        other.run("ip", "link", "set", "eth0", "address", "52:54:00:00:01:01")     # The first guest has cards of the same addresses.
        other.run("ip", "address", "add", f"{OTHER}/24", "dev", "eth0")
        other.start("iperf3", "-s")
        for name, address in ("red", CONTAINER), ("green", WITHOUT):
            container = stack.enter_context(lab.Namespace(name))
            lab.make_veth(f"to-{name}", container)
            lab.add_addresses(container, "eth0", f"{address}/24")
            if address == WITHOUT:      # XDP takes them away; the bridge is to have the same frames.
                container.run("ethtool", "-K", "eth0", "tso", "off", "gso", "off")
            stack.enter_context(container.start("taskset", "-c", OTHER_CPU, "iperf3", "-s"))
        stack.enter_context(lab.Process("taskset", "-c", str(OTHER_CPU), "iperf3", "-s"))
        switch = stack.enter_context(switches.Switch())
        switch.add_bridge("br0")
        lab.run("ip", "link", "add", "bridge", "address", lab.mac_of(lab.Namespace(), "br0"), "type", "bridge")     # Guests remember it.
        found = {}
        for number in range(rounds):
            for kind in ("ours", "bridge") if number % 2 else ("bridge", "ours"):
                with plugged(switch, kind, "to-red", "to-green", other.tap, *(card.tap for card in cards)):
                    for card, end in (cards[0], CONTAINER), (cards[1], CONTAINER), (cards[0], WITHOUT), (cards[0], HOST), (cards[0], OTHER):
                        for way in "from", "to":
                            found.setdefault((card.queues, end, way, kind), []).append(rate(card, end, way))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
        report(found)


@contextlib.contextmanager
def plugged(switch, kind, *devices):
    """The devices are ports of the switch or of the bridge, which has the host's address."""
    bridge = "br0" if kind == "ours" else "bridge"
    lab.run("ip", "link", "set", bridge, "up")
    lab.add_addresses(lab.Namespace(), bridge, f"{HOST}/24")
    for device in devices:
        if kind == "ours":
            switch.add_port(device, interface=["options:xdp-hook=xdp"] if device == "to-green" else ())
        else:
            lab.run("ip", "link", "set", device, "master", "bridge")
    yield
    for device in devices:
        if kind == "ours":
            switch.vsctl("del-port", device)
        else:
            lab.run("ip", "link", "set", device, "nomaster")
    lab.run("ip", "address", "flush", "dev", bridge)
    lab.run("ip", "link", "set", bridge, "down")


def rate(card, end, way):
    """Gb/s, after a first second in which the switch learns the flow and loads programs for it."""
    said = json.loads(card.run("iperf3", "-c", end, "-t", SECONDS, "-O", "1", "-J", *(["-R"] if way == "to" else [])))
    if "error" in said:
        raise lab.Failed(f"{TITLES[end]}, {way} the guest: iperf3: {said['error']}")
    return said["end"]["sum_received"]["bits_per_second"] / 1e9


def report(found):
    for queues, end, way, kind in found:
        if kind == "ours":
            ours, bridge = found[queues, end, way, "ours"], found[queues, end, way, "bridge"]
            ratio = statistics.median(a / b for a, b in zip(ours, bridge))
            print(f"{queues} queue(s), {way} the guest, its peer {TITLES[end]}: {statistics.median(ours):.2f} Gb/s, bridge "
                  f"{statistics.median(bridge):.2f}, ratio {ratio:.2f} "
                  f"({' '.join(f'{a / b:.2f}' for a, b in zip(ours, bridge))})")


if __name__ == "__main__":
    main()
