# SPDX-License-Identifier: Apache-2.0
"""Taps whose readers change their minds, or lie.

    a reader of tap0 ---[ switch ]--- red
"""
import concurrent.futures
import itertools
import os
import select
import socket
import threading

import pytest

import jumbo
import lab
import offload
import sockets
import switch as switches
import tap
import wire

GUEST = "02:00:00:00:00:99"
pytestmark = pytest.mark.usefixtures("nothing_vanishes")
GSO_UFO = 3                             # VIRTIO_NET_HDR_GSO_UDP, linux/virtio_net.h.
BY_ENGINE = "check_pkt_larger(1)->reg0[0]"
TOO_LARGE = jumbo.LIMIT + 300           # An MTU with which XDP serves no port.
SEGMENTS = "dropped: XDP got a packet that is still to be segmented (GSO)"
# How a user may serve a tap: options:xdp-hook, and -mode.
WAYS = (("auto", "native"), ("tcx", "native"), ("both", "native"), ("both", "generic"), ("xdp", "native"), ("xdp", "generic"))
UNFINISHED = "arrived at XDP with segmentation or a checksum still to be done (GSO, CHECKSUM_PARTIAL)"


@pytest.fixture
def network(world, switch):
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has hooks")
    return Network(world, switch)


class Network:
    def __init__(self, world, switch):
        self.switch = switch
        lab.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")    # What the host itself sends to a tap counts, too.
        switch.add_bridge("br0")
        self.tap = world.enter_context(tap.Tap("tap0"))
        switch.add_port("tap0")
        self.red = world.enter_context(lab.Namespace("red"))
        self.red.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        lab.make_veth("to-red", self.red)
        switch.add_port("to-red")
        switch.flows("br0", "in_port=tap0,actions=to-red", "priority=0,actions=drop")
        self.wire = world.enter_context(wire.Wire(self.red))

    def frame(self, payload):
        return wire.udp_frame(GUEST, lab.mac_of(self.red), payload)

    def hook(self):
        return self.switch.status("tap0")["xdp-hook"]


class Sender:
    """Numbered frames in the background, with CHECKSUM_PARTIAL while 'partial' is set."""

    def __init__(self, network):
        self._network, self._stop = network, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent, self.partial = 0, False

    def _run(self):
        frame = self._network.frame(b"number  ")
        pseudo = wire.ones_sum(frame[26:34] + bytes((0, 17)) + frame[38:40]).to_bytes(2, "big")
        while not self._stop.wait(0.001):
            number = self.sent.to_bytes(8, "big")
            if self.partial:
                self._network.tap.send(frame[:40] + pseudo + number, flags=wire.VNET_HDR_F_NEEDS_CSUM, start=34, offset=6)
            else:
                self._network.tap.send(frame[:40] + bytes(2) + number)
            self.sent += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def follow(network, steps):
    """Does the 'steps', each with the hook that it leads to, under traffic: no packet is lost, none comes twice."""
    def guests(frame):
        return frame[6:12] == wire.mac(GUEST)

    seen = []
    lab.wait_until(lambda: network.hook() == "both", "XDP, with tcx behind it")
    with Sender(network) as sender:
        for step, hook in steps:
            step(sender)
            while network.hook() != hook:
                seen += network.wire.receive(guests, 50)
            seen += network.wire.receive(guests, 50)
    seen += network.wire.receive(guests, sender.sent - len(seen))
    assert sorted(frame[42:50] for frame in seen) == [number.to_bytes(8, "big") for number in range(sender.sent)]


def test_hook_follows_the_reader_without_a_gap(network):
    """Offloads come and go."""
    def takes(features):
        return lambda sender: network.tap.offload(features)

    follow(network, [(takes(tap.ALL), "tcx"), (takes(0), "both"), (takes(tap.TUN_F_CSUM), "tcx"), (takes(0), "both")])


