# SPDX-License-Identifier: Apache-2.0
"""The part of test_virtio_port.py that runs in the guest, on Linux 6.1.

    far (a namespace with a card) ===[ the host's bridge ]=== card ---[ switch ]--- red
"""
import collections
import json
import os
import pathlib

import pytest

import drops
import lab
import traffic

Card = collections.namedtuple("Card", "mac queues options")
CARDS = {"wide": Card("52:54:00:00:01:01", 4, ""), "narrow": Card("52:54:00:00:01:02", 1, ""), "fewer": Card("52:54:00:00:01:05", 3, ""),
         "fixed": Card("52:54:00:00:01:03", 1, ",ctrl_guest_offloads=off"), "far": Card("52:54:00:00:01:04", 1, "")}
BY_ENGINE = "check_pkt_larger(1)->reg0[0],normal"


def take(name):
    """Moves a card of the machine into this host."""
    first = "nsenter", "-t", "1", "-n"
    lab.run("modprobe", "virtio_net")

    def device():
        return next((link["ifname"] for link in json.loads(lab.run(*first, "ip", "-j", "link"))
                     if link["address"] == CARDS[name].mac), None)

    lab.run(*first, "ip", "link", "set", lab.wait_until(device, name), "netns", lab.thread(), "name", name)
    lab.run("ip", "link", "set", name, "up")


@pytest.fixture
def network(world, switch, watch):
    assert watch, "Linux 6.1 tells what it drops"
    return Network(world, switch, watch)


class Network:
    def __init__(self, world, switch, watch):
        self.switch = switch
        # What the host itself sends while a card has no carrier yet is dropped, and before Linux 6.11 counted nowhere.
        lab.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        switch.add_bridge("br0")
        self.ledger = drops.Ledger(watch, switch)
        self.red = world.enter_context(lab.Namespace("red"))
        lab.make_veth("to-red", self.red)
        switch.add_port("to-red")
        self.far = world.enter_context(lab.Namespace("far"))
        take("far")
        lab.run("ip", "link", "set", "far", "netns", "far", "name", "eth0")
        self.far.run("ip", "link", "set", "eth0", "up")
        lab.add_addresses(self.red, "eth0", "10.0.0.1/24")
        lab.add_addresses(self.far, "eth0", "10.0.0.2/24")

    def add(self, name):
        take(name)
        self.switch.add_port(name)

    def exchange(self, name):
        """TCP both ways, by programs and by the engine; no upcall is lost for want of a socket, and nothing without being counted.
        Then the port goes."""
        self.switch.flows("br0", "actions=normal")
        traffic.wait_for_ping(self.red, "10.0.0.2")
        for action in "normal", BY_ENGINE:
            self.switch.flows("br0", f"ip,actions={action}", "priority=0,actions=normal")
            for _ in range(3):                          # Each has other ports, and so perhaps another queue.
                traffic.tcp(self.red, self.far, "10.0.0.2", size=1 << 16)
            traffic.tcp(self.far, self.red, "10.0.0.1", size=1 << 16)
        assert not self.switch.stats(name)["dropped: no AF_XDP socket serves the receive queue"]
        self.leave(name)

    def leave(self, name):
        """Takes a port away, with whose counters what the kernel has dropped so far is compared before."""
        self.ledger.check()
        self.switch.vsctl("del-port", name)
        self.ledger.start()


def queues(name, direction):
    return len(list(pathlib.Path(f"/sys/class/net/{name}/queues").glob(f"{direction}-*")))


def test_cards(network):
    """One after the other, because the switch takes long to start here."""
    switch = network.switch
    switch.expected += ["has no transmit queues for XDP", "the hypervisor hands fixed packets"]

    # With an XDP program virtio_net receives on more queues than before; each gets a socket.
    network.add("wide")
    assert switch.in_use("wide") == ("xdp", "native")
    assert queues("wide", "rx") == queues("wide", "tx") + os.cpu_count()
    assert f"queue {queues('wide', 'rx') - 1}" in switch.appctl("xdp/show")
    assert "xdp-warning" not in switch.status("wide")
    network.exchange("wide")

    # With too few it works all the same, and the warning says what that costs.
    network.add("narrow")
    assert switch.in_use("narrow") == ("xdp", "native")
    warning = switch.status("narrow")["xdp-warning"]
    assert "narrow has no transmit queues for XDP" in warning and "mq=on" in warning
    network.exchange("narrow")

    # The network stack takes a pair for each CPU, unless it is told to leave some.
    network.add("fewer")
    assert "fewer has no transmit queues for XDP" in switch.status("fewer")["xdp-warning"]
    network.leave("fewer")
    lab.run("ethtool", "-L", "fewer", "combined", 1)
    switch.add_port("fewer")
    assert switch.in_use("fewer") == ("xdp", "native")
    assert "xdp-warning" not in switch.status("fewer")
    network.leave("fewer")

    # The hypervisor lets nobody turn its offloads off, so that native XDP is not to be had.
    network.add("fixed")
    assert switch.in_use("fixed") == ("tcx", "none")
    assert not switch.error("fixed")
    assert "no native XDP" in switch.appctl("xdp/why", "fixed")
    network.exchange("fixed")
    switch.vsctl("add-port", "br0", "fixed", "--", "set", "interface", "fixed", "options:xdp-mode=native")
    error = lab.wait_until(lambda: switch.error("fixed"), "an error")
    assert "ctrl_guest_offloads" in error and "set options:xdp-hook=tcx" in error
    network.ledger.check()
