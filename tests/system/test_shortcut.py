# SPDX-License-Identifier: Apache-2.0
"""Peer redirect: packets that tcx puts into a container's namespace, past the host's end of its veth.

    red --- to-red [ switch ] to-green --- green
                                ^ left out
"""
import contextlib
import os
import pathlib
import re
import signal
import socket
import struct

import pytest

import drops
import foreign
import lab
import traffic
import wire
import xdp

HOOK = "tcx"
RED = "02:00:00:00:00:01"
# linux/bpf.h
LINK_CREATE, AT_XDP, XDP_DROP = 28, 37, 1
BEFORE = 8                              # BPF_F_BEFORE: in front of all others at tcx.
GENERIC, NATIVE = 2, 4                  # XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE of linux/if_link.h
LOAD_U32, STORE_U32, JUMP_IF_NOT, SET, EXIT = 0x61, 0x63, 0x55, 0xb7, 0x95
SKB_MARK, SKB_PRIORITY = 8, 32          # Offsets in struct __sk_buff.


def way(switch, device):
    """How programs at tcx send to 'device': "peer", or "device" and why."""
    found = re.search(rf"^\s+port \d+: {device} .*tcx-output=(.*)", switch.appctl("xdp/show"), re.MULTILINE)
    return found and found[1]


def wait_for_way(switch, device, wanted):
    lab.wait_until(lambda: (way(switch, device) or "").startswith(wanted), f"{device} by {wanted}", limit=10)


@pytest.fixture
def quick(network):
    """The network, whose containers are reached by peer redirect."""
    switch = network.switch
    switch.flows("br0", "priority=1,in_port=to-red,actions=output:to-green", "priority=1,in_port=to-green,actions=output:to-red",
                 "priority=0,actions=normal")
    if switch.datapath != "xdp":
        pytest.skip("only our datapath has shortcuts")
    if "the kernel would not count it" in way(switch, "to-green"):
        pytest.skip("before Linux 6.7 redirected packets are not counted")
    for device in "to-red", "to-green":
        wait_for_way(switch, device, "peer")
    return network


def skipped(network, count=50):
    """How many of 'count' datagrams from red to green did not pass through to-green, whose own counter says so; less, if
    others did.  All arrive."""
    frame = wire.udp_frame(RED, lab.mac_of(network.green), b"shortcut")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        red.send(frame)
        assert green.receive(lambda seen: b"shortcut" in seen)
        lab.wait_until(lambda: [flow for flow in network.switch.dump_flows("-m")
                                if all(word in flow for word in ("dp:tcx", "in_port(to-red)", "eth_type(0x0800)"))],
                       "the flow at tcx")
        before = lab.kernel_counts(network.host, "to-green", "tx_packets")[0]
        arrived = lab.kernel_counts(network.green, "eth0", "rx_packets")[0]
        red.send(*[frame] * count)
        assert len(green.receive(lambda seen: b"shortcut" in seen, count)) == count
    assert lab.kernel_counts(network.green, "eth0", "rx_packets")[0] >= arrived + count
    return count - (lab.kernel_counts(network.host, "to-green", "tx_packets")[0] - before)


def test_shortcut_is_taken(quick):
    assert skipped(quick) >= 45
    for address in "10.0.0.2", "fc00::2":
        traffic.ping(quick.red, address)
        traffic.tcp(quick.red, quick.green, address)
        assert traffic.udp(quick.red, quick.green, address) == 100


def test_statistics(quick):
    """Interface statistics agree with what the containers count, whichever way packets took, and never decrease."""
    switch = quick.switch

    def seen():
        switch.vsctl("set", "interface", "to-red", f"other_config:look={os.urandom(4).hex()}")
        return {name: switch.port_counts(f"to-{name}") for name in ("red", "green")}

    def inside():
        return {name: lab.kernel_counts(getattr(quick, name), "eth0", "tx_packets", "rx_packets", "rx_bytes")
                for name in ("red", "green")}

    last = seen()
    for way_of_green in "peer", "device", "peer":
        switch.vsctl("set", "interface", "to-green", f"options:xdp-peer={str(way_of_green == 'peer').lower()}")
        wait_for_way(switch, "to-green", way_of_green)
        before = lab.kernel_counts(quick.host, "to-green", "tx_packets")[0]
        traffic.tcp(quick.red, quick.green, "10.0.0.2")     # Its packets are segmented nowhere.
        assert traffic.udp(quick.red, quick.green, "10.0.0.2") == 100
        passed = lab.kernel_counts(quick.host, "to-green", "tx_packets")[0] - before
        assert passed < 20 if way_of_green == "peer" else passed > 100, passed
        lab.wait_until(lambda: {name: (now[0], *now[2:]) for name, now in seen().items()} == inside(), "the same numbers")
        now = seen()
        assert all(was <= count for name in now for was, count in zip(last[name], now[name]))
        last = now
    switch.crash()
    switch.start()
    wait_for_way(switch, "to-green", "peer")
    assert all(was <= count for name, counts in seen().items() for was, count in zip(last[name][2:], counts[2:]))


