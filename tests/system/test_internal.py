# SPDX-License-Identifier: Apache-2.0
"""Interfaces of type internal, among them a bridge's own: ordinary interfaces of the host.

    host -- br0 ======== br0-xdp [tcx] ---[ switch ]--- red, green, blue
"""
import json
import os
import re
import shutil
import signal
import socket
import stat
import struct

import pytest

import jumbo
import lab
import switch as switches
import traffic
import wire

OTHER_END = "br0-xdp"


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("internal ports of other datapaths are made otherwise")


def link(device, namespace=lab.Namespace()):
    return json.loads(namespace.run("ip", "-j", "-d", "link", "show", "dev", device))[0]


def exists(device, namespace=lab.Namespace()):
    return bool(re.search(rf"^\d+: {re.escape(device)}[@:]", namespace.run("ip", "-o", "link"), re.MULTILINE))


def addresses(device, namespace=lab.Namespace()):
    """{address: flags such as "tentative" and "dadfailed"} of 'device'."""
    found = json.loads(namespace.run("ip", "-j", "address", "show", "dev", device))[0]["addr_info"]
    return {entry["local"]: entry for entry in found}


def add_internal(network, name, *interface):
    network.switch.vsctl("add-port", "br0", name, "--", "set", "interface", name, "type=internal", *interface)


def counts(switch, port="LOCAL"):
    """(packets received, packets sent) of a port as OpenFlow tells them."""
    text = switch.ofctl("dump-ports", "br0", port)
    return tuple(int(re.search(rf"{way} pkts=(\d+)", text)[1]) for way in ("rx", "tx"))


def test_traffic_and_flows(network):
    """Both directions, whole TCP segments, and the flows are run at tcx."""
    switch = network.switch
    for address, theirs in ("10.0.0.100", "10.0.0.1"), ("fc00::100", "fc00::1"):
        traffic.wait_for_ping(network.red, address)
        traffic.wait_for_ping(network.host, theirs)
        traffic.tcp(network.red, network.host, address)
        traffic.tcp(network.host, network.red, theirs)
        assert traffic.udp(network.host, network.red, theirs) == 100
    for way in "in_port(br0)", "actions:br0":
        lab.wait_until(lambda way=way: [flow for flow in switch.dump_flows("-m") if "dp:tcx" in flow and way in flow],
                       f"a flow at tcx: {way}")
    assert switch.status("br0")["xdp-hook"] == "tcx"
    assert link("br0")["linkinfo"]["info_kind"] == "veth" and link("br0")["link"] == OTHER_END
    assert not addresses(OTHER_END)


def test_receive_offload(network):
    """GRO is on, as for other devices, until the host turns it off: then it stays off, also over a restart."""
    assert "generic-receive-offload: on" in lab.run("ethtool", "-k", "br0")
    lab.run("ethtool", "-K", "br0", "gro", "off")
    network.switch.stop()
    network.switch.start()
    traffic.wait_for_ping(network.red, "10.0.0.100")
    assert "generic-receive-offload: off" in lab.run("ethtool", "-k", "br0")


def test_with_a_port_on_xdp(network):
    """Between the host and a port whose packets arrive in XDP."""
    switch = network.switch
    switch.vsctl("set", "interface", "to-red", "options:xdp-hook=xdp")
    lab.wait_until(lambda: switch.status("to-red").get("xdp-hook") == "xdp", "to-red on XDP")
    traffic.wait_for_ping(network.red, "10.0.0.100")
    for address, theirs in ("10.0.0.100", "10.0.0.1"), ("fc00::100", "fc00::1"):
        traffic.tcp(network.red, network.host, address)
        traffic.tcp(network.host, network.red, theirs)
        assert traffic.udp(network.host, network.red, theirs) == 100
    lab.wait_until(lambda: [flow for flow in switch.dump_flows("-m") if "dp:xdp" in flow and "actions:br0" in flow],
                   "a flow in XDP to the host")


