# SPDX-License-Identifier: Apache-2.0
"""Bursts, and packet buffers that run out: what is lost is known, and nothing stays behind."""
import contextlib
import pathlib
import re

import pytest

import lab
import switch as switches
import traffic
import wire

HOOK = "xdp"

SOURCE = "02:00:00:00:00:01"
TO_ALL = "ff:ff:ff:ff:ff:ff"


@pytest.fixture(autouse=True)
def needs_engine():
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has a UMEM")


@contextlib.contextmanager
def engine(frames, env=None):
    """A switch whose engine does all the work, with 'frames' packet buffers."""
    with switches.Switch(env=env) as switch:
        switch.vsctl("set", "open", ".", "other_config:xdp-offload=false", f"other_config:xdp-umem-frames={frames}")
        switch.add_bridge("br0")
        yield switch


def plug(world, switch, number):
    container = world.enter_context(lab.Namespace(f"c{number}"))
    lab.make_veth(f"to-c{number}", container)
    lab.add_addresses(container, "eth0", f"10.0.0.{number}/24")
    switch.add_port(f"to-c{number}")
    return container


def count(switch, *names):
    """The sum of these counters of all queues: not of br0, which is down and has none."""
    queues = "\n".join(re.findall(r"^ +queue .*", switch.appctl("xdp/show"), re.MULTILINE))
    return sum(int(n) for n in re.findall(rf"(?:{'|'.join(names)}):(\d+)", queues))


def free_frames(switch):
    return int(re.search(r"(\d+) free", switch.appctl("xdp/show"))[1])


def test_no_loss_in_a_burst(world):
    """2,000 frames into a quiet port: all arrive, however late the engine wakes up."""
    total = 2000
    frames = [wire.udp_frame(SOURCE, TO_ALL, number.to_bytes(4, "big") + b"burst") for number in range(total)]
    with engine(65536) as switch:
        source, sink = plug(world, switch, 1), plug(world, switch, 2)
        switch.flows("br0", "in_port=to-c1,actions=to-c2")
        with wire.Wire(source) as out, wire.Wire(sink) as into:
            out.send(*frames)
            arrived = into.receive(lambda frame: frame[46:51] == b"burst", total)
        assert count(switch, "ring-full", "no-frames", "send-drops") == 0
        assert [frame[42:46] for frame in arrived] == [frame[42:46] for frame in frames]


def test_order_in_mixed_bursts(world):
    """Kinds of packets that an in_port rule tells apart only to make megaflows: every flow counts its own packets and
    keeps their order."""
    rounds = 60

    def frame(number, tags=(), kind=None, fragment=0):
        made = bytearray(wire.udp_frame(SOURCE, TO_ALL, b"mixed" + number.to_bytes(4, "big"), tags=tags))
        if kind:
            made[12:14] = kind
        if fragment:
            made[20:22] = fragment.to_bytes(2, "big")
            made[24:26] = (~wire.ones_sum(made[14:24] + bytes(2) + made[26:34]) & 0xffff).to_bytes(2, "big")
        return bytes(made)

    kinds = [lambda n: frame(n), lambda n: frame(n, tags=[7]), lambda n: frame(n, tags=[8]),
             lambda n: frame(n, kind=b"\x88\xb5"), lambda n: frame(n, fragment=0x2000)]
    with engine(32768) as switch:
        source, sink = plug(world, switch, 1), plug(world, switch, 2)
        switch.flows("br0", "in_port=to-c1,actions=to-c2")
        with wire.Wire(source) as out, wire.Wire(sink) as into:
            frames = [kinds[number * number % len(kinds)](number) for number in range(rounds * len(kinds))]
            out.send(*frames)
            arrived = into.receive(lambda frame: b"mixed" in frame, len(frames))
        assert sorted(arrived) == sorted(frames)

        def kind_of(frame):
            return frame[12:14] + (frame[14:16] if frame[12:14] == b"\x81\x00" else frame[20:22])
        for kind in {kind_of(frame) for frame in frames}:
            assert [f for f in arrived if kind_of(f) == kind] == [f for f in frames if kind_of(f) == kind]

        def counted():
            packets = int(re.search(r"n_packets=(\d+)", switch.ofctl("dump-flows", "br0"))[1])
            return len(frames) <= packets <= int(switch.get("interface", "to-c1", "statistics")["rx_packets"])
        lab.wait_until(counted, "flows that count every packet", 20)


def test_no_port_stays_deaf(world):
    """Devices that do not send hold every buffer, so that the port from which the frames came has none to receive
    into.  When they send again, that port must receive again, although nothing else happens."""
    stuck = pathlib.Path("/run/stuck")
    preload = {"LD_PRELOAD": str(switches.BUILD / "tests/system/stuck.so"), "STUCK": str(stuck)}
    with engine(256, preload) as switch:
        containers = [plug(world, switch, number) for number in range(1, 5)]
        traffic.wait_for_ping(containers[0], "10.0.0.4")
        switch.flows("br0", "in_port=to-c1,actions=to-c2,to-c3,to-c4", "actions=normal")
        stuck.touch()
        with wire.Wire(containers[0]) as out:
            def send():
                out.send(wire.udp_frame(SOURCE, TO_ALL))
                return free_frames(switch) == 0 and count(switch, "no-frames")
            lab.wait_until(send, "no buffer is free", 60)
        switch.flows("br0", "actions=normal")
        stuck.unlink()
        traffic.wait_for_ping(containers[0], "10.0.0.4")
        lab.wait_until(lambda: free_frames(switch) >= 64, "buffers come back")
