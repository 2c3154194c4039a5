# SPDX-License-Identifier: Apache-2.0
"""Statistics are exact: packets and bytes that went in, came out and were counted are the same numbers."""
import json
import re
import threading
import time

import pytest

import lab
import packet_table
import wire

RED = "02:00:00:00:00:01"
LENGTHS = (60, 61, 100, 512, 1514)


def rule_counts(switch, cookie):
    found = re.search(rf"cookie={cookie:#x}.*n_packets=(\d+), n_bytes=(\d+)", switch.ofctl("dump-flows", "br0"))
    return int(found[1]), int(found[2])


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
    assert switch.port_counts("to-red")[:1] == lab.kernel_counts(network.red, "eth0", "tx_packets")
    assert switch.port_counts("to-green")[2:] == lab.kernel_counts(network.green, "eth0", "rx_packets", "rx_bytes")


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


def test_a_fresh_start_loses_nothing(world, switch):
    """Containers talk from the beginning, before ofproto knows their ports: nothing of that is a lost upcall."""
    if switch.datapath != "xdp":
        pytest.skip("only ours says what became of such packets")
    done = threading.Event()
    containers = [world.enter_context(lab.Namespace(name)) for name in ("red", "green", "blue")]
    for container in containers:
        lab.make_veth(f"to-{container.name}", container)

    def talk(container):
        with wire.Wire(container) as end:
            while not done.wait(0.0002):
                end.send(wire.udp_frame(lab.mac_of(container), "ff:ff:ff:ff:ff:ff", b"anybody there?"))

    threads = [threading.Thread(target=talk, args=(container,)) for container in containers]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            switch.add_bridge("br0")
            for container in containers:
                switch.add_port(f"to-{container.name}")
            lab.wait_until(lambda: len([flow for flow in switch.dump_flows() if "dst=ff:ff:ff:ff:ff:ff" in flow]) >= 3, "flows")
            assert re.search(r"hit:\d+ missed:\d+ lost:0$", switch.appctl("dpctl/show"), re.MULTILINE)
            assert switch.engine_drops()["upcall_error"] == switch.engine_drops()["upcall_disabled"] == 0
            switch.vsctl("del-br", "br0")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not [line for line in switch.log() if "refused the upcall" in line]


def quiet(switch, device):
    """Nobody sends to 'device' but the test: no other port, and not the host's own IPv6."""
    switch.flows("br0", "actions=drop")
    lab.run("sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")


@pytest.mark.parametrize("hook", ("tcx", "xdp"))
def test_what_the_engine_cannot_send(network, hook):
    """It is a drop of the Interface, also after the port has another hook and so other sockets."""
    switch, green = network.switch, lab.mac_of(network.green)
    if switch.datapath != "xdp":
        pytest.skip("other datapaths have no sockets of this kind")
    switch.vsctl("set", "interface", "to-green", f"options:xdp-hook={hook}")
    lab.wait_until(lambda: switch.status("to-green")["xdp-hook"] == hook, hook)

    number = switch.vsctl("get", "interface", "to-green", "ofport").strip()

    def dropped():
        found = re.search(r"tx pkts=\d+, bytes=\d+, drop=(\d+)", switch.ofctl("dump-ports", "br0", number))
        return int(found[1])

    quiet(switch, "to-green")
    switch.flows("br0", "in_port=to-red,udp,actions=check_pkt_larger(1)->reg0[0],output:to-green", "actions=drop")
    frames = [wire.udp_frame(RED, green, b"lost")] * 50
    with wire.Wire(network.red) as red, wire.Wire(network.green) as seen:
        red.send(*frames)
        assert len(seen.receive(lambda frame: b"lost" in frame, len(frames))) == len(frames)
        lab.run("ip", "link", "set", "to-green", "down")
        before = dropped()
        for _ in range(2):                              # The ring of an AF_XDP socket keeps what found the device down first.
            red.send(*frames)
            time.sleep(0.1)
        lab.wait_until(lambda: dropped() - before >= len(frames), "packets counted")
        counted = dropped()
    other = "xdp" if hook == "tcx" else "tcx"
    switch.vsctl("set", "interface", "to-green", f"options:xdp-hook={other}")
    lab.wait_until(lambda: switch.status("to-green")["xdp-hook"] == other, other)
    assert dropped() >= counted


@pytest.mark.parametrize("hook", ("tcx", "xdp"))
def test_device_that_is_down(network, hook):
    """What is sent to it is counted under a name, each packet once: by programs, the engine, or the device."""
    switch, green = network.switch, lab.mac_of(network.green)
    if switch.datapath != "xdp":
        pytest.skip("other datapaths count otherwise")
    for name in "red", "green":
        switch.vsctl("set", "interface", f"to-{name}", f"options:xdp-hook={hook}")
        lab.wait_until(lambda name=name: switch.status(f"to-{name}")["xdp-hook"] == hook, hook)
    quiet(switch, "to-green")
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "actions=drop")

    def way():
        shown = json.loads(switch.appctl("xdp/show", "--format=json"))["datapaths"][0]
        return next(port.get("tcx_output") for port in shown["ports"] if port["name"] == "to-green")

    def counted():
        stats = json.loads(switch.appctl("xdp/stats", "--format=json"))["datapaths"][0]
        ports = {port["name"]: port for port in stats["ports"]}
        return ports["to-red"]["frames"]["no_output"] + ports["to-green"]["tx_dropped"] + sum(stats["engine"]["drops"].values())

    frames = [wire.udp_frame(RED, green, b"to whom?")] * 50
    with wire.Wire(network.red) as red, wire.Wire(network.green) as seen:
        red.send(*frames)
        assert len(seen.receive(lambda frame: b"to whom?" in frame, len(frames))) == len(frames)
        before = counted()
        network.green.run("ip", "link", "set", "eth0", "down")
        lab.wait_until(lambda: way() != "peer", "packets take the device, which counts them")
        for _ in range(4):
            red.send(*frames)
        lab.wait_until(lambda: counted() - before >= 4 * len(frames), "all packets counted", 10)
        assert counted() - before == 4 * len(frames)


def test_types_of_flows(network):
    """dpctl/dump-flows type=...: what programs run is offloaded, what they match for the engine is so partially."""
    switch, green = network.switch, lab.mac_of(network.green)
    if switch.datapath != "xdp":
        pytest.skip("other datapaths have no such tiers")
    switch.flows("br0", "in_port=to-red,udp,tp_src=1000,actions=output:to-green",
                 "in_port=to-red,udp,tp_src=1001,actions=check_pkt_larger(1)->reg0[0],output:to-green", "actions=drop")
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
