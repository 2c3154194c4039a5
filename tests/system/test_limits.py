# SPDX-License-Identifier: Apache-2.0
"""Ports with different MTUs: what is too long for its output is dropped, as openvswitch.ko drops it, and counted by name, on
every tier; no frame vanishes in the kernel.

    red (9000) ---[ switch ]--- green (1500)
                      |   |
            blue (9000)   tap0 (9000)

9000 is LARGE: less where XDP takes less.
"""
import os
import select

import pytest

import jumbo
import lab
import offload
import sockets
import switch as switches
import tap
import wire

RED, SINK = "02:00:00:00:00:01", "02:00:00:00:00:02"
QUIET = "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
TIERS = {"xdp": {"xdp-hook": "xdp"}, "tcx": {"xdp-hook": "tcx"}, "both": {"xdp-hook": "both"},
         "engine": {"xdp-hook": "xdp", "xdp-offload": "false"}}

LARGE = 9000 if jumbo.MULTI_BUFFER else 3400
MIDDLE = min(4000, LARGE)
pytestmark = pytest.mark.usefixtures("nothing_vanishes")


@pytest.fixture(params=TIERS)
def network(request, world, switch):
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has these counters")
    return Network(world, switch, request.param)


class Network:
    def __init__(self, world, switch, tier):
        self.world, self.switch, self.tier = world, switch, tier
        for name, value in TIERS[tier].items():
            switch.vsctl("set", "open", ".", f"other_config:{name}={value}")
        lab.run(*QUIET)
        switch.add_bridge("br0")
        self.ends = {}
        for name, mtu in ("red", LARGE), ("green", 1500), ("blue", LARGE):
            container = world.enter_context(lab.Namespace(name))
            container.run(*QUIET)
            lab.make_veth(f"to-{name}", container, mtu=mtu)
            switch.add_port(f"to-{name}")
            self.ends[name] = world.enter_context(offload.Wire(container))

    def set_mtu(self, name, mtu, both=True):
        self.ends[name].namespace.run("ip", "link", "set", "eth0", "mtu", mtu)
        if both:
            lab.run("ip", "link", "set", f"to-{name}", "mtu", mtu)

    def carries(self, receiver, frames, wanted):
        """Sends 'frames' from red; 'wanted', and no other, come to 'receiver', the rest is counted."""
        before = self.switch.over_mtu()
        mark = frame(60)
        self.ends["red"].send(*frames, mark)
        assert sorted(self.ends[receiver].receive(is_ours, len(wanted) + 1)) == sorted([*wanted, mark])
        lab.wait_until(lambda: self.switch.over_mtu() == before + len(frames) - len(wanted), "the others to be counted")


def frame(length, *tags):
    """A frame of 'length' bytes of no protocol, with the VLAN tags 'tags'."""
    head = wire.mac(SINK) + wire.mac(RED) + b"".join(b"\x81\x00" + tag.to_bytes(2, "big") for tag in tags) + b"\x88\x99"
    return head + bytes(number & 255 for number in range(length - len(head)))


def is_ours(received):
    return received[6:12] == wire.mac(RED)


def test_lengths(network):
    """Ethernet's header and one tag do not count."""
    network.switch.flows("br0", "in_port=to-red,actions=to-green", "actions=drop")
    fits = [frame(1514), frame(1518, 7), frame(1518, 7, 8)]
    network.carries("green", [frame(1515), *fits, frame(1519, 7), frame(1519, 7, 8), frame(MIDDLE), frame(LARGE + 14),
                              frame(LARGE + 18, 7)], fits)


def test_lengths_after_edits(network):
    """What counts is the frame that is sent."""
    def push(given):
        return given[:12] + b"\x81\x00\x00\x03" + given[12:]

    network.switch.flows("br0", "in_port=to-red,vlan_vid=0,actions=push_vlan:0x8100,set_field:4099->vlan_vid,to-green",
                         "in_port=to-red,dl_vlan=7,actions=pop_vlan,to-green",
                         "in_port=to-red,dl_vlan=9,actions=push_vlan:0x8100,set_field:4099->vlan_vid,to-green",
                         "in_port=to-red,dl_vlan=10,actions=output(port=to-green,max_len=1000)", "actions=drop")
    before = network.switch.over_mtu()
    for given, wanted in ((frame(1514), push(frame(1514))), (frame(1515), None), (frame(1518, 7), frame(1514)),
                          (frame(1519, 7), None), (frame(1514, 9), push(frame(1514, 9))), (frame(1515, 9), None),
                          (frame(LARGE, 10), frame(LARGE, 10)[:1000]), (frame(LARGE + 14), None),
                          (frame(LARGE + 18, 9), None)):
        mark = frame(60)
        network.ends["red"].send(given, mark)
        assert sorted(network.ends["green"].receive(is_ours, 1 + bool(wanted))) == sorted(([wanted] if wanted else [])
                                                                                          + [push(mark)])
    lab.wait_until(lambda: network.switch.over_mtu() == before + 5, "five to be counted")


