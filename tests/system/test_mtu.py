# SPDX-License-Identifier: Apache-2.0
"""The MTU of a port's device: whatever it is, and however it changes, the port goes on and keeps its number."""
import pytest

import jumbo
import lab
import switch as switches
import traffic
import xdp


TOO_LARGE = jumbo.LIMIT + 300
pytestmark = pytest.mark.usefixtures("nothing_vanishes")


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock ports have no limit")


def set_mtu(network, name, mtu, container_first=False):
    ends = (network.host, f"to-{name}"), (getattr(network, name), "eth0")
    for end, device in reversed(ends) if container_first else ends:
        end.run("ip", "link", "set", device, "mtu", mtu)


def status(network, device, key):
    return network.switch.status(device).get(key, "")


@pytest.mark.parametrize("hook", ("auto", "xdp", "tcx", "both"))
def test_larger_and_back(network, hook):
    """XDP takes frames up to a limit; tcx takes all.  Frames of the old size arrive meanwhile, both ways, larger ones
    afterwards."""
    switch = network.switch
    switch.expected += ["larger than XDP takes"]
    for name in "red", "green":
        switch.vsctl("set", "interface", f"to-{name}", f"options:xdp-hook={hook}")
    at_first = "tcx" if hook == "auto" else hook
    lab.wait_until(lambda: status(network, "to-green", "xdp-hook") == at_first, "the hook asked for")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    numbers = [switch.ofport(f"to-{name}") for name in ("red", "green")]

    traffic.introduce(network.red, network.green, "10.0.0.2")
    traffic.introduce(network.green, network.red, "10.0.0.1")
    with traffic.Numbered(network.red, network.green, "10.0.0.2", 5000) as there, \
            traffic.Numbered(network.green, network.red, "10.0.0.1", 5000, port=5005) as back:
        for name in "green", "red":
            lab.run("ip", "link", "set", f"to-{name}", "mtu", TOO_LARGE)
            lab.wait_until(lambda: status(network, f"to-{name}", "xdp-hook") == "tcx", "tcx")
            getattr(network, name).run("ip", "link", "set", "eth0", "mtu", TOO_LARGE)
        warning = status(network, "to-green", "xdp-warning")
        assert (f"MTU {TOO_LARGE} is larger than XDP takes, which is {jumbo.LIMIT}: tcx serves the port" in warning) \
            == (hook in ("xdp", "both"))
        assert not switch.error("to-green")
        lab.wait_until(lambda: traffic.ping(network.red, "10.0.0.2", size=8900, options=("-M", "do")) == 3,
                       "large packets")
        traffic.tcp(network.red, network.green, "10.0.0.2")

        for name in "red", "green":
            set_mtu(network, name, 1500, container_first=name == "red")
            lab.wait_until(lambda: status(network, f"to-{name}", "xdp-hook") == at_first, "the old hook")
        assert not status(network, "to-green", "xdp-warning")
        for stream in there, back:
            sent, lost, gaps, _ = stream.end()
            assert lost == 0, f"{lost} of {sent} lost: {gaps}"
    assert [switch.ofport(f"to-{name}") for name in ("red", "green")] == numbers
    assert not [line for line in switch.log() if "opening again" in line or "deleted interface to-" in line]


def test_large_from_the_beginning(network):
    """A device that has a large MTU when it becomes a port, and asks for XDP."""
    network.switch.expected += ["larger than XDP takes"]
    large = network.plug("jumbo", mtu=TOO_LARGE)
    lab.add_addresses(large, "eth0", "10.0.0.9/24")
    network.switch.add_port("to-jumbo", interface=["options:xdp-hook=xdp", "options:xdp-mode=native"])
    assert status(network, "to-jumbo", "xdp-hook") == "tcx" and xdp.attached("to-jumbo") is None
    traffic.wait_for_ping(network.red, "10.0.0.9")
    set_mtu_of_both(large, "to-jumbo", 1500)
    lab.wait_until(lambda: status(network, "to-jumbo", "xdp-hook") == "xdp", "XDP")
    traffic.wait_for_ping(network.red, "10.0.0.9")


