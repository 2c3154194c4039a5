# SPDX-License-Identifier: Apache-2.0
"""The reader of a tap, as QEMU is: struct virtio_net_hdr stands before each packet, with CHECKSUM_PARTIAL and GSO."""
import fcntl
import os
import struct

import lab
import wire

TUNSETIFF, TUNSETOFFLOAD = 0x400454ca, 0x400454d0       # linux/if_tun.h
IFF_TAP, IFF_MULTI_QUEUE, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x0100, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6 = 1, 2, 4
ALL = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6


class Tap:
    """The device 'name', made for it, up; or one of its 'queues'."""

    def __init__(self, name, header=True, queues=False):
        self.name, self._header = name, header
        self._file = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        flags = IFF_TAP | IFF_NO_PI | (IFF_VNET_HDR if header else 0) | (IFF_MULTI_QUEUE if queues else 0)
        fcntl.ioctl(self._file, TUNSETIFF, struct.pack("=16sH14x", name.encode(), flags))
        lab.run("ip", "link", "set", name, "up")

    def another(self):
        """Another of its queues."""
        return Tap(self.name, self._header, queues=True)

    def offload(self, features):
        """The offloads that the guest takes."""
        fcntl.ioctl(self._file, TUNSETOFFLOAD, features)

    def send(self, frame, *, flags=0, gso_type=0, header_len=0, gso_size=0, start=0, offset=0):
        """Raises OSError if the kernel refuses it."""
        header = wire.VNET_HDR.pack(flags, gso_type, header_len, gso_size, start, offset) if self._header else b""
        os.write(self._file, header + frame)

    def fileno(self):
        return self._file

    def close(self):
        os.close(self._file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
