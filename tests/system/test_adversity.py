# SPDX-License-Identifier: Apache-2.0
"""Full tables, masks without end, deletion without pause: nothing wrong on the wire, and every packet counted.

Larger by hand: OXDP_LONG=SECONDS for what lasts, OXDP_FLOWS=1000000 for test_many_flows.
"""
import contextlib
import json
import os
import random
import re
import struct
import threading
import time

import pytest

import lab
import switch as switches
import wire
import xdp

HOOK = "xdp"

RED, SINK = "02:00:00:00:00:01", "02:00:00:00:00:02"
SECONDS = float(os.environ.get("OXDP_LONG", 4))
N_FLOWS = int(os.environ.get("OXDP_FLOWS", 20000))


@pytest.fixture(autouse=True)
def needs_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("these are our datapath's limits")


class Ends:
    """A switch with two ports without other traffic, and the peers of their devices."""

    def __init__(self, world, switch, **config):
        quiet = "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
        lab.run(*quiet)
        for name, value in config.items():
            switch.vsctl("set", "open", ".", f"other_config:{name.replace('_', '-')}={value}")
        self.switch = switch
        switch.add_bridge("br0")
        switch.flows("br0", "actions=drop")
        self.wires = {}
        for name in "red", "green":
            container = world.enter_context(lab.Namespace(name))
            container.run(*quiet)
            lab.make_veth(f"to-{name}", container)
            switch.add_port(f"to-{name}")
            self.wires[name] = world.enter_context(wire.Wire(container))
        self.green = container
        self.in_port, self.out_port = (switch.dp_port(f"to-{name}") for name in ("red", "green"))

    @contextlib.contextmanager
    def installed(self, keys):
        """Datapath flows from red to green that no rule asks for, so revalidators must not look."""
        self.switch.appctl("revalidator/pause")
        path = self.switch.rundir / "flows"
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"in_port({self.in_port}),eth(),eth_type(0x0800),{key} {self.out_port}\n"
                            for key in keys)
        try:
            self.switch.appctl("dpctl/add-flows", str(path), limit=600)
            yield
        finally:
            self.switch.appctl("dpctl/del-flows", limit=600)
            self.switch.appctl("revalidator/resume")

    def exchange(self, frames):
        """Sends frames one by one and says which did not arrive whole, once."""
        wrong = []
        for frame in frames:
            self.wires["red"].send(frame)
            if self.wires["green"].receive(limit=5) != [frame]:
                wrong.append(frame.hex())
        return wrong + [frame.hex() for frame in self.wires["green"].receive(limit=0)]


def frame_from(address):
    """A frame from an IPv4 source address, given as a number."""
    return wire.udp_frame(RED, SINK, b"adversity", addresses=(dotted(address), "10.0.0.2"))


def layers(switch):
    """How many datapath flows each tier runs."""
    found = re.findall(r"dp:(\w+)", "\n".join(switch.dump_flows("-m")))
    return {name: found.count(name) for name in ("xdp", "ovs")}


def test_full_table(world, switch, host):
    """Eight flows fit: the engine runs the others, and those that fit stay."""
    ends = Ends(world, switch, xdp_flows=8)
    with ends.installed(f"ipv4(src=10.1.0.{n},frag=no)" for n in range(40)):
        assert layers(switch) == {"xdp": 8, "ovs": 32}
        assert not ends.exchange([frame_from(0x0a010000 + n) for n in range(40)])
        assert "found the tables full" in switch.appctl("xdp/show")


def test_room_again(world, switch, host):
    """Flows that found the tables full move into XDP when others go, and keep their counts."""
    ends = Ends(world, switch, xdp_flows=8)
    with ends.installed(f"ipv4(src=10.1.0.{n},frag=no)" for n in range(20)):
        frames = [frame_from(0x0a010000 + n) for n in range(20)]
        assert not ends.exchange(frames)
        for left in 12, 4:
            in_xdp = re.findall(r"ipv4\(src=([\d.]+).*dp:xdp", "\n".join(switch.dump_flows("-m")))
            assert len(in_xdp) == 8
            for address in in_xdp:
                switch.appctl("dpctl/del-flow", f"in_port({ends.in_port}),eth(),eth_type(0x0800),"
                              f"ipv4(src={address},frag=no)")
            lab.wait_until(lambda left=left: layers(switch) == {"xdp": min(8, left), "ovs": max(0, left - 8)},
                           "the next flows in XDP")
            assert ("found the tables full" in switch.appctl("xdp/show")) == (left > 8)
            frames = [frame for frame in frames if not any(wire.socket.inet_aton(a) == frame[26:30] for a in in_xdp)]
            assert not ends.exchange(frames)
        assert [int(re.search(r"packets:(\d+)", flow)[1]) for flow in switch.dump_flows("-m")] == [3] * 4


def test_mask_storm(world, switch, host):
    """An attacker makes the switch learn a mask for every packet: 128 run in XDP, the engine walks the rest, and a
    victim whose flow came first or last is served."""
    ends = Ends(world, switch)
    attack = [f"ipv4(src=10.{n >> 8}.{n & 255}.77/{prefix(9 + n // 16)},tos={n % 16}/{n % 16},frag=no)"
              for n in range(16 * 23)]
    victims = ["ipv4(src=172.16.0.1,frag=no)", "ipv4(src=192.168.0.1,dst=10.0.0.2,frag=no)"]
    with ends.installed([victims[0], *attack, victims[1]]):
        shown = switch.appctl("xdp/show")
        assert "128 of 128 masks" in shown and "engine: more than 128 masks" in shown, shown
        assert "found the tables full" not in shown, shown
        assert not ends.exchange([frame_from(0xac100001), frame_from(0xc0a80001)] * 50)
    assert layers(switch) == {"xdp": 0, "ovs": 0}
    with ends.installed(f"ipv4(src=10.1.0.{n},frag=no)" for n in range(10)):
        assert layers(switch) == {"xdp": 10, "ovs": 0}          # Masks came back.


