# SPDX-License-Identifier: Apache-2.0
"""Options of tunnels that mean more than bytes of a header, or that only some tunnels can have."""
import re

import pytest

import lab
import switch as switches


def add_gbp(switch, host, endpoint, udp_port=4789):
    """A tunnel with GBP, whose endpoint here is on a "bridge", or on a "plain" device."""
    far = lab.Namespace("far")
    lab.make_veth("to-far", far)
    lab.add_addresses(far, "eth0", "172.16.0.2/24")
    switch.add_bridge("br0")
    if endpoint == "bridge":
        switch.add_bridge("br-phy")
        switch.add_port("to-far", bridge="br-phy")
        lab.run("ip", "link", "set", "br-phy", "up")
    lab.add_addresses(host, {"bridge": "br-phy", "plain": "to-far"}[endpoint], "172.16.0.1/24")
    switch.add_port("tun0", interface=("type=vxlan", "options:remote_ip=172.16.0.2", "options:key=42", "options:exts=gbp",
                                       f"options:dst_port={udp_port}"))
    return far


@pytest.mark.skipif(switches.DATAPATH != "xdp", reason="stock Open vSwitch adds and deletes such a port with each look")
@pytest.mark.parametrize("udp_port", (4789, 4790))
@pytest.mark.parametrize("endpoint", ("bridge", "plain"))
def test_group_based_policy_is_quiet(world, switch, host, endpoint, udp_port):
    """A port of VXLAN-GBP is added once, and stays while the bridge looks at its ports again.  What stands for it in the datapath is
    one with GBP, too: Open vSwitch refuses a tunnel without GBP beside one with it."""
    world.enter_context(add_gbp(switch, host, endpoint, udp_port))
    device, ofport = f"vxlan{udp_port}-host", switch.ofport("tun0")
    if endpoint == "plain":
        lab.wait_until(lambda: host.run("ip", "link", "show", device, check=False).startswith(tuple("0123456789")), device)
    index = host.run("cat", f"/sys/class/net/{device}/ifindex", check=False)
    for number in range(10):
        lab.run("ip", "link", "add", f"other{number}", "type", "veth")
        switch.vsctl("set", "bridge", "br0", f"other_config:round={number}")
    assert sum("added interface tun0" in line for line in switch.log()) == 1
    assert (switch.error("tun0"), switch.ofport("tun0")) == (None, ofport)
    assert host.run("cat", f"/sys/class/net/{device}/ifindex", check=False) == index
    # What stands for it is as before until the bridge looks again.
    for option in "remove interface tun0 options exts", "set interface tun0 options:exts=gbp":
        switch.expected += ["VXLAN-GBP, and non-VXLAN-GBP", "could not set configuration"]
        switch.vsctl(*option.split())
        lab.wait_until(lambda: (switch.vsctl("set", "bridge", "br0", "other_config:round=0"), switch.ofport("tun0") > 0
                                and not switch.error("tun0"))[1], f"the tunnel after {option}")
        added = sum("added interface tun0" in line for line in switch.log())
        for number in range(5):
            switch.vsctl("set", "bridge", "br0", f"other_config:round={number}")
        assert sum("added interface tun0" in line for line in switch.log()) == added


@pytest.mark.skipif(switches.DATAPATH != "xdp", reason="stock Open vSwitch's userspace datapath does not say")
def test_endpoint_on_a_device_that_is_a_port(world, switch, host):
    """It gets nothing, as in stock, and that is said."""
    far = world.enter_context(lab.Namespace("far"))
    lab.make_veth("to-far", far)
    lab.add_addresses(far, "eth0", "172.16.0.2/24")
    switch.add_bridge("br0")
    switch.add_bridge("br-phy")
    switch.expected += ["to-far"]       # Its address is of no use, the log says.
    lab.add_addresses(host, "to-far", "172.16.0.1/24")
    switch.add_port("to-far", bridge="br-phy")
    switch.add_port("tun0", interface=("type=vxlan", "options:remote_ip=172.16.0.2", "options:key=42"))
    lab.wait_until(lambda: "tun0 leaves by a device that is a port, whose own address gets nothing" in switch.appctl("xdp/why"),
                   "what is wrong")
    lab.run("ip", "link", "set", "br-phy", "up")
    lab.run("ip", "address", "flush", "dev", "to-far")
    lab.add_addresses(host, "br-phy", "172.16.0.1/24")
    lab.wait_until(lambda: "tun0 leaves by a port of the switch" in switch.appctl("xdp/why"), "the address of the bridge")


@pytest.mark.skipif(switches.DATAPATH != "xdp", reason="stock Open vSwitch's userspace datapath has no tunnels by the host's routes")
def test_generic_protocol_extension_by_the_host(world, switch, host):
    """The kernel's device has none with Ethernet: that is said."""
    far = world.enter_context(lab.Namespace("far"))
    lab.make_veth("to-far", far)
    lab.add_addresses(host, "to-far", "172.16.0.1/24")
    switch.add_bridge("br0")
    switch.add_port("tun0", interface=("type=vxlan", "options:remote_ip=172.16.0.2", "options:key=42", "options:exts=gpe"))
    said = "tun0 leaves by the routes of the host, .* has plain VXLAN there: options:exts=gpe needs an endpoint on a port of the switch"
    lab.wait_until(lambda: re.search(said, switch.appctl("xdp/why")), "the sentence")
    switch.vsctl("remove", "interface", "tun0", "options", "exts")
    lab.wait_until(lambda: "plain VXLAN" not in switch.appctl("xdp/why"), "the end of the sentence")
