# SPDX-License-Identifier: Apache-2.0
"""Loops between bridges: a broadcast storm does not bring down the daemon or ports that have no part in it, and ends when
the loop is cut.  Spanning trees keep it from coming up.

    red - br0 - one-a === one-b - br1 - green           victims: blue - br2 - other
              - two-a === two-b -
"""
import itertools

import pytest

import lab
import traffic
import wire

RED = "02:00:00:00:00:01"
BROADCAST = wire.udp_frame(RED, "ff:ff:ff:ff:ff:ff", b"round and round")
STORM = 10000       # Frames that nobody sent.
SPANNING_TREE = 4 * lab.PATIENCE        # It takes its time: seconds on a quiet machine.


class Loops:
    def __init__(self, world, switch, host, hook):
        self.switch = switch
        switch.vsctl("set", "open", ".", f"other_config:xdp-hook={hook}")
        self.containers = {}
        for name, bridge, number in (("red", "br0", 1), ("green", "br1", 2), ("blue", "br2", 3), ("other", "br2", 4)):
            self.containers[name] = container = world.enter_context(lab.Namespace(name))
            if bridge != "br2":
                # Its own packets would be in the storm, too.
                container.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            lab.make_veth(f"to-{name}", container)
            lab.add_addresses(container, "eth0", f"10.0.0.{number}/24")
        for bridge in "br0", "br1", "br2":
            switch.add_bridge(bridge)
        for name, bridge in (("red", "br0"), ("green", "br1"), ("blue", "br2"), ("other", "br2")):
            switch.add_port(f"to-{name}", bridge=bridge)

    def wire(self, name, bridges=("br0", "br1")):
        """Connects two bridges."""
        lab.run("ip", "link", "add", f"{name}-a", "type", "veth", "peer", "name", f"{name}-b")
        for end in "ab":
            lab.run("sysctl", "-qw", f"net.ipv6.conf.{name}-{end}.disable_ipv6=1", check=False)
            lab.run("ip", "link", "set", f"{name}-{end}", "up")
        for end, bridge in zip("ab", bridges):
            self.switch.add_port(f"{name}-{end}", bridge=bridge)

    def patch(self, name, bridges=("br0", "br1")):
        for here, there, bridge in (("a", "b", bridges[0]), ("b", "a", bridges[1])):
            self.switch.vsctl("add-port", bridge, f"{name}-{here}", "--", "set", "interface", f"{name}-{here}",
                              "type=patch", f"options:peer={name}-{there}")

    def received(self, device):
        with open(f"/sys/class/net/{device}/statistics/rx_packets", encoding="ascii") as file:
            return int(file.read())

    def begin_storm(self, device):
        """Far more frames arrive at 'device' than were sent.  One is enough, unless it is lost."""
        before, polls = self.received(device), itertools.count()
        with wire.Wire(self.containers["red"]) as red:
            def rages():
                if next(polls) % 300 == 0:
                    red.send(BROADCAST)
                return self.received(device) > before + STORM
            lab.wait_until(rages, "a storm")

    def others_are_served(self):
        traffic.wait_for_ping(self.containers["blue"], "10.0.0.4")
        traffic.tcp(self.containers["blue"], self.containers["other"], "10.0.0.4", size=1 << 18)
        assert "xdp@ovs-xdp" in self.switch.appctl("dpctl/show")

    def wait_for_calm(self, *devices):
        """Until nothing arrives for a while."""
        def calm():
            before = [self.received(device) for device in devices]
            with wire.Wire(self.containers["blue"]) as blue:
                blue.receive(lambda frame: False, limit=0.5)
            return all(self.received(device) - count < 50 for device, count in zip(devices, before))
        lab.wait_until(calm, "calm")

    def once(self):
        """Whether a broadcast from red arrives at green, exactly once."""
        with wire.Wire(self.containers["red"]) as red, wire.Wire(self.containers["green"]) as green:
            red.send(BROADCAST)
            return len(green.receive(lambda frame: frame == BROADCAST, 2, limit=0.5)) == 1


