# SPDX-License-Identifier: Apache-2.0
"""A second packet table, for what sockets send: packets of several segments, with checksums yet to be computed, with a
VLAN tag in VLAN acceleration.  In the end the same bytes are on the wire, wherever a flow runs and whatever devices do:

    whole       tcx; the ports' devices take packets as they are.  One leaves for one that came, nothing computed.
    segmented   tcx; the ports' devices take none such: the kernel computes and segments behind the switch.
    engine      the kernel does so before the engine.

What must come is made by scapy, segment by segment.  Where XDP is forced, the sender's device does the same before XDP.
"""
import re
from dataclasses import dataclass

import pytest

import lab
import offload
import packet_table
import tiers
from sockets import (BIG, EDITS4, EDITS6, KEYS, PLAIN_OFFLOADS, SMALL, build, fault_of, gso_size, inner_frame,
                     segments)

pytestmark = pytest.mark.usefixtures("nothing_vanishes")


@dataclass
class Row:
    name: str
    kind: str               # Of KEYS.
    payload: bytes
    flows: list             # As those of packet_table.Row.
    output: dict            # Port name to what differs from the packet that was sent: arguments of build().
    tags: tuple = ()        # Of that packet.
    keeps: bool = True      # Whether devices can take the result whole.


SEGMENTS = "dropped: XDP got a packet that is still to be segmented (GSO)"
ONE_TAG = ((0x8100, {"vlan": 7, "prio": 3}),)
TAGGING = [("tagged", "push_vlan(vid=10,pcp=5)", {"tags": ((0x8100, {"vlan": 10, "prio": 5}),)}),
           ("tagged for a service", "push_vlan(tpid=0x88a8,vid=10,pcp=0)", {"tags": ((0x88a8, {"vlan": 10}),)})]


def rows_of(kind, payload):
    """The same is done to each kind of packet."""
    key, ip, l4 = KEYS[kind], f"ipv{kind[-1]}", kind[:3]
    tagged_key = f"eth_type(0x8100),vlan(vid=7,pcp=3),encap({key})"
    ports = f"set({l4}(src=5,dst=65535))", {"l4": {"sport": 5, "dport": 65535}}
    routed = EDITS4[0] if ip == "ipv4" else EDITS6[0]

    def one(name, actions, after, **how):
        match = tagged_key if how.get("tags") else key
        return Row(f"{kind}: {name}", kind, payload, [(match, f"{actions},{{green}}" if actions else "{green}")],
                   {"green": after}, **how)

    return [
        one("forwarded", "", {}),
        one("other ports", *ports),
        *(one(*edit) for edit in [routed, *TAGGING]),
        one("everything", f"{routed[1]},{ports[0]},{TAGGING[0][1]}", {**routed[2], **ports[1], **TAGGING[0][2]}),
        one("two tags pushed", "push_vlan(vid=7,pcp=3),push_vlan(tpid=0x88a8,vid=10,pcp=0)",
            {"tags": TAGGING[1][2]["tags"] + ONE_TAG}, keeps=False),
        one("forwarded with its tag", "", {"tags": ONE_TAG}, tags=ONE_TAG),
        one("routed with its tag", routed[1], {**routed[2], "tags": ONE_TAG}, tags=ONE_TAG),
        one("untagged", "pop_vlan", {}, tags=ONE_TAG),
        one("retagged and routed", f"pop_vlan,{routed[1]},push_vlan(vid=10,pcp=5)", {**routed[2], **TAGGING[0][2]},
            tags=ONE_TAG),
        one("a second tag", TAGGING[1][1], {"tags": TAGGING[1][2]["tags"] + ONE_TAG}, tags=ONE_TAG, keeps=False),
        Row(f"{kind}: to two ports", kind, payload, [(key, "{green},{blue}")], {"green": {}, "blue": {}}),
        Row(f"{kind}: between two ports", kind, payload,
            [(tagged_key, f"{{green}},pop_vlan,{routed[1]},{{blue}}")],
            {"green": {"tags": ONE_TAG}, "blue": routed[2]}, tags=ONE_TAG),
        Row(f"{kind}: recirculated", kind, payload,
            [(f"recirc_id(0),{key}", f"{ports[0]},recirc(7001)"),
             (f"recirc_id(7001),{key.replace(f'{l4}()', f'{l4}(dst=65535)')}", f"{routed[1]},{{green}}")],
            {"green": {**routed[2], **ports[1]}}),
    ]


@pytest.mark.parametrize("kinds", (("tcp4", "tcp6"), ("udp4", "udp6", "udptunnel4", "udptunnel6"),
                                   ("udpsegments4", "udpsegments6")), ids=lambda kinds: kinds[0][:-1])
