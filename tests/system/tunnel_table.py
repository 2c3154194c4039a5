# SPDX-License-Identifier: Apache-2.0
"""What tunnels do to packets: one table, as tests/system/packet_table.py, for test_tunnel_table.py.

In the flows {red}, {green} and {blue} are as there, {vxlan}, {geneve} and {gre} are tunnels.
"""
import re
import struct

from scapy.all import ARP, Dot1Q, Ether, ICMP, IP, IPv6, Raw
from scapy.layers.inet import UDP

import offload
from packet_table import IP4, Row, ether, tcp4, udp4, udp6

NEAR, FAR = "02:00:00:00:00:bb", "02:00:00:00:00:aa"
NEAR4, FAR4, NEAR6, FAR6 = "172.16.0.1", "172.16.0.2", "fd00::1", "fd00::2"
VNI = 0x2a
OTHER_FAR, OTHER_FAR4, OTHER_FAR6, OTHER_VNI = "02:00:00:00:00:ac", "172.16.0.9", "fd00::9", 0x2b
KINDS = ("vxlan", "geneve", "gre")
OPTION = bytes.fromhex("01028001 00010002")
OPTIONS = OPTION + bytes.fromhex("0103020e") + bytes(range(56))
MOST_OPTIONS = OPTION + bytes.fromhex("0103020d") + bytes(range(52))


def table():
    return pushes() + copies() + pops() + refused()


def pushes():
    plain, arp = ether(udp4()), ether(ARP(psrc="10.0.0.1", pdst="10.0.0.2"), dst="ff:ff:ff:ff:ff:ff")
    ping = ether(IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(type=8))
    return [
        push("VXLAN", plain, IP4, vxlan(), outer_vxlan),
        push("VXLAN, TCP inside", ether(tcp4()), IP4, vxlan(), outer_vxlan),
        push("VXLAN, ICMP inside", ping, IP4, vxlan(), outer_vxlan),
        push("VXLAN, IPv6 inside", ether(udp6()), "eth_type(0x86dd),ipv6(frag=no)", vxlan(), outer_vxlan),
        push("VXLAN, ARP inside", arp, "eth_type(0x0806),arp()", vxlan(), outer_vxlan),
        push("VXLAN, unknown type inside", ether(Raw(b"u" * 46), type=0x88b5), "eth_type(0x88b5)", vxlan(), outer_vxlan),
        push("VXLAN, a later fragment inside", ether(udp4(ip={"frag": 100})), "eth_type(0x0800),ipv4(frag=later)",
             vxlan(), outer_vxlan),
        push("VXLAN, an odd length", ether(udp4(b"x" * 31)), IP4, vxlan(), outer_vxlan),
        push("VXLAN in IPv6", plain, IP4, vxlan(ip6=True), lambda inner: outer_vxlan(inner, ip6=True)),
        push("VXLAN with checksum", plain, IP4, vxlan(csum=True), lambda inner: outer_vxlan(inner, csum=True)),
        push("VXLAN with checksum, a large packet", ether(udp4(bytes(range(256)) * 5 + b"z")), IP4, vxlan(csum=True),
             lambda inner: outer_vxlan(inner, csum=True)),
        push("VXLAN with checksum, ARP inside", arp, "eth_type(0x0806),arp()", vxlan(csum=True),
             lambda inner: outer_vxlan(inner, csum=True)),
        push("VXLAN with checksum, a wrong one inside", bytes(plain)[:-1] + b"!", IP4, vxlan(csum=True),
             lambda inner: outer_vxlan(inner, csum=True)),
        push("Geneve", plain, IP4, geneve(), outer_geneve),
        push("Geneve with an option", plain, IP4, geneve(OPTION), lambda inner: outer_geneve(inner, OPTION)),
        push("Geneve with 64 bytes of options", plain, IP4, geneve(OPTIONS), lambda inner: outer_geneve(inner, OPTIONS)),
        push("Geneve with an option and checksum", plain, IP4, geneve(OPTION, csum=True),
             lambda inner: outer_geneve(inner, OPTION, csum=True)),
        push("Geneve with an option in IPv6", plain, IP4, geneve(OPTION, ip6=True),
             lambda inner: outer_geneve(inner, OPTION, ip6=True)),
        push("GRE", plain, IP4, gre(), outer_gre),
        push("GRE with key", plain, IP4, gre(key=True), lambda inner: outer_gre(inner, key=True)),
        push("GRE with checksum", plain, IP4, gre(csum=True, key=True), lambda inner: outer_gre(inner, csum=True, key=True)),
        push("GRE in IPv6", plain, IP4, gre(key=True, ip6=True), lambda inner: outer_gre(inner, key=True, ip6=True)),
        push("edits before", plain, IP4, f"set(ipv4(ttl=63)),{vxlan()}",
             lambda inner: outer_vxlan(bytes(edited(udp4())), port=source_port(inner))),
        push("a tag for the outer packet", plain, IP4, f"{vxlan()},push_vlan(vid=9,pcp=0)",
             lambda inner: bytes(tagged(outer_vxlan(inner)))),
        push("a tag inside", ether(Dot1Q(vlan=7) / udp4()),
             "eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800),ipv4(frag=no))", vxlan(), outer_vxlan),
        push("a tag inside that is pushed before", plain, IP4, f"push_vlan(vid=9,pcp=0),{vxlan()}",
             lambda inner: outer_vxlan(tagged(inner))),
        push("another tag inside", ether(Dot1Q(vlan=7) / udp4()),
             "eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800),ipv4(frag=no))",
             f"pop_vlan,push_vlan(vid=9,pcp=0),{vxlan(csum=True)}",
             lambda inner: outer_vxlan(tagged(bytes(ether(udp4()))), csum=True)),
        push("a tag inside, ARP", arp, "eth_type(0x0806),arp()", f"push_vlan(vid=9,pcp=0),{vxlan()}",
             lambda inner: outer_vxlan(tagged(inner))),
        push("a tag inside, ARP, GRE with checksum", arp, "eth_type(0x0806),arp()", f"push_vlan(vid=9,pcp=0),{gre(csum=True)}",
             lambda inner: outer_gre(tagged(inner), csum=True)),
        push("tags inside and outside", plain, IP4, f"push_vlan(vid=9,pcp=0),{geneve(OPTION)},push_vlan(vid=9,pcp=0)",
             lambda inner: tagged(outer_geneve(tagged(inner), OPTION))),
        push("two tags inside", ether(Dot1Q(vlan=7) / udp4()),
             "eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800),ipv4(frag=no))", f"push_vlan(vid=9,pcp=0),{vxlan()}",
             lambda inner: outer_vxlan(tagged(inner)), tcx=False),
        push("a tag popped before", ether(Dot1Q(vlan=7) / udp4()),
             "eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800),ipv4(frag=no))", f"pop_vlan,{vxlan()}",
             lambda inner: outer_vxlan(bytes(ether(udp4())))),
    ]


