# SPDX-License-Identifier: Apache-2.0
"""Programs and filters that a user has on a port's device, before it is a port or added later: they go on, or are
refused with a sentence that says why; they are never replaced, and stay when the port is removed.

    red eth0 ===== to-red [ foreign ][ the switch ]
"""
import os
import re

import pytest

import foreign
import lab
import switch as switches
import traffic
import xdp

OUR_PRIORITY, OUR_HANDLE = 0xc0de, 1
HOOKS = ("tcx", "xdp", "both")


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has hooks")


def add(network, hook, device="to-extra", number=9):
    network.switch.add_port(device, interface=(f"options:xdp-hook={hook}",))
    lab.wait_until(lambda: network.switch.status(device).get("xdp-hook") == hook, f"{device} on {hook}")
    traffic.wait_for_ping(network.red, f"10.0.0.{number}")


@pytest.fixture
def extra(network):
    """The container behind to-extra, which is no port yet."""
    container = network.plug("extra")
    lab.add_addresses(container, "eth0", "10.0.0.9/24")
    network.switch.expected += ["to-extra"]
    return container


def filters(device, where):
    return lab.run("tc", "filter", "show", "dev", device, where)


def put_filters(device, kernel_has_tcx):
    """What a user may have: also with the number that ours has where there is no tcx."""
    path = foreign.pinned("tc", foreign.TCX_NEXT, f"filter-{device}")
    lab.run("tc", "qdisc", "add", "dev", device, "clsact", check=False)     # Ours may be there, without tcx.
    for where in "ingress", "egress":
        lab.run("tc", "filter", "add", "dev", device, where, "pref", 10, "protocol", "all", "handle", 7,
                "bpf", "da", "object-pinned", path)
    if kernel_has_tcx:
        lab.run("tc", "filter", "add", "dev", device, "ingress", "pref", OUR_PRIORITY, "protocol", "all", "handle",
                OUR_HANDLE, "bpf", "da", "object-pinned", path)
    os.unlink(path)


def warnings(network):
    """What the log says of filters that see nothing any more."""
    return [line for line in network.switch.log() if "has ingress filters of tc" in line]


def warned_of(line):
    kind, priority = re.search(r"the first of kind (\w+) with priority (\d+)", line).groups()
    return kind, int(priority)


def others(text):
    """Lines of tc that are not about our filter."""
    return [re.sub(r"\s+", " ", line) for line in text.splitlines() if "oxdp_tcx" not in line
            and not re.fullmatch(rf"filter protocol all pref {OUR_PRIORITY} bpf chain 0\s*", line)]


@pytest.mark.parametrize("when", ("before", "later"))
@pytest.mark.parametrize("hook", HOOKS)
def test_filters_of_tc_stay(network, extra, hook, when):
    tcx = foreign.has_tcx()
    if when == "later":
        add(network, hook)
    put_filters("to-extra", tcx)
    before = {where: others(filters("to-extra", where)) for where in ("ingress", "egress")}
    if when == "before":
        add(network, hook)
        # The filter with our number stands behind it; without tcx, the other one before.
        first = 10 if tcx or hook != "tcx" else None
        assert [warned_of(line) for line in warnings(network)] == ([("bpf", first)] if first else [])
    traffic.wait_for_ping(network.red, "10.0.0.9")
    traffic.tcp(network.red, extra, "10.0.0.9", size=1 << 18)
    assert {where: others(filters("to-extra", where)) for where in before} == before
    network.switch.vsctl("del-port", "to-extra")
    assert {where: others(filters("to-extra", where)) for where in before} == before


