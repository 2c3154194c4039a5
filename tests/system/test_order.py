# SPDX-License-Identifier: Apache-2.0
"""The order of TCP's packets at tcx, which a socket sends from several CPUs (bpf/order.h).

    red ---[ switch ]--- green

Red's packets come from a raw socket: like one of TCP, it gives all its packets one hash, and the sequence numbers are the
test's choice.
"""
import contextlib
import mmap
import os
import re
import signal
import socket
import struct
import threading
import time

import pytest

import lab
import switch as switches
import traffic
import wire

HOOK = "tcx"
DEVICE = re.compile(r"^(ovs-xdp-ord\d)", re.MULTILINE)
LEN = 3000                              # Bytes of the stream in a packet: more than 2,048, so that it gets a row.
MTU = 3400                              # An internal port takes 3,450 before Linux 6.6, and follows the others.
PORTS = 40000, 5001
MARK = b"order of packets"

WHEN = struct.Struct("=dd")
COUNT = struct.Struct("=Q")


@pytest.fixture
def containers(network):
    """Red and green with long packets, which know each other."""
    for name, container in (("red", network.red), ("green", network.green)):
        lab.run("ip", "link", "set", f"to-{name}", "mtu", MTU)
        container.run("ip", "link", "set", "eth0", "mtu", MTU)
    traffic.ping(network.red, "10.0.0.2")
    # Nobody answers ARP without a daemon, and a slow machine needs long for a restart.
    network.red.run("ip", "neighbour", "replace", "10.0.0.2", "lladdr", lab.mac_of(network.green), "dev", "eth0")
    return network


class Stream:
    """Sends segments of a stream that nobody acknowledges."""

    def __init__(self, namespace, address="10.0.0.2"):
        self.address = address
        with namespace.entered():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
            self.socket.connect((address, 0))
        self.source = self.socket.getsockname()[0]
        self.next = 1 << 16

    def packet(self, sequence, number, part):
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + LEN, 0, 0, 64, socket.IPPROTO_TCP, 0, socket.inet_aton(self.source),
                         socket.inet_aton(self.address))
        tcp = struct.pack("!HHIIBBHHH", *PORTS, sequence & 0xffffffff, 0, 0x50, 0x18, 1000, 0, 0)
        return ip + tcp + (MARK + struct.pack("!IB", number, part)).ljust(LEN, b".")

    def send(self, sequence, number, part):
        self.socket.send(self.packet(sequence, number, part))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def parts_of(frames):
    """[(number, part)] as the frames came."""
    return [struct.unpack_from("!IB", frame, frame.index(MARK) + len(MARK)) for frame in frames]


def devices(*which):
    return DEVICE.findall(lab.run("ip", "-br", "link", "show", *which))


def device():
    """That is up: with --user another is there, for the next daemon."""
    return next(iter(devices("up")), None)


def wait_for_another(old):
    """Until the next daemon has taken over, with another device than 'old'."""
    def is_there():
        up = devices("up")
        return len(up) == 1 and up != [old]
    lab.wait_until(is_there, "the next daemon's device in place of the last one's")


def moved(switch):
    found = re.search(r"order of TCP's packets: kept, (\d+) moved by ovs-xdp-ord\d", switch.appctl("xdp/show"))
    return int(found[1]) if found else 0


def make_device(switch, stream):
    """A packet is early, so that there is a device for order."""
    assert not device()
    stream.send(stream.next, 0, 0)
    stream.send(stream.next + 2 * LEN, 0, 2)
    stream.next += 3 * LEN
    lab.wait_until(device, "a device for order")
    lab.wait_until(lambda: "kept" in switch.appctl("xdp/show"), "its row in xdp/show")


def of_ours(frame):
    return MARK in frame


@contextlib.contextmanager
def watched(containers):
    """(stream from red, wire at green), with a device for order, and nothing on the wire of what that took."""
    with Stream(containers.red) as stream, wire.Wire(containers.green) as green:
        make_device(containers.switch, stream)
        green.receive(of_ours, 2)
        yield stream, green


