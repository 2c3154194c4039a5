# SPDX-License-Identifier: Apache-2.0
"""Ports with options:xdp-hook=tcx: containers keep their offloads.

    red ---[ switch ]--- green          both on tcx, or one on XDP
"""
import re
import socket

import pytest

import lab
import switch as switches
import traffic
import wire

TCX, XDP = "options:xdp-hook=tcx", "options:xdp-hook=xdp"
RED = "02:00:00:00:00:01"
UDP_SEGMENT = 103                       # linux/udp.h


@pytest.fixture
def tcx(network):
    """The network with red and green on tcx, blue on XDP."""
    for device in "to-red", "to-green":
        network.switch.use_hook(device, TCX)
    network.switch.use_hook("to-blue", XDP)
    return network


def features(namespace, device="eth0"):
    text = namespace.run("ethtool", "-k", device)
    return {name: value for name, value in re.findall(r"^\s*([a-z0-9_-]+): (on|off)", text, re.MULTILINE)}


def test_ping_and_tcp(tcx):
    for address in "10.0.0.2", "fc00::2":
        traffic.ping(tcx.red, address)
        traffic.tcp(tcx.red, tcx.green, address)
        assert traffic.udp(tcx.red, tcx.green, address) == 100


def test_flows_are_shown_as_tcx(tcx):
    traffic.ping(tcx.red, "10.0.0.2")
    lab.wait_until(lambda: [flow for flow in tcx.switch.dump_flows("-m", "type=offloaded") if "dp:tcx" in flow],
                   "flows at tcx")
    assert not [flow for flow in tcx.switch.dump_flows("-m") if "dp:xdp" in flow and "in_port(to-blue)" not in flow]


def test_containers_keep_their_offloads(tcx):
    for container in tcx.red, tcx.green:
        has = features(container)
        assert has["tx-checksumming"] == has["tcp-segmentation-offload"] == has["generic-segmentation-offload"] == "on"


def test_between_hooks(tcx):
    for here, there, address in ((tcx.red, tcx.blue, "10.0.0.3"), (tcx.blue, tcx.red, "10.0.0.1")):
        traffic.ping(here, address)
        traffic.tcp(here, there, address)
        assert traffic.udp(here, there, address) == 100


def test_with_the_host(tcx):
    for address in "10.0.0.100", "fc00::100":
        traffic.ping(tcx.red, address)
        traffic.tcp(tcx.red, tcx.host, address)
    traffic.tcp(tcx.host, tcx.red, "10.0.0.1")


def test_several_outputs_are_copies(tcx):
    """Two outputs with an edit between them run at tcx, and each copy has what was done before it."""
    tcx.switch.use_hook("to-blue", TCX)
    switch = tcx.switch
    switch.flows("br0", "in_port=to-red,udp,actions=mod_nw_tos:4,output:to-green,mod_dl_dst:02:00:00:00:00:09,"
                 "push_vlan:0x8100,mod_vlan_vid:7,output:to-blue", "actions=drop")
    frame = wire.udp_frame(RED, lab.mac_of(tcx.green), b"twice")
    with wire.Wire(tcx.red) as red, wire.Wire(tcx.green) as green, wire.Wire(tcx.blue) as blue:
        for _ in range(20):
            red.send(frame)
            first = green.receive(lambda seen: b"twice" in seen)
            second = blue.receive(lambda seen: b"twice" in seen)
            assert first and second
            assert first[0][:6] == wire.mac(lab.mac_of(tcx.green)) and first[0][15] == 4
            assert second[0][:6] == wire.mac("02:00:00:00:00:09") and second[0][12:16] == b"\x81\x00\x00\x07"
            assert second[0][19] == 4 and wire.checksums_valid(first[0])
    assert switch.flow_counts("dp:tcx", "udp")[0] >= 18


def test_many_outputs(tcx):
    """Ports beyond what one operation holds; one port is on XDP."""
    extra = [tcx.plug(f"n{i}") for i in range(15)]
    for i in range(15):
        tcx.switch.add_port(f"to-n{i}", interface=(TCX,))
    outputs = ",".join(f"output:to-{name}" for name in ("green", "blue", *(f"n{i}" for i in range(15))))
    tcx.switch.flows("br0", f"in_port=to-red,udp,actions={outputs}", "actions=drop")
    frame = wire.udp_frame(RED, "ff:ff:ff:ff:ff:ff", b"to all")
    with wire.Wire(tcx.red) as red:
        wires = [wire.Wire(namespace) for namespace in [tcx.green, tcx.blue, *extra]]
        for _ in range(10):
            red.send(frame)
            for seen in wires:
                assert len(seen.receive(lambda frame: b"to all" in frame)) == 1
        for seen in wires:
            assert not seen.receive(lambda frame: b"to all" in frame, limit=0.01)
            seen.close()
    assert tcx.switch.flow_counts("dp:tcx", "udp")[0] >= 8