def test_collisions(world, switch, host):
    """Flows whose keys have one and the same hash, which takes knowing the datapath's random numbers: two buckets of
    them run in XDP, the engine has the others, and a bystander under the same mask is found."""
    ends = Ends(world, switch)
    flows = list(colliding(ends.in_port, hash_numbers(switch), 40))
    bystander = "172.16.0.1", "172.16.0.2", 7, 8
    with ends.installed(f"ipv4(src={src},dst={dst},proto=17,frag=no),udp(src={sport},dst={dport})"
                        for src, dst, sport, dport in [*flows, bystander]):
        assert layers(switch) == {"xdp": 2 * 7 + 1, "ovs": len(flows) - 2 * 7}
        frames = [wire.udp_frame(RED, SINK, b"alike", addresses=flow[:2], ports=flow[2:]) for flow in [*flows, bystander]]
        assert not ends.exchange(frames * 3)
        assert all("packets:3," in flow for flow in switch.dump_flows("-m"))


def hash_numbers(switch):
    """The numbers by which dp/hash.h multiplies the words of a key: hash_key of struct dp_head."""
    for kind, number in xdp.objects(switch.process.pid):
        if kind == "map" and json.loads(lab.run("bpftool", "-j", "map", "show", "id", str(number))).get("name") == "dp_head":
            (entry,) = json.loads(lab.run("bpftool", "-j", "map", "dump", "id", str(number)))
            value = bytes(int(byte, 16) for byte in entry["value"])
            offset, size = xdp.member(switches.BUILD / "bpf/xdp.bpf.o", "dp_head", "hash_key")
            return struct.unpack_from(f"<{size // 8}Q", value, offset)
    raise AssertionError("no map has a struct dp_head")


def colliding(in_port, numbers, count):
    """UDP flows (source, destination, ports) with equal hashes: any ports, and the addresses that make up for them."""
    def spread(word):
        return word ^ word >> 32

    wanted = None
    for n in range(count):
        ports = 1000 + n, 53
        of_ports = spread(int.from_bytes(struct.pack(">HH", *ports), "little")) * numbers[3]
        if wanted is None:
            wanted = spread(int.from_bytes(bytes([10, 1, 0, 1, 10, 2, 0, 1]), "little")) * numbers[2] + of_ports
        addresses = (wanted - of_ports) * pow(numbers[2], -1, 1 << 64) % (1 << 64)
        raw = (addresses ^ addresses >> 32).to_bytes(8, "little")
        yield ".".join(map(str, raw[:4])), ".".join(map(str, raw[4:])), *ports


def prefix(length):
    return dotted(0xffffffff << (32 - length) & 0xffffffff)


def dotted(address):
    return ".".join(map(str, address.to_bytes(4, "big")))


def test_many_flows(world, switch, host):
    """As many flows as asked for, all in XDP, found there, and counted there."""
    ends = Ends(world, switch, xdp_flows=N_FLOWS)
    since = time.monotonic()
    with ends.installed(f"ipv4(src=10.{n >> 16}.{n >> 8 & 255}.{n & 255},frag=no)" for n in range(N_FLOWS)):
        print(f"{N_FLOWS} flows installed by dpctl in {time.monotonic() - since:.1f} s")
        shown = switch.appctl("xdp/show")
        assert f"{N_FLOWS} of {N_FLOWS} flows" in shown, shown
        chosen = random.Random(1).sample(range(N_FLOWS), 1000)
        assert not ends.exchange([frame_from(0x0a000000 + n) for n in chosen])
        hits = int(re.search(r"hit:(\d+) missed:(\d+)", switch.appctl("dpctl/show"))[1])
        assert hits >= len(chosen) and layers(switch) == {"xdp": N_FLOWS, "ovs": 0}


def test_deletion_under_load(world, switch, host):
    """All flows are deleted again and again while packets flow: each arrives once, and the rule counts each."""
    # A flow may be deleted between Open vSwitch's answer for it and its installation.
    switch.expected += ["failed to flow_del"]
    ends = Ends(world, switch)
    switch.flows("br0", "priority=9,cookie=7,in_port=to-red,udp,actions=output:to-green")
    frame, sent, done = frame_from(0x0a000001), [0], threading.Event()

    def send():
        while not done.wait(0.001):     # Slower than the engine, also while a program loads on one of two CPUs.
            ends.wires["red"].send(frame, frame, frame)
            sent[0] += 3

    sender = threading.Thread(target=send)
    sender.start()
    try:
        end, rounds = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            switch.appctl("revalidator/purge")
            rounds += 1
    finally:
        done.set()
        sender.join()

    def arrived():
        return int(ends.green.run("cat", "/sys/class/net/eth0/statistics/rx_packets"))

    lab.wait_until(lambda: arrived() >= sent[0], f"{sent[0]} packets", limit=20)

    def counted():
        return int(re.search(r"cookie=0x7,.*n_packets=(\d+)", switch.ofctl("dump-flows", "br0"))[1])

    switch.appctl("revalidator/purge")
    lab.wait_until(lambda: counted() == sent[0], f"{sent[0]} packets in the rule's counter, {rounds} deletions")
    assert arrived() == sent[0]
    print(f"{sent[0]} packets, deleted {rounds} times")
