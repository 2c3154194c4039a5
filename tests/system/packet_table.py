# SPDX-License-Identifier: Apache-2.0
"""What the datapath does to packets: one table, run on every tier that claims a row (test_packet_table.py).

A row has a frame, the datapath flows that it meets (as dpctl writes them), and what must come of it: the frames that
leave, by port, and how often each flow is counted.  In the flows {red} is the port that the frame arrives on, {green}
and {blue} are others.
"""
from dataclasses import dataclass

from scapy.all import (ARP, Dot1Q, Ether, ICMP, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IP, IPv6, IPv6ExtHdrFragment, Raw,
                       SCTP, TCP, UDP)
from scapy.contrib.mpls import MPLS

SOURCE, SINK = "02:00:00:00:00:01", "02:00:00:00:00:02"
SOURCE_BYTES = bytes.fromhex(SOURCE.replace(":", ""))
IP4 = "eth_type(0x0800),ipv4(frag=no)"
IP6 = "eth_type(0x86dd),ipv6(frag=no)"
ND = "eth_type(0x86dd),ipv6(proto=58,frag=no),icmpv6(type=135,code=0)"
IP4_UDP = "eth_type(0x0800),ipv4(proto=17,frag=no),udp()"


@dataclass
class Row:
    name: str
    frame: bytes
    flows: list             # (key without in_port and eth, actions): the first, and what it recirculates to.
    output: dict            # {port name: bytes}; empty: dropped.
    xdp: bool = True        # Whether programs at XDP execute it, or hand it to the engine.
    tcx: bool = True        # Likewise at tcx.


def ether(payload, **fields):
    return Ether(**{"src": SOURCE, "dst": SINK, **fields}) / payload


def udp4(payload=b"x" * 30, ip=None, **fields):
    return IP(src="10.0.0.1", dst="10.0.0.2", **(ip or {})) / UDP(**{"sport": 1000, "dport": 2000, **fields}) / payload


def tcp4(ip=None, **fields):
    return IP(src="10.0.0.1", dst="10.0.0.2", **(ip or {})) / TCP(**{"sport": 1000, "dport": 2000, **fields}) / (b"y" * 31)


def udp6(ip=None, **fields):
    return (IPv6(**{"src": "fc00::1", "dst": "fc00::2", **(ip or {})})
            / UDP(**{"sport": 1000, "dport": 2000, **fields}) / (b"z" * 21))


def sctp4(**fields):
    return IP(src="10.0.0.1", dst="10.0.0.2") / SCTP(**{"sport": 7, "dport": 8, **fields}) / (b"c" * 17)


def solicitation(target="fc00::9", mac=SOURCE, res=0, type=1):
    return ICMPv6ND_NS(tgt=target, res=res) / ICMPv6NDOptSrcLLAddr(lladdr=mac, type=type)


def row(name, before, flow, actions, after=None, port="green", **how):
    """A frame that one flow sends to one port, or drops if 'after' is None."""
    before = bytes(before)
    return Row(name, before, [(flow, actions)], {port: bytes(after)} if after is not None else {}, **how)


def edit(name, before, flow, actions, after, **how):
    return row(name, before, flow, f"{actions},{{green}}", after, **how)


def same(name, frame, flow, **how):
    return row(name, frame, flow, "{green}", frame, **how)


