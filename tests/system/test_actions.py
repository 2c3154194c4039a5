# SPDX-License-Identifier: Apache-2.0
"""Actions beyond "output": what OpenFlow rules ask for is what the wire shows."""
import re
import struct
import time

import pytest

import conftest
import lab
import switch as switches
import traffic
import wire

RED = "02:00:00:00:00:01"


def numbered(frame):
    """One of ours, not an answer that quotes it."""
    return b"number" in frame and b"\x03\x03" not in frame[34:36]


def send_to_green(network, count, payload=b"number", expect=0):
    """Sends from red's wire; returns what arrives at green's and blue's: 'expect' frames or more, as they come."""
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green, wire.Wire(network.blue) as blue:
        red.send(*(wire.udp_frame(RED, lab.mac_of(network.green), payload + struct.pack("!I", number),
                                  ports=(1000 + number, 2000)) for number in range(count)))
        arrived = [[], []]
        def enough():
            for end, frames in zip((green, blue), arrived):
                frames += end.receive(numbered, count, limit=0.05)
            return sum(map(len, arrived)) >= expect
        lab.wait_until(enough, f"{expect} frames")
        for end, frames in zip((green, blue), arrived):
            frames += end.receive(numbered, count, limit=0.1)
        return arrived


def test_set_fields(network):
    network.switch.flows("br0", "in_port=to-red,udp,actions=mod_dl_src:02:aa:aa:aa:aa:aa,mod_nw_dst:10.9.9.9,"
                         "mod_nw_tos:32,dec_ttl,mod_tp_dst:53,output:to-green", "actions=drop")
    (frame,), _ = send_to_green(network, 1, expect=1)
    assert frame[6:12].hex() == "02aaaaaaaaaa"
    assert frame[15] == 32 and frame[22] == 63
    assert frame[30:34] == bytes((10, 9, 9, 9)) and frame[36:38] == b"\x00\x35"
    assert wire.checksums_valid(frame)


def test_push_and_pop(network):
    network.switch.flows("br0", "in_port=to-red,udp,actions=push_vlan:0x8100,set_field:4106->vlan_vid,output:to-green,"
                         "pop_vlan,push_mpls:0x8847,set_field:77->mpls_label,output:to-blue", "actions=drop")
    (tagged,), (labelled,) = send_to_green(network, 1, expect=2)
    assert tagged[12:18] == b"\x81\x00\x00\x0a\x08\x00"
    assert labelled[12:14] == b"\x88\x47" and int.from_bytes(labelled[14:18], "big") >> 12 == 77


def test_truncate(network):
    network.switch.flows("br0", "in_port=to-red,udp,actions=output(port=to-green,max_len=60),output:to-blue",
                         "actions=drop")
    (short,), (whole,) = send_to_green(network, 1, b"number" + bytes(200), expect=2)
    assert len(short) == 60 and len(whole) == 14 + 28 + 210


@pytest.mark.parametrize("tier, mark, where", (("xdp-hook=xdp", "dp:xdp", "dropped by the program, "),
                                               ("xdp-hook=tcx", "dp:tcx", "dropped by the program, "),
                                               ("xdp-offload=false", "dp:ovs", "dropped: ")),
                         ids=("xdp", "tcx", "engine"))
def test_meter(world, switch, host, tier, mark, where):
    """What the meter says it saw and dropped, in programs and engine together, is what the wire shows."""
    # A slow machine takes longer from one hundred packets to the next than flows are kept for by default.
    switch.vsctl("set", "open", ".", f"other_config:{tier}", f"other_config:max-idle={1000 * lab.PATIENCE}")
    network = conftest.Network(world, switch, host)
    begin = time.monotonic()
    switch.ofctl("add-meter", "br0", "meter=1,pktps,burst,stats,band=type=drop,rate=1,burst_size=50")
    switch.flows("br0", "in_port=to-red,udp,actions=meter:1,output:to-green", "actions=drop")
    sent, arrived = 0, 0

    def dropped(where):
        return sum(map(int, re.findall(rf"{where}above the rate of a meter: (\d+)", switch.appctl("xdp/stats"))))

    def drops_there():
        """Flows may come late: then it is the engine that drops."""
        nonlocal sent, arrived
        sent, arrived = sent + 100, arrived + len(send_to_green(network, 100)[0])
        return dropped(where)

    lab.wait_until(drops_there, f"drops by {mark}")
    found = re.search(r"packet_in_count:(\d+).*bands:\s*0: packet_count:(\d+)",
                      switch.ofctl("meter-stats", "br0"), re.DOTALL)
    assert int(found[1]) == sent and int(found[2]) == sent - arrived
    assert 50 <= arrived <= 50 + (time.monotonic() - begin)
    assert dropped("dropped: ") + dropped("dropped by the program, ") == sent - arrived
    assert [flow for flow in switch.dump_flows("-m") if mark in flow and "meter(" in flow]


def test_group_all(network):
    network.switch.ofctl("add-group", "br0", "group_id=1,type=all,bucket=output:to-green,"
                         "bucket=mod_dl_dst:02:bb:bb:bb:bb:bb,output:to-blue")
    network.switch.flows("br0", "in_port=to-red,udp,actions=group:1", "actions=drop")
    green, blue = send_to_green(network, 10, expect=20)
    assert len(green) == len(blue) == 10
    assert all(frame[:6].hex() == "02bbbbbbbbbb" for frame in blue)


def test_group_select(network):
    """Every connection goes one way, and both ways are used."""
    network.switch.ofctl("add-group", "br0", "group_id=1,type=select,selection_method=hash,"
                         "fields(udp_src),bucket=output:to-green,bucket=output:to-blue")
    network.switch.flows("br0", "in_port=to-red,udp,actions=group:1", "actions=drop")
    green, blue = send_to_green(network, 64, expect=64)
    assert len(green) + len(blue) == 64 and green and blue
    again, _ = send_to_green(network, 64, expect=64)
    assert {frame[34:36] for frame in again} == {frame[34:36] for frame in green}