def test_hook_follows_what_is_sent_without_a_gap(network):
    """The reader takes nothing, so that only what it sends says what it leaves to others."""
    def partial(value):
        return lambda sender: setattr(sender, "partial", value)

    number = network.switch.ofport("tap0")
    follow(network, [(partial(True), "tcx"), (partial(False), "both")])
    assert network.switch.ofport("tap0") == number
    assert network.switch.stats("tap0")[UNFINISHED]
    assert "sends packets with GSO" not in network.switch.appctl("xdp/why", "tap0")


def test_tap_without_header_stays_at_xdp(world, network):
    """Its reader cannot leave anything to be done, whatever it asks for."""
    plain = world.enter_context(tap.Tap("tap1", header=False))
    plain.offload(tap.ALL)
    network.switch.add_port("tap1")
    assert network.switch.status("tap1")["xdp-hook"] == "xdp"
    network.switch.vsctl("del-port", "tap1")


@pytest.mark.parametrize("hook,mode", WAYS)
def test_mtu_changes_under_traffic(network, hook, mode):
    """Of the tap, of the other port and of its peer, to more than XDP takes and back: frames that are small enough go on both
    ways, and none is lost; then large ones pass, too."""
    network.switch.expected.append("larger than XDP takes")
    network.switch.vsctl("set", "interface", "br0", "mtu_request=1500")
    network.switch.flows("br0", "in_port=tap0,actions=to-red", "in_port=to-red,actions=tap0")
    for port in "to-red", "tap0":
        set_way(network.switch, port, hook, mode)
    at_first = {port: hook.replace("auto", other) for port, other in (("to-red", "tcx"), ("tap0", "both"))}

    def goes_to(port, hook):
        lab.wait_until(lambda: network.switch.status(port)["xdp-hook"] == hook, f"{port} at {hook}")

    def enlarge(port):
        lab.run("ip", "link", "set", port, "mtu", TOO_LARGE)
        goes_to(port, "tcx")            # Before, the kernel refuses such an MTU of a veth's peer.
        if port == "to-red":
            network.red.run("ip", "link", "set", "eth0", "mtu", TOO_LARGE)

    def reduce(port):
        if port == "to-red":
            network.red.run("ip", "link", "set", "eth0", "mtu", 1500)
        lab.run("ip", "link", "set", port, "mtu", 1500)
        goes_to(port, at_first[port])

    for port in at_first:
        goes_to(port, at_first[port])
    for order in ("tap0", "to-red"), ("to-red", "tap0"):
        for port in order:
            pass_both_ways(network, lambda port=port: enlarge(port))
        pass_both_ways(network, lambda: None, size=TOO_LARGE - 28, count=10)
        for port in order:
            pass_both_ways(network, lambda port=port: reduce(port))


def pass_both_ways(network, work, size=100, count=100):
    """Numbered datagrams of 'size' bytes from the tap to red and back, 'count' at least, and until 'work' is done: each arrives
    once."""
    red = lab.mac_of(network.red)
    sent, there, back = 0, [], []

    def numbers(frames, source):
        return [int.from_bytes(frame[42:50], "big") for frame in frames if frame[6:12] == wire.mac(source) and frame[23] == 17]

    def take(limit=0):
        there.extend(numbers(network.wire.receive(count=sent - len(there) + 1, limit=limit), GUEST))
        while select.select([network.tap.fileno()], [], [], limit)[0]:
            back.extend(numbers([os.read(network.tap.fileno(), 1 << 16)[wire.VNET_HDR.size:]], red))
        return len(there) >= sent <= len(back)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        while sent < count or not working.done():
            payload = sent.to_bytes(8, "big").ljust(size, b"\0")
            network.tap.send(wire.udp_frame(GUEST, red, payload))
            network.wire.send(wire.udp_frame(red, GUEST, payload))
            sent += 1
            take(0.001)
        working.result()
    lab.wait_until(lambda: take(0.1), f"{sent} datagrams: {len(there)} and {len(back)} of them", limit=20)
    assert sorted(there) == sorted(back) == list(range(sent))