@pytest.fixture(params=("tcx", "xdp", "both"))
def loops(request, world, switch, host):
    made = Loops(world, switch, host, request.param)
    # What was under way when a device or a port went.
    switch.expected += ["one-", "two-", "self-", "No such device"]
    return made


def test_two_wires(loops):
    loops.wire("one")
    lab.wait_until(loops.once, "a broadcast")
    loops.wire("two")
    loops.begin_storm("two-a")
    loops.others_are_served()
    loops.switch.vsctl("del-port", "two-b")
    loops.wait_for_calm("one-a", "two-a")
    lab.wait_until(loops.once, "a broadcast, once")


def test_the_wire_is_pulled(loops):
    for name in "one", "two":
        loops.wire(name)
    loops.begin_storm("one-b")
    loops.others_are_served()
    lab.run("ip", "link", "del", "two-a")
    loops.wait_for_calm("one-a", "one-b")
    lab.wait_until(loops.once, "a broadcast, once")


def test_port_looped_to_itself(loops):
    """Both ends of a wire are ports of one bridge."""
    loops.wire("one")
    loops.wire("self", ("br0", "br0"))
    loops.begin_storm("self-a")
    loops.others_are_served()
    loops.switch.vsctl("del-port", "self-a")
    loops.wait_for_calm("self-b", "one-a")
    lab.wait_until(loops.once, "a broadcast, once")


def test_patch_ports(loops):
    """Open vSwitch notices while it translates, and says so."""
    loops.switch.expected += ["over max translation depth", "resubmit", "too many"]
    for name in "one", "two":
        loops.patch(name)
    with wire.Wire(loops.containers["red"]) as red:
        for _ in range(50):
            red.send(BROADCAST)
    lab.wait_until(lambda: any("over max translation depth" in line or "resubmit" in line
                               for line in loops.switch.log()), "a complaint")
    loops.others_are_served()
    loops.switch.vsctl("del-port", "two-a")
    lab.wait_until(loops.once, "a broadcast, once")


# As fast as the standards allow.
FAST = {"rstp": ("rstp-forward-delay=4",), "stp": ("stp-hello-time=1", "stp-max-age=6", "stp-forward-delay=4")}


@pytest.mark.parametrize("loops, protocol", (("tcx", "rstp"), ("xdp", "rstp"), ("both", "rstp"), ("tcx", "stp")),
                         indirect=["loops"])
def test_spanning_tree(loops, protocol):
    """One of four ports is blocked; when the other wire is cut, it takes over."""
    switch = loops.switch
    for bridge in "br0", "br1":
        switch.vsctl("set", "bridge", bridge, f"{protocol}_enable=true",
                     *(f"other_config:{setting}" for setting in FAST[protocol]))
    for name in "one", "two":
        loops.wire(name)

    def states():
        key = {"rstp": ("rstp_status", "rstp_port_state"), "stp": ("status", "stp_state")}[protocol]
        return sorted((switch.get("port", port, key[0]) or {}).get(key[1], "").lower()
                      for port in ("one-a", "one-b", "two-a", "two-b"))

    lab.wait_until(lambda: states() in (["blocking"] + ["forwarding"] * 3, ["discarding"] + ["forwarding"] * 3),
                   "one blocked port", limit=SPANNING_TREE)
    lab.wait_until(loops.once, "a broadcast, once", limit=SPANNING_TREE)
    before = loops.received("one-a") + loops.received("two-a")
    with wire.Wire(loops.containers["red"]) as red, wire.Wire(loops.containers["green"]) as green:
        for number in range(10):
            frame = BROADCAST + number.to_bytes(4, "big")
            red.send(frame)
            assert green.receive(lambda seen: seen == frame)
            assert not green.receive(lambda seen: seen == frame, limit=0.05)
    assert loops.received("one-a") + loops.received("two-a") - before < STORM
    loops.others_are_served()
    switch.vsctl("del-port", "one-a")
    lab.wait_until(loops.once, "a broadcast by the other wire", limit=SPANNING_TREE)
