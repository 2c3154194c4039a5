# SPDX-License-Identifier: Apache-2.0
"""What sockets leave to devices, through two zones with NAT at tcx: a packet to be segmented is one packet, to the window check,
too; it leaves whole, and its checksum, still to be summed up, is that of the new addresses."""
import pytest
from scapy.all import Ether, IP, IPv6, Raw, TCP, raw

import conversations
import floods
import offload
import switch as switches
import tiers
import tracking

GSO = 1400
DONE = 11                               # Steps of conversations.tcp(): handshake, and data both ways.
SEQUENCE = {"red": 1001 + 2 * 160, "green": 70001 + 2 * 300}    # After these.
ANNOUNCED = {"window": 8160, "scale": 3}        # By both ends.
WINDOW = 8160 << 3
INSIDE, OUTSIDE = WINDOW - 100, WINDOW + 100    # With its headers a packet of 64 kB: it has 65,535 bytes at most.
PORT = 6200
pytestmark = pytest.mark.usefixtures("nothing_vanishes")


@pytest.fixture(name="wires")
def hosts_with_offloads(world, switch):
    if switches.DATAPATH != "xdp":
        pytest.skip("looks at the programs")
    switch.vsctl("set", "open", ".", "other_config:xdp-hook=tcx")
    ends = tiers.lay_wires(world, switch, offload.Wire)
    for end in ends.values():
        end.namespace.run("ethtool", "-K", "eth0", "gro", "off")
    switch.flows("br0", *conversations.translated(), "table=0,priority=0,actions=drop")
    for v6 in False, True:
        conversations.hold(ends, conversations.tcp(PORT - 1, conversations.SEEN, v6)[:DONE])
    tracking.tracks(switch)
    for v6 in False, True:
        conversations.hold(ends, conversations.tcp(PORT - 1, conversations.SEEN, v6)[:DONE])
    return switch, ends


class Talk:
    """An established connection; what its ends send is acknowledged."""

    def __init__(self, ends, v6):
        steps = conversations.tcp(PORT, conversations.SEEN, v6, **ANNOUNCED)
        conversations.hold(ends, steps[:DONE])
        self._ends, self._v6 = ends, v6
        self._bases = {"red": steps[2][1], "green": steps[4][1]}
        self._next = dict(SEQUENCE)

    def _packet(self, who, size):
        packet = Ether(self._bases[who])
        packet[TCP].remove_payload()
        packet[TCP].seq, packet[TCP].ack = self._next[who], self._next["green" if who == "red" else "red"]
        packet[TCP].flags = "PA" if size else "A"
        packet /= Raw(bytes(i * 7 & 0xff for i in range(size or 12)))
        if self._v6:
            del packet[IPv6].plen
        else:
            del packet[IP].len, packet[IP].chksum
        del packet[TCP].chksum
        return packet

    def _after(self, who, packet):
        """What the switch makes of it."""
        packet = Ether(raw(packet))
        ip = packet[IPv6 if self._v6 else IP]
        if who == "red":
            packet.src = "02:00:00:00:00:aa"
            ip.src = "fc00::77" if self._v6 else conversations.SEEN
            if self._v6:
                ip.hlim -= 1
            else:
                ip.ttl -= 1
        else:
            ip.dst = "fc00::1" if self._v6 else conversations.RED
        if not self._v6:
            del ip.chksum
        del packet[TCP].chksum
        return packet

    def send(self, who, size, limit=20):
        """Sends 'size' bytes at once.  Returns (what came, what should come)."""
        other = "green" if who == "red" else "red"
        packet = self._packet(who, size)
        self._ends[who].send_whole(offload.unfinished(raw(packet), GSO))
        came = self._ends[other].receive_whole(limit)
        return came, offload.unfinished(raw(self._after(who, packet)), GSO)

    def acknowledge(self, who, size):
        """Its peer has got 'size' bytes of 'who'."""
        other = "green" if who == "red" else "red"
        self._next[who] += size
        self._ends[other].send(raw(self._packet(other, 0)))
        self._next[other] += 12
        assert len(self._ends[who].receive()) == 1


@pytest.mark.parametrize("v6", (False, True), ids=("IPv4", "IPv6"))
def test_one_packet(wires, v6):
    switch, ends = wires
    talk = Talk(ends, v6)
    for i in range(4):
        if i == 2:
            hits = floods.shown(switch)["paths"]["hits"]
        for who in "red", "green":
            came, wanted = talk.send(who, INSIDE)
            assert came == wanted, (who, i)
            talk.acknowledge(who, INSIDE)
    assert floods.shown(switch)["paths"]["hits"] >= hits + 8        # Data and acknowledgments.
    before = conversations.connections(switch)
    for who in "red", "green":
        assert talk.send(who, OUTSIDE, limit=0.5)[0] is None
    assert conversations.connections(switch) == before
    for who in "red", "green":
        came, wanted = talk.send(who, INSIDE)
        assert came == wanted
        talk.acknowledge(who, INSIDE)
