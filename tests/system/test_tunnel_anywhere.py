# SPDX-License-Identifier: Apache-2.0
"""Tunnels whose endpoint here is an address of the host, on a device that is no port: the kernel's device for them carries their
packets, by the host's routes, rules, neighbours and netfilter.

    red (10.0.0.1) -- br0 -- tun0  ...  to-far (172.16.0.1) ===== eth0 (172.16.0.2), tun0 (10.0.0.9): far
"""
import re

import pytest

import lab
import sockets
import switch as switches
import traffic
import tunnel_table
import tunnel_world
import wire
import xdp

ALIAS = "OVS-XDP: tunnels by the routes of the host"
DEVICE = "vxlan4789-host"
HERE, THERE = tunnel_world.HERE, tunnel_world.THERE


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch's userspace datapath knows tunnels by its ports alone")


def devices():
    """Names of the devices for such tunnels."""
    return re.findall(rf"^\d+: (\S+?):(?:(?!^\d).)*?{ALIAS}", lab.run("ip", "link"), re.MULTILINE | re.DOTALL)


def make(world, switch, host, kind="vxlan", csum=False, ip6=False, remote=None):
    """Namespaces red and far, and a tunnel between them by no port.  Skips where this kernel has no such device.  With GRE, far
    wants a checksum and sends none: the switch's device takes none (decision 0028)."""
    tunnel_world.need(kind)
    red, far = (world.enter_context(lab.Namespace(name)) for name in ("red", "far"))
    lab.make_veth("to-red", red, mtu=1400)
    lab.make_veth("to-far", far)
    lab.add_addresses(red, "eth0", "10.0.0.1/24", "fc00::1/64")
    lab.add_addresses(host, "to-far", "172.16.0.1/24", "fd00::1/64")
    lab.add_addresses(far, "eth0", "172.16.0.2/24", "fd00::2/64")
    tunnel_world.add_device(far, kind, csum, HERE[ip6], THERE[ip6], gre_csum="icsum")
    switch.add_bridge()
    switch.add_port("to-red")
    add_tunnel(switch, kind, csum, remote or THERE[ip6])
    switch.expected += tunnel_world.EARLY
    return red, far


def add_tunnel(switch, kind="vxlan", csum=False, remote="172.16.0.2", *options):
    switch.add_port("tun0", interface=(f"type={kind}", f"options:remote_ip=\"{remote}\"", "options:key=42",
                                       *(("options:csum=true",) if csum else ()), *options))


def link(far, name="to-far2", inside="eth1", number=18):
    """Another link to far, 172.18.0.2, without an address here."""
    lab.make_veth(name, far, inside=inside)
    lab.add_addresses(far, inside, f"172.{number}.0.2/24")
    for device in "all", "eth0", inside:
        far.run("sysctl", "-qw", f"net.ipv4.conf.{device}.rp_filter=0")
    for device in "all", "to-far", name:
        lab.run("sysctl", "-qw", f"net.ipv4.conf.{device}.rp_filter=0")


@pytest.mark.parametrize("ip6", (False, True), ids=("ip4", "ip6"))
@pytest.mark.parametrize("csum", (False, True), ids=("", "csum"))
@pytest.mark.parametrize("kind", tunnel_world.KINDS)
def test_reached(world, switch, host, kind, csum, ip6):
    """Both ways, both IP versions inside, while the other traffic of the device is the host's as before."""
    if kind == "gre" and ip6:
        pytest.skip("the kernel's name for it is ip6gretap")
    red, far = make(world, switch, host, kind, csum, ip6)
    traffic.wait_for_ping(red, "10.0.0.9")
    for address, back in ("10.0.0.9", "10.0.0.1"), ("fc00::9", "fc00::1"):
        assert traffic.ping(red, address) == 3
        assert traffic.ping(far, back, size=1300) == 3
        traffic.tcp(red, far, address, size=1 << 20)
        traffic.tcp(far, red, back, size=1 << 20)
    assert traffic.udp(red, far, "10.0.0.9") == 100
    traffic.tcp(far, host, HERE[False], size=1 << 20)
    traffic.tcp(host, far, THERE[True], size=1 << 20)
    assert re.search(r"tun0 leaves by the routes of the host, through \S+-host", switch.appctl("xdp/why"))


