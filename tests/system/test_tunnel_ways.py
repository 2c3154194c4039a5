# SPDX-License-Identifier: Apache-2.0
"""What packets in tunnels meet on their way: TOS, TTL and ECN, tunnels one behind the other and to oneself, a tunnel that goes,
and a daemon that is killed.  The flows are Open vSwitch's own; programs run them.
"""
import itertools
import re
import struct

import pytest
from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

import lab
import switch as switches
import traffic
import tunnel_table
import tunnel_world
import wire

NEAR, FAR = "172.16.0.1", "172.16.0.2"
NEAR_MAC, FAR_MAC = "02:00:00:00:01:01", "02:00:00:00:01:02"


@pytest.fixture(params=("xdp", "tcx", "both"))
def way(request):
    """The hook of all ports."""
    return request.param


@pytest.fixture
def environment(request, world, monkeypatch):
    """Of the switch, which begins before far."""
    if "way" in request.fixturenames:
        monkeypatch.setattr(switches.Switch, "hook", request.getfixturevalue("way"))
    return {}


@pytest.fixture
def far(world, way, switch, host):
    """Wires: red on br0, whose packets go into a tunnel, and far, where they come out."""
    quiet = "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
    lab.run(*quiet)
    ends = {}
    for bridge, name in ("br-phy", "far"), ("br0", "red"):
        namespace = world.enter_context(lab.Namespace(name))
        namespace.run(*quiet)
        lab.make_veth(f"to-{name}", namespace)
        switch.add_bridge(bridge)
        switch.add_port(f"to-{name}", bridge=bridge)
        ends[name] = world.enter_context(wire.Wire(namespace))
    switch.vsctl("set", "bridge", "br-phy", f'other-config:hwaddr="{NEAR_MAC}"')
    lab.run("ip", "link", "set", "br-phy", "up")
    lab.add_addresses(host, "br-phy", f"{NEAR}/24")
    lab.wait_until(lambda: lab.mac_of(host, "br-phy") == NEAR_MAC, "the address of br-phy")
    if switches.DATAPATH == "xdp":
        assert [switch.status(f"to-{name}")["xdp-hook"] for name in ends] == [way, way]
    switch.appctl("tnl/arp/set", "br-phy", FAR, FAR_MAC)
    return ends


def tunnel(switch, *options):
    switch.vsctl("add-port", "br0", "tun0", "--", "set", "interface", "tun0", "type=vxlan", f"options:remote_ip={FAR}",
                 "options:key=1", *options)
    switch.flows("br0", "in_port=to-red,actions=tun0", "in_port=tun0,actions=to-red")


def inside(tos=0, ttl=64, length=82, flags=""):
    """A frame of 'length' bytes."""
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:09") \
        / IP(src="10.0.0.1", dst="10.0.0.9", tos=tos, ttl=ttl, flags=flags) / UDP(sport=1, dport=2) / Raw(b"p" * (length - 42))


def outside(inner, tos=0, vni=1):
    """What far sends."""
    return bytes(Ether(src=FAR_MAC, dst=NEAR_MAC) / IP(src=FAR, dst=NEAR, tos=tos) / UDP(sport=50000, dport=4789, chksum=0)
                 / Raw(struct.pack("!II", 0x08000000, vni << 8) + bytes(inner)))


def carried(switch, send, receive, frame):
    """The frame that comes of 'frame' when a program runs its flows."""
    def comes():
        send.send(bytes(frame))
        got.extend(receive.receive())
        flows = [flow for flow in switch.dump_flows("-m") if "offloaded:yes" in flow and not flow.count("actions:drop")]
        return got and any(int(re.search(r"packets:(\d+)", flow)[1]) > 1 for flow in flows)
    got = []
    lab.wait_until(comes, "frames that programs carry")
    return got[-1]


