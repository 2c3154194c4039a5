# SPDX-License-Identifier: Apache-2.0
"""Guests with the offloads of their drivers, on ports without options.

    red ------------ to-red   \\            / tap-virtio, tap-queues, tap-plain \\
    blue (XDP) ----- to-blue   >--[ br0 ]--<                                     >--- one guest
    the host ------- br0      /            \\ tap-e1000e, tap-vmxnet3           /

The guest is booted once for the file; its cards are in namespaces of their own (guest.py).  With OXDP_GUESTS=SERIES, of Debian's
kernels that `make check-vm` has, the guest runs that kernel, and every card talks to every other, more and longer.
"""
import contextlib
import itertools
import json
import os
import re

import pytest

import drops
import guest as guests
import lab
import switch as switches
import traffic

TAKES_NONE = "guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off"
NO_OFFLOADS = f"csum=off,gso=off,{TAKES_NONE}"
MODELS = {"virtio": ("virtio-net-pci",), "queues": ("virtio-net-pci", 2), "plain": (f"virtio-net-pci,{NO_OFFLOADS}",),
          "e1000e": ("e1000e",), "vmxnet3": ("vmxnet3",), "sender": (f"virtio-net-pci,{TAKES_NONE}",)}
OTHERS = {"red": "10.0.0.1", "blue": "10.0.0.2", "host": "10.0.0.100"}
LONG = os.environ.get("OXDP_GUESTS")
PAIRS = [(card, other) for card in MODELS for other in OTHERS if LONG or card != "sender"] + (
    [*itertools.combinations(MODELS, 2)] if LONG else
    [("virtio", "queues"), ("virtio", "plain"), ("queues", "e1000e"), ("e1000e", "vmxnet3")])
SIZE = (16 if LONG else 4) << 20
DATAGRAMS = "700K" if LONG else "70K"


class Network:
    """Everybody by name, and the addresses at which they are found."""

    def __init__(self, world, switch, watch):
        self.switch = switch
        self.addresses = dict(OTHERS)
        self.cards = {name: guests.Card(name, *model) for name, model in MODELS.items()}
        try:
            world.enter_context(guests.Guest(*self.cards.values(), series=LONG or "6.1", memory=1024 if LONG else 384))
        except guests.Unusable as problem:
            pytest.skip(str(problem))
        switch.add_bridge("br0")
        lab.run("ip", "link", "set", "br0", "up")
        self.ends = {"host": lab.Namespace(), **self.cards}
        for name, settings in ("red", ()), ("blue", ("options:xdp-hook=xdp",)):
            self.ends[name] = world.enter_context(lab.Namespace(name))
            lab.make_veth(f"to-{name}", self.ends[name])
            switch.add_port(f"to-{name}", interface=settings)
        for number, (name, card) in enumerate(self.cards.items(), 11):
            switch.add_port(card.tap)
            self.addresses[name] = f"10.0.0.{number}"
        for name, address in self.addresses.items():
            self.ends[name].run("ip", "address", "add", f"{address}/24", "dev", "br0" if name == "host" else "eth0")
            data = self.file("data", name)
            self.ends[name].run("sh", "-c", f"head -c {SIZE} /dev/urandom > {data}; busybox mkfifo {self.file('fifo', name)}")
            self.ends[name].start("iperf3", "-s")
        self.ledger = watch and drops.Ledger(watch, switch)

    def vanished(self):
        """What the kernel dropped since the last call and nobody counted."""
        return self.ledger.unknown() if self.ledger else {}

    def file(self, what, name):
        return f"{'/tmp' if name in self.cards else self.switch.rundir}/{what}-{name}"

    def sum(self, what, name):
        return self.ends[name].run("sha256sum", self.file(what, name)).split()[0]

    def hook(self, name):
        return self.switch.status(self.cards[name].tap)["xdp-hook"]


@pytest.fixture(scope="module", autouse=True)
def world():
    lab.new_host()
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def switch(world):
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has hooks")
    return world.enter_context(switches.Switch())


@pytest.fixture(scope="module")
def network(world, switch, watch):
    return Network(world, switch, watch)


def exchange(network, one, other):
    """A file from 'one' to 'other' over TCP, and one back."""
    transfer(network, one, other, one)
    transfer(network, one, other, other)


def transfer(network, client, server, sender):
    """One way at a time, because busybox does not read while it cannot write; and it ends when there is no more to write,
    as there is to a FIFO that is open for both."""
    ends, netcat = network.ends, "busybox nc {} {} > {}"
    receiver = server if sender == client else client
    files = {sender: (f"< {network.file('data', sender)}", "/dev/null"),
             receiver: (f"<> {network.file('fifo', receiver)}", network.file("got", receiver))}
    ends[server].start("sh", "-c", netcat.format("-l -p 5010", *files[server]))
    lab.wait_until(lambda: re.search(":1392 0+:0000 0A", ends[server].run("cat", "/proc/net/tcp", "/proc/net/tcp6")), "a listener")
    ends[client].run("sh", "-c", netcat.format(f"{network.addresses[server]} 5010", *files[client]))
    lab.wait_until(lambda: network.sum("got", receiver) == network.sum("data", sender), f"the file from {sender} to {receiver}")


