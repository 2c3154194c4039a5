# SPDX-License-Identifier: Apache-2.0
"""Packets of several kinds as sockets leave them to devices (offload.py), and what must be on the wire for them: made by scapy,
segment by segment."""
from scapy.all import Dot1Q, Ether, IP, IPv6, TCP, UDP, VXLAN

import offload

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

EDITS4 = [("routed", "set(eth(dst=02:bb:bb:bb:bb:bb)),set(ipv4(src=192.0.2.1,dst=198.51.100.7,tos=0x20/0xfc,ttl=63))",
           {"eth": {"dst": "02:bb:bb:bb:bb:bb"}, "ip": {"src": "192.0.2.1", "dst": "198.51.100.7", "tos": 0x20, "ttl": 63}})]
EDITS6 = [("routed", "set(eth(dst=02:bb:bb:bb:bb:bb)),set(ipv6(src=fc00::a,dst=2001:db8::ffff,hlimit=63,tclass=0x20,label=0x12345))",
           {"eth": {"dst": "02:bb:bb:bb:bb:bb"},
            "ip": {"src": "fc00::a", "dst": "2001:db8::ffff", "hlim": 63, "tc": 0x20, "fl": 0x12345}})]


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


def inner_frame(kind, frame):
    """Where the frame in a tunnel begins, 0 if there is none."""
    return offload.network_layer(frame) + (20 if kind[-1] == "4" else 40) + TUNNEL_LEN if "tunnel" in kind else 0


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