@pytest.mark.parametrize("option, tos, ttl, outer_tos, outer_ttl", (
    ((), 0xb9, 17, 0x01, 64),           # ECN is always copied (RFC 6040), TOS not, TTL not.
    (("options:tos=inherit",), 0xb8, 17, 0xb8, 64),
    (("options:tos=0x20",), 0xb8, 17, 0x20, 64),
    (("options:ttl=inherit",), 0, 17, 0, 17),
    (("options:ttl=9",), 0, 17, 0, 9)))
def test_outer_tos_and_ttl(switch, far, option, tos, ttl, outer_tos, outer_ttl):
    tunnel(switch, *option)
    frame = IP(carried(switch, far["red"], far["far"], inside(tos, ttl))[14:])
    assert (frame.src, frame.dst, frame.tos, frame.ttl) == (NEAR, FAR, outer_tos, outer_ttl)
    assert bytes(frame[UDP].payload)[8:] == bytes(inside(tos, ttl))


@pytest.mark.parametrize("inner, outer, becomes", ((1, 3, 3), (2, 3, 3), (3, 3, 3), (1, 0, 1), (2, 1, 2), (0, 1, 0), (0, 2, 0)))
def test_ecn_behind_a_tunnel(switch, far, inner, outer, becomes):
    """RFC 6040, as Open vSwitch does it: CE outside becomes CE inside, and nothing else changes what is inside."""
    tunnel(switch)
    frame = carried(switch, far["far"], far["red"], outside(inside(tos=inner), tos=outer))
    assert IP(frame[14:]).tos == becomes
    assert frame == bytes(inside(tos=becomes))


def test_congestion_that_the_inner_packet_cannot_say(switch, far):
    tunnel(switch)
    switch.expected += ["ECN"]
    far["far"].send(outside(inside(), tos=3))
    lab.wait_until(lambda: any("tos" in flow and "actions:drop" in flow for flow in switch.dump_flows()), "a flow that drops")
    far["far"].send(outside(inside(), tos=3))
    far["far"].send(outside(inside(tos=1)))
    assert far["red"].receive() == [bytes(inside(tos=1))]


@pytest.mark.parametrize("tier", ("programs", "engine"))
@pytest.mark.parametrize("flags", ("", "DF"), ids=("fragments", "DF"))
def test_longer_than_the_wire_takes(switch, far, flags, tier):
    """Open vSwitch fragments nothing: with its header a packet fits the MTU of the device, or is dropped and counted."""
    tunnel(switch)
    if tier == "engine":
        switch.vsctl("set", "open", ".", "other_config:xdp-offload=false")
        far["red"].send(bytes(inside()))
        assert far["far"].receive()
    else:
        carried(switch, far["red"], far["far"], inside())
    for length in (1463, 1464, 1465, 1500):
        expected = switch.over_mtu() + (length > 1464)
        frame, mark = bytes(inside(length=length, flags=flags)), bytes(inside())
        far["red"].send(frame, mark)
        wanted = [frame, mark] if length <= 1464 else [mark]
        got = far["far"].receive(count=len(wanted))
        assert sorted(bytes(IP(outer[14:])[UDP].payload)[8:] for outer in got) == sorted(wanted)
        lab.wait_until(lambda at=expected: switch.over_mtu() == at, "the packet to be counted")


