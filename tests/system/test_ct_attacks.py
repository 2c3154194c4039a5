# SPDX-License-Identifier: Apache-2.0
"""Packets that pretend to belong to a connection, or take what another one needs: nothing that is there changes, on each tier."""
import pytest
from scapy.all import Ether, ICMP, IP, Raw, TCP, UDP, IPerror, UDPerror, raw

import conversations
import floods
import lab
import switch as switches
import tracking
import wire

TIERS = {"xdp": {"xdp-hook": "xdp"}, "tcx": {"xdp-hook": "tcx"}, "both": {"xdp-hook": "both"}, "engine": {"xdp-offload": "false"}}
HANDSHAKE_AND_DATA = 11                 # Steps of conversations.tcp().
SEQUENCE = {"red": 1001 + 2 * 160, "green": 70001 + 2 * 300}    # After these.
FAR = 1 << 24
PORT, TAKEN = 6100, 5000


@pytest.fixture(name="tier", params=TIERS)
def chosen_tier(request):
    if switches.DATAPATH != "xdp":
        pytest.skip("compares the tiers of our datapath")
    return request.param


@pytest.fixture(name="wires")
def silent_hosts(tier):
    with tracking.served(TIERS[tier]) as (switch, ends):
        switch.expected.append("Unable to NAT due to tuple space exhaustion")
        yield switch, ends


def warm_up(switch, ends, tier, rules, steps):
    """Sets the rules, holds a conversation so that flows are there, and forgets its connections."""
    switch.flows("br0", *rules, "table=0,priority=0,actions=drop")
    for _ in range(2):
        conversations.hold(ends, steps)
        switch.appctl("dpctl/flush-conntrack")
        if tier != "engine":
            tracking.tracks(switch)


def changed(frame, flags="A", off=0, ack=0, **fields):
    """The segment 'frame' with these flags, so far from its place, and with a valid checksum unless 'fields' say another."""
    packet = Ether(frame)
    who = "red" if packet[TCP].dport == 80 else "green"
    other = "green" if who == "red" else "red"
    packet[TCP].flags = flags
    packet[TCP].seq = (SEQUENCE[who] + off) % (1 << 32)
    packet[TCP].ack = (SEQUENCE[other] + ack) % (1 << 32)
    del packet[IP].chksum, packet[TCP].chksum, packet[IP].len
    for name, value in fields.items():
        setattr(packet[TCP], name, value)
    return raw(packet)


def forged(frame, verifies):
    """What somebody sends who does not know where the connection of 'frame' is."""
    for off in 2, -2, 1000, -1000, 1 << 20, FAR, -FAR, 1 << 31:
        yield changed(frame, "R", off)
        yield changed(frame, "RA", off)
    yield changed(frame, "RA", FAR, ack=FAR)
    for flags in "FA", "PA", "S", "SA":
        yield changed(frame, flags, FAR)
        yield changed(frame, flags, -FAR)
    yield changed(frame, "PA", ack=1 << 20)
    yield changed(frame, "PA", ack=-(1 << 20))
    for flags in "", "SF", "SR", "F", "P", "U":
        yield changed(frame, flags)
    yield changed(frame, "R", dataofs=4)
    if verifies:                        # tcx takes sockets' checksums as they are.
        yield changed(frame, "R", chksum=0x1234)


def errors():
    """ICMP errors about connections that there are not, and one that is not for whom it quotes."""
    ether = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
    udp = UDPerror(sport=9, dport=7) / Raw(b"12345678")
    for outer, inner in ((IP(src=conversations.GREEN, dst=conversations.RED), IPerror(src=conversations.RED, dst=conversations.GREEN)),
                         (IP(src=conversations.GREEN, dst="10.0.0.9"), IPerror(src=conversations.RED, dst=conversations.GREEN))):
        for kind in 3, 4, 5, 11, 12:
            yield raw(ether / outer / ICMP(type=kind, code=0) / inner / udp)


def invalid(switch):
    """Packets that the rule for invalid ones met."""
    return sum(n for rule, n in conversations.counts(switch).items() if "+inv" in rule and "actions=drop" in rule)