class Process:
    """Another process, which does run(); 'shared' is memory of both."""

    def __init__(self):
        self.shared = mmap.mmap(-1, mmap.PAGESIZE)
        self.pid = os.fork()
        if not self.pid:
            try:
                self.run()
            finally:
                os._exit(0)

    def run(self):
        raise NotImplementedError

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Second(Process):
    """A process on another CPU, which sends the second of three segments a moment after it may."""

    def __init__(self, stream, cpu, n):
        self.stream, self.cpu, self.n = stream, cpu, n
        super().__init__()      # In 'shared': how many it may send, how many it has sent; when it did the last.

    def run(self):
        os.sched_setaffinity(0, [self.cpu])
        for number in range(self.n):
            packet = self.stream.packet(self.stream.next + (3 * number + 1) * LEN, number, 1)
            while self.shared[0] <= number:
                pass
            pause(20e-6)
            begin = time.perf_counter()
            self.stream.socket.send(packet)
            WHEN.pack_into(self.shared, 8, begin, time.perf_counter())
            self.shared[1] = number + 1

    def send(self, number):
        self.shared[0] = number + 1

    def has_sent(self, number):
        return self.shared[1] > number

    def was_in_time(self, third):
        """Whether it sent its last segment after the third one, which began at 'third', and before that would go on without it."""
        begin, end = WHEN.unpack_from(self.shared, 8)
        return third < begin and end < third + 80e-6


class Early(Process):
    """A process that sends three segments again and again, the third before the second: so one often waits in the device."""

    def __init__(self, stream):
        self.stream = stream
        super().__init__()      # In 'shared': whether to end, whether it has; how many times it has sent three.

    def run(self):
        number = 0
        while not self.shared[0]:
            for part in 0, 2, 1:
                self.stream.send(self.stream.next + part * LEN, number, part)
                pause(60e-6)
            self.stream.next += 3 * LEN
            number += 1
        COUNT.pack_into(self.shared, 8, number)
        self.shared[1] = 1

    def end(self):
        """How many times it has sent three."""
        self.shared[0] = 1
        lab.wait_until(lambda: self.shared[1], "the other process")
        return COUNT.unpack_from(self.shared, 8)[0]


@contextlib.contextmanager
def reading(green):
    """What comes meanwhile, and within a second afterwards."""
    came, end = [], threading.Event()

    def read():
        while not end.is_set():
            came.extend(parts_of(green.receive(of_ours, 1 << 30, limit=0.1)))
        came.extend(parts_of(green.receive(of_ours, 1 << 30, limit=1)))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield came
    finally:
        end.set()
        thread.join()