def test_routes(network):
    """The host reaches a network behind red through it, and red's packets from there come back."""
    lab.add_addresses(network.red, "lo", "10.1.0.1/32")
    lab.run("ip", "route", "add", "10.1.0.0/24", "via", "10.0.0.1", "dev", "br0")
    traffic.wait_for_ping(network.host, "10.1.0.1")
    traffic.tcp(network.host, network.red, "10.1.0.1", size=1 << 20)


@pytest.mark.usefixtures("nothing_vanishes")
def test_mtu_from_the_database(network):
    network.switch.expected += ["MTU 10000 is too large", "failed to set MTU|cannot be set|could not set"]
    network.switch.vsctl("set", "interface", "br0", "mtu_request=1400")
    lab.wait_until(lambda: link("br0")["mtu"] == 1400, "the MTU asked for")
    network.switch.vsctl("set", "interface", "br0", "mtu_request=10000")
    lab.wait_until(lambda: [line for line in network.switch.log()
                            if f"MTU 10000 is too large: set it to at most {jumbo.INTERNAL}" in line], "a refusal")
    assert link("br0")["mtu"] == 1400
    asked = f"mtu_request=10000 is too large: at most {jumbo.INTERNAL}, the MTU stays 1400"
    lab.wait_until(lambda: network.switch.status("br0").get("xdp-warning") == asked, "a warning")
    assert f"    warning: {asked}\n" in network.switch.appctl("xdp/show", "br0")
    # Open vSwitch looks at the MTU of the other ports when that of one of them changes.
    network.switch.vsctl("clear", "interface", "br0", "mtu_request")
    lab.run("ip", "link", "set", "to-red", "mtu", "1300")
    lab.wait_until(lambda: link("br0")["mtu"] == 1300, "the smallest MTU of the other ports")
    lab.wait_until(lambda: "xdp-warning" not in network.switch.status("br0"), "no more warning")


@pytest.mark.usefixtures("nothing_vanishes")
def test_mtu_from_the_host(network):
    """Open vSwitch learns of it, and packets as long as it pass; too large a one is complained about."""
    switch = network.switch
    for device, namespace in ("to-red", network.host), ("eth0", network.red):
        namespace.run("ip", "link", "set", device, "mtu", "3000")
    switch.vsctl("set", "interface", "br0", "mtu_request=3000")
    lab.wait_until(lambda: link("br0")["mtu"] == 3000, "the MTU asked for")
    switch.vsctl("clear", "interface", "br0", "mtu_request")
    lab.wait_until(lambda: link("br0")["mtu"] == 1500, "the MTU of the other ports")
    lab.run("ip", "link", "set", "br0", "mtu", "1450")
    lab.wait_until(lambda: switch.get("interface", "br0", "mtu") == 1450, "the MTU in the database")
    switch.vsctl("set", "interface", "br0", "mtu_request=3000")
    lab.wait_until(lambda: link("br0")["mtu"] == 3000, "the MTU asked for")
    for source, address in (network.red, "10.0.0.100"), (network.host, "10.0.0.1"):
        traffic.wait_for_ping(source, address, size=2972, options=("-M", "do"))
    switch.add_bridge("alone")
    lab.run("ip", "link", "set", "alone", "mtu", "10000")
    lab.wait_until(lambda: f"{jumbo.INTERNAL} bytes are lost" in switch.status("alone").get("xdp-warning", ""), "a warning")
    lab.run("ip", "link", "set", "alone", "mtu", "3000")
    lab.wait_until(lambda: "xdp-warning" not in switch.status("alone"), "no more warning")