@pytest.mark.parametrize("hook", HOOKS)
def test_filter_behind_the_switch(network, extra, hook):
    """It sees nothing any more, and the log says so: once, whatever else changes on the port, until it is added anew."""
    path = foreign.pinned("tc", foreign.TCX_DROP, "wall")
    lab.run("tc", "qdisc", "add", "dev", "to-extra", "clsact")
    lab.run("tc", "filter", "add", "dev", "to-extra", "ingress", "pref", OUR_PRIORITY + 1, "protocol", "ip",
            "bpf", "da", "object-pinned", path)
    add(network, hook)
    assert [warned_of(line) for line in warnings(network)] == [("bpf", OUR_PRIORITY + 1)]
    other = "xdp" if hook != "xdp" else "tcx"
    network.switch.vsctl("set", "interface", "to-extra", f"options:xdp-hook={other}")
    lab.wait_until(lambda: network.switch.status("to-extra").get("xdp-hook") == other, f"to-extra on {other}")
    traffic.wait_for_ping(extra, "10.0.0.1")
    assert len(warnings(network)) == 1
    network.switch.vsctl("del-port", "to-extra")
    add(network, hook)
    assert len(warnings(network)) == 2
    network.switch.vsctl("del-port", "to-extra")
    lab.run("tc", "filter", "del", "dev", "to-extra", "ingress")
    add(network, hook)
    assert len(warnings(network)) == 2


def test_filter_with_our_number(network, extra):
    """Without tcx XDP serves the port; with it, both have their places."""
    path = foreign.pinned("tc", foreign.TCX_NEXT, "same-number")
    lab.run("tc", "qdisc", "add", "dev", "to-extra", "clsact")
    lab.run("tc", "filter", "add", "dev", "to-extra", "ingress", "pref", OUR_PRIORITY, "protocol", "all", "handle",
            OUR_HANDLE, "bpf", "da", "object-pinned", path)
    before = filters("to-extra", "ingress")
    if foreign.has_tcx():
        add(network, "tcx")
    else:
        error = network.switch.used_instead("to-extra", "options:xdp-hook=tcx")
        assert f"to-extra has a foreign tc filter at ingress with priority {OUR_PRIORITY}" in error
    assert filters("to-extra", "ingress") == before
    network.switch.vsctl("del-port", "to-extra")
    assert filters("to-extra", "ingress") == before
    lab.run("tc", "filter", "del", "dev", "to-extra", "ingress", "pref", OUR_PRIORITY)
    add(network, "tcx")


def test_filter_at_egress_sees_what_the_switch_sends(network, extra):
    """A user's firewall in front of a container goes on."""
    add(network, "tcx")
    lab.run("tc", "qdisc", "add", "dev", "to-extra", "clsact", check=False)      # It may be there already.
    path = foreign.pinned("tc", foreign.TCX_DROP, "wall")
    lab.run("tc", "filter", "add", "dev", "to-extra", "egress", "bpf", "da", "object-pinned", path)
    with traffic.Stream(network.red, extra, "10.0.0.9") as stream:
        stream.silent()
        lab.run("tc", "filter", "del", "dev", "to-extra", "egress")
        stream.flowing()


@pytest.mark.parametrize("hook", ("tcx", "both"))
def test_link_before_ours(network, extra, hook):
    """It sees packets first and decides; 'status' says that it is there."""
    with foreign.Link("to-extra", foreign.TCX_NEXT):
        add(network, hook)
        assert xdp.at_tcx("to-extra") == [None, "oxdp_tcx"]
        lab.wait_until(lambda: "foreign programs" in network.switch.status("to-extra").get("xdp-warning", ""),
                       "a warning")
        network.switch.vsctl("del-port", "to-extra")
        assert xdp.at_tcx("to-extra") == [None]
    with foreign.Link("to-extra", foreign.TCX_DROP):
        network.switch.add_port("to-extra", interface=(f"options:xdp-hook={hook}",))
        if hook == "tcx":
            assert not traffic.ping(extra, "10.0.0.1", count=1, limit=1)
    traffic.wait_for_ping(extra, "10.0.0.1")
    lab.wait_until(lambda: "xdp-warning" not in network.switch.status("to-extra"), "no more warning")


