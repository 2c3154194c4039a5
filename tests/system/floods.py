# SPDX-License-Identifier: Apache-2.0
"""Packets that each begin a connection of their own, and what xdp/ct-show says of it."""
import json
import os
import random
import struct
import threading
import time

import lab
import wire

NOBODY = "02:00:00:00:00:77"
SOURCE, DESTINATION = "10.0.0.1", "10.0.0.2"
PAUSE_AFTER = 256               # Frames: a sender that never sleeps leaves tests that share its CPU no time.


def syns(count, seed=1, destination=NOBODY):
    """'count' frames with TCP SYNs in IPv4 from SOURCE to DESTINATION, each with other ports, all checksums valid."""
    choose = random.Random(seed)
    addresses = wire.ones_sum(b"".join(bytes(map(int, address.split("."))) for address in (SOURCE, DESTINATION)))
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0x4000, 64, 6, 0) + b"".join(
        bytes(map(int, address.split("."))) for address in (SOURCE, DESTINATION))
    ip = ip[:10] + struct.pack("!H", ~wire.ones_sum(ip) & 0xffff) + ip[12:]
    head = wire.mac(destination) + wire.mac("02:00:00:00:00:01") + b"\x08\x00" + ip
    rest = struct.pack("!HHIBBHH", 0, 0, 0, 0x50, 2, 64240, 0)  # The acknowledgment, then all but the checksum.
    seen, frames = set(), []
    while len(frames) < count:
        ports = choose.randrange(1024, 65536), choose.randrange(1, 65536)
        if ports not in seen:
            seen.add(ports)
            frames.append(head + _syn(*ports, choose.randrange(65536), addresses, rest))
    return frames


def _syn(source, destination, high, addresses, rest):
    """A SYN whose sequence number makes its checksum, which is 0x1234, valid."""
    fixed = addresses + 6 + 20 + wire.ones_sum(rest[4:]) + 0x1234
    low = -(fixed + source + destination + high) % 0xffff
    tcp = struct.pack("!HHHHIBBHHH", source, destination, high, low, 0, 0x50, 2, 64240, 0x1234, 0)
    return tcp.ljust(26, b"\0")


def datagrams(numbers):
    """Frames with UDP in IPv4 from SOURCE to DESTINATION without a checksum, each with the ports of its number (up to 3,200,000);
    none to a port below 1,000."""
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0x4000, 64, 17, 0) + b"".join(
        bytes(map(int, address.split("."))) for address in (SOURCE, DESTINATION))
    ip = ip[:10] + struct.pack("!H", ~wire.ones_sum(ip) & 0xffff) + ip[12:]
    head = wire.mac(NOBODY) + wire.mac("02:00:00:00:00:01") + b"\x08\x00" + ip
    for number in numbers:
        yield head + struct.pack("!HHHH", 1024 + number % 50000, 1000 + number // 50000, 8, 0).ljust(26, b"\0")


def keep(switch, ends):
    """Connections that nobody answers stay for a day, those of datagrams() of 'ends', by zone, whose flows are there."""
    switch.vsctl("--", "--id=@m", "create", "Datapath", "datapath_version=0", "--", "set", "Open_vSwitch", ".", "datapaths:xdp=@m")
    for zone in ends:
        switch.vsctl("add-zone-tp", "xdp", f"zone={zone}", "udp_first=86400", "udp_single=86400")
    for zone, end in ends.items():
        lab.wait_until(lambda: _stays(switch, end, zone), "flows that follow the policy")


def _stays(switch, end, zone):
    switch.appctl("dpctl/flush-conntrack", f"zone={zone}")
    end.send(*datagrams([1]))
    return "timeout=86" in switch.appctl("dpctl/dump-conntrack", "-s", f"zone={zone}")


def begin(switch, end, zone, numbers):
    """Has each of datagrams() begin a connection of 'zone', again if frames were lost.  Returns how many the zone has then."""
    n = 0
    for _ in range(3):
        end.send(*datagrams(numbers))
        before, n = n, shown(switch)["zones"].get(zone, {"connections": 0})["connections"]
        if n >= len(numbers) or n == before:
            break
    return n


class Flood:
    """Sends 'frames' from the wire 'end' again and again, in the background, for 'seconds' at most; on one 'cpu', if not None."""

    def __init__(self, end, frames, seconds=30, cpu=None):
        self.rounds = 0
        self._cpu = cpu
        self._stop = threading.Event()
        self._end = time.monotonic() + seconds
        self._thread = threading.Thread(target=self._send, args=(end, frames), daemon=True)

    def _send(self, end, frames):
        if self._cpu is not None:
            os.sched_setaffinity(threading.get_native_id(), {self._cpu})
        while not self._stop.is_set() and time.monotonic() < self._end:
            for i in range(0, len(frames), PAUSE_AFTER):
                end.send(*frames[i:i + PAUSE_AFTER])
                time.sleep(0.001)
            self.rounds += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(lab.PATIENCE)


def shown(switch):
    """What xdp/ct-show says of the datapath, 'zones' and 'tiers' by zone and tier."""
    (datapath,) = json.loads(switch.appctl("xdp/ct-show", "-f", "json"))["datapaths"]
    if datapath["used"]:
        datapath["zones"] = {zone["zone"]: zone for zone in datapath["zones"]}
        datapath["tiers"] = {tier["tier"]: tier for tier in datapath["tiers"]}
    return datapath
