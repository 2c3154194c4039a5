# SPDX-License-Identifier: Apache-2.0
"""Conversations of two hosts, frame by frame, and OpenFlow rules that track them, for tests of ct() in programs.

    red (10.0.0.1, fc00::1; translated: .77, ::77) == to-red | br0 | to-green == green (10.0.0.2, fc00::2)

A conversation is a list of (who sends, frame).  Frames are made here, not by sockets: they are the same on every tier.
"""
import re

from scapy.all import (Ether, ICMP, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, IP, IPerror, IPv6, Raw, TCP, UDP,
                       UDPerror, raw)

RED, GREEN, SEEN = "10.0.0.1", "10.0.0.2", "10.0.0.77"
LIMIT = 0.8                             # Seconds without a frame after which it counts as dropped.


def _six(address):
    return "fc00::" + address.rpartition(".")[2]


def _ip(source, destination, v6):
    return IPv6(src=_six(source), dst=_six(destination)) if v6 else IP(src=source, dst=destination, flags="DF")


def _ether(who):
    macs = {"red": "02:00:00:00:00:01", "green": "02:00:00:00:00:02"}
    return Ether(src=macs[who], dst=macs["green" if who == "red" else "red"])


def _frame(who, seen, v6, transport, payload=b"conversation"):
    """A frame of 'who' to the other; red is 'seen' by green with that address."""
    ends = (RED, GREEN) if who == "red" else (GREEN, seen)
    return raw(_ether(who) / _ip(*ends, v6) / transport / Raw(payload)).ljust(60, b"\0")


def udp(port, seen=RED, v6=False):
    ports = {"red": UDP(sport=port, dport=7), "green": UDP(sport=7, dport=port)}
    return [(who, _frame(who, seen, v6, ports[who])) for who in ("red", "red", "green", "red", "green", "red")]


def tftp(port, seen=RED, v6=False):
    """Blocks that an acknowledgment asks for (RFC 1350); nothing that announces another connection."""
    ports = {"red": UDP(sport=port, dport=69), "green": UDP(sport=69, dport=port)}
    kinds = {"red": b"\0\4\0\1", "green": b"\0\3\0\2block"}
    return [(who, _frame(who, seen, v6, ports[who], kinds[who])) for who in ("red", *["green"] * 5)]


def icmp(number, seen=RED, v6=False):
    """Echo, and an error about a datagram of udp(number), which is after it."""
    kinds = {"red": ICMPv6EchoRequest(id=number) if v6 else ICMP(type=8, id=number),
             "green": ICMPv6EchoReply(id=number) if v6 else ICMP(type=0, id=number)}
    steps = [(who, _frame(who, seen, v6, kinds[who])) for who in ("red", "green", "red", "green")]
    if not v6:
        quoted = IPerror(src=seen, dst=GREEN, flags="DF") / UDPerror(sport=number, dport=7) / Raw(b"conversation")
        error = Ether(_frame("green", seen, v6, ICMP(type=3, code=3) / quoted, b""))
        steps += udp(number, seen)[:1] + [("green", raw(error))]
    else:
        quoted = IPv6(src=_six(seen), dst=_six(GREEN)) / UDP(sport=number, dport=7) / Raw(b"conversation")
        steps += udp(number, seen, v6)[:1]
        steps.append(("green", _frame("green", seen, v6, ICMPv6DestUnreach(code=4) / quoted, b"")))
    return steps


def tcp(port, seen=RED, v6=False, window=8000, scale=2):
    """Handshake, data both ways, one segment far outside the window, close."""
    steps, sequence = [], {"red": 1000, "green": 70000}

    def add(who, flags, payload=b"", off=0):
        other = "green" if who == "red" else "red"
        ports = {"sport": port, "dport": 80} if who == "red" else {"sport": 80, "dport": port}
        segment = TCP(**ports, flags=flags, seq=sequence[who] + off, ack=sequence[other] if "A" in flags else 0, window=window,
                      options=[("WScale", scale)] if "S" in flags else [])
        steps.append((who, _frame(who, seen, v6, segment, payload)))
        sequence[who] += len(payload) * (not off) + ("S" in flags) + ("F" in flags)

    add("red", "S")
    add("green", "SA")
    add("red", "A")
    for _ in range(2):
        add("red", "PA", b"question" * 20)
        add("green", "A")
        add("green", "PA", b"answer" * 50)
        add("red", "A")
    add("red", "A", b"outside", off=1 << 24)
    add("red", "PA", b"inside")
    add("red", "FA")
    add("green", "FA")
    add("red", "A")
    return steps


