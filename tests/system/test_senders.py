# SPDX-License-Identifier: Apache-2.0
"""How the engine sends to ports at tcx: they share a packet socket, and have AF_XDP sockets only while that pays.

    red ---[ switch ]--- green          silent, except for what a test sends
"""
import pathlib
import re
import time

import pytest

import lab
import switch as switches
import wire

HOOK = "tcx"
RED = "02:00:00:00:00:01"
MTU = 1500
MAX_SENDERS = 64        # DPIF_XDP_MAX_SENDERS
# A burst makes a port busy; the upcall pair holds it, however late the engine wakes up: an eighth of three quarters of FRAMES.
BURST, FRAMES = 1200, 16384
# Truncation is done by the engine alone.
BY_ENGINE = "in_port=to-red,actions=output(port=to-green,max_len=3000)", "priority=0,actions=drop"


class Network:
    def __init__(self, world, switch):
        self.world, self.switch = world, switch
        switch.vsctl("set", "open", ".", f"other_config:xdp-umem-frames={FRAMES}")
        switch.add_bridge("br0")
        self.red, self.green = self.plug("red"), self.plug("green")
        switch.flows("br0", *BY_ENGINE)

    def plug(self, name):
        container = self.world.enter_context(lab.Namespace(name))
        container.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        lab.make_veth(f"to-{name}", container)
        self.switch.add_port(f"to-{name}")
        return container

    def add_ports(self, count):
        """Ports p0, p1 ... whose peers do not answer, q0, q1 ..."""
        lab.run("ip", "-batch", "-", text="".join(
            f"link add p{n} up type veth peer name q{n}\nlink set q{n} up\n" for n in range(count)))
        self.switch.vsctl(*(word for n in range(count) for word in ("--", "add-port", "br0", f"p{n}")))


@pytest.fixture
def environment():
    """All on one CPU: a veth has a queue on each, so that packets of a process that moves overtake each other, in every
    switch."""
    with lab.one_cpu():
        yield {}


@pytest.fixture
def network(world, switch):
    if switches.DATAPATH != "xdp":
        pytest.skip("looks at sockets of our datapath")
    lab.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
    return Network(world, switch)


def sockets():
    """AF_XDP sockets in this network namespace."""
    return int(re.search(r"^XDP +\d+ +(\d+)", pathlib.Path("/proc/thread-self/net/protocols").read_text(), re.MULTILINE)[1])


def engine(switch, port):
    """(packets that the engine sent to 'port', those that did not leave, through what)."""
    found = re.search(rf": {port} .*\n +engine: sent:(\d+) send-drops:(\d+) through:(\w+)", switch.appctl("xdp/show"))
    return int(found[1]), int(found[2]), found[3]


def wait_until_through(switch, port, wanted):
    lab.wait_until(lambda: engine(switch, port)[2] == wanted, f"{port} to be sent to through {wanted}")


def numbered(first, count, length=60):
    """Frames of no protocol, told apart by a number."""
    head = wire.mac("02:00:00:00:00:02") + wire.mac(RED) + b"\x88\x99"
    return [head + number.to_bytes(4, "big") + bytes((number + i) & 255 for i in range(length - 18))
            for number in range(first, first + count)]


def is_numbered(frame):
    return b"\x88\x99" in (frame[12:14], frame[16:18])


def carries(sender, receiver, frames):
    """Sends 'frames' and asserts that they come out as they are, in this order."""
    sender.send(*frames)
    assert receiver.receive(is_numbered, len(frames), limit=lab.PATIENCE) == frames


def make_busy(switch, sender, receiver, first=1):
    """Sends until the port has an AF_XDP socket; returns the next number."""
    end = time.monotonic() + lab.PATIENCE
    while engine(switch, "to-green")[2] != "AF_XDP":
        assert time.monotonic() < end, "no AF_XDP socket"
        carries(sender, receiver, numbered(first, BURST))
        first += BURST
    return first


def tagged(frames):
    """With a tag of 802.1ad."""
    return [frame[:12] + b"\x88\xa8\x00\x05" + frame[12:] for frame in frames]


def too_long(number):
    """A frame as long as the MTU and a tag of 802.1ad allow; a veth takes it, a packet socket not."""
    return tagged(numbered(number, 1, MTU + 14))


@pytest.mark.usefixtures("nothing_vanishes")
def test_ports_have_no_sockets(network):
    """A hundred ports cost no AF_XDP socket, though the engine sends to all of them."""
    before = sockets()
    assert before >= 1
    network.add_ports(100)
    network.switch.flows("br0", "in_port=to-red,actions=output(port=to-green,max_len=3000),"
                         + ",".join(f"output(port=p{n},max_len=3000)" for n in range(100)), "priority=0,actions=drop")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green, wire.Wire(lab.Namespace(), "q99") as last:
        for frame in numbered(1, 20):
            red.send(frame)
            assert green.receive(is_numbered) == last.receive(is_numbered) == [frame]
    assert sockets() == before
    assert engine(network.switch, "p50") == (20, 0, "AF_PACKET")


@pytest.mark.usefixtures("nothing_vanishes")
def test_all_sizes_in_order(network):
    """Through the packet socket: sizes up to the MTU, one after the other."""
    frames = [numbered(1000 + i, 1, length)[0] for i, length in enumerate([60, 61, 590, 1513, MTU + 14] * 50)]
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        carries(red, green, frames)
    assert engine(network.switch, "to-green") == (len(frames), 0, "AF_PACKET")


