# SPDX-License-Identifier: Apache-2.0
"""Packets that no honest container sends: one list, for tests that compare what becomes of them.

Every frame has a source address of its own, by which it is found again where it leaves.
"""
import struct
from dataclasses import dataclass

from scapy.all import (ARP, AH, Dot1AD, Dot1Q, Ether, ICMP, IP, IPOption, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment,
                       IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, Raw, SCTP, TCP, UDP, ICMPv6ND_NS)

SINK = "02:00:00:00:00:02"


@dataclass
class Hostile:
    name: str
    frame: bytes


def frames():
    """[Hostile], the same each time."""
    found = [*truncated(), *lying_lengths(), *extension_headers(), *fragments(), *tags(), *broken_checksums(), *long()]
    return [Hostile(what, frame[:6] + source(number) + frame[12:]) for number, (what, frame) in enumerate(found)]


def source(number):
    return b"\x02\x00\x00\x01" + number.to_bytes(2, "big")


def number_of(frame):
    """Which of frames() this is, None for others."""
    return int.from_bytes(frame[10:12], "big") if frame[6:10] == b"\x02\x00\x00\x01" else None


def whole():
    """Frames with nothing wrong."""
    ip4, ip6 = IP(src="10.0.0.1", dst="10.0.0.2"), IPv6(src="fc00::1", dst="fc00::2")
    udp, tcp = UDP(sport=1000, dport=2000), TCP(sport=1000, dport=2000, flags="SA", options=[("NOP", None)] * 4)
    payload = b"p" * 26
    for name, packet in (
            ("ARP", ARP(op=1, psrc="10.0.0.1", pdst="10.0.0.2")),
            ("IPv4 UDP", ip4 / udp / payload), ("IPv4 TCP", ip4 / tcp / payload),
            ("IPv4 ICMP", ip4 / ICMP() / payload), ("IPv4 SCTP", ip4 / SCTP(sport=1000, dport=2000) / payload),
            ("IPv4 options UDP", IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption(b"\x01")] * 8) / udp / payload),
            ("IPv6 UDP", ip6 / udp / payload), ("IPv6 TCP", ip6 / tcp / payload),
            ("IPv6 ND", ip6 / ICMPv6ND_NS(tgt="fc00::9") / b"\1\1\2\0\0\0\0\1")):
        yield name, bytes(Ether(dst=SINK) / packet)


def truncated():
    for name, frame in whole():
        for length in (*range(14, min(len(frame), 80)), len(frame)):
            yield f"{name}, {length} of {len(frame)} bytes", frame[:length]


def patched(frame, offset, value):
    return frame[:offset] + value + frame[offset + len(value):]


def lying_lengths():
    """Headers that contradict the frame's length, or themselves."""
    good = dict(whole())
    for name in "IPv4 UDP", "IPv4 TCP", "IPv4 options UDP":
        frame = good[name]
        for ihl in range(16):
            yield f"{name}, IHL {ihl}", patched(frame, 14, bytes([0x40 | ihl]))
        for total in 0, 1, 19, 20, 21, 27, 28, 29, 39, 40, 41, len(frame) - 15, len(frame) - 13, 1500, 65535:
            yield f"{name}, total length {total}", patched(frame, 16, struct.pack("!H", total))
        for version in 0, 5, 6, 15:
            yield f"{name}, version {version}", patched(frame, 14, bytes([version << 4 | 5]))
    for name in "IPv6 UDP", "IPv6 TCP", "IPv6 ND":
        frame = good[name]
        for length in 0, 1, 7, 8, 19, 20, len(frame) - 55, len(frame) - 53, 1500, 65535:
            yield f"{name}, payload length {length}", patched(frame, 18, struct.pack("!H", length))
        yield f"{name}, version 4", patched(frame, 14, b"\x45")
    for length in 0, 7, 8, 9, 65535:
        yield f"UDP length {length}", patched(good["IPv4 UDP"], 38, struct.pack("!H", length))
    for offset in 0, 1, 4, 5, 15:
        yield f"TCP data offset {offset}", patched(good["IPv4 TCP"], 46, bytes([offset << 4]))
    for size in 0, 1, 255:
        yield f"ND option of length {size}", patched(good["IPv6 ND"], 79, bytes([size]))
    for hardware, protocol in ((0, 0), (16, 4), (6, 16), (255, 255)):
        yield f"ARP lengths {hardware}, {protocol}", patched(good["ARP"], 18, bytes([hardware, protocol]))
    for size in 0, 1, 46, 1500, 1535:
        yield f"IEEE 802.3 length {size}", patched(good["IPv4 UDP"], 12, struct.pack("!H", size))
    snap = b"\xaa\xaa\x03\0\0\0\x08\0"
    yield "SNAP", good["IPv4 UDP"][:12] + struct.pack("!H", 46) + snap + good["IPv4 UDP"][14:]