def lies(network):
    """Packets whose descriptors are wrong: name, frame, descriptor."""
    frame = network.frame(b"lie     " * 50)
    tcp = wire.mac(lab.mac_of(network.red)) + wire.mac(GUEST) + bytes.fromhex(
        "0800 4500 0000 0000 4000 4006 0000 0a000001 0a000002 03e8 07d0 00000001 00000000 5010 ffff 0000 0000")
    big = tcp + bytes(65000)
    tagged = frame[:12] + bytes.fromhex("88a8 0005 8100 0007") + frame[12:]
    needs = wire.VNET_HDR_F_NEEDS_CSUM
    tcp4, udp, tcp6, udp_l4, ecn = 1, 3, 4, 5, 0x80
    yield "64 kB in segments of one byte", big, dict(flags=needs, gso_type=tcp4, gso_size=1, header_len=54, start=34, offset=16)
    yield "segments of no bytes", big, dict(flags=needs, gso_type=tcp4, gso_size=0, header_len=54, start=34, offset=16)
    yield "segments larger than the packet", tcp + bytes(100), dict(flags=needs, gso_type=tcp4, gso_size=9000, header_len=54,
                                                                   start=34, offset=16)
    yield "segments without a checksum to be made", big, dict(gso_type=tcp4, gso_size=1448, header_len=54)
    yield "headers cut off", big, dict(flags=needs, gso_type=tcp4, gso_size=1448, header_len=10, start=34, offset=16)
    yield "headers longer than the packet", tcp, dict(flags=needs, gso_type=tcp4, gso_size=1448, header_len=4000, start=34,
                                                      offset=16)
    yield "a checksum behind the end", frame, dict(flags=needs, start=3000, offset=6)
    yield "a checksum on the addresses", frame, dict(flags=needs, start=0, offset=0)
    yield "TCP over IPv6 in IPv4", big, dict(flags=needs, gso_type=tcp6 | ecn, gso_size=1448, header_len=54, start=34, offset=16)
    yield "UDP that is TCP", big, dict(flags=needs, gso_type=udp_l4, gso_size=1448, header_len=54, start=34, offset=6)
    yield "fragments of UDP", big, dict(flags=needs, gso_type=udp, gso_size=1448, header_len=42, start=34, offset=6)
    yield "two tags before a checksum", tagged, dict(flags=needs, start=42, offset=6)
    yield "two tags before segments", tagged[:20] + big[12:], dict(flags=needs, gso_type=tcp4, gso_size=1448, header_len=62,
                                                                   start=42, offset=16)
    yield "nothing but a descriptor", b"", dict(flags=needs, gso_type=tcp4, gso_size=1, header_len=1, start=1, offset=1)
    yield "less than a header", frame[:13], dict(flags=needs, gso_type=tcp4, gso_size=1, header_len=13, start=10, offset=2)
    yield "an unknown type", big, dict(flags=0xff, gso_type=0x7f, gso_size=100, header_len=54, start=34, offset=16)


def send_whole(reader, packet):
    """As a guest's driver does that leaves the rest of 'packet', of offload.py, to others."""
    reader.send(packet.frame, flags=wire.VNET_HDR_F_NEEDS_CSUM, gso_type=packet.gso_type, gso_size=packet.gso_size,
                header_len=offload.payload_of(packet) if packet.gso_size else 0, start=packet.start, offset=packet.offset)


def set_way(switch, port, hook, mode):
    switch.vsctl("set", "interface", port, f"options:xdp-hook={hook}", *([f"options:xdp-mode={mode}"] if mode == "generic" else []))


def serve(switch, port, hook, mode):
    """Sets a way and waits until it is used: "auto" is for a tap whose guest has offloads."""
    set_way(switch, port, hook, mode)
    used = hook.replace("auto", "tcx"), "none" if hook in ("auto", "tcx") else mode
    lab.wait_until(lambda: switch.in_use(port) == used, f"{port}: {used}")


def force(network, hook, mode):
    """A guest with all offloads, on a hook of the user's.  A warning says what that costs."""
    switch, costs = network.switch, {"xdp": "GSO are dropped", "both": "GSO are dropped" if mode == "generic" else "one piece"}
    switch.expected.append("the guest behind this tap has offloads")
    network.tap.offload(tap.ALL)
    serve(switch, "tap0", hook, mode)
    lab.wait_until(lambda: costs.get(hook, "") in switch.status("tap0").get("xdp-warning", ""), "the warning")
    assert hook in costs or "xdp-warning" not in switch.status("tap0")