@pytest.mark.parametrize("hook", ("tcx", "both"))
def test_link_behind_ours(network, extra, hook):
    """What the switch takes, it does not see."""
    add(network, hook)
    with foreign.Link("to-extra", foreign.TCX_DROP):
        assert xdp.at_tcx("to-extra") == ["oxdp_tcx", None]
        traffic.wait_for_ping(extra, "10.0.0.1")
        lab.run("ip", "link", "set", "to-extra", "mtu", 1400)
        lab.wait_until(lambda: network.switch.get("interface", "to-extra", "mtu") == 1400, "a new status")
        assert "xdp-warning" not in network.switch.status("to-extra")
        network.switch.vsctl("del-port", "to-extra")
        assert xdp.at_tcx("to-extra") == [None]


def test_link_at_egress(network, extra):
    add(network, "tcx")
    with traffic.Stream(network.red, extra, "10.0.0.9") as stream:
        with foreign.Link("to-extra", foreign.TCX_DROP, foreign.TCX_EGRESS):
            stream.silent()
        stream.flowing()


@pytest.mark.parametrize("hook", HOOKS)
def test_xdp_program_before(network, extra, hook):
    """tcx works behind it, also if XDP was asked for, which needs its place."""
    lab.run("ip", "link", "set", "dev", "to-extra", "xdp", "pinned", foreign.pinned("xdp", foreign.XDP_PASS, "theirs"))
    theirs = xdp.attached("to-extra")
    if hook == "tcx":
        add(network, hook)
        traffic.tcp(network.red, extra, "10.0.0.9", size=1 << 18)
    else:
        error = network.switch.used_instead("to-extra", f"options:xdp-hook={hook}")
        assert "to-extra is in use by XDP program" in error and error.endswith("; tcx is used")
        traffic.wait_for_ping(extra, "10.0.0.1")
    assert xdp.attached("to-extra") == theirs
    network.switch.vsctl("del-port", "to-extra")
    assert xdp.attached("to-extra") == theirs


@pytest.mark.parametrize("hook", HOOKS)
def test_xdp_program_later(network, extra, hook):
    """Where ours is, the kernel refuses theirs."""
    add(network, hook)
    ours = xdp.attached("to-extra")
    path = foreign.pinned("xdp", foreign.XDP_PASS, "theirs")
    said = lab.run("ip", "-force", "link", "set", "dev", "to-extra", "xdp", "pinned", path, check=False)
    if hook == "tcx":
        theirs = xdp.attached("to-extra")
        assert theirs
        traffic.wait_for_ping(extra, "10.0.0.1")
        network.switch.vsctl("del-port", "to-extra")
        assert xdp.attached("to-extra") == theirs
    else:
        assert said and xdp.attached("to-extra") == ours
        traffic.wait_for_ping(extra, "10.0.0.1")


@pytest.mark.parametrize("hook", HOOKS)
def test_programs_in_the_container(network, extra, hook):
    """On its end of the wire all is the container's: the switch changes nothing there, but offloads."""
    path = foreign.pinned("tc", foreign.TCX_NEXT, "inside")
    extra.run("tc", "qdisc", "add", "dev", "eth0", "clsact")
    for side in "ingress", "egress":
        # ip netns exec has a bpffs of its own.
        with extra.entered():
            lab.run("tc", "filter", "add", "dev", "eth0", side, "pref", OUR_PRIORITY, "protocol", "all", "handle",
                    OUR_HANDLE, "bpf", "da", "object-pinned", path)
    with extra.entered():
        lab.run("ip", "link", "set", "dev", "eth0", "xdp", "pinned", foreign.pinned("xdp", foreign.XDP_PASS, "theirs"))

    def state():
        with extra.entered():
            return lab.run("tc", "filter", "show", "dev", "eth0", "ingress"), \
                lab.run("tc", "filter", "show", "dev", "eth0", "egress"), xdp.attached("eth0")
    before = state()
    add(network, hook)
    traffic.tcp(network.red, extra, "10.0.0.9", size=1 << 18)
    assert state() == before
    network.switch.vsctl("del-port", "to-extra")
    assert state() == before
