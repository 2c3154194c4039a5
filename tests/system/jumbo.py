# SPDX-License-Identifier: Apache-2.0
"""Frames in several buffers: whether this kernel has them (core/multi_buffer.h)."""
import ctypes
import errno
import os
import socket
import struct

AF_XDP, XDP_COPY, XDP_USE_SG = 44, 1 << 1, 1 << 4


def has_multi_buffer():
    """bind() looks at the flags before it looks for the device, of which there is none with the number 0."""
    libc = ctypes.CDLL(None, use_errno=True)
    address = struct.pack("=HHIII", AF_XDP, XDP_COPY | XDP_USE_SG, 0, 0, 0)
    fd = libc.socket(AF_XDP, socket.SOCK_RAW, 0)
    libc.bind(fd, address, len(address))
    found = ctypes.get_errno() == errno.ENODEV
    os.close(fd)
    return found


MULTI_BUFFER = has_multi_buffer()
INTERNAL = 9216 if MULTI_BUFFER else 3450    # Of that of an internal port.
TCX = 65535 if MULTI_BUFFER else 3450        # Of packets that tcx hands to the engine.
LIMIT = 9216 if MULTI_BUFFER else 3498        # Of the MTU of a port at XDP.
