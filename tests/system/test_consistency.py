# SPDX-License-Identifier: Apache-2.0
"""Rules change at random while packets flow: every packet arrives once, treated by the rule of its time.

The rule's version is written into each packet (DSCP) and decides the port: what arrives tells which rule it met.
OXDP_LONG=SECONDS makes the tests as long as that.
"""
import os
import random
import struct
import threading
import time

import pytest

import lab
import wire

RED = "02:00:00:00:00:01"
SECONDS = float(os.environ.get("OXDP_LONG", 4))
PERIOD = 64                     # Versions that DSCP tells apart.
STALE = 2.0                     # Seconds after which no packet may meet an old rule, on a busy machine.


class Sender(threading.Thread):
    """Sends numbered frames, a few thousand a second, and knows when each was sent."""

    def __init__(self, end, destination):
        super().__init__()
        self.times = []
        self._end, self._frame = end, wire.udp_frame(RED, destination, b"number" + bytes(4))
        self._ended = threading.Event()

    def run(self):
        while not self._ended.wait(0.0005):
            for _ in range(2):
                number = struct.pack("!I", len(self.times))
                self.times.append(time.monotonic())
                self._end.send(self._frame[:48] + number + self._frame[52:])

    def stop(self):
        self._ended.set()
        self.join()


class Rule:
    """The rule under test; remembers the time before and after each change."""

    def __init__(self, switch):
        self.switch, self.changes = switch, []
        switch.flows("br0", "priority=1,actions=drop")
        self.change()

    def change(self):
        version = len(self.changes)
        begin = time.monotonic()
        self.switch.ofctl("add-flow" if not version else "mod-flows", "br0",
                          f"priority=9,in_port=to-red,udp,actions=mod_nw_tos:{version % PERIOD * 4},"
                          f"output:to-{self.port(version)}")
        self.changes.append((begin, time.monotonic()))

    @staticmethod
    def port(version):
        return "blue" if version * 2654435761 >> 7 & 1 else "green"

    def version_of(self, dscp, sent):
        """The version that a packet met: of those with that DSCP the last that may have been in force before it
        arrived."""
        newest = max(v for v, (begin, _) in enumerate(self.changes) if begin <= sent + STALE)
        return newest - (newest - dscp) % PERIOD


@pytest.mark.parametrize("purge", (False, True), ids=("changes", "changes-and-deletions"))
@pytest.mark.parametrize("offload", ("true", "false"), ids=("xdp", "engine"))
def test_every_packet_has_its_rule(world, switch, host, offload, purge):
    switch.vsctl("set", "open", ".", f"other_config:xdp-offload={offload}")
    switch.add_bridge("br0")
    ends = {}
    for name in "red", "green", "blue":
        container = world.enter_context(lab.Namespace(name))
        lab.make_veth(f"to-{name}", container)
        switch.add_port(f"to-{name}")
        ends[name] = world.enter_context(wire.Wire(container))
    rule = Rule(switch)
    sender = Sender(ends["red"], "02:00:00:00:00:02")
    sender.start()
    try:
        end = time.monotonic() + SECONDS
        chance = random.Random(1)
        while time.monotonic() < end:
            time.sleep(chance.uniform(0, 0.15))
            if purge and chance.random() < 0.5:
                switch.appctl("revalidator/purge")
            rule.change()
    finally:
        sender.stop()
    arrived = collect(ends, len(sender.times))
    assert sorted(number for number, *_ in arrived) == list(range(len(sender.times)))
    check(rule, sender.times, sorted(arrived), in_order=not purge)


def collect(ends, count):
    """(number, DSCP, port) of everything that came, also what came twice."""
    arrived = []
    for name in "green", "blue":
        arrived += take(ends[name], name, 0)
    lab.wait_until(lambda: arrived.extend(take(ends["green"], "green", 0.05) + take(ends["blue"], "blue", 0.05))
                   or len(arrived) >= count, f"{count} packets, of which {len(arrived)} came")
    return arrived + take(ends["green"], "green", 0.2) + take(ends["blue"], "blue", 0.2)


def take(end, name, limit):
    frames = end.receive(lambda frame: frame[42:48] == b"number", 1 << 30, limit)
    return [(struct.unpack("!I", frame[48:52])[0], frame[15] >> 2, name) for frame in frames]


def check(rule, times, arrived, in_order):
    """Each packet met a rule that was in force, or was until shortly before; without deletions (after which Open
    vSwitch asks anew for every packet, by many threads) never an older one than the packet before it."""
    last, stalest = 0, 0.0
    for number, dscp, port in arrived:
        version = rule.version_of(dscp, times[number])
        assert version >= 0 and port == rule.port(version), (number, dscp, port)
        assert not in_order or version >= last, f"packet {number} met rule {version} after {last}"
        last = version
        if version + 1 < len(rule.changes):
            stalest = max(stalest, times[number] - rule.changes[version + 1][1])
    print(f"{len(arrived)} packets, {len(rule.changes)} rules; an old rule lived {stalest * 1000:.0f} ms at most")
    assert stalest < STALE