def table():
    plain = ether(udp4())
    nd = solicitation()
    ns = IPv6(src="fc00::1", dst="ff02::1:ff00:9", hlim=255)
    return [
        same("udp", plain, IP4_UDP),
        same("tcp with flags", ether(tcp4(flags="SA")),
             "eth_type(0x0800),ipv4(proto=6,frag=no),tcp(),tcp_flags(0x12/0x3f)"),
        same("icmp", ether(IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(type=8)),
             "eth_type(0x0800),ipv4(proto=1,frag=no),icmp(type=8)"),
        same("sctp", ether(IP(src="10.0.0.1", dst="10.0.0.2") / SCTP(sport=7, dport=8) / (b"c" * 16)),
             "eth_type(0x0800),ipv4(proto=132,frag=no),sctp(src=7,dst=8)"),
        same("arp", ether(ARP(psrc="10.0.0.1", pdst="10.0.0.2"), dst="ff:ff:ff:ff:ff:ff"),
             "eth_type(0x0806),arp(sip=10.0.0.1,tip=10.0.0.2,op=1)"),
        same("udp in IPv6", ether(udp6()),
             "eth_type(0x86dd),ipv6(src=fc00::1,dst=fc00::2,proto=17,frag=no),udp(dst=2000)"),
        same("neighbour solicitation", ether(ns / nd),
             "eth_type(0x86dd),ipv6(proto=58,frag=no),icmpv6(type=135,code=0),nd(target=fc00::9,sll=02:00:00:00:00:01)"),
        same("neighbour solicitation with flags", ether(ns / solicitation(res=0x60000000)),
             f"{ND},nd(),nd_ext(nd_reserved=0x60000000)"),
        same("neighbour solicitation with another option", ether(ns / solicitation(type=2)), f"{ND},nd(),nd_ext(nd_options_type=2)"),
        same("first fragment", ether(udp4(ip={"flags": "MF"})),
             "eth_type(0x0800),ipv4(proto=17,frag=first),udp(src=1000)"),
        same("later fragment", ether(udp4(ip={"frag": 100})), "eth_type(0x0800),ipv4(proto=17,frag=later)"),
        same("fragment of IPv6",
             ether(IPv6(src="fc00::1", dst="fc00::2") / IPv6ExtHdrFragment(offset=10) / Raw(b"f" * 24)),
             "eth_type(0x86dd),ipv6(frag=later)"),
        same("unknown type", ether(Raw(b"u" * 46), type=0x88b5), "eth_type(0x88b5)"),
        same("one tag", ether(Dot1Q(vlan=7, prio=3) / udp4()),
             "eth_type(0x8100),vlan(vid=7,pcp=3),encap(eth_type(0x0800),ipv4(frag=no))"),
        same("label", ether(MPLS(label=77, ttl=9, s=1) / udp4()), "eth_type(0x8847),mpls(label=77,tc=0,ttl=9,bos=1)"),
        row("drop", plain, IP4, "drop"),
        edit("set Ethernet", plain, IP4, "set(eth(src=02:aa:aa:aa:aa:aa,dst=02:bb:bb:bb:bb:bb))",
             ether(udp4(), src="02:aa:aa:aa:aa:aa", dst="02:bb:bb:bb:bb:bb")),
        edit("set half of an address", plain, IP4, "set(eth(dst=02:bb:00:00:00:00/ff:ff:00:00:00:00))",
             ether(udp4(), dst="02:bb:00:00:00:02")),
        edit("route UDP", plain, IP4, "set(ipv4(src=192.0.2.1,dst=198.51.100.7,ttl=63))",
             ether(_ip(udp4(), src="192.0.2.1", dst="198.51.100.7", ttl=63))),
        edit("route UDP without checksum", ether(udp4(chksum=0)), IP4, "set(ipv4(dst=198.51.100.7))",
             ether(_ip(udp4(chksum=0), dst="198.51.100.7"))),
        edit("route TCP", ether(tcp4()), IP4, "set(ipv4(src=192.0.2.1,tos=0x20/0xfc,ttl=1))",
             ether(_ip(tcp4(), src="192.0.2.1", tos=0x20, ttl=1))),
        edit("a later fragment's TTL", ether(udp4(ip={"frag": 100})), "eth_type(0x0800),ipv4(frag=later)",
             "set(ipv4(ttl=9))", ether(_ip(udp4(ip={"frag": 100}), ttl=9))),
        edit("route IPv6", ether(udp6()), IP6, "set(ipv6(src=fc00::a,dst=fc00::b,hlimit=63,tclass=0x20))",
             ether(udp6(ip={"src": "fc00::a", "dst": "fc00::b", "hlim": 63, "tc": 0x20}))),
        edit("set TCP ports", ether(tcp4()), "eth_type(0x0800),ipv4(proto=6,frag=no),tcp()",
             "set(tcp(src=1,dst=65535))",
             ether(tcp4(sport=1, dport=65535))),
        edit("set UDP port", plain, IP4_UDP, "set(udp(dst=53/0xffff))", ether(udp4(dport=53))),
        edit("set ARP", ether(ARP(op=1, hwsrc="02:00:00:00:00:01", psrc="10.0.0.1", pdst="10.0.0.2")),
             "eth_type(0x0806),arp()",
             "set(arp(op=2/0xffff,sip=10.9.9.9/255.255.255.255))",
             ether(ARP(op=2, hwsrc="02:00:00:00:00:01", psrc="10.9.9.9", pdst="10.0.0.2"))),
        edit("set SCTP ports", ether(sctp4()), "eth_type(0x0800),ipv4(proto=132,frag=no),sctp()", "set(sctp(src=1,dst=65535))",
             ether(sctp4(sport=1, dport=65535))),
        edit("set neighbour discovery target", ether(ns / nd), f"{ND},nd()", "set(nd(target=fc00::8,sll=02:aa:aa:aa:aa:aa))",
             ether(ns / solicitation("fc00::8", "02:aa:aa:aa:aa:aa"))),
        edit("set neighbour discovery flags", ether(ns / nd), f"{ND},nd()",
             "set(nd_ext(nd_reserved=0x60000000,nd_options_type=2))",
             ether(ns / solicitation(res=0x60000000, type=2))),
        edit("push a tag", plain, IP4, "push_vlan(vid=10,pcp=5)", ether(Dot1Q(vlan=10, prio=5) / udp4())),
        edit("push a service tag", ether(Dot1Q(vlan=7) / udp4()),
             "eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800),ipv4(frag=no))",
             "push_vlan(tpid=0x88a8,vid=10,pcp=0)", ether(Dot1Q(vlan=10) / Dot1Q(vlan=7) / udp4(), type=0x88a8)),
        edit("pop a tag", ether(Dot1Q(vlan=7) / udp4()),
             "eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800),ipv4(frag=no))",
             "pop_vlan", plain),
        edit("set a label", ether(MPLS(label=77, ttl=9, s=1) / udp4()), "eth_type(0x8847),mpls(label=77,tc=0,ttl=9,bos=1)",
             "set(mpls(label=78,tc=5,ttl=8,bos=1))", ether(MPLS(label=78, cos=5, ttl=8, s=1) / udp4())),
        edit("truncate", ether(udp4(b"t" * 200)), IP4, "trunc(100)", bytes(ether(udp4(b"t" * 200)))[:100],
             tcx=False),
        row("no longer than", plain, IP4, f"push_vlan(vid=10,pcp=5),check_pkt_len(size={len(plain) + 4},gt(drop),"
            "le(set(ipv4(ttl=63)),{green}))", ether(Dot1Q(vlan=10, prio=5) / _ip(udp4(), ttl=63))),
        row("longer than", plain, IP4, f"push_vlan(vid=10,pcp=5),check_pkt_len(size={len(plain) + 3},gt(set(ipv4(ttl=62)),"
            "{green}),le(drop))", ether(Dot1Q(vlan=10, prio=5) / _ip(udp4(), ttl=62)), xdp=False, tcx=False),
        Row("recirculate", bytes(plain),
            [(f"recirc_id(0),{IP4}", "set(ipv4(ttl=63)),recirc(7001)"),
             ("recirc_id(7001),eth_type(0x0800),ipv4(ttl=63,frag=no)", "push_vlan(vid=9,pcp=0),{green}")],
            {"green": bytes(ether(Dot1Q(vlan=9) / _ip(udp4(), ttl=63)))}),
        Row("recirculate and drop", bytes(plain),
            [(f"recirc_id(0),{IP4}", "recirc(7002)"), ("recirc_id(7002),eth_type(0x0800),ipv4(frag=no)", "drop")], {}),
        Row("two ports", bytes(plain), [(IP4, "{green},{blue}")],
            {"green": bytes(plain), "blue": bytes(plain)}),
        Row("edits, then two ports", bytes(plain), [(IP4, "set(ipv4(ttl=5)),push_vlan(vid=3,pcp=0),{blue},{green}")],
            {name: bytes(ether(Dot1Q(vlan=3) / _ip(udp4(), ttl=5))) for name in ("blue", "green")}),
        Row("recirculation, then two ports", bytes(plain),
            [(f"recirc_id(0),{IP4}", "set(ipv4(ttl=5)),recirc(7003)"), (f"recirc_id(7003),{IP4}", "{green},{blue}")],
            {name: bytes(ether(_ip(udp4(), ttl=5))) for name in ("green", "blue")}),
        Row("between outputs", bytes(plain), [(IP4, "{green},set(ipv4(ttl=5)),{blue}")],
            {"green": bytes(plain), "blue": bytes(ether(_ip(udp4(), ttl=5)))}, xdp=False),
        Row("clone", bytes(plain), [(IP4, "clone(push_vlan(vid=3,pcp=0),{green}),{blue}")],
            {"green": bytes(ether(Dot1Q(vlan=3) / udp4())), "blue": bytes(plain)}, xdp=False, tcx=False),
    ]


