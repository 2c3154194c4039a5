# SPDX-License-Identifier: Apache-2.0
"""XDP sends a frame to several ports: all of them get it, whole and in order, and it is counted once for each."""
import itertools
import re

import pytest

import lab
import switch as switches
import wire

HOOK = "xdp"

RED, UNKNOWN = "02:00:00:00:00:01", "02:00:00:00:00:99"
N_GROUPS = 256


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has groups")


def numbered(number, destination=UNKNOWN):
    return wire.udp_frame(RED, destination, b"frame %6d" % number)


def numbers(frames):
    return [int(frame[48:54]) for frame in frames]


def is_numbered(frame):
    return frame[42:48] == b"frame "


def tiers(switch, *words):
    """Where the flows run that dpctl shows with all 'words'."""
    return {re.search(r"dp:(\w+)", flow)[1] for flow in switch.dump_flows("-m") if all(word in flow for word in words)}


def settle(switch, red, others, *words):
    """Sends frames until XDP runs their flow, and takes those that came of it."""
    def runs_in_xdp():
        red.send(numbered(0))
        for other in others:
            assert other.receive(is_numbered)
        return tiers(switch, *words) == {"xdp"}

    lab.wait_until(runs_in_xdp, "the flow in XDP")


def forwarded(switch):
    return switch.stats("to-red")["forwarded by the program"]


def groups_used(switch):
    return int(re.search(r"(\d+) of \d+ groups", switch.appctl("xdp/show"))[1])


def sent_to(switch, port):
    """(packets, bytes) that left by a port, as OpenFlow says."""
    switch.vsctl("set", "interface", port, "other_config:look=again")
    found = re.search(r"tx pkts=(\d+), bytes=(\d+)", switch.ofctl("dump-ports", "br0", port))
    return tuple(map(int, found.groups()))


def test_flood_of_a_learning_switch(network):
    """Frames to an address that nobody has: the other containers and the host get each, in order."""
    switch, count = network.switch, 2000
    white = network.add_container("white", 4)
    names = "green", "blue", "white"
    namespaces = dict(zip(names, (network.green, network.blue, white)))
    ends = {name: network.world.enter_context(wire.Wire(namespaces[name])) for name in names}
    ends["host"] = network.world.enter_context(wire.Wire(network.host, "br0"))
    with wire.Wire(network.red) as red:
        settle(switch, red, ends.values(), f"dst={UNKNOWN}")
        assert groups_used(switch) >= 1
        before = forwarded(switch)
        for first in range(0, count, 100):
            if first == count // 2:
                switch.appctl("xdp/specialise")
            red.send(*map(numbered, range(first, first + 100)))
            for name, end in ends.items():
                assert numbers(end.receive(is_numbered, 100)) == list(range(first, first + 100)), name
    assert tiers(switch, f"dst={UNKNOWN}") == {"xdp"} and forwarded(switch) - before >= count
    for name in names:
        lab.wait_until(lambda name=name: sent_to(switch, f"to-{name}")
                       == lab.kernel_counts(namespaces[name], "eth0", "rx_packets", "rx_bytes"), f"the counters of {name}")