def test_option(quick):
    """options:xdp-peer=false sends everything through the device."""
    quick.switch.vsctl("set", "interface", "to-green", "options:xdp-peer=false")
    wait_for_way(quick.switch, "to-green", "device (options:xdp-peer=false)")
    assert skipped(quick) <= 0
    assert quick.switch.get("interface", "to-green", "options") == {"xdp-peer": "false"}
    quick.switch.vsctl("remove", "interface", "to-green", "options", "xdp-peer")
    wait_for_way(quick.switch, "to-green", "peer")


def test_queueing_disciplines(quick):
    """Of Open vSwitch, and of a user: they get what goes to the port, from when they are there until they are not."""
    switch = quick.switch

    def queued():
        return int(re.search(r"Sent \d+ bytes (\d+) pkt", lab.run("tc", "-s", "qdisc", "show", "dev", "to-green", "root"))[1])

    switch.vsctl("set", "port", "to-green", "qos=@qos", "--", "--id=@qos", "create", "qos", "type=linux-htb",
                 "other_config:max-rate=1000000000")
    wait_for_way(switch, "to-green", "device (it has a qdisc)")
    assert skipped(quick) <= 0 and queued() >= 50
    switch.vsctl("clear", "port", "to-green", "qos")
    wait_for_way(switch, "to-green", "peer")
    assert skipped(quick) >= 45

    lab.run("tc", "qdisc", "add", "dev", "to-green", "root", "tbf", "rate", "1gbit", "burst", "1mb", "latency", "1s")
    wait_for_way(switch, "to-green", "device (it has a qdisc)")
    assert skipped(quick) <= 0 and queued() >= 50
    lab.run("tc", "qdisc", "del", "dev", "to-green", "root")
    wait_for_way(switch, "to-green", "peer")


@contextlib.contextmanager
def filter_of_tc(device):
    """The filter and its qdisc are added and deleted; before Linux 6.6 the switch uses the qdisc, too, which then stays."""
    path = foreign.pinned("tc", foreign.TCX_DROP, "wall")
    lonely = foreign.has_tcx()
    if lonely:
        lab.run("tc", "qdisc", "add", "dev", device, "clsact")
    lab.run("tc", "filter", "add", "dev", device, "egress", "bpf", "da", "object-pinned", path)
    os.unlink(path)
    yield
    lab.run("tc", *(("qdisc", "del", "dev", device, "clsact") if lonely else ("filter", "del", "dev", device, "egress")))


def program_at_tcx(device):
    return foreign.Link(device, foreign.TCX_DROP, foreign.TCX_EGRESS)


@pytest.mark.parametrize("wall", (filter_of_tc, program_at_tcx))
def test_filters_at_egress(quick, wall):
    """Programs on the device see what goes to the port soon after they are attached, also those that the kernel does not report."""
    with traffic.Stream(quick.red, quick.green, "10.0.0.2") as stream:
        stream.flowing()
        with wall("to-green"):
            stream.silent()
            assert way(quick.switch, "to-green").startswith("device (")
        stream.flowing()
    wait_for_way(quick.switch, "to-green", "peer")


@contextlib.contextmanager
def linked(namespace, device, descriptor, where, flags):
    """A program on a device."""
    with namespace.entered():
        link = xdp.bpf(LINK_CREATE, struct.pack("=IIII", descriptor, socket.if_nametoindex(device), where, flags))
    os.close(descriptor)
    yield
    os.close(link)


@contextlib.contextmanager
def first_at_ingress(namespace, device, descriptor):
    """A program in front of all others: at tcx or, before Linux 6.6, among the filters of tc."""
    if foreign.has_tcx():
        with linked(namespace, device, descriptor, foreign.TCX_INGRESS, BEFORE):
            yield
        return
    path = foreign.pin(descriptor, "first")
    with namespace.entered():
        lab.run("tc", "qdisc", "add", "dev", device, "clsact", check=False)     # The switch's may be there.
        lab.run("tc", "filter", "add", "dev", device, "ingress", "pref", 1, "bpf", "da", "object-pinned", path)
    os.unlink(path)
    yield
    with namespace.entered():
        lab.run("tc", "filter", "del", "dev", device, "ingress", "pref", 1)