def set_mtu_of_both(namespace, device, mtu):
    lab.run("ip", "link", "set", device, "mtu", mtu)
    namespace.run("ip", "link", "set", "eth0", "mtu", mtu)


def test_large_at_the_other_end(network):
    """The kernel attaches no XDP program to a veth whose peer has a large MTU."""
    network.switch.expected += ["larger than XDP takes"]
    extra = network.plug("extra")
    lab.add_addresses(extra, "eth0", "10.0.0.9/24")
    extra.run("ip", "link", "set", "eth0", "mtu", TOO_LARGE)
    network.switch.add_port("to-extra", interface=["options:xdp-hook=xdp"])
    assert status(network, "to-extra", "xdp-hook") == "tcx"
    assert f"MTU {TOO_LARGE}" in status(network, "to-extra", "xdp-warning")
    traffic.wait_for_ping(network.red, "10.0.0.9")
    extra.run("ip", "link", "set", "eth0", "mtu", "1500")
    lab.wait_until(lambda: status(network, "to-extra", "xdp-hook") == "xdp", "XDP")
    traffic.wait_for_ping(network.red, "10.0.0.9")


def test_mtu_request(network):
    """Interface:mtu_request is the same as "ip link"."""
    network.switch.vsctl("set", "interface", "to-green", "mtu_request=9000")
    lab.wait_until(lambda: network.switch.get("interface", "to-green", "mtu") == 9000, "the MTU asked for")
    assert traffic.ping(network.red, "10.0.0.2") == 3


def test_mtu_request_that_the_device_refuses(network):
    """A veth takes up to 65,535."""
    switch = network.switch
    switch.expected += ["mtu_request=70000", "failed to set MTU"]
    switch.vsctl("set", "interface", "to-green", "mtu_request=70000")
    said = lab.wait_until(lambda: status(network, "to-green", "xdp-warning"), "a warning")
    assert said == "mtu_request=70000: the device refuses it (Invalid argument), its MTU stays as it is"
    assert f"    warning: {said}\n" in switch.appctl("xdp/show", "to-green") and switch.get("interface", "to-green", "mtu") == 1500
    assert traffic.ping(network.red, "10.0.0.2") == 3
    switch.vsctl("clear", "interface", "to-green", "mtu_request")
    lab.wait_until(lambda: not status(network, "to-green", "xdp-warning"), "no more warning")


@pytest.mark.parametrize("tagged", (False, True), ids=("", "tag"))
@pytest.mark.parametrize("address", ("10.0.0.2", "fc00::2"), ids=("ip4", "ip6"))
def test_segments_that_do_not_fit(network, address, tagged):
    """Of a packet with GSO, the segments count; a tag does not count.  By two bytes: on some kernels segments have an even length."""
    switch, limited = network.switch, ["to-green"]
    if tagged:                          # red -- br0 -- there ... back -- br1 -- green, with a tag between there and back.
        limited = ["there", "back"]
        lab.make_veth("there", network.host, inside="back")
        switch.vsctl("del-port", "to-green")
        switch.add_bridge("br1")
        switch.add_port("there")
        switch.add_port("back", bridge="br1")
        switch.add_port("to-green", "tag=9", bridge="br1")
        switch.vsctl("set", "port", "to-red", "tag=9")
    traffic.wait_for_ping(network.red, address)
    for device in limited:
        lab.run("ip", "link", "set", device, "mtu", 1400)
    lab.wait_until(lambda: traffic.ping(network.red, "10.0.0.2", count=1, limit=1, size=1400) == 0, "the new MTU")
    network.red.run("ip", "link", "set", "eth0", "mtu", 1402)
    with traffic.Burst(network.red, network.green, address) as burst:
        before = switch.over_mtu()
        lab.wait_until(lambda: switch.over_mtu() > before + 2, "packets that are dropped")
        assert burst.got() == 0
        network.red.run("ip", "link", "set", "eth0", "mtu", 1400)
        lab.wait_until(burst.whole, "what was sent")
    before = switch.over_mtu()
    traffic.tcp(network.red, network.green, address)
    assert switch.over_mtu() == before