@pytest.mark.parametrize("tier", ("programs", "engine"))
def test_counted(switch, far, tier):
    """Both ways: the underlay's port counts whole frames, the bridge's own port nothing.  The tunnel's port counts what is inside,
    and what it sends once more with the header: as stock, with OXDP_DATAPATH=netdev."""
    tunnel(switch)
    if tier == "engine" and switches.DATAPATH == "xdp":
        switch.vsctl("set", "open", ".", "other_config:xdp-offload=false")
    ways = (far["red"], far["far"], bytes(inside())), (far["far"], far["red"], outside(inside()))
    for source, target, frame in ways:
        if tier == "programs" and switches.DATAPATH == "xdp":
            carried(switch, source, target, frame)
        else:
            lab.wait_until(lambda way=(source, target, frame): (way[0].send(way[2]), way[1].receive(limit=1))[1], "a frame")
        target.receive(limit=0.5)
    ports = {"tun0": "br0", "to-red": "br0", "to-far": "br-phy", "br-phy": "br-phy"}

    def counts():
        switch.appctl("revalidator/purge")
        return {name: switch.port_counts(name, bridge) for name, bridge in ports.items()}
    before = counts()
    for source, target, frame in ways:
        source.send(*[frame] * 7)
        assert len(target.receive(count=7)) == 7
    inner, outer = 7 * 82, 7 * (82 + 50)
    expected = {"tun0": (7, inner, 14, inner + outer), "to-red": (7, inner, 7, inner), "to-far": (7, outer, 7, outer),
                "br-phy": (0, 0, 0, 0)}
    after = counts()
    assert {name: tuple(now - then for now, then in zip(after[name], before[name])) for name in ports} == expected
    flows = switch.ofctl("dump-flows", "br0")
    assert all(int(number) >= 8 for number in re.findall(r"n_packets=(\d+)", flows)[:2]), flows


def test_to_oneself(switch, far):
    """The tunnel's other end is the bridge's own address: as in stock, what is pushed does not come back, and the next tunnel
    works.  Open vSwitch has it come from the bridge's own port, where NORMAL learns that address."""
    switch.vsctl("add-port", "br0", "tun1", "--", "set", "interface", "tun1", "type=vxlan", f"options:remote_ip={NEAR}",
                 "options:key=2")
    switch.appctl("tnl/arp/set", "br-phy", NEAR, NEAR_MAC)
    switch.flows("br0", "in_port=to-red,actions=tun1", "in_port=tun1,actions=to-red")
    for _ in range(5):
        far["red"].send(bytes(inside()))
        assert not far["red"].receive(limit=0.2)
    far["far"].receive(limit=0.2)
    tunnel(switch)
    lab.wait_until(lambda: (far["red"].send(bytes(inside())), far["far"].receive(limit=0.5))[1], "the next tunnel")
    assert not far["red"].receive(limit=0.2)