@pytest.mark.usefixtures("nothing_vanishes")
def test_busy_port(network):
    """Nothing is lost or overtaken when a port gets an AF_XDP socket and when it loses it; all is counted."""
    before = sockets()
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        n = make_busy(network.switch, red, green)
        assert sockets() > before
        carries(red, green, numbered(n, 200))
        wait_until_through(network.switch, "to-green", "AF_PACKET")
        lab.wait_until(lambda: sockets() == before, "the socket to be closed")
        carries(red, green, numbered(n + 200, 200))
    assert engine(network.switch, "to-green")[:2] == (n - 1 + 400, 0)


@pytest.mark.usefixtures("nothing_vanishes")
def test_longer_than_a_packet_socket_sends(network):
    """The first of them arrives, between others."""
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        carries(red, green, tagged(numbered(1, 5)))
        network.red.run("ip", "link", "set", "eth0", "mtu", "3000")
        carries(red, green, tagged(numbered(6, 5)) + too_long(11) + tagged(numbered(12, 5)) + too_long(17))
    assert engine(network.switch, "to-green") == (17, 0, "AF_XDP")


@pytest.mark.usefixtures("nothing_vanishes")
def test_device_that_is_down(network):
    """What it does not take is counted, with and without an AF_XDP socket."""
    switch = network.switch
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        carries(red, green, numbered(1, 5))
        lab.run("ip", "link", "set", "to-green", "down")
        red.send(*numbered(6, 50))
        lab.wait_until(lambda: engine(switch, "to-green") == (5, 50, "AF_PACKET"), "50 drops")
        lab.run("ip", "link", "set", "to-green", "up")
        lab.wait_until(lambda: switch.get("interface", "to-green", "link_state") == "up", "the link")
        carries(red, green, numbered(56, 5))
    assert engine(switch, "to-green")[:2] == (10, 50)


@pytest.mark.parametrize("busy", (False, True), ids=("packet socket", "AF_XDP"))
def test_device_made_again(network, busy):
    """And moved to another namespace and back, at once."""
    switch = network.switch
    switch.expected += ["to-green", "No such device"]
    mac, before = lab.mac_of(network.green), sockets()

    def use(first):
        with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
            lab.wait_until(lambda: red.send(*numbered(0, 1)) or green.receive(is_numbered, limit=0.2), "a frame")
            while green.receive(is_numbered, limit=0.2):
                pass                    # The device was not ready when they were sent.
            return make_busy(switch, red, green, first) if busy else carries(red, green, numbered(first, 20))

    use(1)
    lab.run("ip", "link", "del", "to-green")
    lab.make_veth("to-green", network.green)
    network.green.run("ip", "link", "set", "eth0", "address", mac)
    use(100000)
    away = network.world.enter_context(lab.Namespace("away"))
    lab.run("ip", "link", "set", "to-green", "netns", "away")
    away.run("ip", "link", "set", "to-green", "netns", lab.thread())
    lab.run("ip", "link", "set", "to-green", "up")
    use(200000)
    switch.vsctl("del-port", "to-green")
    lab.wait_until(lambda: sockets() == before, "sockets to be closed")


@pytest.mark.parametrize("how", ("exit", "kill"))
def test_restart(network, how):
    """A daemon that ends while a port has an AF_XDP socket leaves nothing in the next one's way."""
    switch = network.switch
    before = sockets()
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        make_busy(switch, red, green)
        if how == "kill":
            switch.crash()
        else:
            switch.stop()
        lab.wait_until(lambda: not sockets(), "the kernel to close the sockets")
        switch.start()
        lab.wait_until(lambda: "to-green" in switch.ofctl("show", "br0", check=False), "the bridge")
        switch.flows("br0", *BY_ENGINE)
        lab.wait_until(lambda: red.send(*numbered(0, 1)) or green.receive(is_numbered, limit=0.2), "a frame")
        while green.receive(is_numbered, limit=0.2):
            pass
        assert sockets() == before
        make_busy(switch, red, green, 100000)


@pytest.mark.usefixtures("nothing_vanishes")
def test_at_most_so_many(network):
    """When all AF_XDP sockets that may be are taken, only what is too long for a packet socket is lost, and counted."""
    switch, before, n_ports = network.switch, sockets(), MAX_SENDERS + 6
    network.add_ports(n_ports)
    switch.flows("br0", "in_port=to-red,actions=" + ",".join(f"output(port=p{n},max_len=3000)" for n in range(n_ports)),
                 "priority=0,actions=drop")
    network.red.run("ip", "link", "set", "eth0", "mtu", "3000")
    with wire.Wire(network.red) as red:
        red.send(*too_long(1))
        red.send(*numbered(2, 1))

        def counts():
            found = re.findall(r": p\d+ .*\n +engine: sent:(\d+) send-drops:(\d+) through:(\w+)", switch.appctl("xdp/show"))
            return sorted((item, found.count(item)) for item in set(found))
        lab.wait_until(lambda: counts() == [(("1", "1", "AF_PACKET"), 6), (("2", "0", "AF_XDP"), MAX_SENDERS)],
                       "64 AF_XDP sockets and no more")
    assert sockets() >= before + MAX_SENDERS