def test_statistics(network):
    """The rule and the datapath's flow count a frame once, each port one copy; the engine gets nothing."""
    switch, count = network.switch, 500
    switch.flows("br0", "cookie=7,in_port=to-red,udp,actions=push_vlan:0x8100,set_field:4105->vlan_vid,output:to-green,"
                 "output:to-blue", "priority=0,actions=drop")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green, wire.Wire(network.blue) as blue:
        ends = green, blue
        def tagged(frame):
            return frame[12:16] == b"\x81\0\0\x09" and frame[46:52] == b"frame "
        def runs_in_xdp():
            red.send(numbered(0))
            assert all(end.receive(tagged) for end in ends)
            return tiers(switch, "push_vlan") == {"xdp"}
        lab.wait_until(runs_in_xdp, "the flow in XDP")
        switch.appctl("revalidator/wait")
        before, flow_before = rule_count(switch), flow_count(switch)
        namespaces = {"green": network.green, "blue": network.blue}
        kernel_before = {name: lab.kernel_counts(namespaces[name], "eth0", "rx_packets", "rx_bytes") for name in namespaces}
        for _ in range(count // 50):
            red.send(*[numbered(1)] * 50)
            for end in ends:
                want = numbered(1)
                assert end.receive(tagged, 50) == [want[:12] + b"\x81\0\0\x09" + want[12:]] * 50
        assert flow_count(switch) - flow_before == count
        lab.wait_until(lambda: rule_count(switch) - before == count, "the rule's counter")
        for name, namespace in namespaces.items():      # The devices say something of their own, too.
            lab.wait_until(lambda name=name, namespace=namespace: sent_to(switch, f"to-{name}")
                           == lab.kernel_counts(namespace, "eth0", "rx_packets", "rx_bytes"), f"the counters of {name}")
            assert lab.kernel_counts(namespace, "eth0", "rx_packets")[0] - kernel_before[name][0] >= count


def rule_count(switch):
    return int(re.search(r"cookie=0x7,.*n_packets=(\d+)", switch.ofctl("dump-flows", "br0"))[1])


def flow_count(switch):
    flow, = (flow for flow in switch.dump_flows("-m") if "push_vlan" in flow)
    return int(re.search(r"packets:(\d+)", flow)[1])


def test_member_that_is_no_target(network):
    """A container turns GRO off: the engine sends to both, until it turns it on again."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green,output:to-blue", "priority=0,actions=drop")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green, wire.Wire(network.blue) as blue:
        for _ in range(2):
            settle(switch, red, (green, blue), "proto=17")
            network.green.run("ethtool", "-K", "eth0", "gro", "off")
            lab.wait_until(lambda: tiers(switch, "proto=17") == {"ovs"}, "the flow in the engine")
            red.send(*map(numbered, range(50)))
            for end in green, blue:
                assert numbers(end.receive(is_numbered, 50)) == list(range(50))
            network.green.run("ethtool", "-K", "eth0", "gro", "on")
            lab.wait_until(lambda: tiers(switch, "proto=17") == {"xdp"}, "the flow in XDP")
            red.send(*map(numbered, range(50)))
            for end in green, blue:
                assert numbers(end.receive(is_numbered, 50)) == list(range(50))


def test_member_without_carrier(network):
    """As the interface of a bridge often is: the others get what is flooded from XDP, and it too when it is up."""
    switch = network.switch
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green, wire.Wire(network.blue) as blue:
        for _ in range(2):
            lab.run("ip", "link", "set", "br0", "down")
            lab.wait_until(lambda: switch.get("interface", "br0", "link_state") == "down", "the host's link down")
            switch.appctl("revalidator/purge")
            settle(switch, red, (green, blue), f"dst={UNKNOWN}")
            before = forwarded(switch)
            red.send(*map(numbered, range(50)))
            for end in green, blue:
                assert numbers(end.receive(is_numbered, 50)) == list(range(50))
            assert forwarded(switch) - before >= 50
            lab.run("ip", "link", "set", "br0", "up")
            lab.wait_until(lambda: switch.get("interface", "br0", "link_state") == "up", "the host's link up")

            with wire.Wire(network.host, "br0") as host:
                def host_has_it():
                    red.send(numbered(0))
                    assert green.receive(is_numbered) and blue.receive(is_numbered)
                    return host.receive(is_numbered, limit=0.1)

                lab.wait_until(host_has_it, "frames to the host")
                settle(switch, red, (green, blue, host), f"dst={UNKNOWN}")


def test_member_goes_and_comes_back(network):
    """While frames come, a member's device is deleted and made again: the other member misses none."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green,output:to-blue", "priority=0,actions=drop")
    switch.expected += ["to-green", "No such device"]
    number = itertools.count(1)
    with wire.Wire(network.red) as red, wire.Wire(network.blue) as blue:
        def blue_gets_all(count=20):
            want = [next(number) for _ in range(count)]
            red.send(*map(numbered, want))
            assert numbers(blue.receive(is_numbered, count)) == want
            return True

        with wire.Wire(network.green) as green:
            settle(switch, red, (green, blue), "proto=17")
        for _ in range(2):
            blue_gets_all()
            lab.run("ip", "link", "del", "to-green")
            lab.wait_until(lambda: blue_gets_all() and "to-green (xdp) xdp-hook" not in switch.appctl("xdp/show")
                           and tiers(switch, "proto=17") == {"xdp"}, "the flow in XDP without the member")
            blue_gets_all(100)
            lab.make_veth("to-green", network.green)
            lab.wait_until(lambda: blue_gets_all() and tiers(switch, "proto=17") == {"xdp"}
                           and switch.get("interface", "to-green", "link_state") == "up"
                           and "redirect-target=yes" in next(line for line in switch.appctl("xdp/show").splitlines()
                                                             if ": to-green " in line), "the port again")
            with wire.Wire(network.green) as green:
                want = [next(number) for _ in range(50)]
                lab.wait_until(lambda: tiers(switch, "proto=17") == {"xdp"}, "the flow in XDP")
                red.send(*map(numbered, want))
                for end in green, blue:
                    assert numbers(end.receive(is_numbered, 50)) == want


@pytest.mark.parametrize("how", ("crash", "exit"))
def test_without_the_daemon(network, how):
    """Frames go on to all members while there is no daemon, and after the next one has taken over."""
    switch = network.switch
    rules = "in_port=to-red,udp,actions=output:to-green,output:to-blue", "priority=0,actions=drop"
    switch.flows("br0", *rules)
    switch.expected += ["terminating with signal"]
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green, wire.Wire(network.blue) as blue:
        settle(switch, red, (green, blue), "proto=17")
        if how == "crash":
            switch.crash()
        else:
            switch.stop()
        red.send(*map(numbered, range(100)))
        for end in green, blue:
            assert numbers(end.receive(is_numbered, 100)) == list(range(100))
        switch.start()
        lab.wait_until(lambda: any("took over" in line for line in switch.log()), "devices to be taken over")
        switch.flows("br0", *rules)

        def all_get_it():
            red.send(numbered(0))
            return all([end.receive(is_numbered, limit=0.1) for end in (green, blue)])

        lab.wait_until(all_get_it, "frames through the new daemon")
        settle(switch, red, (green, blue), "proto=17")


def test_more_sets_than_groups(world, switch, host):
    """The engine runs the flows for which there is no group, all frames arrive; when groups are free these follow."""
    lab.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    names = [f"p{i}" for i in range(10)]
    switch.add_bridge("br0")
    switch.flows("br0", "actions=drop")
    for name in names:
        lab.make_veth(name, host, inside=f"{name}-end")
        switch.add_port(name)
    ends = [world.enter_context(wire.Wire(host, f"{name}-end")) for name in names]
    ports = [switch.dp_port(name) for name in names]
    sets = [chosen for n in (2, 3, 4, 5) for chosen in itertools.combinations(range(1, 10), n)][:N_GROUPS + 20]
    macs = [f"02:00:00:00:{i >> 8:02x}:{i & 255:02x}" for i in range(len(sets))]
    keys = [f"in_port({ports[0]}),eth(dst={mac}),eth_type(0x0800),ipv4(proto=17,frag=no),udp()" for mac in macs]
    actions = [",".join(str(ports[i]) for i in chosen) for chosen in sets]

    def counts():
        layers = [re.search(r"dp:(\w+)", flow)[1] for flow in switch.dump_flows("-m")]
        return layers.count("xdp"), layers.count("ovs")

    def all_arrive(without=()):
        for mac, chosen in (pair for i, pair in enumerate(zip(macs, sets)) if i not in without):
            frame = numbered(0, mac)
            ends[0].send(frame)
            for i in chosen:
                assert ends[i].receive(is_numbered) == [frame]
        assert not any(end.receive(limit=0) for end in ends)

    switch.appctl("revalidator/pause")      # They would delete flows that no rule asks for.
    try:
        path = switch.rundir / "flows"
        path.write_text("".join(f"{key} {action}\n" for key, action in zip(keys, actions)), encoding="ascii")
        switch.appctl("dpctl/add-flows", str(path))
        lab.wait_until(lambda: groups_used(switch) == N_GROUPS and counts() == (N_GROUPS, 20), "all groups in use")
        assert "20 engine: outputs to a set of ports beyond those that programs have" in switch.appctl("xdp/show")
        all_arrive()

        # Another flow with a set that is there shares its group.
        def in_xdp():
            return [macs.index(re.search(r"dst=([0-9a-f:]{17})", flow)[1]) for flow in switch.dump_flows("-m")
                    if "dp:xdp" in flow]

        shared = keys[0].replace(macs[0], "02:00:00:00:ff:ff")
        switch.appctl("dpctl/add-flow", shared, actions[in_xdp()[0]])
        assert counts() == (N_GROUPS + 1, 20) and groups_used(switch) == N_GROUPS
        switch.appctl("dpctl/del-flow", shared)
        assert groups_used(switch) == N_GROUPS

        # Ten of those that have groups go.
        gone = in_xdp()[:10]
        for i in gone:
            switch.appctl("dpctl/del-flow", keys[i])
        lab.wait_until(lambda: counts() == (N_GROUPS, 10), "flows that follow")
        all_arrive(without=gone)
        switch.appctl("dpctl/del-flows")
        lab.wait_until(lambda: groups_used(switch) == 0, "no group in use")
    finally:
        switch.appctl("revalidator/resume")
