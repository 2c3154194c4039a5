# SPDX-License-Identifier: Apache-2.0
"""Frames are redirected only to devices that take them: a veth does while its peer has GRO on."""
import re

import pytest

import lab
import switch as switches
import traffic
import xdp

HOOK = "xdp"


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath redirects")


def is_target(network, device="to-green"):
    line = next(line for line in network.switch.appctl("xdp/show").splitlines() if f": {device} " in line)
    return "redirect-target=yes" in line


def gro(container, state):
    container.run("ethtool", "-K", "eth0", "gro", state)


def program(container, *what):
    with container.entered():               # Its /sys/fs/bpf is another in "ip netns exec".
        lab.run("ip", "link", "set", "dev", "eth0", "xdpdrv", *what)


def tiers(network):
    """Where the flows of UDP from red to green run."""
    return {"xdp" if "dp:xdp" in flow else "engine" for flow in network.switch.dump_flows("-m")
            if "in_port(to-red)" in flow and "proto=17" in flow}


def test_gro_off_and_on_under_traffic(network):
    """Traffic goes on through the engine, and is redirected again when it can be."""
    network.switch.flows("br0", "priority=1,in_port=to-red,udp,actions=output:to-green", "priority=0,actions=normal")
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        for _ in range(2):
            stream.flowing()
            assert is_target(network)
            gro(network.green, "off")
            lab.wait_until(lambda: not is_target(network), "the device to be no redirect target")
            stream.flowing()
            lab.wait_until(lambda: tiers(network) == {"engine"}, "flows given to the engine")
            stream.flowing()
            gro(network.green, "on")
            lab.wait_until(lambda: is_target(network), "the device to be a redirect target again")
            lab.wait_until(lambda: tiers(network) == {"xdp"}, "flows back in XDP")
            stream.flowing()
    traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)


def test_gro_off_survives_a_lost_carrier(network):
    """What the container turned off stays off."""
    gro(network.green, "off")
    lab.wait_until(lambda: not is_target(network), "the device to be no redirect target")
    for state in "down", "up":
        network.green.run("ip", "link", "set", "eth0", state)
        lab.wait_until(lambda: network.switch.get("interface", "to-green", "link_state") == state, f"link {state}")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    assert "generic-receive-offload: off" in network.green.run("ethtool", "-k", "eth0") and not is_target(network)


def test_program_at_the_other_end(network):
    """A container that runs an XDP program of its own takes frames with GRO on, off, and after the program has gone."""
    xdp.pin_foreign_program("/sys/fs/bpf/green")
    for _ in range(2):
        program(network.green, "pinned", "/sys/fs/bpf/green")
        lab.wait_until(lambda: is_target(network), "a redirect target")
        traffic.wait_for_ping(network.red, "10.0.0.2")
        traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
        traffic.tcp(network.green, network.red, "10.0.0.1", size=1 << 20)
        program(network.green, "off")
        traffic.wait_for_ping(network.red, "10.0.0.2")
        traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)


@pytest.mark.parametrize("hook", ("xdp", "both", "tcx", "auto"))
def test_program_comes_and_goes_under_traffic(network, hook):
    """The port stays open, and all that is sent to it and from it meanwhile arrives; its hook, if it is auto, and what the
    device finishes follow the program."""
    without, with_program = ("tcx", "xdp") if hook == "auto" else (hook, hook)
    network.switch.vsctl("set", "interface", "to-green", f"options:xdp-hook={hook}",
                         "--", "set", "open_vswitch", ".", f"other_config:xdp-hook={hook}")
    wait_for_hook(network, without)
    traffic.wait_for_ping(network.red, "10.0.0.2")
    xdp.pin_foreign_program("/sys/fs/bpf/green")
    features, before = offloads(network.host, "to-green"), closings(network)
    with traffic.Stream(network.red, network.green, "10.0.0.2") as to, \
            traffic.Stream(network.green, network.blue, "10.0.0.3", port=5009) as back:
        for _ in range(5):
            program(network.green, "pinned", "/sys/fs/bpf/green")
            lab.wait_until(lambda: "tx-checksumming: off" in offloads(network.host, "to-green"), "finished checksums")
            wait_for_hook(network, with_program)
            assert xdp.attached("to-green")     # Also at tcx: XDP_TX needs it.
            to.flowing()
            back.flowing()
            program(network.green, "off")
            wait_for_hook(network, without)
            lab.wait_until(lambda: offloads(network.host, "to-green") == features, "offloads as they were")
            assert bool(xdp.attached("to-green")) == (without != "tcx")
            to.flowing()
            back.flowing()
        lost = to.lost(), back.lost()
    assert (lost, closings(network)) == ((0, 0), before)
    traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
    traffic.tcp(network.green, network.red, "10.0.0.1", size=1 << 20)