def pause(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU sends in order")
def test_other_cpu_was_faster(containers):
    """One CPU sends the last of three segments, a moment before another sends the second: they arrive in order."""
    mine, n, in_time = os.sched_getaffinity(0), 200, []
    first, other = sorted(mine)[:2]
    with watched(containers) as (stream, green):
        before = moved(containers.switch)
        with Second(stream, other, n) as second:
            try:
                os.sched_setaffinity(0, [first])
                for number in range(n):
                    third = stream.packet(stream.next + (3 * number + 2) * LEN, number, 2)
                    stream.send(stream.next + 3 * number * LEN, number, 0)
                    time.sleep(0.003)
                    begin = time.perf_counter()
                    second.send(number)
                    stream.socket.send(third)
                    lab.wait_until(lambda: second.has_sent(number), "the other process")
                    if second.was_in_time(begin):
                        in_time.append(number)
            finally:
                os.sched_setaffinity(0, mine)
        came = parts_of(green.receive(of_ours, 3 * n))
    assert sorted(came) == [(number, part) for number in range(n) for part in range(3)]
    if len(in_time) < 10:
        pytest.skip(f"too slow or too busy: the second segment came within 80 us in {len(in_time)} of {n} cases")
    in_order = [number for number in in_time if came[3 * number:3 * number + 3] == [(number, part) for part in range(3)]]
    assert len(in_order) > 0.8 * len(in_time), came
    assert moved(containers.switch) - before >= len(in_time)


def test_never_lost(containers):
    """A segment whose predecessor does not come goes on without it, and so does the predecessor afterwards."""
    n = 20
    with watched(containers) as (stream, green):
        containers.switch.ofctl("add-flow", "br0", f"tcp,tp_dst={PORTS[1]},actions=NORMAL")
        before = moved(containers.switch)
        for number in range(n):
            for part in 0, 2, 1:
                stream.send(stream.next + part * LEN, number, part)
            stream.next += 3 * LEN
            time.sleep(0.01)
        assert sorted(parts_of(green.receive(of_ours, 3 * n))) == [(number, part) for number in range(n) for part in range(3)]
        assert moved(containers.switch) - before >= n
        lab.wait_until(lambda: f"n_packets={3 * n}," in containers.switch.ofctl("dump-flows", "br0", f"tcp,tp_dst={PORTS[1]}"),
                       "each packet counted once")


def test_sequence_numbers_that_lie(containers):
    """Every segment seems to be early: each arrives, once."""
    n = 3000
    with watched(containers) as (stream, green):
        for number in range(n):
            stream.next += 5 * LEN
            stream.send(stream.next, number, 0)
        assert sorted(parts_of(green.receive(of_ours, n))) == [(number, 0) for number in range(n)]
        traffic.ping(containers.red, "10.0.0.3")


@pytest.mark.parametrize("change", ("del {}", "set {} down"))
def test_the_device_goes(containers, change):
    containers.switch.expected += ["making it anew"]
    with Stream(containers.red) as stream, traffic.Connection(containers.red, containers.green, "10.0.0.2") as connection:
        make_device(containers.switch, stream)
        connection.goes_on()
        lab.run("ip", "link", *change.format(device()).split())
        lab.wait_until(lambda: "making it anew" in "\n".join(containers.switch.log()), "the log")
        lab.wait_until(lambda: len(devices("up")) == 1, "another device")
        connection.goes_on()
        assert connection.same()


@pytest.mark.parametrize("end", ("killed", "ended"))
def test_another_daemon(containers, end):
    """The device goes on without the daemon; the next one makes another before a packet is early, and removes it."""
    switch = containers.switch
    with watched(containers) as (stream, green):
        switch.crash() if end == "killed" else switch.stop()
        for number in 1, 2:
            for part in 0, 2, 1:
                stream.send(stream.next + part * LEN, number, part)
            stream.next += 3 * LEN
            assert sorted(parts_of(green.receive(of_ours, 3))) == [(number, part) for part in range(3)]
            if number == 1:
                old = device()
                switch.start()
                wait_for_another(old)
        lab.wait_until(lambda: moved(switch) > 0, "a packet in it")


@pytest.mark.parametrize("end", ("killed", "ended"))
def test_nothing_lost_meanwhile(containers, end):
    """While a daemon ends, is away, starts, and takes over, packets go through the device: the first daemon's, then the next one's."""
    switch = containers.switch
    with watched(containers) as (stream, green), reading(green) as came, Early(stream) as early:
        switch.crash() if end == "killed" else switch.stop()
        for daemon in range(1, 4):
            switch.start()
            lab.wait_until(lambda: "\n".join(switch.log()).count("for order that a previous instance left") == daemon, "the log")
            lab.wait_until(lambda: moved(switch), "the next device at work")
            if daemon < 3:
                switch.crash()
        n = early.end()
    assert sorted(came) == [(number, part) for number in range(n) for part in range(3)]


def test_ended_for_good(containers):
    with Stream(containers.red) as stream:
        make_device(containers.switch, stream)
    containers.switch.stop(cleanup=True)
    assert not device()
    containers.switch.start()


@pytest.mark.skipif(not switches.USER, reason="root may write rps_cpus")
def test_not_permitted(containers):
    """Without the devices that root made, programs go on without order, and the daemon says why."""
    for made in devices():
        lab.run("ip", "link", "del", made)
    with Stream(containers.red) as stream, wire.Wire(containers.green) as green:
        for part in 0, 2, 1:
            stream.send(stream.next + part * LEN, 0, part)
        assert len(green.receive(of_ours, 3)) == 3
        lab.wait_until(lambda: "order of TCP's packets: not kept (cannot write rps_cpus" in containers.switch.appctl("xdp/show"),
                       "the reason in xdp/show")
    assert not devices()


@pytest.mark.skipif(not switches.USER, reason="root makes them when they are needed")
def test_provided(containers):
    """Devices that root makes for a daemon that is not: two, which daemons take by turns."""
    switch = containers.switch
    assert len(devices()) == 2 and not devices("up")
    used = []
    with watched(containers) as (stream, _):
        for _ in range(3):
            used.append(device())
            switch.crash()
            switch.start()
            wait_for_another(used[-1])
            for part in 0, 2:
                stream.send(stream.next + part * LEN, 0, part)
            stream.next += 3 * LEN
            lab.wait_until(lambda: moved(switch), "a packet in it")
            assert not lab.run("tc", "filter", "show", "dev", used[-1], "ingress")
    assert used[0] == used[2] != used[1] and len(devices()) == 2
    switch.stop(cleanup=True)
    assert len(devices()) == 2 and not devices("up")
    switch.start()
