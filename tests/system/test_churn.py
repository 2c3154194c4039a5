# SPDX-License-Identifier: Apache-2.0
"""Devices that come and go under load: nothing leaks, in the daemon or in the kernel."""
import os
import pathlib

import pytest

import lab
import switch as switches
import traffic
import wire
import xdp

ROUNDS = 8
MAC = "02:00:00:00:00:09"


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("looks for programs, maps, links and frames of our datapath")


class Inventory:
    """What the daemon holds, except groups of ports: as many of them stay as flows ever needed at once."""

    def __init__(self, switch):
        pid = switch.process.pid
        groups = xdp.groups(pid)
        assert groups <= 256
        objects = xdp.objects(pid)
        self.counts = {kind: sum(item[0] == kind for item in objects) for kind in ("prog", "map", "link")}
        self.counts["map"] -= groups
        self.counts["descriptors"] = len(os.listdir(f"/proc/{pid}/fd")) - groups
        folder = pathlib.Path("/sys/fs/bpf/ovs-xdp") / str(os.stat("/proc/thread-self/ns/net").st_ino) / "ovs-xdp"
        self.counts["pinned links"] = sum(len(list(folder.glob(pattern))) for pattern in ("link-*", "tcx-*", "old/*"))

    def more_than(self, before):
        return {what: (before.counts[what], count) for what, count in self.counts.items() if count > before.counts[what]}


def recreate(network, mac):
    lab.run("ip", "link", "del", "to-green")
    lab.make_veth("to-green", network.green)
    network.green.run("ip", "link", "set", "eth0", "address", mac)
    lab.add_addresses(network.green, "eth0", "10.0.0.2/24")


def rename(network, mac):
    for old, new in ("to-green", "other"), ("other", "to-green"):
        lab.run("ip", "link", "set", old, "down")       # First: before Linux 6.2 a device has a name while it is up.
        lab.run("ip", "link", "set", old, "name", new)
        lab.run("ip", "link", "set", new, "up")


def move(network, mac):
    lab.run("ip", "link", "set", "to-green", "netns", "away")
    network.away.run("ip", "link", "set", "to-green", "netns", lab.thread())
    lab.run("ip", "link", "set", "to-green", "up")


def replug(network, mac):
    network.switch.vsctl("del-port", "to-green")
    network.switch.add_port("to-green")


@pytest.mark.parametrize("happen", (recreate, rename, move, replug))
def test_nothing_leaks(network, happen):
    switch = network.switch
    switch.expected += ["to-green", "No such device"]
    network.away = network.world.enter_context(lab.Namespace("away"))
    mac = lab.mac_of(network.green)

    def once():
        happen(network, mac)
        traffic.wait_for_ping(network.red, "10.0.0.2")

    with traffic.Stream(network.red, network.green, "10.0.0.2", interval=0.0005), \
            traffic.Stream(network.red, network.blue, "10.0.0.3", port=5005, interval=0.0005) as other:
        once()
        other.flowing()
        # The second program (docs/decisions/0006) else comes when flows have not changed for a while.
        lab.wait_until(lambda: switch.appctl("xdp/specialise", check=False).strip().endswith("done"),
                       "the program that fits the flows")
        before = Inventory(switch)
        for _ in range(ROUNDS):
            once()
            other.flowing()
        lab.wait_until(lambda: not Inventory(switch).more_than(before),
                       f"no more than before: {Inventory(switch).more_than(before)}")
    held = xdp.objects(switch.process.pid)
    switch.stop(cleanup=True)
    lab.wait_until(lambda: not [item for item in held if xdp.exists(*item)], "the kernel to free all")
    switch.start()


def test_descriptors_of_containers_that_die(network):
    """No namespace is kept alive by a port whose container is gone."""
    switch = network.switch
    switch.expected += [r"to-\w+", "No such device"]
    for number in range(3):
        name = f"c{number}"
        with lab.Namespace(name) as container:
            lab.make_veth(f"to-{name}", container)
            switch.add_port(f"to-{name}")
        lab.wait_until(lambda name=name: f"to-{name}@" not in lab.run("ip", "-o", "link"),
                       "the namespace, and with it the wire, to go")
        switch.vsctl("del-port", f"to-{name}")
    assert traffic.ping(network.red, "10.0.0.2") == 3


@pytest.mark.parametrize("hook", ("tcx", "xdp", "both"))
def test_namespaces_deleted_with_ports_in_use(network, hook):
    """A container dies while it sends and is sent to; the next of its name is served at once.  Again and again, and the
    daemon holds no more than before."""
    switch = network.switch
    switch.expected += ["to-again", "No such device"]
    stray = wire.udp_frame(lab.mac_of(network.red), MAC, b"to nobody", addresses=("10.0.0.1", "10.0.0.9"))

    def live_and_die(red):
        with lab.Namespace("again") as container:
            lab.make_veth("to-again", container)
            container.run("ip", "link", "set", "eth0", "address", MAC)
            lab.add_addresses(container, "eth0", "10.0.0.9/24")
            if "to-again" not in switch.vsctl("list-ports", "br0").split():
                switch.add_port("to-again", interface=(f"options:xdp-hook={hook}",))
            traffic.wait_for_ping(network.red, "10.0.0.9")
            with container.start("ping", "-q", "-i", "0.002", "10.0.0.1"):
                red.send(*[stray] * 20)
        red.send(*[stray] * 20)
        lab.wait_until(lambda: "to-again@" not in lab.run("ip", "-o", "link"), "the namespace, and the wire, to go")
        red.send(*[stray] * 20)

    with wire.Wire(network.red) as red, \
            traffic.Stream(network.red, network.blue, "10.0.0.3", port=5005, interval=0.0005) as other:
        live_and_die(red)
        lab.wait_until(lambda: switch.appctl("xdp/specialise", check=False).strip().endswith("done"),
                       "the program that fits the flows")
        before = Inventory(switch)
        for _ in range(ROUNDS):
            live_and_die(red)
            other.flowing()
        lab.wait_until(lambda: not Inventory(switch).more_than(before),
                       f"no more than before: {Inventory(switch).more_than(before)}")