def extension_headers():
    ip6, udp = IPv6(src="fc00::1", dst="fc00::2"), UDP(sport=1000, dport=2000) / (b"p" * 26)
    chains = {
        "hop by hop": IPv6ExtHdrHopByHop() / udp,
        "routing": IPv6ExtHdrRouting() / udp,
        "authentication": AH(nh=17, payloadlen=4) / udp,
        "one of each": IPv6ExtHdrHopByHop() / IPv6ExtHdrRouting() / IPv6ExtHdrDestOpt() / udp,
        "no next header": Raw(b"x" * 30),
    }
    for count in 5, 6, 7, 12, 40:
        chain = udp
        for _ in range(count):
            chain = IPv6ExtHdrDestOpt() / chain
        chains[f"{count} headers"] = chain
    for name, chain in chains.items():
        packet = ip6 / chain
        if name == "no next header":
            packet[IPv6].nh = 59
        frame = bytes(Ether(dst=SINK) / packet)
        yield f"IPv6 {name}", frame
        for length in 55, 61, 62, 63, 69, 70, 77:
            yield f"IPv6 {name}, {length} bytes", frame[:length]
        yield f"IPv6 {name}, extension longer than the packet", patched(frame, 55, b"\xff")
    endless = b"\x3c\0" + bytes(6)      # The next header is the next one.
    yield "IPv6 nothing but extension headers", bytes(Ether(dst=SINK) / IPv6(
        src="fc00::1", dst="fc00::2", nh=60) / (endless * 150))


def fragments():
    for offset in 0, 1, 100, 8191:
        for more in 0, 1:
            packet = IP(src="10.0.0.1", dst="10.0.0.2", flags=more, frag=offset) / UDP(sport=1000, dport=2000)
            for size in 0, 3, 26:
                yield f"IPv4 fragment {offset} {more} of {size}", bytes(Ether(dst=SINK) / packet / (b"p" * size))
            packet = (IPv6(src="fc00::1", dst="fc00::2") / IPv6ExtHdrFragment(offset=offset, m=more, nh=17)
                      / UDP(sport=1000, dport=2000))
            for size in 0, 3, 26:
                yield f"IPv6 fragment {offset} {more} of {size}", bytes(Ether(dst=SINK) / packet / (b"p" * size))
    whole_frame = bytes(Ether(dst=SINK) / IP(src="10.0.0.1", dst="10.0.0.2", flags=1) / b"")
    yield "IPv4 fragment of nothing", whole_frame


def tags():
    for name, packet in (("UDP", IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1000, dport=2000) / (b"p" * 26)),
                         ("IPv6 UDP", IPv6(src="fc00::1", dst="fc00::2") / UDP(sport=1000, dport=2000) / (b"p" * 26)),
                         ("nothing", Raw(b""))):
        for kinds in ("q", "a", "qq", "aq", "qa", "aa", "qqq", "aqq", "aaa", "qaqa", "q" * 8, "a" * 30):
            tagged = packet
            for depth, kind in reversed(list(enumerate(kinds, 5))):
                tagged = {"q": Dot1Q, "a": Dot1AD}[kind](vlan=depth) / tagged
            frame = bytes(Ether(dst=SINK) / tagged)
            # Linux drops a frame that ends within its first tag or right behind it.
            for length in sorted({20, 21, 22, 23, 24, 25, 26, 27, len(frame) - 1, len(frame)}):
                if 20 <= length <= len(frame):
                    yield f"tags {kinds} {name}, {length} bytes of {len(frame)}", frame[:length]
    for tci in 0x0000, 0x0fff, 0xe005:
        yield f"tag with TCI {tci:#x}", bytes(Ether(dst=SINK, type=0x8100)) + struct.pack("!HH", tci, 0x0800) + bytes(46)


