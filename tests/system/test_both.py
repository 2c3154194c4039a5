# SPDX-License-Identifier: Apache-2.0
"""Ports with options:xdp-hook=both: XDP runs what it can, tcx on the same device what it leaves.

    red, green, blue ===[ XDP, then tcx ]
"""
import re

import pytest

import lab
import switch as switches
import traffic
import wire

BOTH = "options:xdp-hook=both"
RED = "02:00:00:00:00:01"
# What XDP cannot: it edits frames before they leave.
COPY_THEN_EDIT = "in_port=to-red,udp,actions=output:to-green,set_field:02:00:00:00:00:77->eth_src,output:to-blue"


@pytest.fixture
def both(network):
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has hooks")
    for device in "to-red", "to-green", "to-blue":
        network.switch.use_hook(device, BOTH)
    return network


def engine_queues(switch):
    """Frames that the engine received."""
    return sum(int(line.split("received:")[1].split()[0]) for line in switch.appctl("xdp/show").splitlines()
               if "received:" in line)


def settle(network, frame, ends):
    """Sends until the flow is installed: then no frame reaches the engine."""
    def installed():
        before = engine_queues(network.switch)
        ends["red"].send(frame)
        for name in ends.keys() - {"red"}:
            assert ends[name].receive(lambda seen: frame[42:50] in seen)
        return engine_queues(network.switch) == before
    lab.wait_until(installed, "the flow in a program")


def test_everything_passes(both):
    for address in "10.0.0.2", "fc00::2", "10.0.0.100":
        traffic.ping(both.red, address)
    traffic.tcp(both.red, both.green, "10.0.0.2")
    traffic.tcp(both.host, both.green, "10.0.0.2")
    assert traffic.udp(both.red, both.green, "fc00::2") == 100


def quiet(network, *rules):
    """Only what a test sends is forwarded."""
    network.switch.flows("br0", *rules, "priority=0,actions=drop")


def test_several_outputs_continue_at_tcx(both):
    """One output runs in XDP; two with an edit between them at tcx, behind it, without the engine; each packet counts
    once and leaves once."""
    quiet(both, "in_port=to-red,udp,tp_dst=2000,actions=output:to-green",
          "in_port=to-red,udp,tp_dst=2001,actions=mod_nw_tos:4,output:to-green,push_vlan:0x8100,mod_vlan_vid:7,output:to-blue")
    one = wire.udp_frame(RED, lab.mac_of(both.green), b"one     ", ports=(1000, 2000))
    two = wire.udp_frame(RED, lab.mac_of(both.green), b"two     ", ports=(1000, 2001))
    with wire.Wire(both.red) as red, wire.Wire(both.green) as green, wire.Wire(both.blue) as blue:
        settle(both, one, {"red": red, "green": green})
        settle(both, two, {"red": red, "green": green, "blue": blue})
        before = {key: both.switch.flow_counts(*key) for key in (("dp:xdp", "dst=2000"), ("dp:tcx", "dst=2001"))}
        assert all(counts[2] for counts in before.values())
        engine = engine_queues(both.switch)
        for _ in range(10):
            red.send(one, two)
            assert [frame[42:45] for frame in green.receive(lambda frame: frame[42:45] in (b"one", b"two"), 2)] \
                == [b"one", b"two"]
            frame, = blue.receive(lambda frame: b"two" in frame)
            assert frame[12:16] == b"\x81\x00\x00\x07" and frame[19] == 4
        for end in green, blue:
            assert not end.receive(lambda frame: b"one" in frame or b"two" in frame, limit=0.01)
        assert engine_queues(both.switch) < engine + 10     # Containers say things of their own, too.
        for key, counts in before.items():
            after = both.switch.flow_counts(*key)
            assert (after[0] - counts[0], after[1] - counts[1]) == (10, 10 * len(one))


def ahead(network):
    """How many more frames the switch says it received from red than red has sent; in a list, empty while red sends."""
    def sent():
        return int(network.red.run("cat", "/sys/class/net/eth0/statistics/tx_packets"))
    before = sent()
    received = int(re.search(r"rx pkts=(\d+)", network.switch.ofctl("dump-ports", "br0", "to-red"))[1])
    return [received - before] if sent() == before else []


def test_ports_count_once(both):
    quiet(both, COPY_THEN_EDIT)
    frame = wire.udp_frame(RED, lab.mac_of(both.green), b"count me")
    with wire.Wire(both.red) as red, wire.Wire(both.green) as green, wire.Wire(both.blue) as blue:
        settle(both, frame, {"red": red, "green": green, "blue": blue})
        both.red.run("ip", "link", "set", "eth0", "arp", "off")
        before = lab.wait_until(lambda: ahead(both), "red to be quiet")
        for _ in range(50):
            red.send(frame)
        assert len(green.receive(lambda seen: b"count me" in seen, 50)) == 50
        lab.wait_until(lambda: ahead(both) == before, "each frame to be counted, once")