@pytest.mark.parametrize("csum", (False, True), ids=("plain", "checksum"))
@pytest.mark.parametrize("tier", ("programs", "engine"))
def test_numbered(switch, far, tier, csum):
    """options:seq=true: GRE's sequence numbers count the packets of the port, whichever flow they are of and which tier sends
    them, beyond the end of a daemon.  Those that come in are not looked at (RFC 2890 leaves that to the receiver).  Stock Open vSwitch,
    which computes the checksum before it numbers the packet, has it wrong."""
    switch.vsctl("add-port", "br0", "tun0", "--", "set", "interface", "tun0", "type=gre", f"options:remote_ip={FAR}",
                 "options:key=1", "options:seq=true", *(["options:csum=true"] if csum else []))
    rules = "in_port=to-red,actions=tun0", "in_port=tun0,actions=to-red"
    switch.flows("br0", *rules)
    if tier == "engine" and switches.DATAPATH == "xdp":
        switch.vsctl("set", "open", ".", "other_config:xdp-offload=false")
    form = "!HHHHII" if csum else "!HHII"
    size = struct.calcsize(form)
    frame, other = bytes(inside()), bytes(inside(tos=4))
    numbers = []

    def pass_on(*frames):
        far["red"].send(*frames)
        got = [bytes(IP(outer[14:]).payload) for outer in far["far"].receive(count=len(frames))]
        for packet in got:
            assert struct.unpack(form, packet[:size])[:2] == (0xb000 if csum else 0x3000, 0x6558)
            assert not csum or switches.DATAPATH != "xdp" or not tunnel_table.checksum(packet)
            numbers.append(struct.unpack(form, packet[:size])[-1])
        assert sorted(packet[size:] for packet in got) == sorted(frames[:len(got)])
        return len(got) == len(frames)

    def runs():
        assert pass_on(frame, other) or not numbers
        pushes = [flow for flow in switch.dump_flows("-m") if "tnl_push" in flow]
        return numbers and (tier == "engine" or switches.DATAPATH != "xdp" or all("offloaded:yes" in flow for flow in pushes))

    lab.wait_until(runs, "the flows")
    assert pass_on(frame, other, frame, other, frame)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    back = bytes(Ether(src=FAR_MAC, dst=NEAR_MAC) / IP(src=FAR, dst=NEAR, proto=47)
                 / Raw(struct.pack("!HHII", 0x3000, 0x6558, 1, 7) + frame))
    far["far"].send(*[back] * 5)
    assert far["red"].receive(count=5) == [frame] * 5
    if tier == "programs" and switches.DATAPATH == "xdp":
        switch.crash()
        assert pass_on(frame, other)
        switch.start()
        lab.wait_until(lambda: any("took over" in line for line in switch.log()), "the next daemon")
        switch.appctl("tnl/arp/set", "br-phy", FAR, FAR_MAC)
        switch.flows("br0", *rules)
        lab.wait_until(runs, "the flows again")
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_hairpin(switch, far):
    """From one tunnel into the next: popped, changed, pushed."""
    tunnel(switch)
    switch.vsctl("add-port", "br0", "tun1", "--", "set", "interface", "tun1", "type=geneve", f"options:remote_ip={FAR}",
                 "options:key=2")
    switch.flows("br0", "in_port=tun0,ip,actions=dec_ttl,set_field:02:00:00:00:00:11->eth_dst,tun1")
    frame = carried(switch, far["far"], far["far"], outside(inside()))
    packet = IP(frame[14:])
    assert (packet.dst, packet[UDP].dport) == (FAR, 6081)
    expected = inside(ttl=63)
    expected.dst = "02:00:00:00:00:11"
    assert bytes(packet[UDP].payload) == struct.pack("!BBHI", 0, 0, 0x6558, 2 << 8) + bytes(expected)
    assert all("offloaded:yes" in flow for flow in switch.dump_flows("-m") if "tnl_" in flow)