def test_several_outputs(network):
    """Each port gets what it takes."""
    network.switch.flows("br0", "in_port=to-red,actions=to-green,to-blue", "actions=drop")
    fits = [frame(1514), frame(1518, 7)]
    long = [frame(1515), frame(1519, 7), frame(MIDDLE), frame(LARGE + 14)]
    for given in fits + long:
        before = network.switch.over_mtu()
        network.ends["red"].send(given)
        assert network.ends["blue"].receive(is_ours) == [given]
        if given in fits:
            assert network.ends["green"].receive(is_ours) == [given]
        else:
            lab.wait_until(lambda: network.switch.over_mtu() == before + 1, "what green does not take to be counted")
    assert not network.ends["green"].receive(is_ours, limit=0)


def test_segmentable_packets(network):
    """What a device may cut into segments that fit is not too long, whichever hook and device does so."""
    network.switch.flows("br0", "in_port=to-red,actions=to-green", "actions=drop")
    addresses = {"src": RED, "dst": SINK}
    before = network.switch.over_mtu()
    for kind in ("tcp4", "tcp6", "udpsegments4", "udpsegments6") * 2:
        sent = sockets.build(kind, sockets.BIG, eth=addresses)
        try:
            network.ends["red"].send_whole(offload.unfinished(sent, sockets.GSO_SIZE))
        except OSError as error:                        # Packet sockets of older kernels take no segments of UDP.
            assert "segments" in kind and lab.kernel() < (6, 2), error
            continue
        fault = sockets.fault_of(network.ends["green"], sockets.segments(kind, sockets.BIG, eth=addresses), True, False)
        assert not fault, f"{kind}: {fault}"
    assert network.switch.over_mtu() == before


@pytest.mark.parametrize("both", (True, False), ids=("both ends", "its peer"))
def test_mtu_changes(network, both):
    """Of the device, and of a veth's peer alone."""
    network.switch.flows("br0", "in_port=to-red,actions=to-green", "actions=drop")
    network.set_mtu("green", LARGE)
    given = frame(LARGE + 14)

    def takes():
        network.ends["red"].send(given)
        return network.ends["green"].receive(is_ours, limit=0.2) == [given]

    for mtu in 1500, LARGE, 1400, LARGE:
        network.set_mtu("green", mtu, both)
        lab.wait_until(lambda: takes() == (mtu == LARGE), f"the MTU {mtu}")
        if mtu != LARGE:
            before = network.switch.over_mtu()
            lab.wait_until(lambda: not takes() and network.switch.over_mtu() > before, "frames to be counted")
            before = network.switch.over_mtu()
            assert not takes()
            lab.wait_until(lambda: network.switch.over_mtu() == before + 1, "the frame to be counted")
        network.carries("green", [frame(mtu + 14)], [frame(mtu + 14)])


def test_tap(network):
    """A tap takes no redirected frames of several buffers: others send them."""
    guest = network.world.enter_context(tap.Tap("tap0", header=False))
    lab.run("ip", "link", "set", "tap0", "mtu", LARGE)
    network.switch.add_port("tap0")
    network.switch.flows("br0", "in_port=to-red,actions=tap0", "actions=drop")
    for given in [frame(60), frame(1514), frame(3300), frame(MIDDLE), frame(LARGE + 14), frame(LARGE + 18, 7),
                  frame(60)] * 3:
        network.ends["red"].send(given)
        assert receive(guest) == given
    before = network.switch.over_mtu()
    lab.run("ip", "link", "set", "tap0", "mtu", "1500")
    lab.wait_until(lambda: network.ends["red"].send(frame(MIDDLE)) or network.switch.over_mtu() > before, "the new MTU")


def receive(guest):
    """The next of our frames."""
    while select.select([guest.fileno()], [], [], lab.PATIENCE)[0]:
        received = os.read(guest.fileno(), 1 << 16)
        if is_ours(received):
            return received
    return None