@pytest.mark.parametrize("translated", (False, True), ids=("", "nat"))
def test_group_by_hash_of_the_packet(network, translated):
    """The first packet, which the engine sends, gets the hash that later ones get from programs: also of a protocol without ports,
    and of what NAT changed before."""
    switch = network.switch
    switch.ofctl("add-group", "br0", "group_id=1,type=select,selection_method=dp_hash,"
                 + ",".join(["bucket=output:to-green"] * 16))
    if translated:
        network.green.run("ip", "neigh", "add", "10.0.0.77", "lladdr", lab.mac_of(network.red), "dev", "eth0")
        switch.flows("br0", "arp,actions=NORMAL", "in_port=to-red,icmp,actions=ct(commit,nat(src=10.0.0.77),table=1)",
                     "table=1,in_port=to-red,actions=group:1", "in_port=to-green,icmp,actions=ct(nat,table=2)",
                     "table=2,actions=output:to-red")
    else:
        switch.flows("br0", "arp,actions=NORMAL", "in_port=to-red,icmp,actions=group:1", "in_port=to-green,icmp,actions=to-red")
    assert traffic.ping(network.red, "10.0.0.2", count=4) == 4
    if switches.DATAPATH == "xdp":          # The program that tracks connections is loaded when the first flow asks for it.
        def in_programs():
            traffic.ping(network.red, "10.0.0.2")
            return all(re.search("dp:(xdp|tcx|both)", flow) for flow in switch.dump_flows("-m") if "in_port(to-red)" in flow
                       and "proto=1" in flow)
        lab.wait_until(in_programs, "programs that run the flows")
    for _ in range(4):
        switch.appctl("revalidator/purge")
        assert traffic.ping(network.red, "10.0.0.2", count=4) == 4
        hashed = [flow for flow in switch.dump_flows("-m") if "dp_hash(0x" in flow and not re.search(r"dp_hash\(0x\w+/0\)", flow)]
        assert len(hashed) == 1, hashed
        assert switches.DATAPATH != "xdp" or re.search("dp:(xdp|tcx|both)", hashed[0]), hashed


def test_mirror(network):
    network.switch.expected.append("reserved exclusively for mirroring")
    network.switch.vsctl("--", "--id=@blue", "get", "port", "to-blue", "--", "--id=@m", "create", "mirror", "name=m",
                         "select_all=true", "output_port=@blue", "--", "set", "bridge", "br0", "mirrors=@m")
    green, blue = send_to_green(network, 20, expect=40)
    assert len(green) == 20 and [frame for frame in blue if frame in green] == green
    network.switch.vsctl("clear", "bridge", "br0", "mirrors")


def test_packet_to_controller_and_back(network):
    """"packet-out" reaches the wire; a rule's "controller" action reaches a monitor."""
    frame = wire.udp_frame(RED, lab.mac_of(network.green), b"number")
    with wire.Wire(network.green) as green:
        network.switch.ofctl("packet-out", "br0", f"in_port=controller packet={frame.hex()} actions=to-green")
        assert green.receive(numbered) == [frame]

    network.switch.flows("br0", "in_port=to-red,udp,actions=controller", "actions=drop")
    switch, log = network.switch, network.switch.rundir / "seen"
    with open(log, "wb") as out, lab.Process(switches.tool("ovs-ofctl"), "monitor", f"unix:{switch.rundir}/br0.mgmt",
                                             "65534", "-P", "nxt_packet_in", env=switch.env, stdout=out):
        def seen():
            send_to_green(network, 1)
            return "PACKET_IN" in log.read_text()
        lab.wait_until(seen, "a packet-in")


def test_bond_balances(network):
    """Two bridges, two wires between them, LACP; connections spread over both by the "lb_output" action."""
    switch = network.switch
    # LACP goes on while its bridge is taken down: Open vSwitch finds flows whose ports are gone.
    switch.expected += ["xlate_key failed"]
    switch.add_bridge("br1")
    for number in 0, 1:
        lab.make_veth(f"up{number}", network.host, inside=f"down{number}")
    switch.vsctl("del-port", "br0", "to-green", "--", "add-port", "br1", "to-green",
                 *(word for name, bridge in (("up", "br0"), ("down", "br1")) for word in
                   ("--", "add-bond", bridge, f"bond-{name}", f"{name}0", f"{name}1", "lacp=active",
                    "bond_mode=balance-tcp", "other_config:lacp-time=fast", "other_config:lb-output-action=true")))
    traffic.wait_for_ping(network.red, "10.0.0.2", limit=20)
    with wire.Wire(network.red) as red, wire.Wire(network.host, "down0") as first, \
            wire.Wire(network.host, "down1") as second:
        assert traffic.udp(network.red, network.green, "10.0.0.2", count=10) == 10
        frames = [wire.udp_frame(lab.mac_of(network.red), lab.mac_of(network.green), b"number", ports=(port, 9))
                  for port in range(1000, 1256)]
        red.send(*frames)
        assert "lb_output" in "\n".join(switch.dump_flows())
        assert "bond-up" in switch.appctl("bond/show")

        # 256 connections; a packet of LACP each second is in the numbers, which are refreshed every five.  On a busy
        # machine LACP may have had one wire only when they came first.
        def on_both():
            red.send(*frames)
            return all(int(switch.get("interface", f"up{n}", "statistics")["tx_packets"]) >= 80 for n in (0, 1))
        lab.wait_until(on_both, "connections on both wires")
    if switch.datapath == "xdp":
        assert switch.appctl("xdp/bond-show").strip()