def test_broadcast(switch, far, way):
    """One packet into several tunnels: at tcx each copy gets its header from the program, at XDP from the engine."""
    ends = {f"172.16.0.{number}": f"02:00:00:00:01:0{number}" for number in (2, 3, 4)}
    for number, (end, mac) in enumerate(ends.items()):
        switch.vsctl("add-port", "br0", f"tun{number}", "--", "set", "interface", f"tun{number}", "type=vxlan",
                     f"options:remote_ip={end}", f"options:key={number}")
        switch.appctl("tnl/arp/set", "br-phy", end, mac)
    switch.flows("br0", "in_port=to-red,actions=tun0,tun1,tun2")
    frame = bytes(Ether(src="02:00:00:00:00:01", dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.0.1", pdst="10.0.0.9"))
    tier = "dp:ovs" if way == "xdp" else "dp:tcx"

    def is_run():
        far["red"].send(frame)
        assert len(far["far"].receive(count=3)) == 3
        flows = [flow for flow in switch.dump_flows("-m") if flow.count("tnl_push") == 3]
        return flows and tier in flows[0]

    lab.wait_until(is_run, f"the flow in {tier}")
    far["red"].send(frame)
    got = far["far"].receive(count=3)
    wanted = [(mac, end, number) for number, (end, mac) in enumerate(ends.items())]
    assert sorted((Ether(outer).dst, Ether(outer)[IP].dst, int.from_bytes(outer[46:49], "big")) for outer in got) == wanted
    assert all(outer[50:] == frame for outer in got)


def test_within_itself(switch, far):
    """Tunnels one in the other, more than a packet may pass: it is dropped, and the switch goes on."""
    tunnel(switch)
    switch.flows("br0", "in_port=tun0,actions=LOCAL", "in_port=LOCAL,actions=to-red", "in_port=to-red,actions=tun0")
    switch.expected += ["over max", "recirculation", "receive tunnel port not found", "xlate"]
    frame = bytes(inside())
    for _ in range(12):
        frame = outside(frame)
    for _ in range(5):
        far["far"].send(frame)
    switch.flows("br0", "in_port=tun0,actions=to-red")
    lab.wait_until(lambda: (far["far"].send(outside(inside())), bytes(inside()) in far["red"].receive(limit=0.1))[1], "the next")


def test_deleted_under_traffic(world, switch, host):
    red, far_ns = tunnel_world.make(world, switch, host, "vxlan", "tcx")
    tunnel_world.deleted_under_traffic(switch, red, far_ns, lambda: tunnel_world.add_tunnel(switch, "vxlan"))


def knows(host, address, device):
    return "lladdr" in host.run("ip", "neighbour", "show", address, "dev", device)


def know_for_long(host):
    """The kernel knows far.  It does not ask again, which nobody answers without a daemon: an emulated machine needs long for a
    restart."""
    lab.wait_until(lambda: knows(host, "172.16.0.2", "br-phy"), "the kernel to know far")
    host.run("sysctl", "-qw", "net.ipv4.neigh.br-phy.delay_first_probe_time=600")


@pytest.mark.skipif(switches.DATAPATH != "xdp", reason="stock Open vSwitch's userspace datapath forgets its neighbours")
@pytest.mark.parametrize("how", ("kill", "exit"))
def test_new_flow_after_a_restart(world, switch, host, how):
    """Its first packet does not wait for who the tunnel's other end is: the kernel knows since far has asked for br-phy.  far
    answers no request any more."""
    red, far_ns = tunnel_world.make(world, switch, host, "vxlan", "tcx")
    traffic.wait_for_ping(red, "10.0.0.9")
    for namespace, device in (red, "eth0"), (far_ns, "tun0"), (far_ns, "eth0"), (host, "br-phy"), (host, "br0"):
        namespace.run("sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
    know_for_long(host)
    far_ns.run("sysctl", "-qw", "net.ipv4.conf.eth0.arp_ignore=8")
    if how == "kill":
        switch.crash()
    else:
        switch.stop()
    switch.start()
    lab.wait_until(lambda: any("took over" in line for line in switch.log()), "the next daemon")
    new = bytes(Ether(src="02:00:00:00:00:77", dst="02:00:00:00:00:78") / IP(src="10.0.0.7", dst="10.0.0.8") / UDP(sport=7, dport=8)
                / Raw(b"new" * 20))
    with wire.Wire(red) as source, wire.Wire(far_ns) as target:
        source.send(new)
        assert target.receive(lambda got: got.endswith(new)), switch.appctl("tnl/arp/show")


@pytest.mark.parametrize("hook", ("xdp", "tcx"))
def test_killed(world, switch, host, hook):
    """Known flows go on without a daemon, both ways, and when the next one takes over."""
    red, far_ns = tunnel_world.make(world, switch, host, "vxlan", hook)
    traffic.wait_for_ping(red, "10.0.0.9")
    red.run("ip", "neighbour", "replace", "10.0.0.9", "lladdr", lab.mac_of(far_ns, "tun0"), "dev", "eth0")
    far_ns.run("ip", "neighbour", "replace", "10.0.0.1", "lladdr", lab.mac_of(red), "dev", "tun0")
    far_ns.run("ip", "neighbour", "replace", "172.16.0.1", "lladdr", lab.mac_of(host, "br-phy"), "dev", "eth0")
    know_for_long(host)
    with traffic.Numbered(far_ns, red, "10.0.0.1", 1000) as there, \
            traffic.Numbered(red, far_ns, "10.0.0.9", 1000, port=5006) as back:
        lab.wait_until(lambda: sum("offloaded:yes" in flow and "tnl_" in flow for flow in switch.dump_flows("-m")) >= 2, "flows")
        traffic.ping(red, "10.0.0.9")
        switch.crash()
        traffic.ping(red, "10.0.0.9", count=20)
        switch.start()
        lab.wait_until(lambda: any("took over" in line for line in switch.log()), "the next daemon")
        traffic.ping(red, "10.0.0.9", count=20)
        ends = there.end(), back.end()
    for sent, lost, gaps, _ in ends:
        print(f"{lost} lost of {sent}: {gaps}")
        assert lost <= 50               # As tests/system/test_restart.py: none, if nothing else runs.


@pytest.mark.skipif(switches.DATAPATH != "xdp", reason="stock Open vSwitch's userspace datapath drops them: the host has no socket")
def test_fragments_outside(switch, far, way):
    """Open vSwitch pops no fragments: the host puts the packet together, and the kernel's device, made with the first, has it."""
    def pieces():
        packet = IP(outside(frame)[14:])
        packet.id = next(numbers)
        return [bytes(Ether(src=FAR_MAC, dst=NEAR_MAC) / piece) for piece in fragment(packet, fragsize=400)]
    numbers = itertools.count(1)
    tunnel(switch)
    frame = inside(length=1000)
    lab.wait_until(lambda: (far["far"].send(*pieces()), bytes(frame) in far["red"].receive(limit=0.2))[1], "the packet")
    for _ in range(10):
        far["far"].send(*pieces())
        assert far["red"].receive(lambda got: got == bytes(frame)) == [bytes(frame)]
    assert carried(switch, far["far"], far["red"], outside(inside())) == bytes(inside())
    assert carried(switch, far["red"], far["far"], inside())
    assert "fragments through vxlan4789-host" in switch.appctl("xdp/why")


@pytest.mark.skipif(switches.DATAPATH != "xdp", reason="stock Open vSwitch's userspace datapath does not say")
@pytest.mark.parametrize("source, vni", (("172.16.0.99", 1), (FAR, 2)), ids=("source", "key"))
def test_of_no_tunnel(switch, far, source, vni):
    """What comes from elsewhere than the tunnel's other end, or with another key, is dropped and counted by that name."""
    tunnel(switch)
    switch.expected += ["receive tunnel port not found", "xlate"]
    assert carried(switch, far["far"], far["red"], outside(inside())) == bytes(inside())
    before = switch.engine_drops().get("no_tunnel", 0)
    packet = Ether(outside(inside(), vni=vni))
    packet[IP].src, packet[IP].chksum = source, None
    far["far"].send(*[bytes(packet)] * 20, outside(inside(tos=4)))
    assert far["red"].receive(lambda got: got[:14] == bytes(inside())[:14]) == [bytes(inside(tos=4))]
    lab.wait_until(lambda: switch.engine_drops()["no_tunnel"] == before + 20, "the counter")
    assert "no tunnel has its outer addresses and its key: " in switch.appctl("xdp/stats")


def test_tag_outside(switch, far):
    """The bridge's own port is in a VLAN: outer packets leave with its tag, and are taken with it alone."""
    switch.vsctl("set", "port", "br-phy", "tag=9")
    tunnel(switch)
    got = Ether(carried(switch, far["red"], far["far"], inside()))
    assert (got[Dot1Q].vlan, got[Dot1Q].prio, got[IP].src, got[IP].dst) == (9, 0, NEAR, FAR)
    assert bytes(got[UDP].payload)[8:] == bytes(inside())

    def tagged(number, frame):
        packet = Ether(outside(frame))
        return bytes(Ether(src=FAR_MAC, dst=NEAR_MAC) / Dot1Q(vlan=number) / packet[IP])
    assert carried(switch, far["far"], far["red"], tagged(9, inside())) == bytes(inside())
    far["red"].receive(limit=0.2)
    far["far"].send(tagged(8, inside()), outside(inside()), tagged(9, inside(tos=4)))
    assert far["red"].receive() == [bytes(inside(tos=4))]


def test_several_options(switch, far):
    """Geneve options of OpenFlow's tlv-map: set, and matched, by programs."""
    first, second, third = struct.pack("!HBBI", 0x102, 0x80, 1, 0x01020304), struct.pack("!HBBQ", 0x102, 1, 2, 5), \
        struct.pack("!HBB", 0xffff, 7, 5) + bytes(range(20))
    switch.ofctl("add-tlv-map", "br0", "{class=0x102,type=0x80,len=4}->tun_metadata0,{class=0x102,type=1,len=8}->tun_metadata1,"
                 "{class=0xffff,type=7,len=20}->tun_metadata2")
    switch.vsctl("add-port", "br0", "tun0", "--", "set", "interface", "tun0", "type=geneve", f"options:remote_ip={FAR}", "options:key=1")
    fields = ("0x01020304", "5", f"0x{bytes(range(20)).hex()}")
    switch.flows("br0", "in_port=to-red,actions=" + ",".join(f"set_field:{value}->tun_metadata{n}" for n, value in enumerate(fields))
                 + ",tun0", "in_port=tun0," + ",".join(f"tun_metadata{n}={value}" for n, value in enumerate(fields))
                 + ",actions=to-red", "priority=1,in_port=tun0,actions=drop")
    header = bytes(IP(carried(switch, far["red"], far["far"], inside())[14:])[UDP].payload)[:-len(inside())]
    fixed, options = header[:8], header[8:]
    assert struct.unpack("!BBHI", fixed) == (len(options) // 4, 0x40, 0x6558, 1 << 8)     # One option is critical.
    assert options == first + second + third

    def sent(*options):
        options = b"".join(options)
        return bytes(Ether(src=FAR_MAC, dst=NEAR_MAC) / IP(src=FAR, dst=NEAR) / UDP(sport=50000, dport=6081, chksum=0)
                     / Raw(struct.pack("!BBHI", len(options) // 4, 0x40, 0x6558, 1 << 8) + options + bytes(inside())))
    assert carried(switch, far["far"], far["red"], sent(first, second, third)) == bytes(inside())
    far["red"].receive(limit=0.2)
    far["far"].send(sent(first, second), sent(first, second[:-1] + b"\6", third), sent(first, second, third))
    assert far["red"].receive(limit=1, count=2) == [bytes(inside())]


@pytest.mark.parametrize("hook", ("xdp", "tcx"))
def test_unknown_neighbour(world, switch, host, hook):
    """The switch asks for it, and the packet is lost, as in stock; the next goes when there was an answer."""
    red, far_ns = tunnel_world.make(world, switch, host, "vxlan", hook)
    traffic.wait_for_ping(red, "10.0.0.9")
    red.run("ip", "neighbour", "replace", "10.0.0.9", "lladdr", lab.mac_of(far_ns, "tun0"), "dev", "eth0")
    for namespace, device in (red, "eth0"), (far_ns, "tun0"), (far_ns, "eth0"), (host, "br-phy"), (host, "br0"):
        namespace.run("sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")

    def forget():
        """Open vSwitch asks, and hears an answer, where it translates a flow."""
        switch.appctl("tnl/arp/flush")
        switch.appctl("revalidator/purge")
    near = lab.mac_of(host, "br-phy")
    asked = bytes(Ether(src=near, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=near, psrc=NEAR, pdst=FAR))
    far_ns.run("sysctl", "-qw", "net.ipv4.conf.eth0.arp_ignore=8")
    with wire.Wire(far_ns) as end:
        forget()
        assert traffic.ping(red, "10.0.0.9", count=2, limit=1) == 0
        assert end.receive(lambda got: got[:len(asked)] == asked)
    far_ns.run("sysctl", "-qw", "net.ipv4.conf.eth0.arp_ignore=0")
    forget()
    traffic.wait_for_ping(red, "10.0.0.9")
    assert traffic.ping(red, "10.0.0.9") == 3