@pytest.mark.parametrize("mode, wanted", ((NATIVE, "device ("), (GENERIC, "peer")))
def test_xdp_program_in_the_container(quick, mode, wanted):
    """A program that is attached while packets flow sees all of them until it is detached."""
    with traffic.Stream(quick.red, quick.green, "10.0.0.2") as stream:
        stream.flowing()
        with linked(quick.green, "eth0", foreign.program("xdp", XDP_DROP), AT_XDP, mode):
            stream.silent()
            assert way(quick.switch, "to-green").startswith(wanted)
        stream.flowing()
    wait_for_way(quick.switch, "to-green", "peer")


def instruction(code, destination=0, source=0, offset=0, value=0):
    return struct.pack("<BBhi", code, source << 4 | destination, offset, value)


def test_marks_end_at_the_container(quick):
    """A packet's metadata (mark, priority) does not pass into the container, as on any veth into another namespace."""
    quick.switch.flows("br0", "in_port=to-red,udp,actions=set_field:7->pkt_mark,set_queue:3,output:to-green",
                       "in_port=to-red,actions=output:to-green",
                       "in_port=to-green,ip,nw_dst=10.0.0.1,actions=output:to-red", "priority=0,actions=normal")
    drop_what_has = (instruction(LOAD_U32, 2, 1, SKB_MARK) + instruction(JUMP_IF_NOT, 2, 0, 4)
                     + instruction(LOAD_U32, 2, 1, SKB_PRIORITY) + instruction(JUMP_IF_NOT, 2, 0, 2)
                     + instruction(SET, 0, value=foreign.TCX_NEXT) + instruction(EXIT)
                     + instruction(SET, 0, value=foreign.TCX_DROP) + instruction(EXIT))

    def give(offset):
        return (instruction(SET, 2, value=7) + instruction(STORE_U32, 1, 2, offset)
                + instruction(SET, 0, value=foreign.TCX_NEXT) + instruction(EXIT))

    with first_at_ingress(quick.green, "eth0", foreign.load("tc", drop_what_has)):
        assert skipped(quick) >= 45     # From a flow.
        # Between namespaces a mark ends; that of a host's socket comes as far as here.
        assert traffic.ping(quick.host, "10.0.0.2", count=20, options=("-m", "7")) == 20
        for field in SKB_MARK, SKB_PRIORITY:            # From a user's program, before the switch's.
            with first_at_ingress(quick.host, "to-red", foreign.load("tc", give(field))):
                assert skipped(quick) >= 45
                assert traffic.ping(quick.red, "10.0.0.2", count=20) == 20


def test_frames_for_others(quick):
    """A frame for another MAC address does not look to the container as if it were addressed to it."""
    with quick.green.entered():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, wire.Wire(quick.red) as red:
        receiver.bind(("10.0.0.2", 2000))
        receiver.settimeout(5)
        for turn in range(20):
            for address in "02:00:00:00:00:77", lab.mac_of(quick.green):
                data = f"{turn} {address}".encode()
                red.send(wire.udp_frame(RED, address, data, ports=(1000, 2000)))
            assert receiver.recv(100) == data


@pytest.mark.usefixtures("nothing_vanishes")
def test_tags_and_sizes(quick):
    """Frames that a veth treats in a special way go through it: tagged ones, and those longer than the MTU."""
    switch, green = quick.switch, lab.mac_of(quick.green)
    switch.flows("br0", "udp,tp_dst=3000,in_port=to-red,actions=push_vlan:0x8100,mod_vlan_vid:7,output:to-green",
                 "priority=1,in_port=to-red,actions=output:to-green")
    quick.green.run("ip", "link", "set", "eth0", "mtu", 1000)
    lab.wait_until(lambda: skipped(quick) >= 45, "peer redirect")
    long, short = (wire.udp_frame(RED, green, kind * size) for kind, size in ((b"L", 1200), (b"S", 900)))
    plain, once, twice = (wire.udp_frame(RED, green, b"tagged" * 10, ports=(1000, 3000), tags=tags)
                          for tags in ((), (7,), (7, 8)))

    def passed_through():
        return lab.kernel_counts(quick.host, "to-green", "tx_packets")[0]

    with wire.Wire(quick.red) as red, wire.Wire(quick.green) as seen:
        def too_long():
            red.send(long, short)
            return seen.receive(lambda frame: frame[42:45] in (b"LLL", b"SSS"), 2, limit=0.5) == [short]
        lab.wait_until(too_long, "the new MTU")
        for given, wanted in (plain, once), (twice, twice):
            before = passed_through()
            for _ in range(10):
                red.send(long, given, short)
                frames = seen.receive(lambda frame: frame[42:45] in (b"LLL", b"SSS") or b"tagged" in frame, 2)
                assert set(frames) == {wanted, short}
            assert passed_through() - before >= 10


