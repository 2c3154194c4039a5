# SPDX-License-Identifier: Apache-2.0
"""Frames as they are on the wire: sent and received whole, checked byte by byte."""
import select
import socket
import struct
import time

import lab

SOL_PACKET, PACKET_STATISTICS, PACKET_AUXDATA, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 6, 8, 15, 23
SO_RCVBUFFORCE = 33                     # Not limited by net.core.rmem_max.
AUXDATA = struct.Struct("=IIIHHHH")     # struct tpacket_auxdata, linux/if_packet.h
TP_STATUS_VLAN_VALID = 1 << 4
VNET_HDR = struct.Struct("=BBHHHH")     # struct virtio_net_hdr, linux/virtio_net.h
VNET_HDR_F_NEEDS_CSUM = 1
ROOM = 64 << 20                         # Bytes for frames that wait; one may take a page.


class Wire:
    """One end of a wire: a packet socket on 'device' in 'namespace'."""

    def __init__(self, namespace, device="eth0"):
        self.namespace = namespace
        with namespace.entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            self._socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
            self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM)
            self._socket.bind((device, 3))                  # ETH_P_ALL
        self.unfinished = 0             # CHECKSUM_PARTIAL frames received.
        self.merged = 0                 # Frames that this end's device made of several (GRO).

    def send(self, *frames):
        for frame in frames:
            self._socket.send(bytes(VNET_HDR.size) + bytes(frame))

    def send_offloaded(self, frame, *, needs_checksum, start, offset, gso_type, gso_size, header_len):
        """Sends a packet as a socket does that leaves its checksum, or its segmentation, to devices."""
        self._socket.send(VNET_HDR.pack(VNET_HDR_F_NEEDS_CSUM if needs_checksum else 0, gso_type, header_len, gso_size,
                                        start, offset) + frame)

    def receive(self, wanted=lambda frame: True, count=1, limit=20):
        """Waits for 'count' frames that are 'wanted' and returns them; fewer if 'limit' seconds pass.  Leaves out what
        GRO merged: no such frame was on the wire, and GRO merges only segments whose checksums it found valid."""
        found, end = [], time.monotonic() + limit
        while len(found) < count:
            if not select.select([self._socket], [], [], max(0, end - time.monotonic()))[0]:
                self._check()
                break
            frame = self._receive()
            if frame and wanted(frame):
                found.append(frame)
        return found

    def _check(self):
        """That what is missing was not lost here."""
        _, lost = struct.unpack("=II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        if lost:
            raise lab.Failed(f"the packet socket had no room for {lost} frames")

    def _receive(self):
        (flags, gso_type, *_), tag, frame = self._read()
        if gso_type:
            self.merged += 1
            return None
        self.unfinished += flags & VNET_HDR_F_NEEDS_CSUM
        return frame[:12] + tag + frame[12:]

    def _read(self):
        """The next packet: struct virtio_net_hdr, the tag of VLAN acceleration, the frame."""
        data, ancillary, _, _ = self._socket.recvmsg(1 << 17, socket.CMSG_SPACE(AUXDATA.size))
        tag = b""
        for level, kind, auxiliary in ancillary:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = AUXDATA.unpack(auxiliary[:AUXDATA.size])
                if status & TP_STATUS_VLAN_VALID:
                    tag = struct.pack("!HH", tpid or 0x8100, tci)
        return VNET_HDR.unpack_from(data), tag, data[VNET_HDR.size:]

    def close(self):
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def udp_frame(source, destination, payload=b"", tags=(), addresses=("10.0.0.1", "10.0.0.2"), ports=(1000, 2000)):
    """An Ethernet frame, at least 60 bytes, with a UDP datagram in IPv4; 'tags' are 802.1Q VIDs, outermost first."""
    udp = struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload
    pseudo = b"".join(map(socket.inet_aton, addresses)) + struct.pack("!BBH", 0, 17, len(udp))
    udp = udp[:6] + struct.pack("!H", ~ones_sum(pseudo + udp) & 0xffff or 0xffff) + udp[8:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + pseudo[:8]
    ip = ip[:10] + struct.pack("!H", ~ones_sum(ip) & 0xffff) + ip[12:]
    frame = mac(destination) + mac(source)
    for tag in tags:
        frame += struct.pack("!HH", 0x8100, tag)
    return (frame + b"\x08\x00" + ip + udp).ljust(60, b"\0")


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def ones_sum(data):
    """The ones' complement sum of 16-bit words (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def checksums_valid(frame):
    """Whether the checksums of an untagged, unfragmented frame with TCP, UDP or ICMP in IPv4 or IPv6 are valid."""
    kind = frame[12:14]
    if kind == b"\x08\x00":
        length = (frame[14] & 15) * 4
        ip, protocol = frame[14:14 + length], frame[23]
        segment = frame[14 + length:14 + int.from_bytes(frame[16:18], "big")]
        addresses = frame[26:34]
        if ones_sum(ip) != 0xffff:
            return False
    elif kind == b"\x86\xdd":
        protocol = frame[20]
        segment = frame[54:54 + int.from_bytes(frame[18:20], "big")]
        addresses = frame[22:54]
    else:
        raise lab.Failed(f"not IP: {frame.hex()}")
    if protocol == 17 and segment[6:8] == b"\0\0":
        return kind == b"\x08\x00"
    pseudo = b"" if protocol == 1 else addresses + struct.pack("!IHBB", len(segment), 0, 0, protocol)
    return ones_sum(pseudo + segment) == 0xffff
