# SPDX-License-Identifier: Apache-2.0
"""What "ovs-appctl xdp/..." says is what happened."""
import pathlib
import re
import struct

import lab
import wire

HOOK = "xdp"

RED = "02:00:00:00:00:01"
COUNT = 100


def numbers(text):
    """The "name: number" lines of one block."""
    return {name: int(number) for name, number in re.findall(r"^ +(.+): (\d+)$", text, re.MULTILINE)}


def hits(switch):
    return int(re.search(r"hit:(\d+)", switch.appctl("dpctl/show"))[1])


def send(network, count=COUNT, ports=lambda number: (1000, 2000)):
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green, lab.one_cpu():
        red.send(*(wire.udp_frame(RED, lab.mac_of(network.green), b"number", ports=ports(n)) for n in range(count)))
        assert len(green.receive(lambda frame: b"number" in frame, count)) == count


def test_show(network):
    text = network.switch.appctl("xdp/show")
    program = re.search(r"program: (\S+) id (\d+), \d+ bytes of BPF", text)
    assert program[1] == "oxdp_xdp"
    assert re.search(r"parses: .*IPv6 and its transport headers", text)
    assert re.search(r"executes: .*push VLAN", text)
    assert re.search(r"to-red \(xdp\) xdp-mode=native xdp-hook=xdp queues=\d+ redirect-target=yes", text)
    folder = re.search(r"^  when the daemon ends: programs go on, pinned in (/sys/fs/bpf/ovs-xdp/\S+)$", text, re.MULTILINE)[1]
    assert (pathlib.Path(folder) / "xdp").exists()
    assert program[2] in lab.run("bpftool", "net", "show") or f"prog_id {program[2]} " in lab.run("bpftool", "link")


def test_stats(network):
    """One frame misses, the others run in XDP; the first of them walks the masks."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "actions=drop")
    before, all_before, hits_before = switch.stats("to-red"), switch.stats("programs"), hits(switch)
    send(network, 1)
    send(network)
    after, all_after = switch.stats("to-red"), switch.stats("programs")
    grown = {name: after[name] - before[name] for name in after}
    assert grown["handed to the engine: no flow matches"] >= 1
    assert grown["forwarded by the program"] == COUNT
    # New masks, of other packets' flows, make the signature cache start anew.
    assert 1 <= grown["mask hits"] <= grown["masks walked"]
    assert grown["hits without masks"] >= COUNT - 10
    assert grown["hits without masks"] + grown["mask hits"] == sum(grown[name] for name in (
        "forwarded by the program", "dropped by the program, as a flow says", "handed to the engine: the flow's actions need it"))
    assert all_after["hits without masks"] - all_before["hits without masks"] >= COUNT - 10
    # Each frame is as the one before.
    assert COUNT - 10 <= all_after["predicted"] - all_before["predicted"] < COUNT
    assert hits(switch) - hits_before >= COUNT


def test_stats_of_handing_over(network):
    """What the engine executes is counted as handed to the engine, and its drops by name."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green,dec_ttl,output:to-blue", "actions=drop")
    send(network, 1)
    before = switch.stats("to-red")["handed to the engine: the flow's actions need it"]
    send(network)
    assert switch.stats("to-red")["handed to the engine: the flow's actions need it"] - before == COUNT
    assert switch.stats("engine")["dropped: output to a port that does not exist"] == 0


def test_stats_survive_ports(network):
    """Hits do not go back when the port that had them goes."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "actions=drop")
    send(network, 1)
    send(network)
    before = hits(switch)
    switch.vsctl("del-port", "to-red")
    switch.add_port("to-red")
    assert hits(switch) >= before


def test_dump_masks(network):
    """Masks in words, in order, with what they matched."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp,nw_dst=10.0.0.0/24,actions=output:to-green",
                 "in_port=to-blue,udp6,ipv6_dst=fc00::/64,tp_dst=7,actions=drop", "actions=drop")

    def used():
        send(network)
        lines = re.findall(r"^  (\d+): flows:(\d+) hits:(\d+) (.*)$", switch.appctl("xdp/dump-masks"), re.MULTILINE)
        assert [int(line[0]) for line in lines] == list(range(1, len(lines) + 1))
        return [line for line in lines if "ip4_dst" in line[3] and int(line[2])]
    (_, flows, _, words), = lab.wait_until(used, "packets that match the mask")
    assert flows == "1"
    assert re.search(r"\bin_port, recirc_id, eth_type, .*ip_proto, ip_frag, .*ip4_dst/24\b", words), words


def test_dump_masks_of_ipv6(network):
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp6,ipv6_dst=fc00::/64,tp_dst=7,actions=output:to-green", "actions=drop")
    addresses = bytes.fromhex("fc00" + "00" * 13 + "01" + "fc00" + "00" * 13 + "02")
    frame = bytes.fromhex(lab.mac_of(network.green).replace(":", "") + RED.replace(":", "") + "86dd60000000000e1140") \
        + addresses + struct.pack("!HHHH6s", 7, 7, 14, 0, b"number")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        def arrives():
            red.send(frame)
            return green.receive(lambda seen: b"number" in seen)

        # Flows of the rules before live until they are revalidated.
        lab.wait_until(arrives, "a frame at green")
    assert re.search(r"ip_proto, ip_frag, ip6_dst/64, tp_dst\b", switch.appctl("xdp/dump-masks"))