def copies():
    """Into tunnels to two ends, and to a port, as a broadcast."""
    plain, arp = ether(udp4()), ether(ARP(psrc="10.0.0.1", pdst="10.0.0.2"), dst="ff:ff:ff:ff:ff:ff")
    large = ether(udp4(bytes(range(256)) * 5 + b"z"))
    ways = [
        ("VXLAN", plain, vxlan(), outer_vxlan, {}),
        ("VXLAN, ARP inside", arp, vxlan(), outer_vxlan, {}),
        ("VXLAN with checksum", large, vxlan(csum=True), outer_vxlan, {"csum": True}),
        ("VXLAN in IPv6", plain, vxlan(ip6=True), outer_vxlan, {"ip6": True}),
        ("Geneve with options", plain, geneve(OPTIONS), outer_geneve, {"options": OPTIONS}),
        ("Geneve with options and checksum", plain, geneve(OPTIONS, csum=True), outer_geneve, {"options": OPTIONS, "csum": True}),
        ("GRE with key", plain, gre(key=True), outer_gre, {"key": True}),
    ]
    rows = [Row(f"push {name} to two ends", bytes(frame),
                [("eth_type(0x0806),arp()" if frame is arp else IP4, f"clone({to},{{green}}),clone({to_another(to)},{{blue}})")],
                {"green": outer(bytes(frame), **how), "blue": outer(bytes(frame), other=True, **how)}, xdp=False)
            for name, frame, to, outer, how in ways]
    return rows + [
        Row("push VXLAN and output", bytes(plain), [(IP4, f"clone({vxlan()},{{green}}),{{blue}}")],
            {"green": outer_vxlan(bytes(plain)), "blue": bytes(plain)}, xdp=False),
        Row("push VXLAN within VXLAN", bytes(plain), [(IP4, f"clone({vxlan()},{to_another(vxlan())},{{green}})")],
            {"green": outer_vxlan(outer_vxlan(bytes(plain)), other=True, port=source_port(bytes(plain)))}, xdp=False, tcx=False),
        Row("push VXLAN and GRE", bytes(plain), [(IP4, f"clone({vxlan()},{{green}}),clone({gre()},{{blue}})")],
            {"green": outer_vxlan(bytes(plain)), "blue": outer_gre(bytes(plain))}, xdp=False, tcx=False),
    ]