@pytest.mark.usefixtures("nothing_vanishes")
def test_packets_larger_than_the_mtu(network):
    """They are lost, as on any wire, and counted; what fits passes."""
    for device, namespace in ("to-red", network.host), ("eth0", network.red):
        namespace.run("ip", "link", "set", device, "mtu", "3000")
    traffic.wait_for_ping(network.red, "10.0.0.100")
    frame = wire.udp_frame(lab.mac_of(network.red), lab.mac_of(network.host, "br0"), b"x" * 2500)
    with wire.Wire(network.red) as red:
        red.send(*[frame] * 10)
        lab.wait_until(lambda: too_long(network.switch) >= 10, "ten drops")
    assert traffic.ping(network.red, "10.0.0.100", size=1472, options=("-M", "do")) == 3


def too_long(switch):
    """Packets of red that were longer than the MTU of their output."""
    shown = switch.appctl("xdp/stats", "to-red")
    return int(re.search(r"dropped: longer than the MTU of the output port: (\d+)", shown)[1])


def link_counter(device, way, what):
    return json.loads(lab.run("ip", "-j", "-s", "link", "show", "dev", device))[0]["stats64"][way][what]


def test_up_and_down(network):
    switch = network.switch
    traffic.wait_for_ping(network.red, "10.0.0.100")
    for _ in range(2):
        lab.run("ip", "link", "set", "br0", "down")
        lab.wait_until(lambda: switch.get("interface", "br0", "link_state") == "down", "link_state down")
        assert switch.get("interface", "br0", "admin_state") == "down"
        assert traffic.ping(network.red, "10.0.0.100", count=1, limit=1) == 0
        assert traffic.ping(network.red, "10.0.0.2") == 3
        lab.run("ip", "link", "set", "br0", "up")
        lab.wait_until(lambda: switch.get("interface", "br0", "link_state") == "up", "link_state up")
        traffic.wait_for_ping(network.red, "10.0.0.100")


def test_another_name(network):
    """It keeps its addresses and goes on, also over a restart; and back."""
    switch = network.switch
    switch.expected += [r"\bbr0\b"]
    for old, new in ("br0", "uplink"), ("uplink", "br0"):
        lab.run("ip", "link", "set", old, "down")
        lab.run("ip", "link", "set", old, "name", new, "up")
        traffic.wait_for_ping(network.red, "10.0.0.100")
        switch.crash()
        traffic.wait_for_ping(network.red, "10.0.0.100")
        switch.start()
        traffic.wait_for_ping(network.blue, "10.0.0.100")
        assert "10.0.0.100" in addresses(new)
    lab.wait_until(lambda: switch.status("br0").get("driver_name") == "veth", "the bridge knows br0 again")


def test_name_taken_meanwhile(network):
    """A foreign device that got the name is left alone."""
    switch = network.switch
    switch.expected += [r"\bbr0\b"]
    switch.crash()
    lab.run("ip", "link", "set", "br0", "down")
    lab.run("ip", "link", "set", "br0", "name", "uplink", "up")
    lab.run("ip", "link", "add", "br0", "type", "bridge")
    switch.start()
    error = lab.wait_until(lambda: [line for line in switch.log() if "there is a device br0 already" in line], "an error")
    assert "ip link delete br0" in error[0]
    assert link("br0")["linkinfo"]["info_kind"] == "bridge"
    lab.run("ip", "link", "delete", "br0")
    lab.run("ip", "link", "set", "uplink", "down")
    lab.run("ip", "link", "set", "uplink", "name", "br0", "up")
    switch.vsctl("--no-wait", "set", "bridge", "br0", "external_ids:again=1")
    traffic.wait_for_ping(network.red, "10.0.0.100")


def test_hardware_address(network):
    switch = network.switch
    add_internal(network, "inside", 'mac="02:00:00:00:00:aa"')
    lab.wait_until(lambda: lab.mac_of(network.host, "inside") == "02:00:00:00:00:aa", "the address of the Interface")
    switch.vsctl("set", "bridge", "br0", 'other_config:hwaddr="02:00:00:00:00:bb"')
    lab.wait_until(lambda: lab.mac_of(network.host, "br0") == "02:00:00:00:00:bb", "the address of the Bridge")
    traffic.wait_for_ping(network.green, "10.0.0.100")


