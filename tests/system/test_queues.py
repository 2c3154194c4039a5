# SPDX-License-Identifier: Apache-2.0
"""Devices with other numbers of queues than one, and readers of taps that open more of them.

    red ---[ switch ]--- green
              |
            tap0
"""
import re

import pytest

import lab
import switch as switches
import tap
import wire

GUEST = "02:00:00:00:00:99"
FRAMES = 400
BY_ENGINE = "check_pkt_larger(1)->reg0[0],output:to-green"
pytestmark = pytest.mark.usefixtures("nothing_vanishes")


@pytest.fixture
def network(world, switch):
    if switches.DATAPATH != "xdp":
        pytest.skip("looks at sockets of our datapath")
    return Network(world, switch)


class Network:
    def __init__(self, world, switch):
        self.world, self.switch = world, switch
        switch.vsctl("set", "open", ".", "other_config:n-handler-threads=2")
        switch.add_bridge("br0")

    def plug(self, name, here, there):
        """A container on a wire at XDP, with so many queues (receive, transmit) at its ends."""
        container = self.world.enter_context(lab.Namespace(name))
        container.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        lab.run("ip", "link", "add", f"to-{name}", "numrxqueues", here[0], "numtxqueues", here[1], "type", "veth", "peer",
                "name", "eth0", "netns", name, "numrxqueues", there[0], "numtxqueues", there[1])
        container.run("ip", "link", "set", "eth0", "up")
        lab.run("ip", "link", "set", f"to-{name}", "up")
        self.switch.add_port(f"to-{name}", interface=("options:xdp-hook=xdp",))
        return container

    def arrive(self, container, send):
        """Sends FRAMES numbered frames, each with a UDP port of its own, and waits until all are there."""
        seen = set()
        with wire.Wire(container) as end:
            for number in range(FRAMES):
                send(wire.udp_frame(GUEST, lab.mac_of(container) if not number else self.mac, number.to_bytes(8, "big"),
                                    ports=(1000 + number, 2000)), number)
                if number % 50 == 49:
                    seen |= {frame[42:50] for frame in end.receive(lambda frame: frame[6:12] == wire.mac(GUEST), 50)}
        missing = {number.to_bytes(8, "big") for number in range(FRAMES)} - seen
        assert not missing, f"{sorted(missing)}\n{self.switch.appctl('xdp/stats', '--nonzero')}"


def test_fewer_queues_to_send_on_than_to_receive_on(network):
    """The engine sends to no queue that the kernel does not send from."""
    red, green = network.plug("red", (4, 4), (4, 4)), network.plug("green", (4, 1), (1, 4))
    network.mac = lab.mac_of(green)
    network.switch.flows("br0", f"in_port=to-red,udp,actions={BY_ENGINE}", "priority=0,actions=drop")
    with wire.Wire(red) as start:
        network.arrive(green, lambda frame, number: start.send(frame))


def test_queues_that_a_tap_gets_later(network):
    """A guest's driver turns its queues on when it is loaded: packets of these reach the engine, too."""
    green = network.plug("green", (1, 1), (1, 1))
    network.mac = lab.mac_of(green)
    first = network.world.enter_context(tap.Tap("tap0", queues=True))
    network.switch.add_port("tap0")
    lab.wait_until(lambda: network.switch.in_use("tap0")[0] == "both", "XDP")
    network.switch.flows("br0", f"in_port=tap0,udp,actions={BY_ENGINE}", "priority=0,actions=drop")
    network.arrive(green, lambda frame, number: first.send(frame))
    second = network.world.enter_context(first.another())
    lab.wait_until(lambda: network.switch.appctl("xdp/show").count("queue 1") or None, "the second queue's socket")
    network.arrive(green, lambda frame, number: (first, second)[number % 2].send(frame))
    assert not network.switch.stats("tap0")["dropped: no AF_XDP socket serves the receive queue"]


def test_first_packets_of_a_flow_on_several_queues(network):
    """Threads of the engine ask ofproto about them at the same time: it has more flows then than the datapath, which all go when
    they are idle, without a complaint."""
    red, green, switch = network.plug("red", (4, 4), (4, 4)), network.plug("green", (4, 4), (4, 4)), network.switch
    # Two thousand tables for each packet take ofproto a millisecond.
    switch.flows("br0", "table=0,actions=resubmit(,1),normal", "table=11,actions=drop",
                 *(f"table={n},actions=resubmit(,{n + 1}),resubmit(,{n + 1})" for n in range(1, 11)))
    with wire.Wire(red) as start, wire.Wire(green) as end:
        for number in range(1, FRAMES // 4):
            start.send(*(wire.udp_frame(GUEST, f"02:00:00:00:00:{number:02x}", ports=(port, 2000)) for port in range(1000, 1016)))
            assert len(end.receive(lambda frame: frame[6:12] == wire.mac(GUEST), 16)) == 16
    switch.vsctl("set", "open", ".", "other_config:max-idle=500")
    lab.wait_until(lambda: not re.search(r"\(keys [1-9]", switch.appctl("upcall/show")), "all flows to go")