def stray(port, seen=RED, v6=False):
    """What belongs to no connection: an answer without a SYN, port 0, a reset."""
    return [("green", _frame("green", seen, v6, TCP(sport=80, dport=port, flags="SA", ack=5))),
            ("red", _frame("red", seen, v6, UDP(sport=0, dport=7))), ("red", _frame("red", seen, v6, TCP(sport=port, flags="R")))]


def damaged(port, seen=RED, v6=False):
    """A datagram whose checksum is wrong."""
    return [("red", _frame("red", seen, v6, UDP(sport=port, dport=7, chksum=1)))]


def hold(ends, steps):
    """Sends each frame and waits for what becomes of it.  Returns (who sent it, what came to the other or None)."""
    came = []
    for who, frame in steps:
        other = ends["green" if who == "red" else "red"]
        ends[who].send(frame)
        came.append((who, next((seen.hex() for seen in other.receive(limit=LIMIT)), None)))
    return came


def _both(match, actions):
    for family in "ip", "ipv6":
        yield f"{match},{family},actions={actions}"


def firewall():
    """One zone; red may begin, and what is invalid or not expected is dropped, each by a rule of its own."""
    for device in "to-red", "to-green":
        yield from _both(f"table=0,in_port={device}", "ct(zone=1,table=1)")
    for state in "+trk+est", "+trk+rel":
        yield f"table=1,priority=3,in_port=to-red,ct_state={state}-inv,actions=output:to-green"
        yield f"table=1,priority=3,in_port=to-green,ct_state={state}-inv,actions=output:to-red"
    yield from _both("table=1,priority=2,in_port=to-red,ct_state=+trk+new", "ct(commit,zone=1),output:to-green")
    yield "table=1,priority=2,ct_state=+trk+inv,actions=drop"
    yield "table=1,priority=1,actions=drop"


def translated():
    """Two zones and source NAT in the second; TTL and MAC addresses change between them; connections have marks and labels."""
    edits = "dec_ttl,set_field:02:00:00:00:00:aa->eth_src"
    for family, seen in ("ip", SEEN), ("ipv6", _six(SEEN)):
        yield f"table=0,in_port=to-red,{family},actions=ct(zone=1,table=1)"
        yield (f"table=1,priority=2,in_port=to-red,{family},ct_state=+trk+new,"
               f"actions=ct(commit,zone=1,exec(load:0x11->NXM_NX_CT_MARK[],load:0x22->NXM_NX_CT_LABEL[64..95])),{edits},"
               "ct(zone=2,nat,table=2)")
        yield (f"table=1,priority=1,in_port=to-red,{family},ct_state=+trk-inv,ct_mark=0x11,actions={edits},"
               "ct(zone=2,nat,table=2)")
        yield (f"table=2,priority=2,in_port=to-red,{family},ct_state=+trk+new,"
               f"actions=ct(commit,zone=2,nat(src={seen}),exec(load:7->NXM_NX_CT_MARK[0..7])),output:to-green")
        yield f"table=2,priority=1,in_port=to-red,{family},ct_state=+trk-inv,actions=output:to-green"
        yield f"table=0,in_port=to-green,{family},actions=ct(zone=2,nat,table=3)"
        yield f"table=3,in_port=to-green,{family},ct_state=+trk+rpl-inv,ct_mark=7,actions=ct(zone=1,table=4)"
        yield (f"table=4,in_port=to-green,{family},ct_state=+trk+rpl-inv,ct_label=0x220000000000000000,"
               f"actions=output:to-red")


def several():
    """Three ct() in a flow, of which two make connections; what comes back passes the zones in the other order."""
    yield from _both("table=0,in_port=to-red",
                     "ct(commit,zone=1),ct(commit,zone=2,exec(load:9->NXM_NX_CT_MARK[])),ct(zone=3,table=1)")
    yield from _both("table=1,priority=2,ct_state=+trk+new", "ct(commit,zone=3),output:to-green")
    yield "table=1,priority=1,ct_state=+trk-inv,actions=output:to-green"
    yield from _both("table=0,in_port=to-green", "ct(zone=3),ct(zone=2),ct(zone=1,table=2)")
    yield "table=2,priority=1,ct_state=+trk+rpl-inv,actions=output:to-red"


def connections(switch):
    """The connections without what changes with time."""
    return sorted(re.sub(r"timeout=\d+", "", line) for line in switch.appctl("dpctl/dump-conntrack").splitlines())


def counts(switch):
    """How many packets met each OpenFlow rule."""
    found = (re.search(r"(table=\d+),? n_packets=(\d+), n_bytes=\d+, (?:\w+_age=\d+, )*(.*)", line)
             for line in switch.ofctl("dump-flows", "br0").splitlines())
    return {f"{rule[1]} {rule[3]}": int(rule[2]) for rule in found if rule}