def jumbo():
    """Frames that lie in several buffers.  What programs cannot do to these the engine does, with the same flows."""
    return [made for size in (4000, 9000) for made in _jumbo(size)]


def _jumbo(size):
    data = bytes(range(250)) * (size // 250)
    plain, tagged, label = ether(udp4(data)), Dot1Q(vlan=7) / udp4(data), MPLS(label=77, ttl=9, s=1)
    in_tag = "eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800),ipv4(frag=no))"
    return [
        same(f"udp, {size}", plain, IP4_UDP),
        same(f"udp in IPv6, {size}", ether(IPv6(src="fc00::1", dst="fc00::2") / UDP(sport=1000, dport=2000) / data),
             "eth_type(0x86dd),ipv6(src=fc00::1,dst=fc00::2,proto=17,frag=no),udp(dst=2000)"),
        same(f"longer than its IP header says, {size}", bytes(plain) + b"p" * 7, IP4_UDP),
        edit(f"route UDP, {size}", plain, IP4, "set(ipv4(src=192.0.2.1,dst=198.51.100.7,ttl=63))",
             ether(_ip(udp4(data), src="192.0.2.1", dst="198.51.100.7", ttl=63))),
        edit(f"set UDP port, {size}", plain, IP4_UDP, "set(udp(dst=53/0xffff))", ether(udp4(data, dport=53))),
        edit(f"push a tag, {size}", plain, IP4, "push_vlan(vid=10,pcp=5)", ether(Dot1Q(vlan=10, prio=5) / udp4(data))),
        edit(f"pop a tag, {size}", ether(tagged), in_tag, "pop_vlan", plain),
        edit(f"set a label, {size}", ether(label / udp4(data)), "eth_type(0x8847),mpls(label=77,tc=0,ttl=9,bos=1)",
             "set(mpls(label=78,tc=5,ttl=8,bos=1))", ether(MPLS(label=78, cos=5, ttl=8, s=1) / udp4(data))),
        edit(f"push a service tag, {size}", ether(tagged), in_tag, "push_vlan(tpid=0x88a8,vid=10,pcp=0)",
             ether(Dot1Q(vlan=10) / tagged, type=0x88a8)),
        edit(f"route IPv6, {size}", ether(IPv6(src="fc00::1", dst="fc00::2") / UDP(sport=1000, dport=2000) / data), IP6,
             "set(ipv6(src=fc00::a,dst=fc00::b,hlimit=63))",
             ether(IPv6(src="fc00::a", dst="fc00::b", hlim=63) / UDP(sport=1000, dport=2000) / data)),
        edit(f"truncate, {size}", plain, IP4, "trunc(100)", bytes(plain)[:100], tcx=False),
        edit(f"truncate a little, {size}", plain, IP4, f"trunc({size})", bytes(plain)[:size], tcx=False),
        Row(f"recirculate, {size}", bytes(plain),
            [(f"recirc_id(0),{IP4}", "set(ipv4(ttl=63)),recirc(7001)"),
             ("recirc_id(7001),eth_type(0x0800),ipv4(ttl=63,frag=no)", "push_vlan(vid=9,pcp=0),{green}")],
            {"green": bytes(ether(Dot1Q(vlan=9) / _ip(udp4(data), ttl=63)))}),
        Row(f"two ports, {size}", bytes(plain), [(IP4, "{green},{blue}")], {"green": bytes(plain), "blue": bytes(plain)}),
        Row(f"between outputs, {size}", bytes(plain), [(IP4, "{green},set(ipv4(ttl=5)),{blue}")],
            {"green": bytes(plain), "blue": bytes(ether(_ip(udp4(data), ttl=5)))}, xdp=False),
        Row(f"clone, {size}", bytes(plain), [(IP4, "clone(push_vlan(vid=3,pcp=0),{green}),{blue}")],
            {"green": bytes(ether(Dot1Q(vlan=3) / udp4(data))), "blue": bytes(plain)}, xdp=False, tcx=False),
        Row(f"edits, then two ports, {size}", bytes(plain), [(IP4, "set(ipv4(ttl=5)),push_vlan(vid=3,pcp=0),{blue},{green}")],
            {name: bytes(ether(Dot1Q(vlan=3) / _ip(udp4(data), ttl=5))) for name in ("blue", "green")}),
    ]


def _ip(packet, **fields):
    """The packet with other fields in its IP header; checksums follow, except that of UDP if there was none."""
    for name, value in fields.items():
        setattr(packet[IP], name, value)
    return packet
