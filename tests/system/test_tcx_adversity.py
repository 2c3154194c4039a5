# SPDX-License-Identifier: Apache-2.0
"""Containers that send what no honest one does: the same comes out whichever tier sees it, and others are served.

    red ---[ switch ]--- green, blue

The bytes of hostile.py pass through rules that exercise every kind of action; what leaves is compared, frame by frame,
with what Open vSwitch's own userspace datapath makes of them.
"""
import contextlib

import pytest

import drops
import hostile
import lab
import switch as switches
import traffic
import wire

FRAMES, OFFLOADED = hostile.frames(), hostile.offloaded()
BURST = 16
TAG_TYPES = b"\x81\x00", b"\x88\xa8"
MARK_TYPE, UPCALL_TYPE = b"\x88\xb6", b"\x88\xb5"
# What the engine executes: when it arrives, so has what came before it, and the engine is ready for more.
TO_BOTH = (f"priority=40000,dl_type=0x{MARK_TYPE.hex()},actions=output(port=to-green,max_len=64),"
           "output(port=to-blue,max_len=64)")
OUTPUTS = "green", "blue"

# Rules, by what they exercise.
PROGRAMS = {
    "output": ["actions=output:to-green"],
    "classify": [
        "priority=39009,tcp,tp_dst=2000,tcp_flags=+syn+ack,actions=output:to-green",
        "priority=39009,tcp6,tp_dst=2000,actions=output:to-green",
        "priority=39009,udp,nw_src=10.0.0.1,tp_dst=2000,actions=output:to-blue",
        "priority=39009,udp6,ipv6_dst=fc00::2,tp_src=1000,actions=output:to-blue",
        "priority=39009,sctp,tp_dst=2000,actions=output:to-blue",
        "priority=39009,icmp,icmp_type=8,actions=output:to-blue",
        "priority=39009,icmp6,icmp_type=135,nd_target=fc00::9,actions=output:to-blue",
        "priority=39009,arp,arp_spa=10.0.0.1,arp_sha=02:00:00:00:00:01,actions=output:to-blue",
        "priority=39008,ip,nw_frag=later,actions=drop",
        "priority=39008,ipv6,nw_frag=later,actions=drop",
        "priority=39007,dl_vlan=5,actions=output:to-blue",
        "actions=output:to-green"],
    "edit": [
        "priority=39009,tcp,actions=mod_nw_src:192.0.2.1,mod_tp_dst:53,dec_ttl,output:to-green",
        "priority=39009,udp,actions=mod_nw_dst:192.0.2.1,mod_tp_src:53,mod_nw_tos:4,output:to-green",
        "priority=39009,tcp6,actions=set_field:fc00::77->ipv6_src,mod_tp_dst:53,output:to-green",
        "priority=39009,udp6,actions=set_field:fc00::77->ipv6_dst,mod_tp_src:53,dec_ttl,output:to-green",
        "priority=39008,ip,actions=mod_nw_src:192.0.2.1,dec_ttl,output:to-green",
        "priority=39008,ipv6,actions=set_field:fc00::77->ipv6_src,dec_ttl,output:to-green",
        "priority=39008,arp,actions=set_field:192.0.2.1->arp_tpa,output:to-green",
        "actions=mod_dl_dst:02:00:00:00:00:09,output:to-green"],
    "push a tag": ["actions=push_vlan:0x8100,set_field:4103->vlan_vid,output:to-green"],
    "push a service tag": ["actions=push_vlan:0x88a8,set_field:4103->vlan_vid,output:to-green"],
    "pop a tag": ["priority=39009,vlan_tci=0x1000/0x1000,actions=pop_vlan,output:to-green", "actions=output:to-green"],
    "copies": ["actions=output:to-green,push_vlan:0x8100,set_field:4103->vlan_vid,mod_dl_dst:02:00:00:00:00:09,"
               "output:to-blue"],
    "flood": ["actions=flood"],
    "truncate": ["actions=output(port=to-green,max_len=64)"],
}


class Ends:
    """A switch with three ports, and their peers, without other traffic."""

    def __init__(self, stack, settings=(), **how):
        quiet = "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
        lab.run(*quiet)
        self.wires, self.containers, self.marks = {}, {}, 0
        for name in "red", "green", "blue":
            container = self.containers[name] = stack.enter_context(lab.Namespace(name))
            container.run(*quiet)
            lab.make_veth(f"to-{name}", container, mtu=3450)
            self.wires[name] = stack.enter_context(wire.Wire(container))
        self.switch = switch = stack.enter_context(switches.Switch(**how))
        for setting in ("max-idle=600000", *settings):
            switch.vsctl("set", "open", ".", f"other_config:{setting}")
        switch.add_bridge("br0")
        for name in self.containers:
            switch.add_port(f"to-{name}")

    def use(self, program, more=()):
        self.switch.flows("br0", TO_BOTH, *more, *(f"in_port=to-red,{rule}" if rule.startswith("actions")
                                            else rule.replace(",", ",in_port=to-red,", 1)
                                            for rule in PROGRAMS[program]), "priority=0,actions=drop")
        for _ in range(2):      # A round may have begun before.
            self.switch.appctl("revalidator/wait")

    def outcome(self, expected=None):
        """[(frames at green, frames at blue)], for each of FRAMES.  With 'expected', another outcome, waits for that."""
        found = [([], []) for _ in FRAMES]
        for first in range(0, len(FRAMES), BURST):
            numbers = range(first, min(first + BURST, len(FRAMES)))
            for number in numbers:
                self.send(FRAMES[number].frame)
            for place, name in enumerate(OUTPUTS):
                missing = sum(len(expected[number][place]) for number in numbers) if expected else 0
                for frame in self.wires[name].receive(_is_ours, missing):
                    found[hostile.number_of(frame)][place].append(frame)
            self.mark(found)
        return found

    def send(self, frame):
        with contextlib.suppress(OSError):      # Some are too bad for the container's own kernel.
            self.wires["red"].send(frame)

    def mark(self, found):
        """Sends a frame to both ends and notes what comes before it."""
        self.marks += 1
        mark = bytes.fromhex("ffffffffffff02000000ffff") + MARK_TYPE + self.marks.to_bytes(46, "big")
        self.wires["red"].send(mark)
        for place, name in enumerate(OUTPUTS):
            while True:
                frame, = self.wires[name].receive(lambda frame: _is_ours(frame) or frame == mark)
                if frame == mark:
                    break
                found[hostile.number_of(frame)][place].append(frame)


    def passes(self):
        """Waits until frames from red arrive.  Returns what came before that nobody can have sent."""
        mark = bytes.fromhex("ffffffffffff02000000ffff") + MARK_TYPE + bytes(46)
        known = {mark[6:12], *(wire.mac(lab.mac_of(container)) for container in self.containers.values())}
        strange = []

        def is_mark(frame):
            if (not _is_ours(frame) and frame[6:12] not in known) or frame[12:14] == UPCALL_TYPE:
                strange.append(frame)
            return frame == mark

        def arrives():
            self.wires["red"].send(mark)
            return all(self.wires[name].receive(is_mark, limit=1) for name in OUTPUTS)
        lab.wait_until(arrives, "a frame from red")
        return strange


