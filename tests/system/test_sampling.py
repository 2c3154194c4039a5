# SPDX-License-Identifier: Apache-2.0
"""sFlow and IPFIX: programs sample by themselves.  The packets of a sampled flow are forwarded as those of any other, none
is overtaken, and what the collector gets is right in number and in kind.
"""
import contextlib
import os
import re
import signal
import socket
import struct
import threading

import pytest

import firewall
import lab
import switch as switches
import traffic
import tunnel_world
import wire

COUNT = 8000
EVERY = 16
HEADER = 128                    # Bytes of a packet in a sample of sFlow.
RING = 510                      # Samples for which there is room (BPF_SAMPLE_RING of bpf/maps.h).
pytestmark = pytest.mark.usefixtures("nothing_vanishes")


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has programs")
    lab.run("ip", "link", "set", "lo", "up")


@pytest.fixture
def ends(network):
    """Two containers that send nothing by themselves."""
    for name in "red", "green", "blue":
        getattr(network, name).run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        getattr(network, name).run("ip", "addr", "flush", "dev", "eth0")
    lab.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")


class Collector:
    """Gets sFlow's datagrams (sFlow version 5, https://sflow.org/sflow_version_5.txt).

    samples   of each: length of the frame, input, output as sFlow numbers them, the header's bytes"""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.2)
        self.target = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.samples, self.wrong, self.ends = [], [], False
        self.thread = threading.Thread(target=self._receive)
        self.thread.start()

    def _receive(self):
        while not self.ends:
            with contextlib.suppress(TimeoutError):
                datagram = self.socket.recv(65535)
                try:
                    self._parse(datagram)
                except (struct.error, AssertionError) as error:
                    self.wrong.append(f"{error}: {datagram.hex()}")

    def _parse(self, datagram):
        version, kind = struct.unpack_from(">II", datagram)
        assert (version, kind) == (5, 1)
        n, at = struct.unpack_from(">I", datagram, 24)[0], 28
        for _ in range(n):
            what, length = struct.unpack_from(">II", datagram, at)
            if what == 1:
                self._parse_flow(datagram[at + 8:at + 8 + length])
            at += 8 + length
        assert at == len(datagram)

    def _parse_flow(self, sample):
        every, = struct.unpack_from(">I", sample, 8)
        assert every == EVERY
        came, left, n = struct.unpack_from(">III", sample, 20)
        at = 32
        for _ in range(n):
            what, length = struct.unpack_from(">II", sample, at)
            if what == 1:
                protocol, size, stripped, header = struct.unpack_from(">IIII", sample, at + 8)
                assert protocol == 1
                begin = at + 24
                self.samples.append((size - stripped, came, left, sample[begin:begin + header]))
            at += 8 + length

    def has_all_of(self, switch):
        """Whether it has what programs have sampled, and perhaps one packet more, which was a miss."""
        return 0 <= len(self.samples) - switch.stats("engine").get("samples that programs took", 0) <= 1

    def close(self):
        self.ends = True
        self.thread.join()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def use_hook(switch, hook):
    for name in "red", "green":
        switch.use_hook(f"to-{name}", f"options:xdp-hook={hook}")


def sample(switch, collector):
    switch.vsctl("--", "--id=@sflow", "create", "sflow", "agent=lo", f'target="{collector.target}"', f"header={HEADER}",
                 f"sampling={EVERY}", "polling=0", "--", "set", "bridge", "br0", "sflow=@sflow")


def is_likely(n, count):
    """Whether 'n' of 'count' packets, each sampled by chance, is within six standard deviations."""
    mean = count / EVERY
    return abs(n - mean) < 6 * (mean * (1 - 1 / EVERY)) ** 0.5


def in_programs(switch, action):
    """Whether there are flows with 'action', and all are programs'."""
    flows = [flow for flow in switch.dump_flows("-m") if f"{action}(" in flow]
    return bool(flows) and all(re.search("dp:(xdp|tcx|both)", flow) for flow in flows)


def exchange(here, there, frames, edited):
    """Sends 'frames', with no more on their way than buffers take.  Returns which of 'edited' arrived, in their order."""
    known, arrived = set(edited), []
    for begin in range(0, len(frames), 50):
        part = frames[begin:begin + 50]
        here.send(*part)
        arrived += there.receive(lambda frame: frame in known, len(part))
    return arrived


