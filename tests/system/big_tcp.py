# SPDX-License-Identifier: Apache-2.0
"""BIG TCP: devices whose packets with GSO may be longer than 64 kB (iproute2 of Debian 12 cannot set that of IPv4)."""
import os
import socket
import struct

RTM_SETLINK, NLM_F_REQUEST, NLM_F_ACK = 19, 1, 4
ATTRIBUTES = {"gso": 41, "gro": 58, "gso_ipv4": 63, "gro_ipv4": 64}         # IFLA_GSO_MAX_SIZE ..., linux/if_link.h
LARGEST = 524280                                                            # Of IPv6; less a header of IPv4.


def set_sizes(namespace, device, size=LARGEST):
    """Lets packets of 'device' have up to 'size' bytes.  Raises OSError on a kernel that has no such packets."""
    with namespace.entered(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.bind((0, 0))
        body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, socket.if_nametoindex(device), 0, 0)
        body += b"".join(struct.pack("=HHI", 8, kind, size) for kind in ATTRIBUTES.values())
        netlink.send(struct.pack("=IHHII", 16 + len(body), RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0) + body)
        (error,) = struct.unpack_from("=i", netlink.recv(4096), 16)
    if error:
        raise OSError(-error, os.strerror(-error))