@pytest.mark.parametrize("tier", ("whole", "segmented", "engine"))
def test_packets_of_sockets(world, switch, tier, kinds):
    """All rows at once, told apart by their source addresses."""
    rows = [row for kind in kinds for row in rows_of(kind, BIG if gso_size(kind) else SMALL)]
    switch.vsctl("set", "open", ".", "other_config:xdp-hook=tcx", f"other_config:xdp-offload={str(tier != 'engine').lower()}")
    ends = lay_wires(world, switch, tier)
    switch.appctl("revalidator/pause")      # They would delete flows that no rule asks for.
    numbers = {name: switch.dp_port(f"to-{name}") for name in tiers.PORTS}
    macs = {row.name: f"02:00:00:00:77:{number:02x}" for number, row in enumerate(rows)}
    tiers.install(switch, [flow for row in rows for flow in tiers.flows(row, numbers, macs[row.name])])
    wrong = []
    for row in rows:
        if len(wrong) > 3:
            break                           # Waiting for what does not come takes long.
        sent = build(row.kind, row.payload, eth={"src": macs[row.name]}, tags=row.tags)
        try:
            ends["red"].send_whole(offload.unfinished(sent, gso_size(row.kind), inner_frame(row.kind, sent)))
        except OSError as error:
            if "segments" not in row.kind:
                raise
            switch.appctl("revalidator/resume")         # Else the daemon does not end.
            pytest.skip(f"packet sockets of this kernel take no segments of UDP: {error}")
        for name, fields in row.output.items():
            fields = {**fields, "eth": {"src": macs[row.name], **fields.get("eth", {})}}
            if fault := fault_of(ends[name], segments(row.kind, row.payload, **fields), tier == "whole", row.keeps):
                wrong.append(f"{row.name}, {name}: {fault}")
    wrong += [f"{name} got a frame more: {packet.frame[:80].hex()}" for name in ("green", "blue")
              if (packet := ends[name].receive_whole(limit=0))]
    wrong = wrong or wrong_counts(switch, rows, macs, tier)
    switch.appctl("dpctl/del-flows")
    switch.appctl("revalidator/resume")
    assert not wrong, "\n".join(wrong)


def test_checksums_that_operations_must_leave_alone(world, switch):
    """Of SCTP and of neighbour discovery: what a device will compute is not changed beforehand."""
    switch.vsctl("set", "open", ".", "other_config:xdp-hook=tcx")
    ends = lay_wires(world, switch, "whole")
    switch.appctl("revalidator/pause")
    numbers = {name: switch.dp_port(f"to-{name}") for name in tiers.PORTS}
    wrong = []
    for name, start, offset in (("set SCTP ports", 34, 8), ("set neighbour discovery flags", 54, 2)):
        row = next(row for row in packet_table.table() if row.name == name)
        tiers.install(switch, tiers.flows(row, numbers))
        before, after = (offload.put16(frame, start + offset, 0x1234) for frame in (row.frame, row.output["green"]))
        if offset == 8:                     # Its checksum has four bytes, of which this device computes two.
            before, after = (offload.put16(frame, start + 10, 0) for frame in (before, after))
        ends["red"].send_whole(offload.Packet(before, start, offset))
        if (found := ends["green"].receive_whole()) != offload.Packet(after, start, offset):
            wrong.append(f"{name}: {found}")
        wrong += [f"{name}: {flow}" for flow in switch.dump_flows("-m") if "dp:tcx" not in flow or "packets:1," not in flow]
        switch.appctl("dpctl/del-flows")
    switch.appctl("revalidator/resume")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mode", ("native", "generic"))
@pytest.mark.parametrize("hook", ("xdp", "both"))
def test_xdp_is_forced(world, switch, hook, mode):
    """The sender's device finishes packets before XDP gets them.  If the container turns offloads on again, which it can before
    generic XDP, what XDP alone cannot finish is counted."""
    switch.vsctl("set", "open", ".", f"other_config:xdp-hook={hook}")
    ends = lay_wires(world, switch)
    for name in tiers.PORTS:
        switch.vsctl("set", "interface", f"to-{name}", f"options:xdp-mode={mode}")
        lab.wait_until(lambda name=name: switch.in_use(f"to-{name}") == (hook, mode), f"{hook}, {mode}")
    switch.flows("br0", "in_port=to-red,actions=to-green", "actions=drop")
    for offloads in (), ("tx", "on", "tso", "on", "gso", "on", "sg", "on"):
        if offloads:
            ends["red"].namespace.run("ethtool", "-K", "eth0", *offloads, check=False)
        for kind in "tcp4", "tcp6", "udp4", "udp6":
            payload, lost = BIG if gso_size(kind) else SMALL, switch.stats("to-red")[SEGMENTS]
            ends["red"].send_whole(offload.unfinished(build(kind, payload), gso_size(kind)))
            if offloads and gso_size(kind) and mode == "generic":
                lab.wait_until(lambda lost=lost: switch.stats("to-red")[SEGMENTS] == lost + 1, f"{kind} to be counted")
                continue
            fault = fault_of(ends["green"], segments(kind, payload), True, False)
            assert not fault, f"{kind}, {offloads}: {fault}"


def lay_wires(world, switch, tier="whole"):
    """Ends that merge nothing; ports whose devices take everything or nothing."""
    ends = tiers.lay_wires(world, switch, offload.Wire)
    for name, end in ends.items():
        end.namespace.run("ethtool", "-K", "eth0", "gro", "off")
        if tier != "whole":
            lab.run("ethtool", "-K", f"to-{name}", *PLAIN_OFFLOADS)
    return ends


def wrong_counts(switch, rows, macs, tier):
    """What the datapath's flows say that they should not: at tcx a packet counts once, whatever becomes of it."""
    dumped, wrong = switch.dump_flows("-m"), []
    for row in rows:
        frames = segments(row.kind, row.payload, tags=row.tags)
        length = len(build(row.kind, row.payload, tags=row.tags))
        want = (len(frames), sum(map(len, frames))) if tier == "engine" else (1, length)
        mine = [flow for flow in dumped if f"src={macs[row.name]}" in flow]
        found = [tuple(map(int, re.search(r"packets:(\d+), bytes:(\d+)", flow).groups())) for flow in mine]
        layers = {re.search(r"dp:(\w+)", flow)[1] for flow in mine}
        if found != [want] * len(row.flows) or layers != {"ovs" if tier == "engine" else "tcx"}:
            wrong.append(f"{row.name}: counted {found} instead of {want}, by {layers}")
    return wrong