def test_another_address(quick):
    """The container changes its own address: frames for the new one come by peer redirect soon, those for the old one are
    not taken for its own."""
    quick.green.run("ip", "link", "set", "eth0", "address", "02:00:00:00:00:99")
    lab.wait_until(lambda: skipped(quick) >= 45, "peer redirect to the new address")
    quick.red.run("ip", "neighbour", "flush", "dev", "eth0")
    assert traffic.ping(quick.red, "10.0.0.2", count=5) == 5


def test_other_end_down_and_away(quick):
    """Few packets are lost when the peer is set down, is moved to the host, or comes back."""
    switch, green = quick.switch, quick.green
    with traffic.Stream(quick.red, green, "10.0.0.2") as stream:
        stream.flowing()
        green.run("ip", "link", "set", "eth0", "down")
        wait_for_way(switch, "to-green", "device (it or its peer is down)")
        green.run("ip", "link", "set", "eth0", "up")
        wait_for_way(switch, "to-green", "peer")
        stream.flowing()

        green.run("ip", "link", "set", "eth0", "netns", lab.thread())
        wait_for_way(switch, "to-green", "device (not a veth")
        lab.run("ip", "link", "set", "eth0", "up")
        with wire.Wire(quick.host) as host:
            assert len(host.receive(lambda frame: b"xxxx" in frame, 20)) == 20
        lab.run("ip", "link", "set", "eth0", "netns", "green")
        green.run("ip", "link", "set", "eth0", "up")
        lab.add_addresses(green, "eth0", "10.0.0.2/24")
        wait_for_way(switch, "to-green", "peer")
        traffic.introduce(quick.red, green, "10.0.0.2")
        stream.flowing()
    lab.run("ip", "link", "set", "to-green", "down")
    wait_for_way(switch, "to-green", "device (it or its peer is down)")
    lab.run("ip", "link", "set", "to-green", "up")
    wait_for_way(switch, "to-green", "peer")
    switch.vsctl("del-port", "to-green")
    assert traffic.ping(quick.red, "10.0.0.2", count=3, limit=1) == 0


@pytest.mark.parametrize("what", ("set down", "moved", "deleted"))
def test_lost_until_noticed(quick, watch, what):
    """Until the daemon has noticed that the peer is down or gone the kernel drops what is redirected into it, and counts that
    nowhere: not more than came meanwhile.  From then on all is counted."""
    switch, green = quick.switch, quick.green
    switch.expected += ["to-green", "No such device"]
    ledger = drops.Ledger(watch, switch)

    def came():
        return switch.stats("to-red")["received packets"]

    with traffic.Stream(quick.red, green, "10.0.0.2", interval=0.0005) as stream:
        stream.flowing()
        before = came()
        green.run("ip", "link", *{"set down": ("set", "eth0", "down"), "moved": ("set", "eth0", "netns", lab.thread()),
                                  "deleted": ("delete", "eth0")}[what])
        lab.wait_until(lambda: not (way(switch, "to-green") or "").startswith("peer"), "the daemon to notice")
        lost = ledger.allow("skb_do_redirect")
        assert lost <= came() - before
        print(f"{lost} packets lost until it was noticed that the peer is {what}")
        stream.silent()
    ledger.check()


def test_capture(quick):
    """tcpdump on the device sees what goes to the container."""
    traffic.ping(quick.red, "10.0.0.2")
    with open("/run/seen", "wb") as output:
        with lab.Process("tcpdump", "-n", "-l", "-i", "to-green", "icmp", stdout=output):
            wait_for_way(quick.switch, "to-green", "device (it is promiscuous: packets are captured)")

            def seen():
                traffic.ping(quick.red, "10.0.0.2")
                return pathlib.Path("/run/seen").read_text().count("echo request") >= 5
            lab.wait_until(seen, "requests")
    wait_for_way(quick.switch, "to-green", "peer")


@contextlib.contextmanager
def crashed(switch):
    switch.crash()
    try:
        yield
    finally:
        switch.start()


@contextlib.contextmanager
def hanging(switch):
    os.kill(switch.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(switch.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("blind", (crashed, hanging))
def test_nobody_looks(quick, blind):
    """Flows outlive the daemon, which alone notices what peer redirect bypasses: without it there is none."""
    traffic.introduce(quick.red, quick.green, "10.0.0.2")
    traffic.introduce(quick.green, quick.red, "10.0.0.1")
    traffic.tcp(quick.red, quick.green, "10.0.0.2", size=1 << 16)
    with traffic.Stream(quick.red, quick.green, "10.0.0.2") as stream:
        stream.flowing()
        with blind(quick.switch):
            with filter_of_tc("to-green"):
                stream.silent(limit=10)
            stream.flowing()
        wait_for_way(quick.switch, "to-green", "peer")
        stream.flowing()