@pytest.mark.parametrize("ip6", (False, True), ids=("ip4", "ip6"))
@pytest.mark.parametrize("kind, option", (("vxlan", False), ("geneve", False), ("geneve", True)))
def test_frames(world, switch, host, kind, option, ip6):
    """What leaves for two tunnels, byte for byte, but for the UDP source port and the identification, which the kernel chooses."""
    tunnel_world.need(kind)
    wires = {}
    for name in "red", "far":
        namespace = world.enter_context(lab.Namespace(name))
        namespace.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        lab.make_veth(f"to-{name}", namespace)
        wires[name] = world.enter_context(wire.Wire(namespace))
    lab.run("ip", "link", "set", "to-far", "address", tunnel_table.NEAR)
    lab.run("ethtool", "-K", "to-far", *sockets.PLAIN_OFFLOADS)
    lab.add_addresses(host, "to-far", f"{tunnel_table.NEAR4}/24", f"{tunnel_table.NEAR6}/64")
    ends = ((tunnel_table.FAR, tunnel_table.FAR4, tunnel_table.FAR6, tunnel_table.VNI),
            (tunnel_table.OTHER_FAR, tunnel_table.OTHER_FAR4, tunnel_table.OTHER_FAR6, tunnel_table.OTHER_VNI))
    switch.add_bridge()
    switch.add_port("to-red")
    for number, (mac, *addresses, key) in enumerate(ends):
        for address in addresses:
            lab.run("ip", "neighbour", "add", address, "dev", "to-far", "lladdr", mac)
        switch.add_port(f"tun{number}", interface=(f"type={kind}", f"options:remote_ip=\"{addresses[ip6]}\"", f"options:key={key}"))
    set_option = ""
    if option:
        switch.ofctl("add-tlv-map", "br0", "{class=0x102,type=0x80,len=4}->tun_metadata0")
        set_option = "set_field:0x10002->tun_metadata0,"
    switch.flows("br0", f"in_port=to-red,actions={set_option}output:tun0,output:tun1")

    wrap = getattr(tunnel_table, f"outer_{kind}")
    how = {"ip6": ip6, **({"options": tunnel_table.OPTION} if option else {})}
    inner = bytes(tunnel_table.ether(tunnel_table.udp4()))

    def go(tier):
        wires["red"].send(inner)
        got = wires["far"].receive(lambda frame: inner in frame, count=2)
        for frame, other in zip(got, (False, True)):
            at = 14 + (40 if ip6 else 20)
            wanted = wrap(inner, other=other, port=int.from_bytes(frame[at:at + 2], "big"), **how)
            assert frame == tunnel_table.numbered(wanted, int.from_bytes(frame[18:20], "big")), (frame.hex(), other)
        assert len(got) == 2
        return any(tier in flow and flow.count("set(tunnel") == 2 for flow in switch.dump_flows("-m"))

    lab.wait_until(lambda: go("dp:tcx"), "the flow of both tunnels, in programs")


def settle(red, far):
    """Neighbours that need no request, and no IPv6, of which the kernel sends something now and then."""
    for namespace, device, address, there, other in ((red, "eth0", "10.0.0.9", far, "tun0"), (far, "tun0", "10.0.0.1", red, "eth0")):
        namespace.run("ip", "neighbour", "replace", address, "lladdr", lab.mac_of(there, other), "dev", device)
        namespace.run("sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")


