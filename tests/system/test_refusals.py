# SPDX-License-Identifier: Apache-2.0
"""A port that cannot be served as it should: the Interface's "error" column says why and what to do, in a sentence, and
what serves it instead."""
import os

import pytest

import lab
import switch as switches
import traffic
import xdp

HOOK = "xdp"


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("only ours says it like this")


def attach_foreign(device):
    path = f"/sys/fs/bpf/foreign-{device}"
    xdp.pin_foreign_program(path)
    lab.run("ip", "link", "set", "dev", device, "xdp", "pinned", path)
    os.unlink(path)


def test_foreign_program(network):
    """tcx serves the port behind it, until it goes."""
    switch = network.switch
    switch.expected += ["to-extra"]
    extra = network.plug("extra")
    lab.add_addresses(extra, "eth0", "10.0.0.9/24")
    attach_foreign("to-extra")
    owner = xdp.attached("to-extra")
    error = switch.used_instead("to-extra", "options:xdp-hook=xdp")
    assert "to-extra is in use by XDP program" in error and 'ip link set dev to-extra xdp off' in error
    assert error.endswith("; tcx is used") and switch.status("to-extra")["xdp-hook"] == "tcx"
    assert "runs before the switch" in lab.wait_until(lambda: switch.status("to-extra").get("xdp-warning"), "a warning")
    traffic.wait_for_ping(network.red, "10.0.0.9")
    assert xdp.attached("to-extra") == owner
    number = switch.ofport("to-extra")
    with traffic.Stream(network.red, extra, "10.0.0.9") as stream:
        stream.flowing()
        lab.run("ip", "link", "set", "dev", "to-extra", "xdp", "off")
        lab.wait_until(lambda: switch.status("to-extra")["xdp-hook"] == "xdp", "XDP")
        lab.wait_until(lambda: not switch.error("to-extra"), "no more error")
        stream.flowing()
    assert switch.ofport("to-extra") == number and "xdp-warning" not in switch.status("to-extra")


def test_no_native_xdp(network):
    """A Linux bridge has no native XDP."""
    network.switch.expected += ["linuxbr"]
    lab.run("ip", "link", "add", "linuxbr", "type", "bridge")
    lab.run("ip", "link", "set", "linuxbr", "up")
    error = network.switch.used_instead("linuxbr", "options:xdp-mode=native")
    assert "driver 'bridge' of linuxbr has no native XDP" in error
    assert "set options:xdp-mode to best-effort or generic" in error
    assert error.endswith("XDP in mode generic is used")
    assert network.switch.status("linuxbr")["xdp-mode"] == "generic"
    network.switch.vsctl("set", "interface", "linuxbr", "options:xdp-mode=best-effort", "options:xdp-hook=xdp")
    lab.wait_until(lambda: not network.switch.error("linuxbr"), "no more error")
    assert network.switch.status("linuxbr")["xdp-mode"] == "generic"
    assert "options:xdp-hook=tcx is faster" in network.switch.status("linuxbr")["xdp-warning"]
    network.switch.vsctl("set", "interface", "linuxbr", "options:xdp-hook=tcx")
    lab.wait_until(lambda: "xdp-warning" not in network.switch.status("linuxbr"), "no more warning")


def test_no_zero_copy(network):
    network.switch.expected += ["to-extra"]
    network.plug("extra")
    error = network.switch.used_instead("to-extra", "options:xdp-mode=native-with-zerocopy")
    assert "driver 'veth' of to-extra has no zero-copy AF_XDP" in error and "best-effort or native" in error
    assert error.endswith("XDP in mode native is used")
    network.switch.vsctl("set", "interface", "to-extra", "options:xdp-mode=native")
    lab.wait_until(lambda: not network.switch.error("to-extra"), "no more error")


def test_trouble_that_comes_later(network):
    """A device that comes back and cannot be used: 'status' says why, and the port works as soon as it can."""
    switch = network.switch
    switch.expected += ["to-green", "No such device"]
    mac = lab.mac_of(network.green)
    lab.run("ip", "link", "del", "to-green")
    lab.run("ip", "link", "add", "other", "type", "veth", "peer", "name", "eth0", "netns", "green")
    attach_foreign("other")
    lab.run("ip", "link", "set", "other", "name", "to-green", "up")
    network.green.run("ip", "link", "set", "eth0", "address", mac, "up")
    lab.add_addresses(network.green, "eth0", "10.0.0.2/24")

    def complaint():
        return (switch.status("to-green") or {}).get("xdp-error", "") + (switch.error("to-green") or "")
    lab.wait_until(lambda: "to-green is in use by XDP program" in complaint(), "a complaint")
    lab.run("ip", "link", "set", "dev", "to-green", "xdp", "off")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    lab.wait_until(lambda: not complaint(), "no more complaint")


def test_ingress_policing_is_refused_aloud(network):
    network.switch.expected += ["ingress_policing_rate"]
    network.switch.vsctl("set", "interface", "to-green", "ingress_policing_rate=1000")
    lab.wait_until(lambda: "ingress_policing_rate" in (network.switch.status("to-green") or {}).get("xdp-warning", ""),
                   "a warning")
    network.switch.vsctl("set", "interface", "to-green", "ingress_policing_rate=0")
    lab.wait_until(lambda: "xdp-warning" not in network.switch.status("to-green"), "no more warning")
    assert traffic.ping(network.red, "10.0.0.2") == 3
