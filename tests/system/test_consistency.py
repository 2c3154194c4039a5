# SPDX-License-Identifier: Apache-2.0
"""Rules change at random while packets flow: every packet arrives once, treated by the rule of its time.

The rule's version is written into each packet (UDP port) and decides where it leaves: that tells which it met.
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
FIRST = 1000                    # The UDP port that stands for version 0.


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


class Receiver(threading.Thread):
    """Takes (number, version, port) of everything that comes, also what comes twice: a socket's buffer holds only a
    second of it."""

    def __init__(self, end, port):
        super().__init__()
        self.arrived = []
        self._end, self._port = end, port
        self._ended = threading.Event()

    def run(self):
        while not self._ended.is_set():
            self.arrived += take(self._end, self._port, 0.05)

    def stop(self):
        self._ended.set()
        self.join()


class Rule:
    """The rule under test; remembers when each change was done."""

    def __init__(self, switch):
        self.switch, self.changed = switch, []
        switch.flows("br0", "priority=1,actions=drop")
        self.change()

    def change(self):
        version = len(self.changed)
        self.switch.ofctl("mod-flows" if version else "add-flow", "br0",
                          f"priority=9,in_port=to-red,udp,actions=mod_tp_dst:{FIRST + version},"
                          f"output:to-{self.port(version)}")
        self.changed.append(time.monotonic())

    @staticmethod
    def port(version):
        return "blue" if version * 2654435761 >> 7 & 1 else "green"


@pytest.mark.parametrize("purge", (False, True), ids=("changes", "changes-and-deletions"))
@pytest.mark.parametrize("tier", ("xdp-hook=xdp", "xdp-hook=tcx", "xdp-hook=both", "xdp-offload=false"), ids=lambda tier: tier)
def test_every_packet_has_its_rule(world, switch, host, tier, purge):
    # A flow may be deleted between Open vSwitch's answer for it and its installation.
    switch.expected += ["failed to flow_del"]
    switch.vsctl("set", "open", ".", f"other_config:{tier}")
    switch.add_bridge("br0")
    ends = {}
    for name in "red", "green", "blue":
        container = world.enter_context(lab.Namespace(name))
        lab.make_veth(f"to-{name}", container)
        switch.add_port(f"to-{name}")
        ends[name] = world.enter_context(wire.Wire(container))
    rule = Rule(switch)
    sender = Sender(ends["red"], "02:00:00:00:00:02")
    receivers = [Receiver(ends[name], name) for name in ("green", "blue")]
    for thread in sender, *receivers:
        thread.start()
    floors = []                     # (number, version): packets from there on met no older rule.
    try:
        end = time.monotonic() + SECONDS
        chance = random.Random(1)
        while time.monotonic() < end:
            time.sleep(chance.uniform(0, 0.15))
            if purge and chance.random() < 0.5:
                switch.appctl("revalidator/purge")
            rule.change()
            if chance.random() < 0.2:
                switch.appctl("revalidator/wait")
                floors.append((len(sender.times), len(rule.changed) - 1))
        sender.stop()
        lab.wait_until(lambda: arrived(receivers) >= len(sender.times), f"{len(sender.times)} packets", limit=20)
        time.sleep(0.2)             # For what comes twice.
    finally:
        for thread in sender, *receivers:
            thread.stop()
    got = [packet for receiver in receivers for packet in receiver.arrived]
    assert sorted(number for number, *_ in got) == list(range(len(sender.times)))
    check(rule, floors, sender.times, sorted(got), in_order=not purge)


def arrived(receivers):
    return sum(len(receiver.arrived) for receiver in receivers)


def take(end, name, limit):
    frames = end.receive(lambda frame: frame[42:48] == b"number", 1 << 30, limit)
    return [(*struct.unpack("!I", frame[48:52]), struct.unpack("!H", frame[36:38])[0] - FIRST, name)
            for frame in frames]


def check(rule, floors, times, arrived, in_order):
    """Each packet met one rule, all of it; none an older one than revalidators had made sure of before it was
    sent; and, without deletions (after which packets ask Open vSwitch anew, in several threads), none an older one
    than the packet before it."""
    last, stalest = 0, 0.0
    for number, version, port in arrived:
        assert 0 <= version < len(rule.changed) and port == rule.port(version), (number, version, port)
        floor = max((v for n, v in floors if n <= number), default=0)
        assert version >= floor, f"packet {number} met rule {version}, when {floor} was in force"
        assert not in_order or version >= last, f"packet {number} met rule {version} after {last}"
        last = version
        if version + 1 < len(rule.changed):
            stalest = max(stalest, times[number] - rule.changed[version + 1])
    print(f"{len(arrived)} packets, {len(rule.changed)} rules; an old rule lived {stalest * 1000:.0f} ms at most")