@pytest.mark.parametrize("hook,mode", WAYS)
def test_honest_descriptors(world, network, hook, mode):
    """Segments and checksums that a guest leaves to others, behind no tag, one and two: what comes out are the guest's
    segments, by programs and by the engine.  What XDP alone, or generic XDP, cannot segment is counted."""
    force(network, hook, mode)
    end = world.enter_context(offload.Wire(network.red))
    addresses, tags = {"src": GUEST, "dst": lab.mac_of(network.red)}, [(kind, {"vlan": 7}) for kind in (0x88a8, 0x8100)]
    for action in "", f"{BY_ENGINE},":
        network.switch.flows("br0", f"in_port=tap0,actions={action}to-red", "priority=0,actions=drop")
        network.switch.appctl("revalidator/wait")
        for kind, depth in itertools.product(("udp4", "tcp4", "tcp6", "udpsegments4", "udpsegments6"), range(3)):
            fields = {"eth": addresses, "tags": tags[2 - depth:]}
            payload, lost = sockets.BIG if sockets.gso_size(kind) else sockets.SMALL, network.switch.stats("tap0")[SEGMENTS]
            try:
                send_whole(network.tap, offload.unfinished(sockets.build(kind, payload, **fields), sockets.gso_size(kind)))
            except OSError as error:                    # Taps of older kernels take no segments of UDP.
                assert "segments" in kind and lab.kernel() < (6, 2), error
                continue
            if (hook == "xdp" or mode == "generic") and sockets.gso_size(kind):
                lab.wait_until(lambda: network.switch.stats("tap0")[SEGMENTS] == lost + 1, f"{kind} to be counted")
                continue
            fault = sockets.fault_of(end, sockets.segments(kind, payload, **fields), True, False)
            assert not fault, f"{action}{kind}, {depth} tags: {fault}"


@pytest.mark.parametrize("hook,mode", [(hook, mode) for hook, mode in WAYS if hook != "xdp" and mode == "native"])
def test_fragments_left_to_others(network, hook, mode):
    """UFO: one packet that shall leave as fragments of a datagram."""
    force(network, hook, mode)
    lab.add_addresses(network.red, "eth0", "10.0.0.2/24")
    payload = bytes(number % 251 for number in range(8000))
    packet = offload.unfinished(network.frame(payload))
    with network.red.entered():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver:
        receiver.settimeout(lab.PATIENCE)
        receiver.bind(("10.0.0.2", 2000))
        for action in "", f"{BY_ENGINE},":
            network.switch.flows("br0", f"in_port=tap0,actions={action}to-red", "priority=0,actions=drop")
            network.switch.appctl("revalidator/wait")
            for _ in range(3):
                network.tap.send(packet.frame, flags=wire.VNET_HDR_F_NEEDS_CSUM, gso_type=GSO_UFO, gso_size=1480,
                                 header_len=42, start=packet.start, offset=packet.offset)
                assert receiver.recv(1 << 16) == payload


def arrived(network, frame):
    """Whether 'frame' is the next packet of those that a packet socket can describe."""
    try:
        return network.wire.receive(lambda seen: seen == frame, limit=1)
    except OSError:
        return False


@pytest.mark.parametrize("hook,mode", WAYS)
def test_descriptors_that_lie(network, hook, mode):
    """The kernel refuses them, or the switch counts what it drops; whatever becomes of them, other packets pass: not the first,
    if the engine is busy with 64 kB in segments of one byte."""
    force(network, hook, mode)
    for number, (name, frame, descriptor) in enumerate(lies(network)):
        honest = network.frame(b"honest%02d" % number)
        for _ in range(3):
            try:
                network.tap.send(frame, **descriptor)
            except OSError:
                pass
        lab.wait_until(lambda honest=honest: network.tap.send(honest) or arrived(network, honest), f"a packet after {name}")