def to_another(header):
    """The same tnl_push() to another end, with another key."""
    for this, other in (FAR, OTHER_FAR), (FAR4, OTHER_FAR4), (FAR6, OTHER_FAR6), (f"{VNI:#x}", f"{OTHER_VNI:#x}"):
        header = header.replace(f"={this}", f"={other}")
    return header


def pops():
    plain, arp = ether(udp4()), ether(ARP(psrc="10.0.0.1", pdst="10.0.0.2"), dst="ff:ff:ff:ff:ff:ff")
    tagged_inside = ether(Dot1Q(vlan=7) / udp4())
    again = f"in_port({{vxlan}}),{TUNNEL},{IP4}"
    nested = outer_vxlan(bytes(ether(udp4())))
    return [
        pop("VXLAN", "vxlan", plain, outer_vxlan),
        pop("VXLAN, TCP inside", "vxlan", ether(tcp4()), outer_vxlan),
        pop("VXLAN, IPv6 inside", "vxlan", ether(udp6()), outer_vxlan, inside="eth_type(0x86dd),ipv6(frag=no)"),
        pop("VXLAN, ARP inside", "vxlan", arp, outer_vxlan, inside="eth_type(0x0806),arp()"),
        pop("VXLAN, unknown type inside", "vxlan", ether(Raw(b"u" * 46), type=0x88b5), outer_vxlan, inside="eth_type(0x88b5)"),
        pop("VXLAN, a later fragment inside", "vxlan", ether(udp4(ip={"frag": 100})), outer_vxlan,
            inside="eth_type(0x0800),ipv4(frag=later)"),
        pop("VXLAN, an odd length", "vxlan", ether(udp4(b"x" * 31)), outer_vxlan),
        pop("VXLAN, a tag inside", "vxlan", tagged_inside, outer_vxlan,
            inside="eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800),ipv4(frag=no))"),
        pop("VXLAN, a tag inside that is popped", "vxlan", tagged_inside, outer_vxlan, becomes=plain, actions="pop_vlan,{green}",
            inside="eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800),ipv4(frag=no))"),
        pop("VXLAN in IPv6", "vxlan", plain, lambda inner: outer_vxlan(inner, ip6=True), outside=udp_flow(4789, ip6=True),
            tunnel=tunnel(ip6=True, csum=True)),
        pop("VXLAN with checksum", "vxlan", plain, lambda inner: outer_vxlan(inner, csum=True), tunnel=tunnel(csum=True)),
        pop("VXLAN with checksum, a large packet", "vxlan", ether(udp4(bytes(range(256)) * 5 + b"z")),
            lambda inner: outer_vxlan(inner, csum=True), tunnel=tunnel(csum=True)),
        pop("VXLAN, bytes behind the packet", "vxlan", bytes(plain) + b"behind", outer_vxlan),
        pop("VXLAN, UDP's length lies", "vxlan", plain, lambda inner: patch(outer_vxlan(inner), 38, b"\0\x08")),
        pop("VXLAN, class and TTL", "vxlan", plain, lambda inner: outer_vxlan(inner, tos=0x2e),
            tunnel=tunnel(more="tos=0x2e,ttl=64,tp_dst=4789,")),
        pop("Geneve", "geneve", plain, outer_geneve, tunnel=tunnel(more="geneve(),")),
        pop("Geneve, control packet", "geneve", plain, lambda inner: patch(outer_geneve(inner), 43, b"\x80"),
            tunnel=tunnel(flags="-df-csum+key+oam")),
        pop("Geneve with an option", "geneve", plain, lambda inner: outer_geneve(inner, OPTION),
            tunnel=tunnel(more=f"geneve({option_text(OPTION)}),")),
        pop("Geneve with an option that is not matched", "geneve", plain, lambda inner: outer_geneve(inner, OPTION)),
        pop("Geneve with 64 bytes of options", "geneve", plain, lambda inner: outer_geneve(inner, MOST_OPTIONS),
            tunnel=tunnel(more=f"geneve({option_text(MOST_OPTIONS)}),")),
        pop("GRE", "gre", plain, outer_gre, tunnel=tunnel(key=False)),
        pop("GRE with key", "gre", plain, lambda inner: outer_gre(inner, key=True)),
        pop("GRE with checksum", "gre", plain, lambda inner: outer_gre(inner, csum=True, key=True), tunnel=tunnel(csum=True)),
        pop("GRE with sequence number", "gre", plain, lambda inner: outer_gre(inner, key=True, seq=True)),
        pop("GRE in IPv6", "gre", plain, lambda inner: outer_gre(inner, key=True, ip6=True), tunnel=tunnel(ip6=True),
            outside="eth_type(0x86dd),ipv6(proto=47,frag=no)"),
        pop("a tag outside", "vxlan", plain, lambda inner: tagged(outer_vxlan(inner)),
            outside=f"eth_type(0x8100),vlan(vid=9,pcp=0),encap({UDP_VXLAN})", before="pop_vlan,"),
        pop("edits before", "vxlan", plain, outer_vxlan, before="set(eth(src=02:aa:aa:aa:aa:aa,dst=02:bb:bb:bb:bb:bb)),"),
        pop("edits behind", "vxlan", plain, outer_vxlan, becomes=edited(udp4()), actions="set(ipv4(ttl=63)),{green}"),
        pop("and push", "vxlan", plain, outer_vxlan, becomes=outer_gre(bytes(plain)), actions=f"clone({gre()},{{green}})"),
        pop("and recirculate", "vxlan", plain, outer_vxlan, actions="recirc(1)",
            then=[(f"recirc_id(1),{again}", "{green}")], later=[len(plain)]),
        pop("twice", "vxlan", nested, outer_vxlan, becomes=plain, inside=UDP_VXLAN, actions="tnl_pop({vxlan})",
            then=[(f"in_port({{vxlan}}),{TUNNEL},eth_type(0x0800),ipv4(src=10.0.0.1,frag=no)", "{green}")],
            later=[len(plain)], network="ipv4(src=172.16.0.1,"),
    ]