@pytest.mark.parametrize("tag", ((), (7,)), ids=("", "tag"))
@pytest.mark.parametrize("hook", ("xdp", "tcx", "both"))
@pytest.mark.usefixtures("ends")
def test_sflow(network, hook, tag):
    """A flow that changes packets: samples show them as they came, and their order stays."""
    switch, red, green = network.switch, network.red, network.green
    use_hook(switch, hook)
    switch.flows("br0", "in_port=to-red,udp,actions=mod_dl_src:02:00:00:00:00:99,to-green", "priority=0,actions=drop")
    addresses = lab.mac_of(red), lab.mac_of(green)
    frames = [wire.udp_frame(*addresses, number.to_bytes(4, "big") * (10 + number % 100), tags=tag)
              for number in range(COUNT)]
    edited = [frame[:6] + bytes.fromhex("020000000099") + frame[12:] for frame in frames]
    with Collector() as collector, wire.Wire(red) as here, wire.Wire(green) as there:
        sample(switch, collector)
        exchange(here, there, frames[:1], edited[:1])
        lab.wait_until(lambda: in_programs(switch, "sample"), "the flow in a program")
        assert exchange(here, there, frames[1:], edited[1:]) == edited[1:]
        lab.wait_until(lambda: collector.has_all_of(switch), "samples")
    check(switch, collector, frames)


