# SPDX-License-Identifier: Apache-2.0
"""Guests with the offloads of their drivers, on ports without options.

    red ------------ to-red   \\            / tap-virtio, tap-queues, tap-plain \\
    blue (XDP) ----- to-blue   >--[ br0 ]--<                                     >--- one guest
    the host ------- br0      /            \\ tap-e1000e, tap-vmxnet3           /

The guest is booted once for the file; its cards are in namespaces of their own (guest.py).  With OXDP_GUESTS=SERIES, of
Debian's kernels that `make check-vm` has, the guest runs that kernel, and every card talks to every other, more and
longer.  With OXDP_CARDS="virtio plain" it has these cards only, and everything is short: for hosts that are emulated
themselves, by a processor that has virtualization (tests/vm/run).
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
FEW = os.environ.get("OXDP_CARDS", "").split()
if FEW:
    MODELS = {name: model for name, model in MODELS.items() if name in FEW}
OTHERS = {"red": "10.0.0.1", "blue": "10.0.0.2", "host": "10.0.0.100"}
LONG = os.environ.get("OXDP_GUESTS")
PAIRS = [(card, other) for card in MODELS for other in OTHERS if LONG or card != "sender"] + (
    [*itertools.combinations(MODELS, 2)] if LONG or FEW else
    [("virtio", "queues"), ("virtio", "plain"), ("queues", "e1000e"), ("e1000e", "vmxnet3")])
SIZE = (16 if LONG else 1 if FEW else 4) << 20
DATAGRAMS = "700K" if LONG else "70K"


def needs(*cards):
    return pytest.mark.skipif(not set(cards) <= set(MODELS), reason=f"OXDP_CARDS is {' '.join(FEW)}")


class Network:
    """Everybody by name, and the addresses at which they are found."""

    def __init__(self, world, switch, watch):
        self.switch = switch
        self.addresses = dict(OTHERS)
        self.cards = {name: guests.Card(name, *model) for name, model in MODELS.items()}
        try:
            world.enter_context(guests.Guest(*self.cards.values(), series=LONG or "6.1", memory=1024 if LONG else 384,
                                             cpus=1 if FEW else 2, kvm=bool(FEW)))
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
        self.numbers = {name: switch.ofport(card.tap) for name, card in self.cards.items()}
        for name, address in self.addresses.items():
            self.ends[name].run("ip", "address", "add", f"{address}/24", "dev", "br0" if name == "host" else "eth0")
            data = self.file("data", name)
            self.ends[name].run("sh", "-c", f"head -c {SIZE} /dev/urandom > {data}; busybox mkfifo {self.file('fifo', name)}")
            self.ends[name].start("iperf3", "-s")
        self._data = {}
        self.ledger = drops.Ledger(watch, switch)

    def file(self, what, name):
        return f"{'/tmp' if name in self.cards else self.switch.rundir}/{what}-{name}"

    def has_got(self, receiver, sender):
        """Whether 'receiver' has the data of 'sender'."""
        if sender not in self._data:
            self._data[sender] = self._sum("data", sender)
        return self._sum("got", receiver) == self._data[sender]

    def _sum(self, what, name):
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


@pytest.fixture(autouse=True)
def nothing_vanishes(network):
    """In each test, although all have one switch."""
    network.ledger.start()
    yield
    network.ledger.check()


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
    lab.wait_until(lambda: network.has_got(receiver, sender), f"the file from {sender} to {receiver}")


def arrived(network, client, server, *way):
    """How many of a few datagrams arrived at 'server'; with "-R" at 'client'.  A busy guest's sockets lose some.  Of an
    exchange both ways at once iperf3 says nothing: it ends with what the client sends."""
    said = network.ends[client].run("iperf3", "-c", network.addresses[server], "-u", "-b", "20M", "-l", 1400, "-n", DATAGRAMS,
                                    "-J", *way, check=False)
    report = json.loads(said)["end"].get("sum_received", {})       # None: the server is busy with the last client.
    return report.get("packets", 0) - report.get("lost_packets", 0)


def test_hook_is_what_the_guest_needs(network):
    """XDP cannot handle packets with CHECKSUM_PARTIAL and GSO; a guest without offloads is served by XDP."""
    for name in MODELS:
        assert network.hook(name) == ("both" if name in ("plain", "sender") else "tcx"), name


def counted(network, name, what):
    """A number of "xdp/stats" for a card, of which 'what' is the beginning."""
    return next(number for text, number in network.switch.stats(network.cards[name].tap).items() if text.startswith(what))


def segments_lost(network, name):
    """How many packets of a card XDP had to drop."""
    return counted(network, name, "dropped: XDP got a packet that is still to be segmented")


@needs("sender")
def test_hook_follows_what_the_guest_sends(network):
    """A guest whose device shows no offloads sends packets with GSO: only these packets reveal it.  None is lost."""
    exchange(network, "sender", "red")
    lab.wait_until(lambda: network.hook("sender") == "tcx", "tcx")
    assert counted(network, "sender", "arrived at XDP with segmentation or a checksum still to be done")
    assert not segments_lost(network, "sender")


@pytest.mark.parametrize("one,other", PAIRS)
def test_traffic(network, one, other):
    """Of every size, both ways."""
    assert traffic.ping(network.ends[one], network.addresses[other], count=2, size=4000)
    exchange(network, one, other)
    for way in (), ("-R",):
        lab.wait_until(lambda way=way: arrived(network, one, other, *way), "datagrams")


@pytest.mark.parametrize("other", ("red", pytest.param("queues", marks=needs("queues"))))
@needs("virtio")
def test_engine(network, other):
    """Packets of a guest with GSO are segmented before the engine gets them."""
    network.switch.flows("br0", "priority=1,tcp,actions=ct(table=1)", "priority=0,actions=normal",
                         "table=1,priority=1,ct_state=+new,tcp,actions=ct(commit),normal", "table=1,priority=0,actions=normal")
    exchange(network, "virtio", other)
    network.switch.flows("br0", "actions=normal")


@needs("virtio")
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


@needs("vmxnet3")
@pytest.mark.parametrize("hook", ("xdp", "both"))
def test_hook_that_costs_offloads(network, watch, hook):
    """A hook that the user sets is used; status:xdp-warning says what it costs."""
    switch, tap = network.switch, network.cards["vmxnet3"].tap
    before = segments_lost(network, "vmxnet3")
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


@needs("sender")
def test_hook_follows_when_it_sends_no_more(network):
    """The last test, because XDP comes back after a while, which is longer each time."""
    lab.wait_until(lambda: network.hook("sender") == "both", "XDP, with tcx behind it", 600 if LONG else lab.PATIENCE)
    assert network.switch.ofport(network.cards["sender"].tap) == network.numbers["sender"]
    exchange(network, "sender", "red")
    assert not segments_lost(network, "sender")