def refused():
    """What programs leave to the engine as it is, and what that makes of it."""
    plain = ether(udp4())
    return [
        pop("more options", "geneve", plain, lambda inner: outer_geneve(inner, OPTIONS), refused=True),
        drop("a wrong checksum", "vxlan", plain, lambda inner: patch(outer_vxlan(inner, csum=True), 41, b"!")),
        drop("a wrong checksum of GRE", "gre", plain, lambda inner: patch(outer_gre(inner, csum=True), 39, b"!")),
        drop("a wrong checksum of IP", "vxlan", plain, lambda inner: patch(outer_vxlan(inner), 25, b"!")),
        drop("a wrong version of IP", "vxlan", plain, lambda inner: patch(outer_vxlan(inner), 14, b"\x35")),
        drop("VXLAN with GBP", "vxlan", plain, lambda inner: patch(outer_vxlan(inner), 42, b"\x88")),
        drop("VXLAN, reserved bits", "vxlan", plain, lambda inner: patch(outer_vxlan(inner), 49, b"\1")),
        drop("Geneve of another version", "geneve", plain, lambda inner: patch(outer_geneve(inner), 42, b"\x40")),
        drop("Geneve, options beyond the frame", "geneve", plain, lambda inner: patch(outer_geneve(inner), 42, b"\x3f")),
        drop("GRE with reserved bits", "gre", plain, lambda inner: patch(outer_gre(inner), 34, b"\x08")),
        drop("GRE of version 1", "gre", plain, lambda inner: patch(outer_gre(inner), 35, b"\1")),
        drop("less than a header", "vxlan", plain,
             lambda inner: bytes(network(17, False) / UDP(sport=9, dport=4789, chksum=0) / Raw(b"v" * 4))),
        drop("less than a packet inside", "vxlan", plain, lambda inner: outer_vxlan(inner[:13], port=9)),
    ]


