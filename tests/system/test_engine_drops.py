# SPDX-License-Identifier: Apache-2.0
"""What the engine drops is counted, once, under its name; and it goes on with everything else meanwhile.

    red ---[ switch ]--- green
"""
import contextlib
import pathlib
import time

import pytest

import lab
import switch as switches
import wire

HOOK = "tcx"
RED, GREEN = "02:00:00:00:00:01", "02:00:00:00:00:02"
MTU, BATCH = 1500, 32                   # NETDEV_MAX_BURST
N = 20
FLOW = "recirc_id({recirc_id:#x}),in_port({red}),eth(),eth_type(0x0800),ipv4(frag=no)"
REFUSE = pathlib.Path("/run/refuse")

OUTER = ("eth(dst=02:00:00:00:00:aa,src=02:00:00:00:00:bb,dl_type=0x0800),"
         "ipv4(src=172.16.0.1,dst=172.16.0.2,proto=17,tos=0,ttl=64,frag=0x4000),udp(src=0,dst=4789,csum=0x0),"
         "vxlan(flags=0x8000000,vni=0x2a)")
PUSH = f"tnl_push(tnl_port({{port}}),header(size=50,type=4,{OUTER}),out_port({{green}}))"

# Name of the drop, the actions of the flow that red's packets have, those with recirc_id 1.
ACTIONS = {
    "invalid_port": ("99", None),
    "invalid_tunnel": ("tnl_pop(99)", None),
    "tunnel_pop": ("tnl_pop({vxlan})", None),
    "tunnel_unused": (PUSH.format(port="{vxlan}", green="{green}"), None),
    "recirc_depth": ("recirc(1)", "recirc(1)"),
    "userspace_error": ("userspace(pid=0,userdata(ffffffffffffffffff))", None),
}


@pytest.fixture
def environment():
    """The kernel, as refuse.c has it; all on one CPU, so that packets do not overtake each other."""
    REFUSE.write_text("", encoding="ascii")
    with lab.one_cpu():
        yield {"LD_PRELOAD": str(switches.BUILD / "tests/system/refuse.so"), "REFUSE": str(REFUSE)}


class Network:
    def __init__(self, world, switch):
        self.world, self.switch = world, switch
        switch.vsctl("set", "open", ".", "other_config:xdp-offload=false")      # The engine runs every flow.
        switch.add_bridge("br0")
        switch.flows("br0", "actions=drop")
        self.red, self.green = self.plug("red"), self.plug("green")

    def plug(self, name):
        container = self.world.enter_context(lab.Namespace(name))
        container.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        lab.make_veth(f"to-{name}", container)
        self.switch.add_port(f"to-{name}")
        return self.world.enter_context(wire.Wire(container))


@pytest.fixture
def network(world, switch):
    if switches.DATAPATH != "xdp":
        pytest.skip("reads the counters of our datapath")
    lab.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    return Network(world, switch)


def drops(switch):
    """The engine's drops by name, those that there were."""
    return {name: count for name, count in switch.engine_drops().items() if count}


def frames(count, payload=b"", source=RED, destination=GREEN):
    return [wire.udp_frame(source, destination, payload)] * count


def too_long(count):
    """Frames as long as the MTU and a tag of 802.1ad allow: only an AF_XDP socket sends them."""
    return [frame[:12] + b"\x88\xa8\x00\x07" + frame[12:] for frame in frames(count, bytes(MTU - 28))]


@contextlib.contextmanager
def unwatched(switch):
    """Revalidators would delete flows that no rule asks for."""
    switch.appctl("revalidator/pause")
    try:
        yield
    finally:
        switch.appctl("revalidator/resume")