def forwarded(switch, device):
    """Frames of a port that programs sent to their destinations."""
    stats = re.search(rf"port \d+: {device}\n((?:    .*\n)*)", switch.appctl("xdp/stats"))[1]
    return int(re.search(r"forwarded by the program: (\d+)", stats)[1])


@pytest.mark.parametrize("outputs", ("LOCAL", "output:LOCAL,set_field:02:00:00:00:00:77->eth_src,output:to-green"))
def test_delivery_to_the_host(both, outputs):
    """Also together with a copy to another port, the engine has no part in it."""
    quiet(both, f"in_port=to-red,udp,actions={outputs}")
    frame = wire.udp_frame(RED, lab.mac_of(both.host, "br0"), b"for host", addresses=("10.0.0.1", "10.0.0.100"))
    with wire.Wire(both.red) as red, wire.Wire(both.host, "br0") as host:
        settle(both, frame, {"red": red, "host": host})
        before, engine = forwarded(both.switch, "to-red"), engine_queues(both.switch)
        for _ in range(20):
            red.send(frame)
            assert host.receive(lambda seen: seen[42:50] == b"for host")
        assert forwarded(both.switch, "to-red") >= before + 20
        assert engine_queues(both.switch) < engine + 20     # Containers say things of their own, too.


def test_target_that_takes_no_redirects(both):
    """Without GRO at green's end XDP cannot send there: tcx does, the engine need not; and XDP again when it can."""
    quiet(both, "in_port=to-red,udp,actions=output:to-green")
    frame = wire.udp_frame(RED, lab.mac_of(both.green), b"anyway  ")

    def runs_at(hook):
        """A frame may be lost in the milliseconds until the switch hears of the change (docs/reference/behaviour.md)."""
        red.send(frame)
        arrived = green.receive(lambda seen: b"anyway" in seen, limit=2)
        return arrived and both.switch.flow_counts(f"dp:{hook}", "udp")[2]
    with wire.Wire(both.red) as red, wire.Wire(both.green) as green:
        for state, hook in (("on", "xdp"), ("off", "tcx"), ("on", "xdp")):
            both.green.run("ethtool", "-K", "eth0", "gro", state)
            lab.wait_until(lambda: runs_at(hook), f"the flow at {hook}")


def test_recirculation_before_what_xdp_cannot(both):
    """XDP executed a flow before it meets one for tcx: the packet is not as it came, so the engine goes on."""
    switch = both.switch
    quiet(both)
    switch.expected += ["failed to flow_del"]       # All flows are deleted, also those of revalidators.
    switch.appctl("revalidator/pause")
    red_no, green_no, blue_no = (switch.dp_port(f"to-{name}") for name in ("red", "green", "blue"))
    path = switch.rundir / "flows"
    key = "eth(),eth_type(0x0800),ipv4(frag=no)"
    path.write_text(f"in_port({red_no}),recirc_id(0),{key} set(ipv4(ttl=9)),recirc(9)\n"
                    f"in_port({red_no}),recirc_id(9),{key} {green_no},set(eth(src=02:00:00:00:00:77)),{blue_no}\n", encoding="ascii")
    switch.appctl("dpctl/add-flows", path)
    frame = wire.udp_frame(RED, lab.mac_of(both.green), b"again   ")
    with wire.Wire(both.red) as red, wire.Wire(both.green) as green, wire.Wire(both.blue) as blue:
        for _ in range(5):
            red.send(frame)
            for end in green, blue:
                seen, = end.receive(lambda seen: b"again" in seen)
                assert seen[22] == 9 and wire.checksums_valid(seen)
                assert not end.receive(lambda seen: b"again" in seen, limit=0.01)
    flows = [flow for flow in switch.dump_flows("-m") if "packets:5," in flow
             and ("recirc_id(0x9)" in flow or "recirc(0x9)" in flow)]
    switch.appctl("dpctl/del-flows")
    switch.appctl("revalidator/resume")
    assert len(flows) == 2


def test_known_flows_outlive_the_daemon(both):
    switch = both.switch
    quiet(both, COPY_THEN_EDIT)
    frame = wire.udp_frame(RED, lab.mac_of(both.green), b"outlive ")
    with wire.Wire(both.red) as red, wire.Wire(both.green) as green, wire.Wire(both.blue) as blue:
        ends = {"red": red, "green": green, "blue": blue}
        settle(both, frame, ends)
        switch.crash()
        for _ in range(20):
            red.send(frame)
            assert all(end.receive(lambda seen: b"outlive" in seen) for end in (green, blue))
        switch.start()
        lab.wait_until(lambda: any("took over" in line for line in switch.log()), "devices to be taken over")
        lab.wait_until(lambda: (switch.status("to-red") or {}).get("xdp-hook") == "both", "both hooks again")
        quiet(both, COPY_THEN_EDIT)
        settle(both, frame, ends)
        assert switch.flow_counts("dp:tcx", "udp")[2]