def wait_for_hook(network, hook):
    lab.wait_until(lambda: network.switch.status("to-green")["xdp-hook"] == hook, f"the port on {hook}")


def test_gro_off_under_a_program(network):
    """A container's program takes frames without GRO; what the container turned off stays off when the program goes."""
    xdp.pin_foreign_program("/sys/fs/bpf/green")
    program(network.green, "pinned", "/sys/fs/bpf/green")
    gro(network.green, "off")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    assert is_target(network)
    program(network.green, "off")
    lab.wait_until(lambda: not is_target(network), "the device to be no redirect target")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    assert "generic-receive-offload: off" in offloads(network.green, "eth0")
    gro(network.green, "on")
    lab.wait_until(lambda: is_target(network), "the device to be a redirect target again")
    traffic.wait_for_ping(network.red, "10.0.0.2")


def offloads(namespace, device):
    return namespace.run("ethtool", "-k", device)


def closings(network):
    """How often the port was opened again, and how many packets found it closed."""
    return (sum("to-green: device or options changed, opening again" in line for line in network.switch.log()),
            int(re.search(r"the port's device is gone: (\d+)", network.switch.appctl("xdp/stats"))[1]))


def test_other_end_goes_away(network):
    """While frames are redirected to two containers one of them dies, and comes back."""
    mac = lab.mac_of(network.green)
    with traffic.Stream(network.red, network.green, "10.0.0.2") as dying, \
            traffic.Stream(network.red, network.blue, "10.0.0.3", port=5009) as other:
        dying.flowing()
        other.flowing()
        network.switch.expected += ["to-green", "No such device"]
        lab.run("ip", "link", "del", "to-green")
        dying.silent()
        other.flowing()
        lab.make_veth("to-green", network.green)
        network.green.run("ip", "link", "set", "eth0", "address", mac)
        lab.add_addresses(network.green, "eth0", "10.0.0.2/24")
        dying.flowing()
        other.flowing()
        lab.wait_until(lambda: is_target(network), "a redirect target again")


def test_other_end_in_this_namespace(network, host):
    """Devices of the host itself: both ends of the wire are heard of."""
    lab.make_veth("near", host, inside="far")
    network.switch.add_port("near")
    lab.wait_until(lambda: is_target(network, "near"), "a redirect target")
    for state in "off", "on":
        lab.run("ethtool", "-K", "far", "gro", state)
        lab.wait_until(lambda: is_target(network, "near") == (state == "on"), f"redirect target with GRO {state}")


# Actions, and who runs them: a group of outputs is XDP's, an edit between outputs is tcx's, cutting is not tcx's; and XDP
# cannot send to blue.
EITHER = (("{red}", "both"), ("set(skb_mark(0x5)),{green}", "both"), ("{red},{green}", "xdp"), ("trunc(100),{red}", "xdp"),
          ("{red},set(skb_mark(0x5)),{green}", "tcx"), ("{blue}", "tcx"), ("{red},set(skb_mark(0x5)),{blue},{red}", "tcx"),
          ("sample(sample=50.0%,actions({red}))", "ovs"), ("trunc(100),{blue}", "ovs"))


def test_flows_of_a_port_without_device(network):
    """Packets that were in a tunnel may come by XDP or tcx, and one entry serves both."""
    switch = network.switch
    gro(network.blue, "off")
    lab.wait_until(lambda: not is_target(network, "to-blue"), "XDP to stop sending to blue")
    switch.add_port("tun0", interface=("type=vxlan", "options:remote_ip=172.16.0.2"))
    ports = {name: switch.dp_port(device) for name, device in
             (("red", "to-red"), ("green", "to-green"), ("blue", "to-blue"), ("tunnel", "vxlan_sys_4789"))}
    keys = [f"in_port({ports['tunnel']}),eth(),eth_type(0x0800),ipv4(src=10.1.0.{number},frag=no)" for number in range(len(EITHER))]
    switch.appctl("revalidator/pause")
    for key, (actions, _) in zip(keys, EITHER):
        switch.appctl("dpctl/add-flow", key, actions.format(**ports))
    shown = "\n".join(switch.dump_flows("-m"))
    ran = [re.search(rf"src=10\.1\.0\.{number}\b.*dp:(\w+)", shown)[1] for number in range(len(EITHER))]
    for key in keys:
        switch.appctl("dpctl/del-flow", key)
    switch.appctl("revalidator/resume")
    assert list(zip((actions for actions, _ in EITHER), ran)) == list(EITHER)