@pytest.mark.skipif(switches.USER is not None, reason="without CAP_SYS_ADMIN the engine sends from XDP to containers")
def test_changing_the_hook_moves_flows(tcx):
    switch = tcx.switch
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "actions=drop")
    frame = wire.udp_frame(RED, lab.mac_of(tcx.green), b"moves")
    with wire.Wire(tcx.red) as red, wire.Wire(tcx.green) as green:
        for hook in TCX, XDP, TCX, XDP:
            tcx.switch.use_hook("to-red", hook)
            name = hook.rpartition("=")[2]
            red.send(frame)
            assert green.receive(lambda seen: b"moves" in seen)
            def runs():
                red.send(frame)
                return switch.flow_counts(f"dp:{name}", "udp")[2]
            lab.wait_until(runs, f"the flow at {name}")


def test_known_flows_outlive_the_daemon(tcx):
    switch = tcx.switch
    switch.flows("br0", "actions=normal")
    traffic.ping(tcx.red, "10.0.0.2")
    lab.wait_until(lambda: switch.flow_counts("dp:tcx", "eth_type(0x0800)")[2], "flows at tcx")
    traffic.introduce(tcx.red, tcx.green, "10.0.0.2")
    traffic.introduce(tcx.green, tcx.red, "10.0.0.1")
    switch.crash()
    traffic.ping(tcx.red, "10.0.0.2")
    switch.start()

    def runs():
        """The previous instance's program may still be there for a moment."""
        traffic.wait_for_ping(tcx.red, "10.0.0.2")
        return switch.flow_counts("dp:tcx", "eth_type(0x0800)")[2]
    lab.wait_until(runs, "flows at tcx again")
    traffic.tcp(tcx.red, tcx.green, "10.0.0.2")


# What the switch's devices leave to containers, or not: then the kernel completes checksums behind the switch, and
# containers verify them.
DEVICES = pytest.mark.parametrize("offloads", ("on", "off"))


def set_offloads(state):
    for device in "to-red", "to-green":
        lab.run("ethtool", "-K", device, "tx", state, "sg", state, "tso", state, "gso", state)


@DEVICES
def test_tunnels_of_containers(tcx, offloads):
    """Addresses and ports of tunnels are changed, which have checksums besides those of the packets inside."""
    set_offloads(offloads)
    tcx.switch.flows(
        "br0", "priority=0,actions=drop",
        "udp,in_port=to-red,tp_dst=4789,actions=mod_nw_src:10.0.0.201,mod_nw_dst:10.0.0.2,mod_tp_dst:4790,output:to-green",
        "udp,in_port=to-green,tp_dst=4790,actions=mod_nw_src:10.0.0.202,mod_nw_dst:10.0.0.1,mod_tp_dst:4789,output:to-red")
    for here, there, number, port in ((tcx.red, tcx.green, 1, 4789), (tcx.green, tcx.red, 2, 4790)):
        remote = f"10.0.0.{203 - number}"
        traffic.introduce(here, there, remote)
        here.run("ip", "link", "add", "vx", "type", "vxlan", "id", "7", "remote", remote, "dstport", port, "dev", "eth0",
                 "udpcsum")
        here.run("ip", "link", "set", "vx", "up")
        lab.add_addresses(here, "vx", f"10.9.0.{number}/24")
    traffic.wait_for_ping(tcx.red, "10.9.0.2")
    traffic.tcp(tcx.red, tcx.green, "10.9.0.2")
    assert traffic.udp(tcx.red, tcx.green, "10.9.0.2") == 100
    assert tcx.switch.flow_counts("dp:tcx", "dst=4789")[0] > 100


@DEVICES
@pytest.mark.parametrize("address", ("10.0.0.2", "fc00::2"))
def test_udp_sockets_that_send_segments(tcx, address, offloads):
    """What a socket with UDP_SEGMENT sends passes the switch as one packet, whose ports are changed."""
    set_offloads(offloads)
    tcx.switch.flows("br0", *(f"{udp},in_port=to-red,tp_dst=5004,actions=mod_tp_dst:5005,output:to-green"
                              for udp in ("udp", "udp6")), "priority=0,actions=normal")
    data = bytes(i * 7 & 0xff for i in range(3 * 1400 - 101))
    want = [data[begin:begin + 1400] for begin in range(0, len(data), 1400)]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with tcx.red.entered():
        red = socket.socket(family, socket.SOCK_DGRAM)
    with tcx.green.entered():
        green = socket.socket(family, socket.SOCK_DGRAM)

    def arrive():
        red.sendto(data, (address, 5004))
        return [green.recv(2000) for _ in want] == want

    with red, green:
        red.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1400)
        green.settimeout(lab.PATIENCE)
        green.bind((address, 5005))
        assert arrive()
        lab.wait_until(lambda: tcx.switch.flow_counts("dp:tcx", "set(udp(")[2], "the flow at tcx")
        before = tcx.switch.flow_counts("set(udp(")[0]
        assert arrive() and arrive()
    assert 2 <= tcx.switch.flow_counts("set(udp(")[0] - before < 2 * len(want)


def test_leaves_nothing(tcx):
    """Without ports and bridge there is no upcall pair, no program, no change to a container."""
    traffic.ping(tcx.red, "10.0.0.2")
    assert "ovs-xdp-up" in lab.run("ip", "link")
    tcx.switch.vsctl("del-br", "br0")
    lab.wait_until(lambda: "ovs-xdp-up" not in lab.run("ip", "link"), "the pair is gone")
    assert features(tcx.red)["tx-checksumming"] == "on"