def test_statistics_are_the_switch_s(network):
    """What the host sends is received by the port."""
    switch = network.switch
    host_mac, red_mac = lab.mac_of(network.host, "br0"), lab.mac_of(network.red)
    traffic.wait_for_ping(network.red, "10.0.0.100")
    with wire.Wire(network.host, "br0") as host, wire.Wire(network.red) as red:
        for sender, source, target, way in (host, host_mac, red_mac, 0), (red, red_mac, host_mac, 1):
            before = counts(switch)
            sender.send(*[wire.udp_frame(source, target, b"counted")] * 500)
            lab.wait_until(lambda: counts(switch)[way] >= before[way] + 500, "500 packets")
            assert counts(switch)[1 - way] < before[1 - way] + 250
    lab.wait_until(lambda: counts(switch)[0] == link_counter("br0", "tx", "packets"), "what the host's end counted")


def engine_frames(switch, port):
    """Packets that the engine sent out of 'port'."""
    found = re.search(rf": {port} .*\n.* sent:(\d+)", switch.appctl("xdp/show"))
    return int(found[1])


def test_tcpdump(network, tmp_path):
    """Both directions, also of packets that the engine handles."""
    seen = tmp_path / "seen"
    with open(seen, "wb") as out, network.host.start("tcpdump", "-l", "-n", "-i", "br0", "icmp", stdout=out):
        lab.wait_until(lambda: "listening on br0" in seen.read_text(), "tcpdump")
        for source, address in (network.host, "10.0.0.1"), (network.red, "10.0.0.100"):
            traffic.wait_for_ping(source, address)
        lab.wait_until(lambda: engine_frames(network.switch, "br0") and engine_frames(network.switch, "to-red"),
                       "packets sent by the engine")
        for line in ("10.0.0.100 > 10.0.0.1: ICMP echo request", "10.0.0.1 > 10.0.0.100: ICMP echo reply",
                     "10.0.0.1 > 10.0.0.100: ICMP echo request", "10.0.0.100 > 10.0.0.1: ICMP echo reply"):
            lab.wait_until(lambda line=line: line in seen.read_text(), line)


def test_packets_of_the_controller(network):
    """What OpenFlow sends out of the port arrives, and what the host sends is seen by OpenFlow."""
    network.switch.flows("br0", "actions=drop")
    frame = wire.udp_frame("02:00:00:00:00:01", lab.mac_of(network.host, "br0"), b"packet-out")
    with wire.Wire(network.host, "br0") as host:
        network.switch.ofctl("packet-out", "br0", f"in_port=CONTROLLER packet={frame.hex()} actions=output:LOCAL")
        assert host.receive(lambda seen: b"packet-out" in seen)


def test_duplicate_address_detection(network):
    """red has the address already: the host must not use it."""
    lab.add_addresses(network.red, "eth0", "fc00::77/64")
    traffic.wait_for_ping(network.green, "fc00::77")
    lab.run("ip", "address", "add", "fc00::77/64", "dev", "br0")
    lab.wait_until(lambda: addresses("br0")["fc00::77"].get("dadfailed"), "the duplicate to be found")
    lab.run("ip", "address", "add", "fc00::78/64", "dev", "br0")
    lab.wait_until(lambda: not addresses("br0")["fc00::78"].get("tentative"), "the address to be usable")
    assert not addresses("br0")["fc00::78"].get("dadfailed")


