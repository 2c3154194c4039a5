# SPDX-License-Identifier: Apache-2.0
"""Packets as sockets leave them to devices: to be cut into segments (GSO), with a checksum yet to be summed up, perhaps
with a VLAN tag in VLAN acceleration.  Sent and received whole through packet sockets with PACKET_VNET_HDR."""
import select
from dataclasses import dataclass

import wire
from wire import ones_sum

GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP = 0, 1, 4, 5    # linux/virtio_net.h
TAGS = (b"\x81\x00", b"\x88\xa8")
CHECKSUM_AT = {6: 16, 17: 6}                # By protocol: where the checksum stands in the transport header.


@dataclass(frozen=True)
class Packet:
    """The checksum's field of 'frame' holds the sum of the pseudo header.  'start' is where summing begins, None if the
    checksum is there; 'gso_size' how many bytes of payload a segment has, 0 if the packet is one."""
    frame: bytes
    start: int = None
    offset: int = 0
    gso_type: int = GSO_NONE
    gso_size: int = 0


class Wire(wire.Wire):
    def send_whole(self, packet):
        self.send_offloaded(packet.frame, needs_checksum=True, start=packet.start, offset=packet.offset,
                            gso_type=packet.gso_type, gso_size=packet.gso_size,
                            header_len=payload_of(packet) if packet.gso_size else 0)

    def receive_whole(self, limit=20):
        """The next packet, None if 'limit' seconds pass."""
        if not select.select([self._socket], [], [], limit)[0]:
            return None
        (flags, gso_type, _, gso_size, start, offset), tag, frame = self._read()
        frame = frame[:12] + tag + frame[12:]
        if not flags & wire.VNET_HDR_F_NEEDS_CSUM:
            return Packet(frame, gso_type=gso_type, gso_size=gso_size)
        return Packet(frame, start + len(tag), offset, gso_type, gso_size)


def unfinished(frame, gso_size=0, inner=0):
    """The packet that a local TCP or UDP socket would send as 'frame', whose checksum is of no account; 'inner': a
    tunnel's device would, for the frame there."""
    l3 = inner + network_layer(frame[inner:])
    is_ip4 = frame[l3] >> 4 == 4
    start = l3 + (20 if is_ip4 else 40)
    protocol = frame[l3 + (9 if is_ip4 else 6)]
    addresses = frame[l3 + 12:l3 + 20] if is_ip4 else frame[l3 + 8:l3 + 40]
    offset = CHECKSUM_AT[protocol]
    total = ones_sum(addresses + bytes((0, protocol)) + (len(frame) - start).to_bytes(2, "big"))
    gso_type = GSO_UDP if protocol == 17 else GSO_TCPV4 if is_ip4 else GSO_TCPV6
    return Packet(put16(frame, start + offset, total), start, offset, gso_type if gso_size else GSO_NONE, gso_size)


def finish(packet):
    """The frames that a device would make of the packet; it believes what the headers say."""
    if not packet.gso_size:
        return [complete(packet.frame, packet)]
    l3, l4, payload = network_layer(packet.frame), packet.start, payload_of(packet)
    frames = []
    for number, begin in enumerate(range(payload, len(packet.frame), packet.gso_size)):
        end = min(begin + packet.gso_size, len(packet.frame))
        cut = len(packet.frame) - payload - (end - begin)
        frame = packet.frame[:payload] + packet.frame[begin:end]
        if frame[l3] >> 4 == 4:
            frame = put16(frame, l3 + 2, get16(frame, l3 + 2) - cut)
            frame = put16(frame, l3 + 4, get16(frame, l3 + 4) + number)
            frame = put16(frame, l3 + 10, 0xffff - ones_sum(put16(frame, l3 + 10, 0)[l3:l4]))
        else:
            frame = put16(frame, l3 + 4, get16(frame, l3 + 4) - cut)
        if packet.gso_type == GSO_UDP:
            frame = put16(frame, l4 + 4, get16(frame, l4 + 4) - cut)
        else:
            sequence = int.from_bytes(frame[l4 + 4:l4 + 8], "big") + begin - payload
            frame = frame[:l4 + 4] + (sequence & 0xffffffff).to_bytes(4, "big") + frame[l4 + 8:]
            if end < len(packet.frame):
                frame = put16(frame, l4 + 12, get16(frame, l4 + 12) & ~0x09)       # FIN, PSH: only the last.
        at = l4 + packet.offset
        pseudo = ones_sum(frame[at:at + 2] + (0xffff - cut).to_bytes(2, "big"))
        frames.append(complete(put16(frame, at, pseudo), packet))
    return frames


def complete(frame, packet):
    if packet.start is None:
        return frame
    checksum = 0xffff - ones_sum(frame[packet.start:])
    return put16(frame, packet.start + packet.offset, checksum or (0xffff if packet.offset == CHECKSUM_AT[17] else 0))


def payload_of(packet):
    """Where what is cut into segments begins."""
    return packet.start + (8 if packet.gso_type == GSO_UDP else (packet.frame[packet.start + 12] >> 4) * 4)


def network_layer(frame):
    """Behind the Ethernet header and all tags."""
    at = 14
    while frame[at - 2:at] in TAGS:
        at += 4
    return at


def get16(frame, at):
    return int.from_bytes(frame[at:at + 2], "big")


def put16(frame, at, value):
    return frame[:at] + value.to_bytes(2, "big") + frame[at + 2:]
