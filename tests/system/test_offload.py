# SPDX-License-Identifier: Apache-2.0
"""A second packet table, for what sockets send: packets of several segments, with checksums yet to be computed, with a
VLAN tag in VLAN acceleration.  In the end the same bytes are on the wire, wherever a flow runs and whatever devices do:

    whole       tcx; the ports' devices take packets as they are.  One leaves for one that came, nothing computed.
    segmented   tcx; the ports' devices take none such: the kernel computes and segments behind the switch.
    engine      the kernel does so before the engine.

What must come is made by scapy, segment by segment.
"""
import re
from dataclasses import dataclass

import pytest
from scapy.all import Dot1Q, Ether, IP, IPv6, TCP, UDP, VXLAN

import lab
import offload
import packet_table
import tiers

GSO_SIZE = 1400
BIG = bytes(i * 7 & 0xff for i in range(3 * GSO_SIZE - 101))
SMALL = BIG[:777]
MAC = "02:00:00:00:00:02"

PLAIN_OFFLOADS = ("tx", "off", "tso", "off", "gso", "off", "sg", "off", "txvlan", "off", "tx-vlan-stag-hw-insert", "off")

KEYS = {"tcp4": "eth_type(0x0800),ipv4(proto=6,frag=no),tcp()", "udp4": "eth_type(0x0800),ipv4(proto=17,frag=no),udp()",
        "tcp6": "eth_type(0x86dd),ipv6(proto=6,frag=no),tcp()", "udp6": "eth_type(0x86dd),ipv6(proto=17,frag=no),udp()"}
KEYS |= {"udptunnel4": KEYS["udp4"], "udptunnel6": KEYS["udp6"]}    # VXLAN: the inner packet is CHECKSUM_PARTIAL.
KEYS |= {"udpsegments4": KEYS["udp4"], "udpsegments6": KEYS["udp6"]}    # As sockets with UDP_SEGMENT send.
TUNNEL_LEN = 8 + 8                          # UDP and VXLAN.


@dataclass
class Row:
    name: str
    kind: str               # Of KEYS.
    payload: bytes
    flows: list             # As those of packet_table.Row.
    output: dict            # Port name to what differs from the packet that was sent: arguments of build().
    tags: tuple = ()        # Of that packet.
    keeps: bool = True      # Whether devices can take the result whole.


def build(kind, payload, number=0, last=True, eth=None, ip=None, l4=None, tags=()):
    """A segment, the 'number'th of a packet."""
    packet = Ether(**{"src": "02:00:00:00:00:01", "dst": MAC, **(eth or {})})
    for tpid, fields in tags:
        packet.lastlayer().type = tpid
        packet /= Dot1Q(**fields)
    if kind[-1] == "4":
        packet /= IP(**{"src": "10.0.0.1", "dst": "10.0.0.2", "id": 1000 + number, "flags": "DF", **(ip or {})})
    else:
        packet /= IPv6(**{"src": "fc00::1", "dst": "fc00::2", "fl": 0x54321, **(ip or {})})
    if kind[:3] == "tcp":
        packet /= TCP(**{"sport": 1000, "dport": 2000, "seq": (1 << 32) - 2000 + number * GSO_SIZE & 0xffffffff, "ack": 77,
                         "flags": "PA" if last else "A", "options": [("NOP", None)] * 2 + [("Timestamp", (1, 2))],
                         **(l4 or {})})
    else:
        packet /= UDP(**{"sport": 1000, "dport": 2000, **(l4 or {})})
    if kind[:4] == "udpt":
        packet /= VXLAN(vni=9) / Ether(src=MAC, dst=MAC) / IP(src="10.1.0.1", dst="10.1.0.2") / TCP(sport=9, dport=9)
    return bytes(packet / payload)


def gso_size(kind):
    return GSO_SIZE if "tcp" in kind or "segments" in kind else 0


def segments(kind, payload, **fields):
    """What is on the wire."""
    size = gso_size(kind) or len(payload)
    starts = range(0, len(payload), size)
    return [build(kind, payload[at:at + size], number, at == starts[-1], **fields) for number, at in enumerate(starts)]


ONE_TAG = ((0x8100, {"vlan": 7, "prio": 3}),)
EDITS4 = [("routed", "set(eth(dst=02:bb:bb:bb:bb:bb)),set(ipv4(src=192.0.2.1,dst=198.51.100.7,tos=0x20/0xfc,ttl=63))",
           {"eth": {"dst": "02:bb:bb:bb:bb:bb"}, "ip": {"src": "192.0.2.1", "dst": "198.51.100.7", "tos": 0x20, "ttl": 63}})]
EDITS6 = [("routed", "set(eth(dst=02:bb:bb:bb:bb:bb)),set(ipv6(src=fc00::a,dst=2001:db8::ffff,hlimit=63,tclass=0x20,label=0x12345))",
           {"eth": {"dst": "02:bb:bb:bb:bb:bb"},
            "ip": {"src": "fc00::a", "dst": "2001:db8::ffff", "hlim": 63, "tc": 0x20, "fl": 0x12345}})]
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


def inner_frame(kind, frame):
    """Where the frame in a tunnel begins, 0 if there is none."""
    return offload.network_layer(frame) + (20 if kind[-1] == "4" else 40) + TUNNEL_LEN if "tunnel" in kind else 0


def lay_wires(world, switch, tier):
    """Ends that merge nothing; ports whose devices take everything or nothing."""
    ends = tiers.lay_wires(world, switch, offload.Wire)
    for name, end in ends.items():
        end.namespace.run("ethtool", "-K", "eth0", "gro", "off")
        if tier != "whole":
            lab.run("ethtool", "-K", f"to-{name}", *PLAIN_OFFLOADS)
    return ends


def fault_of(end, want, whole, keeps):
    """What is wrong with the next packets at an end."""
    found, came = [], []
    while len(found) < len(want) and (packet := end.receive_whole()):
        came.append(packet)
        found += offload.finish(packet)
    if found != want:
        differs = [f"\n    {a[:90].hex()} instead of\n    {b[:90].hex()}" for a, b in zip(found, want) if a != b]
        return f"{len(found)} frames, {len(want)} wanted" + "".join(differs)
    if whole and keeps and (len(came) > 1 or came[0].start is None):
        return "a device was to do what has been done"
    if not whole and [packet for packet in came if packet.start is not None or packet.gso_size]:
        return "it has CHECKSUM_PARTIAL or GSO"
    return None


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