def arrived(network, one, other):
    """How many of a few datagrams arrived, each way at once.  A busy guest's sockets lose some."""
    report = json.loads(network.ends[one].run("iperf3", "-c", network.addresses[other], "-u", "--bidir", "-b", "20M", "-l",
                                              1400, "-n", DATAGRAMS, "-J"))["end"]
    return [report[way]["packets"] - report[way]["lost_packets"] for way in ("sum_received", "sum_received_bidir_reverse")]


def test_hook_is_what_the_guest_needs(network):
    """XDP cannot handle packets with CHECKSUM_PARTIAL and GSO; a guest without offloads is served by XDP."""
    for name in MODELS:
        assert network.hook(name) == ("both" if name in ("plain", "sender") else "tcx"), name


@pytest.mark.parametrize("one,other", PAIRS)
def test_traffic(network, one, other):
    """Of every size, both ways."""
    assert traffic.ping(network.ends[one], network.addresses[other], count=2, size=4000)
    exchange(network, one, other)
    assert all(arrived(network, one, other))
    assert not network.vanished()


@pytest.mark.parametrize("other", ("red", "queues"))
def test_engine(network, other):
    """Packets of a guest with GSO are segmented before the engine gets them."""
    network.switch.flows("br0", "priority=1,tcp,actions=ct(table=1)", "priority=0,actions=normal",
                         "table=1,priority=1,ct_state=+new,tcp,actions=ct(commit),normal", "table=1,priority=0,actions=normal")
    exchange(network, "virtio", other)
    network.switch.flows("br0", "actions=normal")
    assert not network.vanished()


def test_hook_follows_the_driver(network):
    """A guest reboots: a loader without offloads has the card for a while."""
    card = network.cards["virtio"]
    drivers = "/sys/bus/virtio/drivers/virtio_net"
    device = card.run("sh", "-c", "basename $(readlink /sys/class/net/eth0/device)").strip()
    card.run("sh", "-c", f"echo {device} > {drivers}/unbind")
    lab.wait_until(lambda: network.hook("virtio") == "both", "XDP")
    card.run("sh", "-c", f"echo {device} > {drivers}/bind")
    card.settle()
    card.run("ip", "address", "add", f"{network.addresses['virtio']}/24", "dev", "eth0")
    lab.wait_until(lambda: network.hook("virtio") == "tcx", "tcx")
    exchange(network, "virtio", "red")


def counted(network, name, what):
    """A number of "xdp/stats" for a card, of which 'what' is the beginning."""
    return next(number for text, number in network.switch.stats(network.cards[name].tap).items() if text.startswith(what))


def segments_lost(network, name):
    """How many packets of a card XDP had to drop."""
    return counted(network, name, "dropped: XDP got a packet that is still to be segmented")


def test_hook_follows_what_the_guest_sends(network):
    """A guest whose device shows no offloads sends packets with GSO: only these packets reveal it.  None is lost; and XDP
    comes back when they come no more."""
    number = network.switch.ofport(network.cards["sender"].tap)
    exchange(network, "sender", "red")
    lab.wait_until(lambda: network.hook("sender") == "tcx", "tcx")
    assert counted(network, "sender", "arrived at XDP with segmentation or a checksum still to be done")
    assert not segments_lost(network, "sender")
    assert not network.vanished()
    lab.wait_until(lambda: network.hook("sender") == "both", "XDP, with tcx behind it")
    assert network.switch.ofport(network.cards["sender"].tap) == number


@pytest.mark.parametrize("hook", ("xdp", "both"))
def test_hook_that_costs_offloads(network, watch, hook):
    """A hook that the user sets is used; status:xdp-warning says what it costs."""
    switch, tap = network.switch, network.cards["vmxnet3"].tap
    before = segments_lost(network, "vmxnet3")
    assert not network.vanished()
    switch.expected.append("the guest behind this tap has offloads")
    switch.vsctl("set", "interface", tap, f"options:xdp-hook={hook}")
    lab.wait_until(lambda: network.hook("vmxnet3") == hook, hook)
    assert "the guest behind this tap has offloads" in switch.status(tap)["xdp-warning"]
    if hook == "both":
        exchange(network, "vmxnet3", "red")
    else:
        network.cards["vmxnet3"].run("iperf3", "-c", network.addresses["red"], "-t", 1, check=False)
    lost = segments_lost(network, "vmxnet3") - before
    assert (lost > 0) == (hook == "xdp")
    seen = sum(count for drop, count in watch.take().items() if drop.device == tap) if watch else lost
    assert seen == lost                                 # Both see the same.
    switch.vsctl("remove", "interface", tap, "options", "xdp-hook")
    lab.wait_until(lambda: network.hook("vmxnet3") == "tcx" and "xdp-warning" not in switch.status(tap), "tcx, no warning")