def test_counted(world, switch, host):
    """Statistics of the tunnel's port are exact, and so are those of flows."""
    red, far = make(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.9")
    settle(red, far)
    traffic.ping(red, "10.0.0.9")
    switch.appctl("revalidator/wait")
    switch.appctl("revalidator/purge")
    before = switch.port_counts("tun0")
    assert traffic.ping(red, "10.0.0.9", count=20) == 20
    switch.appctl("revalidator/purge")
    assert switch.port_counts("tun0") == tuple(value + more for value, more in zip(before, (20, 20 * 98, 20, 20 * 98)))


def test_programs_carry_it(world, switch, host):
    """Both ways, whole packets of TCP: nothing of a connection that goes on meets the engine."""
    red, far = make(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.9")
    settle(red, far)
    far.run("ethtool", "-K", "eth0", "tso", "off", "gso", "off")
    with traffic.Connection(red, far, "10.0.0.9") as connection:
        connection.goes_on()
        before = [sum(switch.stats(port).get(f"handed to the engine: {why}", 0) for port in ("to-red", "vxlan_sys_4789")
                      for why in ("no flow matches", "the flow's actions need it"))]
        for _ in range(20):
            connection.goes_on()
        assert connection.same()
        flows = [flow for flow in switch.dump_flows("-m") if "ipv4" in flow or "eth_type(0x0800)" in flow]
        assert flows and all("dp:tcx" in flow for flow in flows if "set(tunnel" in flow or "tunnel(" in flow), flows
        after = [sum(switch.stats(port).get(f"handed to the engine: {why}", 0) for port in ("to-red", "vxlan_sys_4789")
                     for why in ("no flow matches", "the flow's actions need it"))]
        assert after[0] - before[0] <= 2, (before, after)
    sent = tunnel_world.received(far)
    traffic.tcp(red, far, "10.0.0.9", size=8 << 20)
    packets, count = (after - value for after, value in zip(tunnel_world.received(far), sent))
    assert count / packets > 3000       # Between veths nothing has to be segmented.
    before = tunnel_world.received(red)
    traffic.tcp(far, red, "10.0.0.1", size=8 << 20)
    packets, count = (after - value for after, value in zip(tunnel_world.received(red), before))
    assert count / packets > 3000       # far sends frames of its MTU, which the kernel merges.


def add_bridge_way(world, switch, host):
    """A second host, behind a bridge: near (172.17.0.2, tunnel 10.0.0.8) by br-phy."""
    near = world.enter_context(lab.Namespace("near"))
    lab.make_veth("to-near", near)
    lab.add_addresses(near, "eth0", "172.17.0.2/24")
    near.run("ip", "link", "add", "tun0", "mtu", "1400", "type", "vxlan", "id", "42", "dstport", "4789", "remote", "172.17.0.1",
             "local", "172.17.0.2")
    near.run("ip", "link", "set", "tun0", "up")
    lab.add_addresses(near, "tun0", "10.0.0.8/24")
    switch.add_bridge("br-phy")
    switch.add_port("to-near", bridge="br-phy")
    lab.run("ip", "link", "set", "br-phy", "up")
    lab.add_addresses(host, "br-phy", "172.17.0.1/24")
    switch.add_port("tun1", interface=("type=vxlan", "options:remote_ip=172.17.0.2", "options:key=42"))
    return near


def test_both_ways_at_once(world, switch, host):
    """One UDP port, one tunnel by a port of the switch and one by the host; and from one into the other."""
    red, far = make(world, switch, host)
    near = add_bridge_way(world, switch, host)
    for end, address in (far, "10.0.0.9"), (near, "10.0.0.8"):
        traffic.wait_for_ping(red, address)
        traffic.tcp(red, end, address, size=1 << 20)
        traffic.tcp(end, red, "10.0.0.1", size=1 << 20)
    traffic.wait_for_ping(far, "10.0.0.8")
    traffic.tcp(far, near, "10.0.0.8", size=1 << 20)
    traffic.tcp(near, far, "10.0.0.9", size=1 << 20)
    why = switch.appctl("xdp/why")
    assert "tun1 leaves by a port of the switch" in why and f"tun0 leaves by the routes of the host, through {DEVICE}" in why
    actions = "".join(switch.dump_flows("-m"))
    assert "set(tunnel(" in actions and "tnl_push(" in actions and "tnl_pop(" in actions


def test_route_changes(world, switch, host):
    """From a bridge to a plain interface and back, under traffic: the address of far is behind both."""
    red, far = make(world, switch, host)
    link(far)
    switch.add_bridge("br-phy")
    switch.add_port("to-far2", bridge="br-phy")
    lab.run("ip", "link", "set", "br-phy", "up")
    lab.add_addresses(host, "br-phy", "172.18.0.1/24")
    lab.run("sysctl", "-qw", "net.ipv4.conf.br-phy.rp_filter=0")
    traffic.wait_for_ping(red, "10.0.0.9")
    with traffic.Connection(red, far, "10.0.0.9") as connection:
        for _ in range(2):
            connection.goes_on()
            lab.run("ip", "route", "replace", "172.16.0.2/32", "via", "172.18.0.2", "dev", "br-phy", "src", "172.16.0.1")
            lab.wait_until(lambda: (connection.goes_on(), any("tnl_push" in flow for flow in switch.dump_flows()))[1], "the bridge")
            lab.run("ip", "route", "del", "172.16.0.2/32", "via", "172.18.0.2", "dev", "br-phy")
            lab.wait_until(lambda: (connection.goes_on(), any("set(tunnel" in flow for flow in switch.dump_flows()))[1], "the host")
        assert connection.same()


@pytest.mark.parametrize("where", ("rule", "source", "vrf", "mark"))
def test_other_tables(world, switch, host, where):
    """The main table, all that Open vSwitch knows, has no route to far."""
    red, far = make(world, switch, host, remote="172.30.0.2")
    lab.add_addresses(far, "lo", "172.30.0.2/32")
    far.run("ip", "link", "del", "tun0")
    tunnel_world.add_device(far, "vxlan", False, "172.16.0.1", "172.30.0.2")
    via = ("via", "172.16.0.2", "dev", "to-far", "src", "172.16.0.1")
    if where == "vrf":
        try:
            lab.run("ip", "link", "add", "blue", "type", "vrf", "table", "100")
        except lab.Failed as problem:
            pytest.skip(f"this kernel has no VRFs: {problem}")
        lab.run("ip", "link", "set", "blue", "up")
        lab.run("ip", "link", "set", "to-far", "master", "blue")
        lab.run("ip", "route", "add", "172.30.0.2/32", *via[:4], "table", "100")
        lab.run("ip", "rule", "add", "to", "172.30.0.2", "lookup", "100")
        lab.run("sysctl", "-qw", "net.ipv4.udp_l3mdev_accept=1")
    else:
        lab.run("ip", "route", "add", "172.30.0.2/32", *via, "table", "100")
        if where == "rule":
            lab.run("ip", "rule", "add", "to", "172.30.0.2", "lookup", "100")
        elif where == "source":
            lab.run("ip", "rule", "add", "from", "172.16.0.1", "lookup", "100")
            switch.vsctl("set", "interface", "tun0", "options:local_ip=172.16.0.1")
        else:
            lab.run("ip", "rule", "add", "fwmark", "7", "lookup", "100")
            switch.vsctl("set", "interface", "tun0", "options:egress_pkt_mark=7")
    traffic.wait_for_ping(red, "10.0.0.9")
    traffic.tcp(red, far, "10.0.0.9", size=1 << 20)


def test_netfilter_of_the_host(world, switch, host):
    """It sees the outer packets, and may drop them."""
    red, far = make(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.9")
    lab.run("iptables", "-I", "OUTPUT", "-p", "udp", "--dport", "4789", "-j", "DROP")
    assert traffic.ping(red, "10.0.0.9", count=1, limit=1) == 0
    lab.run("iptables", "-D", "OUTPUT", "-p", "udp", "--dport", "4789", "-j", "DROP")
    traffic.wait_for_ping(red, "10.0.0.9")


def test_goes_with_the_tunnel(world, switch, host):
    red, far = make(world, switch, host)
    lab.wait_until(lambda: devices() == [DEVICE], "the device")
    traffic.wait_for_ping(red, "10.0.0.9")
    switch.vsctl("del-port", "tun0")
    lab.wait_until(lambda: not devices(), "the end of the device")
    add_tunnel(switch)
    traffic.wait_for_ping(red, "10.0.0.9")


def test_made_anew(world, switch, host):
    """What somebody removes or sets down comes back."""
    red, far = make(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.9")
    switch.expected += ["was removed or set down"]
    for command in ("del",), ("set", "down"):
        lab.run("ip", "link", command[0], DEVICE, *command[1:])
        traffic.wait_for_ping(red, "10.0.0.9")


def at_egress():
    """The links at egress of the device, of which the switch has one where the kernel has tcx."""
    try:
        return xdp.tcx_links(DEVICE, xdp.TCX_EGRESS)
    except lab.Failed:
        return []                       # Before Linux 6.6.


@pytest.mark.parametrize("tunnel", ("stays", "goes"))
def test_killed(world, switch, host, tunnel):
    """Known flows go on without a daemon, both ways; the next goes on with the device and with the link at its egress."""
    red, far = make(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.9")
    settle(red, far)
    links = at_egress()
    tunnel_world.check_killed(switch, red, far, tunnel, DEVICE, devices)
    assert tunnel == "goes" or at_egress() == links


def test_cleanup(world, switch, host):
    red, far = make(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.9")
    switch.stop(cleanup=True)
    assert not devices()
    switch.start()
    traffic.wait_for_ping(red, "10.0.0.9")


def test_port_is_taken(world, switch, host):
    """Another device has the UDP port: tunnels by ports of the switch work all the same, the log and xdp/why say what does not."""
    lab.run("ip", "link", "add", "other", "type", "vxlan", "external", "dstport", "4789")
    lab.run("ip", "link", "set", "other", "up")
    switch.expected += ["tunnels that leave by no port do not work", "native tunnel routing failed"]
    red, far = make(world, switch, host)
    near = add_bridge_way(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.8")
    assert traffic.ping(red, "10.0.0.9", count=1, limit=1) == 0
    assert re.search("tun0 leaves by no port of the switch, and there is no device for the routes of the host: .*another",
                     switch.appctl("xdp/why"))
    lab.run("ip", "link", "del", "other")
    traffic.wait_for_ping(red, "10.0.0.9")
    assert near


def test_nothing_of_the_host(world, switch, host):
    """The host sends nothing through the device: without a tunnel it is dropped.  What comes to the UDP port for no tunnel of ours
    reaches no socket."""
    red, far = make(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.9")
    settle(red, far)
    before = tunnel_world.received(far)[0]
    assert "inet" not in lab.run("ip", "-o", "address", "show", "dev", DEVICE)
    host.run("python3", "-c", "import contextlib, socket\n"
             f"s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('{DEVICE}', 0))\n"
             "for _ in range(100):\n"
             "    with contextlib.suppress(OSError): s.send(bytes(60))        # ENOBUFS: it was dropped.\n")
    assert tunnel_world.received(far)[0] - before < 50      # The host may ask who its neighbours are.


def test_deleted_under_traffic(world, switch, host):
    red, far = make(world, switch, host)
    tunnel_world.deleted_under_traffic(switch, red, far, lambda: add_tunnel(switch))


def fragments(name):
    """A counter of the host's IP: "FragFails" counts what may not be fragmented and does not fit."""
    lines = [line.split() for line in lab.run("cat", "/proc/thread-self/net/snmp").splitlines() if line.startswith("Ip:")]
    return int(dict(zip(*lines))[name])


@pytest.mark.usefixtures("nothing_vanishes")
@pytest.mark.parametrize("may_fragment", (True, False), ids=("fragments", "DF"))
@pytest.mark.parametrize("tier", ("programs", "engine"))
@pytest.mark.parametrize("limit", ("device", "route"))
def test_longer_than_the_way_takes(world, switch, host, may_fragment, tier, limit):
    """The host's IP puts it into fragments, or drops and counts it: without options:df_default=false an outer packet may not be
    fragmented.  What far sends in fragments is put together."""
    red, far = make(world, switch, host)
    for end, device in (red, "eth0"), (host, "to-red"), (far, "tun0"):
        end.run("ip", "link", "set", device, "mtu", "1500")
    if limit == "route":
        lab.run("ip", "route", "replace", "172.16.0.2/32", "dev", "to-far", "src", "172.16.0.1", "mtu", "1400")
    if may_fragment:
        switch.vsctl("set", "interface", "tun0", "options:df_default=false")
    if tier == "engine":
        switch.vsctl("set", "open", ".", "other_config:xdp-offload=false")
    traffic.wait_for_ping(red, "10.0.0.9")
    largest = (1500 if limit == "device" else 1400) - 50 - 28      # Of ping: without the headers of the tunnel, IP and ICMP.
    assert traffic.ping(red, "10.0.0.9", size=largest) == 3
    before = fragments("FragFails"), fragments("FragCreates")
    got = traffic.ping(red, "10.0.0.9", size=largest + 1, limit=20 if may_fragment else 1, options=("-M", "do"))
    fails, made = fragments("FragFails") - before[0], fragments("FragCreates") - before[1]
    if may_fragment:
        assert (got, fails) == (3, 0) and made >= 6
        assert traffic.ping(far, "10.0.0.1", size=1472) == 3        # Of far's fragments.
    else:
        assert (got, made) == (0, 0) and fails >= 1
    assert traffic.ping(red, "10.0.0.9", size=largest) == 3


def test_multipath(world, switch, host):
    """The tunnel's packets take both ways to an address, those of one connection the same."""
    red, far = make(world, switch, host, remote="172.30.0.2")
    link(far)
    lab.add_addresses(host, "to-far2", "172.18.0.1/24")
    lab.add_addresses(host, "lo", "172.30.0.1/32")
    lab.add_addresses(far, "lo", "172.30.0.2/32")
    far.run("ip", "link", "del", "tun0")
    tunnel_world.add_device(far, "vxlan", False, "172.30.0.1", "172.30.0.2")
    switch.vsctl("set", "interface", "tun0", "options:local_ip=172.30.0.1")
    for end, address, last in (host, "172.30.0.2/32", 2), (far, "172.30.0.1/32", 1):
        end.run("sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=1")
        end.run("ip", "route", "add", address, "nexthop", "via", f"172.16.0.{last}", "nexthop", "via", f"172.18.0.{last}")
    traffic.wait_for_ping(red, "10.0.0.9")
    before = tunnel_world.received(far)[0], tunnel_world.received(far, "eth1")[0]
    for number in range(24):
        assert traffic.udp(red, far, "10.0.0.9", count=5, port=6000 + number) == 5
    gained = [after - value for after, value in zip((tunnel_world.received(far)[0], tunnel_world.received(far, "eth1")[0]), before)]
    assert min(gained) >= 5 and sum(gained) >= 120, gained


def test_address_moves(world, switch, host):
    """To another device, to one that is a bridge's, and back, under traffic: the address of the endpoint, and with it the route."""
    red, far = make(world, switch, host)
    link(far)
    link(far, "to-far3", "eth2", 19)
    switch.add_bridge("br-phy")
    switch.add_port("to-far3", bridge="br-phy")
    lab.run("ip", "link", "set", "br-phy", "up")
    traffic.wait_for_ping(red, "10.0.0.9")
    here = "to-far", "eth0"
    with traffic.Connection(red, far, "10.0.0.9") as connection:
        connection.goes_on()
        for there in ("to-far2", "eth1"), ("br-phy", "eth2"), ("to-far", "eth0"):
            for end, old, new, address in (host, here[0], there[0], "172.16.0.1/24"), (far, here[1], there[1], "172.16.0.2/24"):
                end.run("ip", "address", "del", address, "dev", old)
                lab.add_addresses(end, new, address)
            here = there
            action = "tnl_push" if there[0] == "br-phy" else "set(tunnel"
            lab.wait_until(lambda action=action: (connection.goes_on(), any(action in flow for flow in switch.dump_flows()))[1],
                           f"flows with {action}")
            connection.goes_on()
        assert connection.same()


def test_unknown_neighbour(world, switch, host):
    """The packet waits until far's address is known, as any of the host's does; where nobody answers, the next ones go later."""
    red, far = make(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.9")
    settle(red, far)
    lab.run("ip", "neighbour", "flush", "dev", "to-far")
    assert traffic.ping(red, "10.0.0.9", count=1, limit=5) == 1
    far.run("sysctl", "-qw", "net.ipv4.conf.eth0.arp_ignore=8")
    lab.run("ip", "neighbour", "flush", "dev", "to-far")
    assert traffic.ping(red, "10.0.0.9", count=2, limit=1) == 0
    far.run("sysctl", "-qw", "net.ipv4.conf.eth0.arp_ignore=0", "net.ipv4.conf.eth0.arp_notify=1")
    traffic.wait_for_ping(red, "10.0.0.9")
    far.run("ip", "link", "set", "eth0", "address", "02:00:00:00:01:99")
    traffic.wait_for_ping(red, "10.0.0.9")
    assert traffic.ping(red, "10.0.0.9", count=5) == 5


def test_to_oneself(world, switch, host):
    """The tunnel's other end is an address of this host: what goes in comes out here, once."""
    red, far = make(world, switch, host, remote="172.16.0.1")
    settle(red, far)
    switch.flows("br0", "in_port=to-red,actions=tun0", "in_port=tun0,actions=to-red")
    frame = bytes(tunnel_table.ether(tunnel_table.udp4()))
    with wire.Wire(red) as end:
        for _ in range(3):
            lab.wait_until(lambda: (end.send(frame), end.receive(lambda got: got == frame, limit=0.2))[1], "the frame")
        assert not end.receive(lambda got: got == frame, limit=0.5)


def test_a_tunnel_in_a_tunnel(world, switch, host):
    """A header that the datapath pushes, and behind it one of the kernel's."""
    red, far = make(world, switch, host)
    traffic.wait_for_ping(red, "10.0.0.9")
    tunnel_world.nest(world, switch, host, far)
    assert any("tnl_push(" in flow and "set(tunnel" in flow for flow in switch.dump_flows()), switch.dump_flows()