def check(switch, collector, frames):
    """That a likely number of 'frames' was sampled, and nothing else."""
    sent = {frame[:HEADER]: len(frame) for frame in frames}

    assert not collector.wrong
    assert is_likely(len(collector.samples), len(frames))
    for length, _, _, header in collector.samples:
        assert sent.get(header) == length, header.hex()
    assert not switch.stats("engine").get("samples lost")


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("hook", ("xdp", "tcx"))
def test_tracked(network, hook):
    """Flows that track and recirculate, of which some packets go to the engine behind the sample: none is sampled twice,
    or not at all."""
    switch, red, green = network.switch, network.red, network.green
    use_hook(switch, hook)
    firewall.stateful(switch)
    addresses = lab.mac_of(red), lab.mac_of(green)
    frames = [wire.udp_frame(*addresses, bytes(100), ports=(1000 + number // 8, 2000)) for number in range(COUNT)]
    with Collector() as collector, wire.Wire(red) as here, wire.Wire(green) as there:
        lab.wait_until(lambda: exchange(here, there, frames[:2], frames) and in_programs(switch, "ct"), "programs that track")
        sample(switch, collector)
        exchange(here, there, frames[:2], frames)
        lab.wait_until(lambda: in_programs(switch, "sample"), "flows in programs")
        assert exchange(here, there, frames[2:], frames) == frames[2:]
        lab.wait_until(lambda: is_likely(len(collector.samples), COUNT), "samples")
    check(switch, collector, frames)


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("hook", ("xdp", "tcx"))
def test_not_twice(network, hook):
    """The engine does not draw again for a packet that a program hands to it behind the sample: one that changes its
    connection's mark, as each of these does."""
    switch, red, green = network.switch, network.red, network.green
    use_hook(switch, hook)
    senders = "02:00:00:00:00:01", "02:00:00:00:00:02"
    switch.flows("br0", *(f"in_port=to-red,udp,dl_src={sender},actions=ct(commit,exec(load:{mark}->NXM_NX_CT_MARK[])),to-green"
                          for mark, sender in enumerate(senders)), "priority=0,actions=drop")
    frames = [wire.udp_frame(senders[number % 2], lab.mac_of(green), bytes(100)) for number in (0, 1)]
    with Collector() as collector, wire.Wire(red) as here, wire.Wire(green) as there:
        lab.wait_until(lambda: exchange(here, there, frames, frames) and in_programs(switch, "ct"), "programs that track")
        sample(switch, collector)
        exchange(here, there, frames, frames)
        lab.wait_until(lambda: in_programs(switch, "sample"), "flows in programs")
        many = frames * (COUNT // 2)
        assert len(exchange(here, there, many, frames)) == COUNT
        handed = switch.stats("to-red")["handed to the engine: ct() changes the mark or label of a connection that is there"]
        assert handed > COUNT // 3
        lab.wait_until(lambda: collector.has_all_of(switch), "samples")
    check(switch, collector, many)


def test_segments(network):
    """A packet with GSO is one sample, of its whole length."""
    switch = network.switch
    use_hook(switch, "tcx")
    with Collector() as collector:
        sample(switch, collector)
        traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
        lab.wait_until(lambda: in_programs(switch, "sample"), "flows in programs")

        def large():
            traffic.tcp(network.red, network.green, "10.0.0.2", size=32 << 20)
            return [length for length, *_ in collector.samples if length > 1514]

        lab.wait_until(large, "a sample of a packet with GSO")
        assert not collector.wrong


@pytest.mark.usefixtures("ends")
def test_ipfix(world, network):
    """Two samples in a flow, as a packet comes and as it leaves: each is drawn by itself."""
    switch, red, green = network.switch, network.red, network.green
    switch.flows("br0", "in_port=to-red,udp,actions=mod_dl_src:02:00:00:00:00:99,to-green", "priority=0,actions=drop")
    collector = world.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    collector.bind(("127.0.0.1", 0))
    target = f"127.0.0.1:{collector.getsockname()[1]}"
    switch.vsctl("--", "--id=@ipfix", "create", "ipfix", f'targets="{target}"', f"sampling={EVERY}",
                 "cache_active_timeout=60", "cache_max_flows=100", "--", "set", "bridge", "br0", "ipfix=@ipfix")
    addresses = lab.mac_of(red), lab.mac_of(green)
    frames = [wire.udp_frame(*addresses, number.to_bytes(4, "big") * 10) for number in range(COUNT)]
    edited = [frame[:6] + bytes.fromhex("020000000099") + frame[12:] for frame in frames]
    with wire.Wire(red) as here, wire.Wire(green) as there:
        exchange(here, there, frames[:1], edited)
        lab.wait_until(lambda: in_programs(switch, "sample"), "the flow in a program")
        assert len([flow for flow in switch.dump_flows() if flow.count("sample(") == 2]) == 1
        assert exchange(here, there, frames[1:], edited) == edited[1:]

    def counted():
        said = switch.ofctl("dump-ipfix-bridge", "br0")
        return {name: int(number) for name, number in re.findall(r"(flows|current flows|sampled pkts|ipv4 ok)=(\d+)", said)}

    lab.wait_until(lambda: is_likely(counted()["sampled pkts"], 2 * COUNT), "samples")
    assert counted()["sampled pkts"] == counted()["ipv4 ok"]
    assert counted()["current flows"] == 2              # They differ by the source address.


@pytest.mark.parametrize("hook", ("xdp", "tcx"))
def test_tunnel(world, switch, host, hook):
    """What a program has popped is sampled as the packet inside, with the tunnel's port as its input."""
    red, far = tunnel_world.make(world, switch, host, "vxlan", hook)
    traffic.wait_for_ping(far, "10.0.0.1")
    with Collector() as collector:
        sample(switch, collector)
        lab.wait_until(lambda: traffic.ping(far, "10.0.0.1") and in_programs(switch, "sample"), "flows in programs")
        before = switch.stats("engine").get("samples that programs took", 0)
        assert traffic.ping(far, "10.0.0.1", count=20 * EVERY, options=("-i", "0.005")) == 20 * EVERY
        lab.wait_until(lambda: len(collector.samples) > 10, "samples")
        assert switch.stats("engine")["samples that programs took"] > before + 10
    assert not collector.wrong
    inside = [header for _, _, _, header in collector.samples if header[12:14] == b"\x08\x00" and header[23] == 1]
    assert len(inside) > 5
    assert all({header[26:30], header[30:34]} == {b"\x0a\0\0\x01", b"\x0a\0\0\x09"} for header in inside)


@pytest.mark.usefixtures("ends")
def test_nobody_reads(network):
    """While the daemon is stopped programs go on, and what they sample beyond the ring is lost, counted, and in nobody's way."""
    switch, red, green = network.switch, network.red, network.green
    switch.flows("br0", "in_port=to-red,udp,actions=to-green", "priority=0,actions=drop")
    frame = wire.udp_frame(lab.mac_of(red), lab.mac_of(green), b"one of many")
    with Collector() as collector, wire.Wire(red) as here, wire.Wire(green) as there:
        sample(switch, collector)
        exchange(here, there, [frame], [frame])
        lab.wait_until(lambda: in_programs(switch, "sample"), "the flow in a program")
        os.kill(switch.process.pid, signal.SIGSTOP)
        try:
            many = [frame] * 4 * COUNT
            assert exchange(here, there, many, [frame]) == many
        finally:
            os.kill(switch.process.pid, signal.SIGCONT)
        lab.wait_until(lambda: switch.stats("engine").get("samples that programs took", 0) >= RING, "samples")
        lost = switch.stats("engine")["samples lost"]
        assert is_likely(RING + lost, len(many))