def _is_ours(frame):
    """A frame that ends within a tag does not count: the kernel of some receivers drops it, of others not."""
    return hostile.number_of(frame) is not None and (len(frame) >= 20 or frame[12:14] not in TAG_TYPES)


_reference = {}


def reference():
    """{program: outcome} with Open vSwitch's userspace datapath, which handles everything in order."""
    if not _reference:
        outcomes = {}
        with contextlib.ExitStack() as stack:
            ends = Ends(stack, datapath="netdev")
            for program in PROGRAMS:
                ends.use(program)
                outcomes[program] = ends.outcome()
        lab.new_host()
        _reference.update(outcomes)
    return _reference


def differences(found, expected):
    return [f"{hostile_frame.name}, at {name}: {hexes(got[place])} instead of {hexes(want[place])}"
            for hostile_frame, got, want in zip(FRAMES, found, expected)
            for place, name in enumerate(OUTPUTS) if got[place] != want[place]]


def hexes(frames):
    return [f"{len(frame)}: {frame[:90].hex()}" for frame in frames]


@pytest.mark.parametrize("settings", (["xdp-hook=tcx"], ["xdp-hook=tcx", "xdp-offload=false"], ["xdp-hook=both"]),
                         ids=("tcx", "engine", "both"))
def test_same_as_the_userspace_datapath(world, settings):
    """First what ofproto is asked about, then the same again, which programs run."""
    expected = reference()
    ends = Ends(world, settings)
    for program in PROGRAMS:
        ends.use(program)
        for _ in range(2):
            wrong = differences(ends.outcome(expected[program]), expected[program])
            assert not wrong, f"{program}, {len(wrong)}:\n" + "\n".join(wrong[:20])
        if settings == ["xdp-hook=tcx"] and program != "truncate":
            assert ends.switch.flow_counts("dp:tcx")[0] > len(FRAMES) / 2


def give_addresses(ends):
    for number, name in enumerate(OUTPUTS, 2):
        lab.add_addresses(ends.containers[name], "eth0", f"10.0.0.{number}/24")


def served(ends):
    """A victim's traffic, and the daemon, go on."""
    traffic.tcp(ends.containers["blue"], ends.containers["green"], "10.0.0.2", size=1 << 18)
    ends.switch.appctl("dpctl/show")


VICTIMS = ("in_port=to-green,actions=output:to-blue", "in_port=to-blue,actions=output:to-green")


@pytest.mark.parametrize("hook", ("tcx", "both"))
def test_promises_that_are_lies(world, watch, hook):
    """Checksums to be completed anywhere, segments of any size of what has none: whatever comes out of that, the
    addresses are as they were, and nobody else notices."""
    ends = Ends(world, [f"xdp-hook={hook}"])
    ledger = drops.Ledger(watch, ends.switch)
    give_addresses(ends)
    for program in "output", "edit", "push a service tag", "copies", "truncate":
        ends.use(program, VICTIMS)
        for packet in OFFLOADED:
            with contextlib.suppress(OSError):      # The sender's own kernel refuses some.
                ends.wires["red"].send_offloaded(**{name: value for name, value in vars(packet).items() if name != "name"})
        strange = ends.passes()
        assert not strange, hexes(strange)
        served(ends)
        ledger.check()


def test_longer_than_the_port(world, watch):
    """A container may raise its own MTU.  What the port's end of the wire takes arrives, by the engine and by tcx."""
    ends = Ends(world, ["xdp-hook=tcx"])
    ledger = drops.Ledger(watch, ends.switch)
    ends.use("output", VICTIMS)
    give_addresses(ends)
    ends.containers["red"].run("ip", "link", "set", "eth0", "mtu", "65535")
    largest = 3450 + 14         # With Ethernet's header: one more is longer than the MTU of the output, unless it has a tag.
    sizes = *range(largest - 6, largest + 6), 4078, 4096, 4097, 9000, 65535
    for _ in range(3):
        for size in sizes:
            frame = FRAMES[0].frame[:12] + b"\x88\x99" + b"l" * (size - 14)
            ends.send(frame)
            if size <= largest:
                assert ends.wires["green"].receive(_is_ours) == [frame]
    served(ends)
    found = [([], [])]
    ends.mark(found)
    assert found == [([], [])]
    ledger.check()