@pytest.mark.parametrize("name", ACTIONS)
def test_actions(network, name):
    switch = network.switch
    switch.expected += ["packet dropped after", "tunnel", "upcall"]
    switch.vsctl("add-port", "br0", "vxlan0", "--", "set", "interface", "vxlan0", "type=vxlan", "options:remote_ip=flow")
    numbers = {"red": switch.dp_port("to-red"), "green": switch.dp_port("to-green"), "vxlan": switch.dp_port("vxlan_sys_4789")}
    with unwatched(switch):
        for recirc_id, actions in enumerate(ACTIONS[name]):
            if actions:
                switch.appctl("dpctl/add-flow", FLOW.format(recirc_id=recirc_id, **numbers), actions.format(**numbers))
        network.red.send(*frames(N))
        lab.wait_until(lambda: drops(switch).get(name, 0) >= N, f"{name}: {N}, not {drops(switch)}")
        assert drops(switch) == {name: N}
        switch.appctl("dpctl/del-flows")


def test_device_that_refuses(network):
    """Packets of a port with a qdisc go to a packet socket, which a device that is down does not serve."""
    switch = network.switch
    switch.expected += ["error sending|to-green"]
    switch.vsctl("set", "port", "to-green", "qos=@q", "--", "--id=@q", "create", "qos", "type=linux-htb",
                 "other-config:max-rate=1000000000")
    switch.flows("br0", "in_port=to-red,actions=output:to-green", "priority=0,actions=drop")
    lab.wait_until(lambda: network.red.send(*frames(1)) or network.green.receive(limit=0.2), "packets through the qdisc")
    lab.run("ip", "link", "set", "to-green", "down")
    lab.wait_until(lambda: network.red.send(*frames(1)) or drops(switch), "a drop")
    assert list(drops(switch)) == ["send_error"]


def test_device_that_is_gone(network):
    switch = network.switch
    switch.expected += ["to-green", "No such device"]
    switch.flows("br0", "in_port=to-red,actions=output:to-green", "priority=0,actions=drop")
    network.red.send(*frames(1))
    assert network.green.receive()
    with unwatched(switch):
        lab.run("ip", "link", "del", "to-green")
        lab.wait_until(lambda: network.red.send(*frames(1)) or "port_closed" in drops(switch), "the port to be closed")
        before = drops(switch)
        network.red.send(*frames(N))
        lab.wait_until(lambda: drops(switch)["port_closed"] >= before["port_closed"] + N, "drops")
        assert drops(switch) == {**before, "port_closed": before["port_closed"] + N}


def test_port_that_ofproto_does_not_know(network):
    """It is in the datapath, and ofproto takes it out again as soon as it looks."""
    switch = network.switch
    switch.expected += ["unknown", "to-blue"]
    container = network.world.enter_context(lab.Namespace("blue"))
    container.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    lab.make_veth("to-blue", container)
    with wire.Wire(container) as blue:
        def met():
            switch.appctl("dpctl/add-if", "xdp@ovs-xdp", "to-blue", check=False)
            blue.send(*frames(1000))
            return drops(switch)
        lab.wait_until(met, "a packet in that moment")
    assert list(drops(switch)) == ["port_not_ready"]


def test_socket_that_does_not_open(network):
    """Opening an AF_XDP socket takes seconds while the kernel still closes another.  Packets for that port wait, as many as
    there is room for; all else is forwarded as before."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,actions=output:to-green", "in_port=to-green,actions=output:to-red",
                 "priority=0,actions=drop")
    network.red.namespace.run("ip", "link", "set", "eth0", "mtu", "3000")
    network.red.send(*frames(1))
    network.green.send(*frames(1, source=GREEN, destination=RED))
    assert network.red.receive() and network.green.receive()

    REFUSE.write_text("busy", encoding="ascii")
    network.red.send(*too_long(BATCH + N))
    lab.wait_until(pathlib.Path(f"{REFUSE}.busy").exists, "the main thread to open a socket")
    longest, end = 0, time.monotonic() + 1
    while time.monotonic() < end:
        since = time.monotonic()
        network.green.send(*frames(1, source=GREEN, destination=RED))
        assert network.red.receive()
        longest = max(longest, time.monotonic() - since)
    REFUSE.write_text("", encoding="ascii")
    assert len(network.green.receive(count=BATCH)) == BATCH
    assert longest < 0.5, f"a packet took {longest:.1f} s"
    assert drops(switch) == {"no_socket": N}