def test_forged_segments(tier, wires):
    switch, ends = wires
    steps = conversations.tcp(PORT)
    warm_up(switch, ends, tier, conversations.firewall(), conversations.tcp(PORT - 1)[:HANDSHAKE_AND_DATA])
    conversations.hold(ends, steps[:HANDSHAKE_AND_DATA])
    before, count = conversations.connections(switch), invalid(switch)
    assert len(before) == 1 and "state=ESTABLISHED" in before[0]
    empty, data = {"red": steps[2][1], "green": steps[4][1]}, {"red": steps[3][1], "green": steps[5][1]}
    n = 0
    for who, other in ("red", "green"), ("green", "red"):
        frames = list(forged(data[who], tier != "tcx"))
        n += len(frames)
        ends[who].send(*frames)
        last = changed(empty[who], "A")
        ends[who].send(last)
        assert [frame[34:54] for frame in ends[other].receive()] == [last[34:54]], (tier, who)
    ends["green"].send(*errors())
    lab.wait_until(lambda: invalid(switch) - count >= n, "all forged segments, as invalid ones")
    assert invalid(switch) - count <= n + len(list(errors()))
    assert conversations.connections(switch) == before
    for end in "red", "green":
        assert not ends[end].receive(limit=0.2)

    # Who knows where it is does end it.
    ends["green"].send(changed(empty["green"], "R"))
    assert len(ends["red"].receive()) == 1
    assert "state=ESTABLISHED" not in conversations.connections(switch)[0]


def nat_rules():
    """All of red's connections want one address and port; green's have none translated."""
    yield f"table=0,udp,in_port=to-red,actions=ct(commit,zone=1,nat(src={conversations.SEEN}:{TAKEN})),output:to-blue"
    yield "table=0,udp,in_port=to-green,actions=ct(commit,zone=1),output:to-blue"
    yield "table=0,udp,in_port=to-blue,actions=ct(zone=1,nat,table=1)"
    yield "table=1,udp,in_port=to-blue,ct_state=+trk+est+rpl,nw_dst=10.0.0.1,actions=output:to-red"
    yield "table=1,udp,in_port=to-blue,ct_state=+trk+est+rpl,nw_dst=10.0.0.77,actions=output:to-green"


def datagram(ports, addresses=(conversations.RED, conversations.GREEN)):
    return wire.udp_frame("02:00:00:00:00:01", "02:00:00:00:00:02", b"collision", addresses=addresses, ports=ports)


def source(frame):
    """(address, port) of who sent it."""
    packet = Ether(frame)
    return packet[IP].src, packet[UDP].sport


def meet(switch, ends):
    """Collisions made on purpose: the tuple that red's connection gets is another's already, by its own NAT or as it arrives."""
    ends["red"].send(datagram((1000, 7)))
    assert source(*ends["blue"].receive()) == (conversations.SEEN, TAKEN)
    for port in range(1001, 1005):          # Of the first alone.
        ends["red"].send(datagram((port, 7)))
        assert source(*ends["blue"].receive()) == (conversations.RED, port)
    ends["green"].send(datagram((TAKEN, 9), (conversations.SEEN, conversations.GREEN)))
    assert source(*ends["blue"].receive()) == (conversations.SEEN, TAKEN)
    ends["red"].send(datagram((1000, 9)))   # Of green's, which has no NAT.
    assert source(*ends["blue"].receive()) == (conversations.RED, 1000)
    for port, who in (7, "red"), (9, "green"):
        ends["blue"].send(datagram((port, TAKEN), (conversations.GREEN, conversations.SEEN)))
        assert len(ends[who].receive()) == 1, who
    assert len(conversations.connections(switch)) == 2


def test_tuples_that_collide(tier, wires):
    switch, ends = wires
    switch.flows("br0", *nat_rules(), "table=0,priority=0,actions=drop")
    for _ in range(3):                      # In the engine, then in programs.
        meet(switch, ends)
        assert floods.shown(switch)["refused"]["nat"] >= 5
        switch.appctl("dpctl/flush-conntrack")
        if tier != "engine":
            tracking.tracks(switch)