def broken_checksums():
    for name, frame in whole():
        if name.startswith("IPv4"):
            yield f"{name}, wrong IP checksum", patched(frame, 24, b"\x12\x34")
            yield f"{name}, IP checksum 0", patched(frame, 24, b"\0\0")
    for name, frame in whole():
        offset = {"IPv4 UDP": 40, "IPv4 TCP": 50, "IPv4 ICMP": 36, "IPv6 UDP": 60, "IPv6 TCP": 70, "IPv6 ND": 56}.get(name)
        for value in (b"\0\0", b"\xff\xff", b"\x55\xaa") if offset else ():
            yield f"{name}, checksum {value.hex()}", patched(frame, offset, value)


def long():
    """Longer than Ethernet has them, and nearly as long as a port's largest MTU allows."""
    for size in 1514, 1515, 1518, 1519, 1522, 2000, 3072, 3400:
        yield f"{size} bytes", bytes(Ether(dst=SINK) / IP(src="10.0.0.1", dst="10.0.0.2")
                                     / UDP(sport=1000, dport=2000) / (b"l" * (size - 42)))


@dataclass
class Offloaded:
    """A packet whose sender leaves work to devices: what struct virtio_net_hdr says about it."""
    name: str
    frame: bytes
    needs_checksum: bool = False
    start: int = 0          # Where what the checksum covers begins.
    offset: int = 0         # Where it belongs, from there.
    gso_type: int = 0
    gso_size: int = 0
    header_len: int = 0


GSO_TCP4, GSO_UDP, GSO_TCP6, GSO_UDP_L4 = 1, 3, 4, 5


def offloaded():
    """[Offloaded]: promises that contradict the packet.  The sender's kernel refuses some."""
    found = []
    for name, frame in whole():
        for start, offset in ((0, 0), (0, 10), (12, 0), (14, 2), (20, 0), (20, 30), (22, 0), (33, 0), (34, 6), (34, 16),
                              (54, 6), (54, 16), (len(frame) - 2, 0), (len(frame) - 3, 1), (len(frame), 0), (65535, 65535)):
            found.append(Offloaded(f"{name}, checksum from {start} at {offset}", frame, True, start, offset))
    ip4, ip6 = IP(src="10.0.0.1", dst="10.0.0.2"), IPv6(src="fc00::1", dst="fc00::2")
    tcp, udp = TCP(sport=1000, dport=2000, flags="A"), UDP(sport=1000, dport=2000)
    for size in 1, 100, 3000, 60000:
        for name, packet, kind, start, offset in (
                ("TCP", ip4 / tcp, GSO_TCP4, 34, 16), ("IPv6 TCP", ip6 / tcp, GSO_TCP6, 54, 16),
                ("UDP", ip4 / udp, GSO_UDP_L4, 34, 6), ("IPv6 UDP", ip6 / udp, GSO_UDP_L4, 54, 6),
                ("UDP fragments", ip4 / udp, GSO_UDP, 34, 6), ("TCP as IPv6", ip4 / tcp, GSO_TCP6, 34, 16),
                ("TCP as UDP", ip4 / tcp, GSO_UDP_L4, 34, 6), ("UDP as TCP", ip4 / udp, GSO_TCP4, 34, 16),
                ("ARP as TCP", ARP(), GSO_TCP4, 14, 16), ("tagged TCP", Dot1Q(vlan=5) / ip4 / tcp, GSO_TCP4, 38, 16),
                ("tags and TCP", Dot1AD(vlan=5) / Dot1Q(vlan=6) / Dot1Q(vlan=7) / ip4 / tcp, GSO_TCP4, 46, 16),
                ("fragment", IP(src="10.0.0.1", dst="10.0.0.2", frag=3) / tcp, GSO_TCP4, 34, 16),
                ("TCP behind options", IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption(b"\x01")] * 40) / tcp,
                 GSO_TCP4, 74, 16)):
            frame = bytes(Ether(dst=SINK) / packet / (b"g" * size))
            for gso_size in 1, 7, 536, 1448, 3400, 9000, 65535:
                for header_len in (0, start + 20, 65535):
                    if size // gso_size < 2000:
                        found.append(Offloaded(f"{name} of {size} in segments of {gso_size}, header {header_len}", frame,
                                               True, start, offset, kind, gso_size, header_len))
    for number, packet in enumerate(found):
        packet.frame = packet.frame[:6] + source(number) + packet.frame[12:]
    return found
