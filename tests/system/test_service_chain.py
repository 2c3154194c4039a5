# SPDX-License-Identifier: Apache-2.0
"""A service chain, as docs/how-to/service-chains.md sets it up: three containers that run XDP programs of their own.

    red -> [ switch ] -> block (XDP_TX) -> [ switch ] -> route (XDP_REDIRECT) -> [ switch ] -> mark (XDP_TX)
        -> [ switch ] -> green
"""
import contextlib
import re
import subprocess

import pytest

import foreign
import lab
import switch as switches
import traffic
import wire

TRAFFIC = switches.BUILD / "bench/gen/bench-traffic"
RED = "02:00:00:00:00:01"
GRO = "generic-receive-offload"
CHAIN = ("to-red", "to-block", "to-route", "from-route", "to-mark", "to-green")


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch's userspace datapath needs GRO turned on by hand for XDP_TX")


def plug(network, namespace, device, inside, hook):
    lab.make_veth(device, namespace, inside=inside)
    network.switch.add_port(device, interface=(f"options:xdp-hook={hook}",))


def counted(function, log):
    function.close()
    return tuple(map(int, re.search(r"passed (\d+), dropped (\d+)", log.read_text()).groups()))


@pytest.fixture
def containers(world, network):
    """The containers of the chain, without programs yet."""
    return {name: world.enter_context(lab.Namespace(name)) for name in ("block", "route", "mark")}


def chain(world, network, containers, hook):
    """Plugs the containers in, steers packets from red to green through them, and starts their functions."""
    plug(network, containers["block"], "to-block", "eth0", hook)
    plug(network, containers["route"], "to-route", "eth0", hook)
    plug(network, containers["route"], "from-route", "eth1", hook)
    plug(network, containers["mark"], "to-mark", "eth0", hook)
    network.switch.flows(
        "br0", "in_port=to-red,actions=output:to-block", "in_port=to-block,actions=output:to-route",
        "in_port=from-route,actions=output:to-mark", "in_port=to-mark,actions=output:to-green",
        "in_port=to-green,actions=output:to-red")
    return {name: foreign.start_function(world, network.switch, containers[name], name, *legs)
            for name, legs in (("block", ["eth0"]), ("route", ["eth0", "eth1"]), ("mark", ["eth0"]))}


def hook_of(network, device):
    return (network.switch.status(device) or {}).get("xdp-hook")


def all_pass(network):
    """ARP learned, flows installed: the whole chain works, there and back."""
    traffic.wait_for_ping(network.red, "10.0.0.2")


@pytest.mark.parametrize("hook", ["auto", "xdp", "tcx"])
def test_three_functions_in_a_row(world, network, containers, hook):
    functions = chain(world, network, containers, hook)
    expected = "xdp" if hook == "auto" else hook
    lab.wait_until(lambda: {hook_of(network, device) for device in CHAIN[1:5]} == {expected}, f"ports on {expected}")
    all_pass(network)
    destination = lab.mac_of(network.green)
    good = wire.udp_frame(RED, destination, b"passes the chain", ports=(1000, 2000))
    bad = wire.udp_frame(RED, destination, b"blocked", ports=(1000, 69))
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        for _ in range(20):
            red.send(bad, good)
            frame, = green.receive(lambda seen: b"blocked" in seen or b"passes the chain" in seen)
            assert b"passes the chain" in frame
            assert frame[15] == 46 << 2 and frame[22] == 63 and wire.checksums_valid(frame)
            assert frame[:14] == good[:14] and frame[26:] == good[26:]
        flows = [flow for flow in network.switch.dump_flows("-m") if "proto=17" in flow or "in_port(to-block)" in flow]
        assert flows and all(f"dp:{'tcx' if 'in_port(to-red)' in flow else expected}" in flow for flow in flows)
    (passed, dropped), *others = (counted(*functions[name]) for name in ("block", "route", "mark"))
    assert dropped == 20 and passed >= 20 and all(counts[0] >= 20 and counts[1] == 0 for counts in others)


@pytest.mark.parametrize("hook", ["auto", "tcx"])
def test_sockets_through_the_chain(world, network, containers, hook):
    """What a socket leaves to its device is finished before a function sees it."""
    chain(world, network, containers, hook)
    all_pass(network)
    traffic.tcp(network.red, network.green, "10.0.0.2")
    traffic.tcp(network.green, network.red, "10.0.0.1")
    assert traffic.udp(network.red, network.green, "10.0.0.2") == 100


def test_hook_follows_the_program(world, network):
    """A container is at tcx; when it begins to run an XDP program its port is on XDP, and back when that ends."""
    blocked = world.enter_context(lab.Namespace("block"))
    plug(network, blocked, "to-block", "eth0", "auto")
    lab.add_addresses(blocked, "eth0", "10.0.0.9/24")
    at_tcx = offloads(blocked)
    for _ in range(2):
        assert hook_of(network, "to-block") == "tcx"
        traffic.wait_for_ping(network.red, "10.0.0.9")
        with contextlib.ExitStack() as running:
            foreign.start_function(running, network.switch, blocked, "block", "eth0")
            lab.wait_until(lambda: hook_of(network, "to-block") == "xdp", "the port on XDP")
        lab.wait_until(lambda: hook_of(network, "to-block") == "tcx", "the port on tcx again")
        lab.wait_until(lambda: offloads(blocked) == at_tcx, "offloads as they were")
    traffic.wait_for_ping(network.red, "10.0.0.9")
    traffic.tcp(network.red, blocked, "10.0.0.9")
    assert has_gro(blocked)
    network.switch.vsctl("del-port", "to-block")
    lab.wait_until(lambda: not has_gro(blocked), "GRO as it was")


def offloads(container):
    """Of both ends.  Without the container's GRO: once redirected frames came to it, it stays on while the port is open, or
    what is on its way into the container would be lost."""
    own = [line for line in container.run("ethtool", "-k", "eth0").splitlines() if not line.startswith(GRO)]
    return own, lab.run("ethtool", "-k", "to-block")


def has_gro(container):
    return f"{GRO}: on" in container.run("ethtool", "-k", "eth0")


def test_leg_without_a_program(world, network, containers):
    """A function that only redirects out of a leg: what it sends is taken at tcx there."""
    two = containers["route"]
    plug(network, two, "to-route", "eth0", "auto")
    plug(network, two, "from-route", "eth1", "auto")
    network.switch.flows("br0", "in_port=to-red,actions=output:to-route", "in_port=from-route,actions=output:to-green",
                         "in_port=to-green,actions=output:to-red")
    with two.entered(), subprocess.Popen([TRAFFIC, "forward", "--dev", "eth0", "--to", "eth1"], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE) as function:
        assert "{}" in function.stdout.readline()
        lab.wait_until(lambda: hook_of(network, "to-route") == "xdp", "the port on XDP")
        assert hook_of(network, "from-route") == "tcx"
        all_pass(network)
        traffic.tcp(network.red, network.green, "10.0.0.2")
        function.stdin.close()