@pytest.mark.skipif(not jumbo.MULTI_BUFFER, reason="this kernel has no AF_XDP sockets for frames in several buffers (Linux 6.6)")
@pytest.mark.parametrize("hook,mode", [(hook, mode) for hook, mode in WAYS if hook != "auto"])
def test_headers_cut_by_a_page(network, hook, mode):
    """The kernel puts as many bytes as the descriptor says into an skb's first piece, and the others into pages: of packets that
    do not fit into one page.  By programs, by the engine, and with an edit of each."""
    lab.run("ip", "link", "set", "tap0", "mtu", "9000")
    for end in network.red, lab.Namespace():
        end.run("ip", "link", "set", "eth0" if end.name else "to-red", "mtu", "9000")
    network.switch.vsctl("set", "interface", "tap0", f"options:xdp-mode={mode}")
    network.switch.use_hook("tap0", f"options:xdp-hook={hook}")
    frame = network.frame(bytes(number % 251 for number in range(8000)))
    routed = frame[:22] + b"\x3f" + frame[23:24] + (int.from_bytes(frame[24:26], "big") + 0x100).to_bytes(2, "big") + frame[26:]
    for actions, expected in (("to-red", frame), (f"{BY_ENGINE},to-red", frame), ("dec_ttl,to-red", routed),
                              (f"{BY_ENGINE},dec_ttl,to-red", routed)):
        network.switch.flows("br0", f"udp,in_port=tap0,actions={actions}", "priority=0,actions=drop")
        network.switch.appctl("revalidator/wait")
        for cut in 14, 15, 20, 33, 34, 38, 41, 42, 43, 0:
            network.tap.send(frame, header_len=cut)
            found = network.wire.receive(lambda seen: seen[6:12] == wire.mac(GUEST))
            assert found == [expected], f"{actions}, cut at {cut}"


@pytest.mark.parametrize("hook,mode", [(hook, mode) for hook, mode in WAYS if hook != "auto"])
def test_reader_that_stops_reading(world, network, hook, mode):
    """What the tap has no room for is counted, others get theirs meanwhile, and afterwards the reader does, too."""
    switch, red = network.switch, network.red
    green = world.enter_context(lab.Namespace("green"))
    green.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
    lab.make_veth("to-green", green)
    switch.add_port("to-green")
    for port in "to-red", "tap0":
        serve(switch, port, hook, mode)
    switch.flows("br0", f"in_port=to-red,dl_dst={GUEST},actions=tap0", "in_port=to-red,actions=to-green", "priority=0,actions=drop")

    mine, address = lab.mac_of(red), lab.mac_of(green)

    def frame(number, target):
        return wire.udp_frame(mine, target, b"%08d" % number)

    def lost():
        return switch.stats("tap0")["sent, dropped by the device or before it"]

    def dropped():
        return lab.kernel_counts(lab.Namespace(), "tap0", "tx_dropped")[0]

    def read():
        """What waits for the reader."""
        frames = []
        while select.select([network.tap.fileno()], [], [], 1)[0]:
            frames.append(os.read(network.tap.fileno(), 2048)[wire.VNET_HDR.size:])
        return frames

    def is_ours(seen):
        return seen[6:12] == wire.mac(mine)

    # The flow: a burst that has none loses upcalls on a busy machine, and a frame may be lost while the hooks change.
    lab.wait_until(lambda: network.wire.send(frame(0, GUEST)) or [seen for seen in read() if is_ours(seen)], "the first frame")
    lab.wait_until(lambda: not [seen for seen in read() if is_ours(seen)], "the last of the first frames")
    before, sent = lost(), 0
    with wire.Wire(green) as end:
        while dropped() < 100 and sent < 20000:
            for _ in range(100):
                network.wire.send(frame(sent, GUEST))
                sent += 1
            network.wire.send(frame(sent, address))
            assert end.receive(is_ours) == [frame(sent, address)]
    waited = [seen for seen in read() if is_ours(seen)]
    assert waited == [frame(number, GUEST) for number in range(len(waited))]
    assert len(waited) + lost() - before == sent
    network.wire.send(frame(sent, GUEST))
    assert frame(sent, GUEST) in read()