def pop(name, kind, inner, outer, inside=IP4, outside=None, tunnel=None, before="", actions="{green}", becomes=None, then=(),
        later=(), network=None, refused=False, **how):
    """A flow that takes off the header of a tunnel, and one that sends what was inside to green."""
    inner, frame = bytes(inner), bytes(outer(bytes(inner)))
    outside = outside or {"vxlan": UDP_VXLAN, "geneve": udp_flow(6081), "gre": "eth_type(0x0800),ipv4(proto=47,frag=no)"}[kind]
    if network:
        inside, outside = (text.replace("ipv4(", network) for text in (inside, outside))
    made = Row(f"pop {name}", frame, [(outside, f"{before}tnl_pop({{{kind}}})"),
                                      (f"in_port({{{kind}}}),{tunnel or TUNNEL},{inside}", actions), *then],
               {"green": inner if becomes is None else bytes(becomes)}, **how)
    made.later = [len(inner), *later]
    made.refused = refused
    return made


def drop(name, kind, inner, outer):
    """A packet with a header that Open vSwitch drops."""
    row = pop(name, kind, inner, outer, refused=True)
    row.name, row.output, row.later = f"drop {name}", {}, [0]
    return row


def tunnel(ip6=False, csum=False, key=True, more="", flags=None):
    """The match of packets from the tunnel."""
    addresses = f"ipv6_src={NEAR6},ipv6_dst={FAR6}" if ip6 else f"src={NEAR4},dst={FAR4}"
    flags = flags or f"-df{'+' if csum else '-'}csum{'+' if key else '-'}key"
    more += "" if "ttl" in more else "ttl=0/0,"
    return f"tunnel({f'tun_id={VNI:#x},' if key else ''}{addresses},{more}flags({flags}))"


def udp_flow(port, ip6=False):
    return f"eth_type(0x86dd),ipv6(proto=17,frag=no),udp(dst={port})" if ip6 else \
        f"eth_type(0x0800),ipv4(proto=17,frag=no),udp(dst={port})"


UDP_VXLAN = udp_flow(4789)
TUNNEL = tunnel()


def patch(frame, ofs, data):
    return frame[:ofs] + data + frame[ofs + len(data):]


def push(name, frame, flow, actions, outer, **how):
    """A flow that pushes a tunnel's header and sends the packet to green, in the form that ofproto has for it."""
    frame = bytes(frame)
    return Row(f"push {name}", frame, [(flow, f"clone({actions},{{green}})")], {"green": bytes(outer(frame))}, **how)


def edited(packet):
    packet = ether(packet)
    packet[IP].ttl = 63
    return packet


def tagged(frame):
    return frame[:12] + bytes.fromhex("81000009") + frame[12:]


def tnl_push(port, kind, layers, size):
    return f"tnl_push(tnl_port({{{port}}}),header(size={size},type={kind},{layers}),out_port({{blue}}))"


def layers(proto, ip6):
    eth = f"eth(dst={FAR},src={NEAR},dl_type={'0x86dd' if ip6 else '0x0800'})"
    if ip6:
        return f"{eth},ipv6(src={NEAR6},dst={FAR6},label=0,proto={proto},tclass=0x0,hlimit=64)"
    return f"{eth},ipv4(src={NEAR4},dst={FAR4},proto={proto},tos=0,ttl=64,frag=0x4000)"


def vxlan(ip6=False, csum=False):
    checksum = "0xffff" if csum or ip6 else "0x0"
    return tnl_push("vxlan", 4, f"{layers(17, ip6)},udp(src=0,dst=4789,csum={checksum}),vxlan(flags=0x8000000,vni={VNI:#x})",
                    70 if ip6 else 50)


def geneve(options=b"", ip6=False, csum=False):
    text = f",options({option_text(options)})" if options else ""
    checksum = "0xffff" if csum or ip6 else "0x0"
    return tnl_push("geneve", 5, f"{layers(17, ip6)},udp(src=0,dst=6081,csum={checksum}),geneve(vni={VNI:#x}{text})",
                    (70 if ip6 else 50) + len(options))


def option_text(options):
    text = ""
    while options:
        size = 4 * (options[3] & 0x1f)
        text += (f"{{{{class=0x{options[:2].hex()},type={options[2]:#x},len={size},0x{options[4:4 + size].hex()}}}}}")
        options = options[4 + size:]
    return text


def gre(key=False, csum=False, ip6=False):
    flags = (0x8000 if csum else 0) | (0x2000 if key else 0)
    more = (",csum=0x0" if csum else "") + (f",key={VNI:#x}" if key else "")
    return tnl_push("gre", 109 if ip6 else 3, f"{layers(47, ip6)},gre((flags={flags:#x},proto=0x6558){more})",
                    38 + 4 * csum + 4 * key + 20 * ip6)


