# SPDX-License-Identifier: Apache-2.0
"""Statistics are exact: packets and bytes that went in, came out and were counted are the same numbers."""
import re
import threading

import pytest

import lab
import packet_table
import wire

RED = "02:00:00:00:00:01"
LENGTHS = (60, 61, 100, 512, 1514)


def kernel_counts(namespace, device, *names):
    folder = f"/sys/class/net/{device}/statistics"
    return tuple(int(number) for number in namespace.run("cat", *(f"{folder}/{name}" for name in names)).split())


def rule_counts(switch, cookie):
    found = re.search(rf"cookie={cookie:#x}.*n_packets=(\d+), n_bytes=(\d+)", switch.ofctl("dump-flows", "br0"))
    return int(found[1]), int(found[2])


def port_counts(switch, port):
    """(received packets, bytes, sent packets, bytes) as OpenFlow says."""
    text = switch.ofctl("dump-ports", "br0", port)
    found = re.findall(r"[rt]x pkts=(\d+), bytes=(\d+)", text)
    return tuple(int(number) for pair in found for number in pair)


def test_flows_and_ports(network):
    switch, green = network.switch, lab.mac_of(network.green)
    switch.flows("br0", "cookie=7,in_port=to-red,udp,tp_src=1000,actions=output:to-green", "cookie=8,actions=drop")
    frames = [wire.udp_frame(RED, green, b"\x07" * (length - 42)) for length in LENGTHS]
    sent = sent_bytes = 0
    with wire.Wire(network.red) as red, wire.Wire(network.green) as seen:
        for count in 1, 9, 90, 900:
            for _ in range(count):
                red.send(*frames)
                assert len(seen.receive(lambda frame: frame[34:36] == b"\x03\xe8", len(frames))) == len(frames)
            sent += count * len(frames)
            sent_bytes += count * sum(LENGTHS)
            lab.wait_until(lambda: rule_counts(switch, 7) >= (sent, sent_bytes), "the rule's counters")
            assert rule_counts(switch, 7) == (sent, sent_bytes)
        counted = [re.search(r"packets:(\d+), bytes:(\d+)", flow) for flow in switch.dump_flows()
                   if "udp(src=1000" in flow]
        # The first packet of the flow was handled before the flow was there.
        assert [tuple(map(int, found.groups())) for found in counted] == [(sent - 1, sent_bytes - LENGTHS[0])]

    switch.vsctl("set", "interface", "to-red", "other_config:look=again")
    assert port_counts(switch, "to-red")[:1] == kernel_counts(network.red, "eth0", "tx_packets")
    assert port_counts(switch, "to-green")[2:] == kernel_counts(network.green, "eth0", "rx_packets", "rx_bytes")


def test_count_survives_deletion(network):
    """A datapath flow that is deleted hands its count to the rule."""
    switch, green = network.switch, lab.mac_of(network.green)
    switch.flows("br0", "cookie=7,in_port=to-red,udp,actions=output:to-green", "cookie=8,actions=drop")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as seen:
        for turn in range(1, 6):
            red.send(*[wire.udp_frame(RED, green, b"once more")] * 100)
            assert len(seen.receive(lambda frame: b"once more" in frame, 100)) == 100
            switch.appctl("revalidator/purge")
            assert not [flow for flow in switch.dump_flows() if "udp" in flow]
            assert rule_counts(switch, 7) == (100 * turn, 6000 * turn)


def test_drops_are_counted(network):
    """What a rule drops is seen in the rule, and "dpctl/show" knows hits and misses."""
    switch = network.switch
    switch.flows("br0", "cookie=7,udp,actions=drop", "cookie=8,actions=normal")
    def lookups():
        found = re.search(r"hit:(\d+) missed:(\d+) lost:(\d+)", switch.appctl("dpctl/show"))
        return tuple(map(int, found.groups()))
    before = lookups()
    with wire.Wire(network.red) as red:
        red.send(*[wire.udp_frame(RED, lab.mac_of(network.green))] * 50)
    lab.wait_until(lambda: rule_counts(switch, 7) == (50, 3000), "50 packets of 60 bytes")
    hit, missed, lost = (now - then for now, then in zip(lookups(), before))
    assert hit + missed >= 50 and missed >= 1 and lost == 0


def test_types_of_flows(network):
    """dpctl/dump-flows type=...: what programs run is offloaded, what they match for the engine is so partially."""
    switch, green = network.switch, lab.mac_of(network.green)
    if switch.datapath != "xdp":
        pytest.skip("other datapaths have no such tiers")
    switch.flows("br0", "in_port=to-red,udp,tp_src=1000,actions=output:to-green",
                 "in_port=to-red,udp,tp_src=1001,actions=check_pkt_larger(1000)->reg0[0],output:to-green", "actions=drop")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as seen:
        for port in 1000, 1001:
            red.send(*[wire.udp_frame(RED, green, b"typed", ports=(port, 9))] * 3)
            assert len(seen.receive(lambda frame: b"typed" in frame, 3)) == 3

    def ports(*filters):
        flows = "\n".join(switch.dump_flows("-m", *filters))
        return {int(port) for port in re.findall(r"udp\(src=(100[01])[,)]", flows)}

    assert ports() == {1000, 1001}
    assert ports("type=offloaded") == {1000}
    assert ports("type=partially-offloaded") == {1001}
    assert ports("type=non-offloaded") == set()
    assert ports("type=offloaded,partially-offloaded") == {1000, 1001}


def test_idle_flows_go_and_busy_ones_stay(network):
    """max-idle counts from the last packet, wherever it was handled; TCP's flags are reported."""
    switch, green = network.switch, lab.mac_of(network.green)
    switch.vsctl("set", "open", ".", "other_config:max-idle=600000")
    switch.flows("br0", "in_port=to-red,tcp,tp_src=1000,actions=output:to-green",
                 "in_port=to-red,tcp,tp_src=1001,actions=output:to-green", "actions=drop")

    def segment(port, flags):
        return bytes(packet_table.ether(packet_table.tcp4(sport=port, flags=flags), dst=green))

    def flow(port):
        return [flow for flow in switch.dump_flows("-m") if re.search(rf"tcp\(src={port}[,)]", flow)]

    with wire.Wire(network.red) as red:
        red.send(segment(1000, "S"), segment(1001, "S"))
        lab.wait_until(lambda: flow(1000) and flow(1001), "both flows")
        sent, done = [0], threading.Event()

        def keep_busy():
            push = segment(1000, "PA")
            while not done.wait(0.01):
                red.send(push)
                sent[0] += 1

        thread = threading.Thread(target=keep_busy)
        thread.start()
        try:
            switch.vsctl("set", "open", ".", "other_config:max-idle=4000")
            lab.wait_until(lambda: not flow(1001), "the end of the idle flow", limit=30)
        finally:
            done.set()
            thread.join()
        (busy,) = flow(1000)
        assert "P" in re.search(r"flags:(\S+?),", busy)[1], busy
        assert sent[0] - 1 <= int(re.search(r"packets:(\d+)", busy)[1]) <= sent[0] + 1, busy
        lab.wait_until(lambda: not flow(1000), "the end of the flow that was busy", limit=30)