def test_address_autoconfiguration(network):
    """red announces a prefix (RFC 4861), and the host makes itself an address of it."""
    lab.wait_until(lambda: any(address.startswith("fe80") and not entry.get("tentative")
                               for address, entry in addresses("eth0", network.red).items()), "red's own address")
    prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xc0, 3600, 3600, 0) + socket.inet_pton(socket.AF_INET6, "fd00:5::")
    advertisement = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix
    with network.red.entered():
        router = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        index = socket.if_nametoindex("eth0")
    with router:
        router.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)

        def configured():
            router.sendto(advertisement, ("ff02::1", 0, 0, index))
            return [address for address in addresses("br0") if address.startswith("fd00:5:")]
        mine = lab.wait_until(configured, "an address of the prefix")[0]
    lab.wait_until(lambda: not addresses("br0")[mine].get("tentative"), "the address to be usable")
    network.red.run("ip", "route", "add", "fd00:5::/64", "dev", "eth0")
    traffic.wait_for_ping(network.red, mine)


def test_dhcp(network, tmp_path):
    """The host is a client of a server in red."""
    if not shutil.which("busybox"):
        pytest.skip("busybox, which has a DHCP server and client, is not installed")
    (tmp_path / "leases").touch()
    (tmp_path / "udhcpd.conf").write_text(f"start 10.0.0.200\nend 10.0.0.201\ninterface eth0\noption subnet "
                                          f"255.255.255.0\nlease_file {tmp_path}/leases\npidfile {tmp_path}/pid\n")
    script = tmp_path / "bound"
    script.write_text('#!/bin/sh\n[ "$1" = bound ] && ip address add "$ip/24" dev "$interface"\ntrue\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    lab.run("ip", "address", "flush", "dev", "br0")
    with network.red.start("busybox", "udhcpd", "-f", tmp_path / "udhcpd.conf"), \
            network.host.start("busybox", "udhcpc", "-f", "-i", "br0", "-t", "30", "-T", "1", "-s", script):
        lab.wait_until(lambda: {"10.0.0.200", "10.0.0.201"} & set(addresses("br0")), "a lease")
    traffic.wait_for_ping(network.host, "10.0.0.1")


def test_outlives_the_daemon(network):
    """Without a daemon the host keeps its address, and the packets of known flows; the next one takes it over."""
    switch = network.switch
    index = link("br0")["ifindex"]
    for here, there in (network.red, network.host), (network.host, network.red):
        device, other = ("eth0", "br0") if here is network.red else ("br0", "eth0")
        address = "10.0.0.100" if here is network.red else "10.0.0.1"
        traffic.wait_for_ping(here, address)
        here.run("ip", "neighbour", "replace", address, "lladdr", lab.mac_of(there, other), "dev", device)
    with traffic.Stream(network.red, network.host, "10.0.0.100") as there, \
            traffic.Stream(network.host, network.red, "10.0.0.1", port=5010) as back:
        for end in switch.crash, switch.stop:
            there.flowing()
            back.flowing()
            lab.wait_until(lambda: len([flow for flow in switch.dump_flows("-m")
                                        if "dp:tcx" in flow and "eth_type(0x0800)" in flow]) >= 2, "flows at tcx")
            end()
            there.flowing()
            back.flowing()
            assert link("br0")["ifindex"] == index and "10.0.0.100" in addresses("br0")
            switch.start()
            there.flowing()
            back.flowing()
        traffic.wait_for_ping(network.blue, "10.0.0.100")
    assert link("br0")["ifindex"] == index and "10.0.0.100" in addresses("br0")


def test_deleted_without_a_daemon(network):
    """A port that is gone from the database when the next daemon starts is removed; the others stay."""
    add_internal(network, "inside")
    assert exists("inside") and exists("inside-xdp")
    network.switch.crash()
    network.switch.vsctl("--no-wait", "del-port", "inside")
    network.switch.start()
    lab.wait_until(lambda: not exists("inside") and not exists("inside-xdp"), "inside to be removed")
    assert exists("br0")
    traffic.wait_for_ping(network.red, "10.0.0.100")


def test_removed(network):
    """With the port, the bridge, or the daemon that cleans up."""
    switch = network.switch
    add_internal(network, "inside")
    switch.vsctl("del-port", "inside")
    lab.wait_until(lambda: not exists("inside") and not exists("inside-xdp"), "inside to be removed")
    switch.vsctl("del-br", "br0")
    lab.wait_until(lambda: not exists("br0") and not exists(OTHER_END), "br0 to be removed")
    switch.add_bridge("br0")
    assert exists("br0") and exists(OTHER_END)
    switch.stop(cleanup=True)
    assert not exists("br0") and not exists(OTHER_END) and not exists("ovs-xdp-up")
    switch.start()


def test_names(network):
    """The longest that Linux has, alike at the beginning; and one whose peer's name is taken."""
    switch = network.switch
    switch.expected += [r"\bclash\b"]
    long_names = "fifteen-letters", "fifteen-LETTERS"
    for number, name in enumerate(long_names, 50):
        add_internal(network, name)
        assert len(link(name)["link"]) == 15
        lab.run("ip", "link", "set", name, "up")
        inner = network.world.enter_context(lab.Namespace(f"inner{number}"))
        lab.run("ip", "link", "set", name, "netns", f"inner{number}")
        inner.run("ip", "link", "set", name, "up")
        lab.add_addresses(inner, name, f"10.0.0.{number}/24")
        traffic.wait_for_ping(network.red, f"10.0.0.{number}")
    lab.run("ip", "link", "add", "clash-xdp", "type", "bridge")
    add_internal(network, "clash")
    assert "clash" in lab.wait_until(lambda: switch.error("clash"), "an error")
    lab.wait_until(lambda: any("there is a device clash or clash-xdp already" in line for line in switch.log()),
                   "a line in the log")
    assert not exists("clash")
    lab.run("ip", "link", "delete", "clash-xdp")
    switch.vsctl("--", "del-port", "clash", "--", "add-port", "br0", "clash",
                 "--", "set", "interface", "clash", "type=internal")
    assert not switch.error("clash") and exists("clash")


def test_in_another_namespace(network):
    """A container's interface: it goes on over a restart, and is removed from there."""
    switch = network.switch
    switch.expected += [r"\binside\b"]
    add_internal(network, "inside")
    inner = network.world.enter_context(lab.Namespace("inner"))
    lab.run("ip", "link", "set", "inside", "netns", "inner")
    inner.run("ip", "link", "set", "inside", "name", "eth7", "up")
    lab.add_addresses(inner, "eth7", "10.0.0.50/24")
    traffic.wait_for_ping(network.red, "10.0.0.50")
    switch.crash()
    switch.start()
    traffic.wait_for_ping(inner, "10.0.0.2")
    traffic.tcp(inner, network.host, "10.0.0.100", size=1 << 20)
    traffic.tcp(network.host, inner, "10.0.0.50", size=1 << 20)
    switch.vsctl("del-port", "inside")
    lab.wait_until(lambda: not exists("eth7", inner), "eth7 to be removed")


def serves(network, name, namespace=None, number=50):
    """The interface 'name', new and without addresses, works."""
    namespace = namespace or network.host
    namespace.run("ip", "link", "set", name, "up")
    lab.add_addresses(namespace, name, f"10.0.1.{number}/24")
    lab.add_addresses(network.red, "eth0", f"10.0.1.{number + 1}/24")
    traffic.wait_for_ping(network.red, f"10.0.1.{number}")
    traffic.tcp(network.red, namespace, f"10.0.1.{number}", size=1 << 20)


def test_interface_deleted(network):
    """An interface is deleted: there is a new one soon, with the same hardware address, and others go on."""
    switch = network.switch
    switch.expected += [r"\bbr0\b"]
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        stream.flowing()
        for number, end in enumerate(("br0", OTHER_END)):
            before = link("br0")
            lab.run("ip", "link", "delete", end)
            lab.wait_until(lambda: exists("br0") and link("br0")["ifindex"] != before["ifindex"], "a new br0")
            lab.wait_until(lambda: link("br0")["address"] == before["address"], "its hardware address")
            assert link("br0")["link"] == OTHER_END
            serves(network, "br0", number=50 + 10 * number)
        assert stream.lost() == 0
    assert "xdp-error" not in switch.status("br0")
    switch.vsctl("del-br", "br0")
    lab.wait_until(lambda: not exists("br0") and not exists(OTHER_END), "br0 to be removed")


def test_interface_deleted_and_its_name_taken(network):
    """The status says so, and when the name is free, the interface is back."""
    switch = network.switch
    switch.expected += [r"\binside\b"]
    add_internal(network, "inside")
    os.kill(switch.process.pid, signal.SIGSTOP)
    try:
        lab.run("ip", "link", "delete", "inside")
        lab.run("ip", "link", "add", "inside", "type", "bridge")
    finally:
        os.kill(switch.process.pid, signal.SIGCONT)
    lab.wait_until(lambda: "there is a device inside" in (switch.status("inside") or {}).get("xdp-error", ""), "the reason")
    traffic.wait_for_ping(network.red, "10.0.0.100")
    lab.run("ip", "link", "delete", "inside")
    lab.wait_until(lambda: exists("inside") and exists("inside-xdp"), "inside to be back")
    serves(network, "inside")
    lab.wait_until(lambda: "xdp-error" not in switch.status("inside"), "no error any more")


def test_namespace_deleted_with_the_interface(network):
    """The interface comes back where the daemon is, and all others work meanwhile."""
    switch = network.switch
    switch.expected += [r"\binside\b"]
    add_internal(network, "inside")
    inner = lab.Namespace("inner")
    lab.run("ip", "link", "set", "inside", "netns", "inner")
    with traffic.Stream(network.red, network.host, "10.0.0.100") as stream:
        stream.flowing()
        inner.close()
        lab.wait_until(lambda: exists("inside"), "inside to be back")
        serves(network, "inside")
        assert stream.lost() == 0


def test_taps_where_there_are_no_veths(world, tmp_path):
    """A kernel without CONFIG_VETH: the log says why internal ports are taps.  A daemon on one that has it replaces them."""
    refuse = tmp_path / "refuse"
    refuse.write_text("veth", encoding="ascii")
    preload = {"LD_PRELOAD": str(switches.BUILD / "tests/system/refuse.so"), "REFUSE": str(refuse)}
    with switches.Switch(env=preload) as switch:
        switch.add_bridge("br0")
        assert link("br0")["linkinfo"]["info_kind"] == "tun" and not exists(OTHER_END)
        (line,) = [line for line in switch.log() if "internal ports are taps" in line]
        assert "CONFIG_VETH" in line
        lab.run("ip", "link", "set", "br0", "up")
        switch.crash()
        assert exists("br0")
        refuse.write_text("", encoding="ascii")
        switch.start()
        lab.wait_until(lambda: exists(OTHER_END), "a veth pair")
        assert link("br0")["linkinfo"]["info_kind"] == "veth" and not switch.error("br0")


def test_tunnel_to_an_address_of_the_bridge(network):
    """Open vSwitch finds the way to a tunnel's remote endpoint through br0's address and routes."""
    switch = network.switch
    switch.add_bridge("overlay")
    lab.run("ip", "link", "set", "overlay", "up")
    lab.add_addresses(network.host, "overlay", "10.9.0.100/24")
    switch.vsctl("add-port", "overlay", "vx", "--", "set", "interface", "vx", "type=vxlan",
                 "options:remote_ip=10.0.0.1", "options:key=7")
    network.red.run("ip", "link", "add", "vx", "type", "vxlan", "id", "7", "remote", "10.0.0.100", "dstport", "4789",
                    "dev", "eth0")
    network.red.run("ip", "link", "set", "vx", "up")
    lab.add_addresses(network.red, "vx", "10.9.0.1/24")
    traffic.wait_for_ping(network.host, "10.9.0.1")
    traffic.tcp(network.red, network.host, "10.9.0.100", size=1 << 20)
    traffic.tcp(network.host, network.red, "10.9.0.1", size=1 << 20)