def network(proto, ip6, tos=0, other=False):
    far, far4, far6 = (OTHER_FAR, OTHER_FAR4, OTHER_FAR6) if other else (FAR, FAR4, FAR6)
    if ip6:
        return Ether(dst=far, src=NEAR) / IPv6(src=NEAR6, dst=far6, nh=proto, hlim=64, tc=tos)
    return Ether(dst=far, src=NEAR) / IP(src=NEAR4, dst=far4, proto=proto, flags="DF", id=0, ttl=64, tos=tos)


def vni(other=False, **_):
    return OTHER_VNI if other else VNI


def in_udp(inner, port, payload, ip6=False, csum=False, source=None, **fields):
    how = {} if csum or ip6 else {"chksum": 0}
    return bytes(network(17, ip6, **fields) / UDP(sport=source or source_port(inner), dport=port, **how)
                 / Raw(payload + inner))


def outer_vxlan(inner, ip6=False, csum=False, port=None, **fields):
    return in_udp(inner, 4789, struct.pack("!II", 0x08000000, vni(**fields) << 8), ip6, csum, port, **fields)


def outer_geneve(inner, options=b"", ip6=False, csum=False, port=None, **fields):
    return in_udp(inner, 6081, struct.pack("!BBHI", len(options) // 4, 0, 0x6558, vni(**fields) << 8) + options, ip6, csum, port, **fields)


def outer_gre(inner, key=False, csum=False, seq=False, ip6=False, other=False):
    header = struct.pack("!HH", (0x8000 if csum else 0) | (0x2000 if key else 0) | (0x1000 if seq else 0), 0x6558)
    tail = (struct.pack("!I", vni(other)) if key else b"") + (struct.pack("!I", 77) if seq else b"") + inner
    if csum:
        header += struct.pack("!HH", checksum(header + bytes(4) + tail), 0)
    return bytes(network(47, ip6, other=other) / Raw(header + tail))


def numbered(frame, number):
    """The frame, if its outer packet is IPv4, with another identification."""
    if frame[14] >> 4 == 6:
        return frame
    frame = offload.put16(offload.put16(frame, 18, number), 24, 0)
    return offload.put16(frame, 24, 0xffff - offload.ones_sum(frame[14:34]))


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def source_port(frame):
    """As Open vSwitch chooses it: miniflow_hash_5tuple(), mapped to the ports from 32768 to 61000."""
    packet = Ether(frame)
    number = 0
    inner = packet
    while isinstance(inner.payload, Dot1Q):
        inner = inner.payload
    layer = inner.payload
    words, ports = [], []
    if isinstance(layer, (IP, IPv6)):
        raw = bytes(layer)
        words = list(struct.unpack("<2I" if layer.version == 4 else "<8I", raw[12:20] if layer.version == 4 else raw[8:40]))
        words.append(raw[9] if layer.version == 4 else raw[6])
        length = (raw[0] & 15) * 4 if layer.version == 4 else 40
        if words[-1] in (6, 17):
            ports = [struct.unpack("<I", raw[length:length + 4])[0]]
        elif words[-1] == 1:
            ports = [raw[length] << 8 | raw[length + 1] << 24]
        if words[-1] in (6, 17, 1) and layer.version == 4 and layer.frag:
            ports = [0]
    elif isinstance(layer, ARP):
        raw = bytes(layer)
        words = [*struct.unpack("<I", raw[14:18]), *struct.unpack("<I", raw[24:28]), raw[7]]
        ports = [0] if raw[7] in (1, 6, 17) else []
    for word in words + ports:
        word = word * 0xcc9e2d51 & 0xffffffff
        word = (word << 15 | word >> 17) & 0xffffffff
        number ^= word * 0x1b873593 & 0xffffffff
        number = (number << 13 | number >> 19) & 0xffffffff
        number = (number * 5 + 0xe6546b64) & 0xffffffff
    number ^= 42
    number = (number ^ number >> 16) * 0x85ebca6b & 0xffffffff
    number = (number ^ number >> 13) * 0xc2b2ae35 & 0xffffffff
    number ^= number >> 16
    return (number * (61000 - 32768) >> 32) + 32768


def port(switch, kind):
    """The number that the datapath has for the tunnels of a kind: "port 5: vxlan_sys_4789 (vxlan: ...)"."""
    return int(re.search(rf"port (\d+): \w+ \({kind}", switch.appctl("dpctl/show"))[1])
