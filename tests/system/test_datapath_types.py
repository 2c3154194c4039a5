# SPDX-License-Identifier: Apache-2.0
"""Bridges of Open vSwitch's own types, served by this datapath: other_config:xdp-datapath-types."""
import contextlib
import os
import re
import subprocess

import pytest

import lab
import switch as switches
import traffic
import xdp

SETTING = "other_config:xdp-datapath-types"


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("this is a setting of type xdp")


@pytest.fixture
def containers(world):
    """Two containers whose veths nobody has plugged in."""
    pair = []
    for n, name in enumerate(("red", "green"), 1):
        container = world.enter_context(lab.Namespace(name))
        lab.make_veth(f"to-{name}", container)
        lab.add_addresses(container, "eth0", f"10.0.0.{n}/24")
        pair.append(container)
    return pair


def add_bridge(switch, datapath_type, *more):
    """One transaction, as orchestrators make them."""
    switch.vsctl(*more, "add-br", "br0", "--", "set", "bridge", "br0", f"datapath_type={datapath_type}",
                 "--", "add-port", "br0", "to-red", "--", "add-port", "br0", "to-green")


def server(switch, bridge="br0"):
    """The type of the datapath that 'bridge' is in, None if nobody serves it."""
    kind = None
    for line in switch.appctl("dpif/show").splitlines():
        if line and not line.startswith(" "):
            kind = line.split("@")[0]
        elif line.strip().startswith(f"{bridge}:"):
            return kind
    return None


@pytest.mark.parametrize("datapath_type", ['""', "system", "netdev"])
def test_own_type_is_served(switch, containers, datapath_type):
    """Its row says what was configured, the column datapath_types that it works, and packets pass."""
    switch.vsctl("set", "open", ".", f'{SETTING}="netdev,system"')
    add_bridge(switch, datapath_type)
    traffic.wait_for_ping(containers[0], "10.0.0.2")
    assert server(switch) == "xdp" and switch.get("bridge", "br0", "datapath_type") == datapath_type.strip('"')
    assert switch.status("to-red")["xdp-hook"] == "tcx"
    assert {"netdev", "system", "xdp"} <= set(switch.get("open", ".", "datapath_types"))
    traffic.tcp(*containers, "10.0.0.2")


def test_types_that_are_not_named_are_not_served(switch, containers):
    switch.vsctl("set", "open", ".", f"{SETTING}=system")
    add_bridge(switch, "netdev")
    assert server(switch) == "netdev"
    traffic.wait_for_ping(containers[0], "10.0.0.2")


def test_over_and_back(switch, containers):
    """The setting moves bridges at once, and none is lost: their rows are as they were."""
    add_bridge(switch, "netdev")
    before = switch.get("bridge", "br0", "_uuid"), switch.ofport("to-red")
    for change, kind in (("set", "xdp"), ("remove", "netdev"), ("set", "xdp")):
        switch.vsctl(change, "open", ".", *([f"{SETTING}=netdev"] if change == "set" else SETTING.split(":")))
        assert server(switch) == kind
        traffic.wait_for_ping(containers[0], "10.0.0.2")
        assert (switch.get("bridge", "br0", "_uuid"), switch.ofport("to-red")) == before


def test_back_to_the_stock_daemon(switch, containers):
    """It serves the same database without a change, and ours does so again."""
    switch.vsctl("set", "open", ".", f"{SETTING}=netdev")
    add_bridge(switch, "netdev")
    traffic.wait_for_ping(containers[0], "10.0.0.2")
    ours, stock = switch.daemon, switches.tool("ovs-vswitchd")
    for daemon, kind in ((stock, "netdev"), (ours, "xdp")):
        switch.stop(cleanup=True)
        switch.daemon = daemon
        switch.start()
        assert server(switch) == kind
        traffic.wait_for_ping(containers[0], "10.0.0.2")


def add_rows(switch, *kinds):
    for kind in kinds:
        switch.vsctl("--", "--id=@d", "create", "Datapath", "datapath_version=0", "--", "set", "open", ".", f"datapaths:{kind}=@d")


def test_rows_of_the_table_datapath(switch, containers):
    """A row with the name of a type that is served has what this datapath can; timeouts set there take effect."""
    switch.vsctl("set", "open", ".", f"{SETTING}=netdev")
    add_bridge(switch, "netdev")
    add_rows(switch, "netdev")
    switch.vsctl("add-zone-tp", "netdev", "zone=5", "icmp_first=70", "icmp_reply=70")
    policy, = switch.vsctl("--bare", "--columns=_uuid", "list", "CT_Timeout_Policy").split()
    # Since 3.3 Open vSwitch takes no notice of timeouts that come with a new zone.
    switch.vsctl("set", "CT_Timeout_Policy", policy, "timeouts:icmp_first=77", "timeouts:icmp_reply=77")
    row = switch.get("open", ".", "datapaths")["netdev"][1]
    assert switch.get("datapath", row, "capabilities")["ct_timeout"] == "true"
    switch.flows("br0", "table=0,arp,actions=normal", "table=0,icmp,actions=ct(commit,zone=5),normal")
    traffic.wait_for_ping(containers[0], "10.0.0.2")
    timeouts = [int(entry.split("timeout=")[1].split(",")[0].split(")")[0])
                for entry in switch.appctl("dpctl/dump-conntrack", "-s", "zone=5").splitlines() if "timeout=" in entry]
    assert timeouts and all(30 < seconds <= 77 for seconds in timeouts), timeouts


@pytest.fixture
def limits(switch):
    """A function that tells the limits of the datapath, by zone, as commands see them."""
    if "set-zone-limit" not in switch.vsctl("--help"):
        pytest.skip("limits of zones are in the database since Open vSwitch 3.3: build with -Dovs_source")
    return lambda: {zone: int(limit) for zone, limit in re.findall(r"^(?:zone=)?(default|\d+)[ :,]*limit=(\d+)",
                                                                    switch.appctl("dpctl/ct-get-limits"), re.MULTILINE)}


@pytest.mark.parametrize("kind", ("xdp", "netdev", "system"))
def test_limits_in_the_database(switch, containers, limits, kind):
    """They take effect in this datapath, refuse connections, and commands may not change them meanwhile.  They are there again
    after a restart."""
    switch.expected.append("zone limits are set via database")
    if kind != "xdp":
        switch.vsctl("set", "open", ".", f"{SETTING}={kind}")
    add_bridge(switch, kind)
    add_rows(switch, kind)
    before = limits()
    switch.vsctl("set-zone-limit", kind, "5", "2", "--", "set-zone-limit", kind, "default", "900")
    lab.wait_until(lambda: limits().get("5") == 2, "the limit of the zone")
    assert limits()["default"] == 900
    switch.flows("br0", "table=0,arp,actions=normal", "table=0,icmp,actions=ct(commit,zone=5),normal")
    for _ in range(4):                          # Each has another identifier, and is a connection.
        traffic.ping(containers[0], "10.0.0.2")
    assert len(switch.appctl("dpctl/dump-conntrack", "zone=5").splitlines()) == 2
    for change in ("ct-set-limits", "zone=6,limit=1"), ("ct-del-limits", "zone=5"):
        assert "the zone limits are set via database" in switch.appctl(f"dpctl/{change[0]}", change[1], check=False)
    switch.stop()
    switch.start()
    lab.wait_until(lambda: limits().get("5") == 2, "the limit of the zone after a restart")
    switch.vsctl("del-zone-limit", kind, "5", "--", "del-zone-limit", kind, "default")
    lab.wait_until(lambda: limits() == before, "no limits")
    switch.appctl("dpctl/ct-set-limits", "zone=6,limit=1")
    assert limits()["6"] == 1


def test_limits_of_several_rows(switch, containers, limits):
    """Each row is of this datapath.  Commands may not change limits while one of them has some, whichever."""
    switch.vsctl("set", "open", ".", f"{SETTING}=netdev,system")
    add_bridge(switch, "netdev")
    kinds = ("netdev", "system", "xdp")
    add_rows(switch, *kinds)
    for zone, kind in enumerate(kinds, 1):
        switch.vsctl("set-zone-limit", kind, str(zone), "7")
        lab.wait_until(lambda zone=zone: limits().get(str(zone)) == 7, "the limit")
        assert "set via database" in switch.appctl("dpctl/ct-set-limits", "zone=9,limit=1", check=False)
        switch.vsctl("del-zone-limit", kind, str(zone))
        lab.wait_until(lambda zone=zone: str(zone) not in limits(), "no limit")
        switch.appctl("dpctl/ct-set-limits", "zone=9,limit=1")


@pytest.mark.parametrize("transactions", ("one", "several"))
def test_deleted_and_added_within_a_second(switch, containers, transactions):
    """As orchestrators do that start anew: in one transaction, or in several that do not wait for the daemon."""
    switch.vsctl("set", "open", ".", f"{SETTING}=netdev,system")
    switch.expected.append("Address family not supported")
    for n in range(10):
        kind = ("netdev", "system")[n % 2]
        if transactions == "one":
            add_bridge(switch, kind, "--if-exists", "del-br", "br0", "--")
        else:
            switch.vsctl("--no-wait", "--if-exists", "del-br", "br0")
            switch.vsctl("--no-wait", "add-br", "br0", "--", "set", "bridge", "br0", f"datapath_type={kind}")
            for device in "to-red", "to-green":
                switch.vsctl("--no-wait", "add-port", "br0", device)
    traffic.wait_for_ping(containers[0], "10.0.0.2")
    assert server(switch) == "xdp" and switch.get("bridge", "br0", "datapath_type") == "system"
    for device in "to-red", "to-green":
        assert len(xdp.at_ingress(device)) == 1 and not switch.error(device)
    assert switch.appctl("dpif/show").count("to-red ") == 1


@pytest.fixture
def beside_the_module(switch):
    """The switch, with a daemon that may use the kernel's datapath, which is there."""
    subprocess.run(["modprobe", "openvswitch"], stderr=subprocess.DEVNULL, check=False)
    if not os.path.exists("/sys/module/openvswitch"):
        pytest.skip("this kernel has no openvswitch.ko")
    switch.stop(cleanup=True)
    switch.options = ()
    switch.start()
    return switch


def in_the_module():
    """What the kernel's datapath has."""
    return lab.run(switches.tool("ovs-dpctl"), "show")


def test_beside_the_kernel_module(beside_the_module, containers):
    """The setting takes bridges of type system from openvswitch.ko, and gives them back."""
    switch = beside_the_module
    add_bridge(switch, "system")
    for change, kind in (None, "system"), ("set", "xdp"), ("remove", "system"), ("set", "xdp"):
        if change:
            switch.vsctl(change, "open", ".", *([f"{SETTING}=system"] if change == "set" else SETTING.split(":")))
        traffic.wait_for_ping(containers[0], "10.0.0.2")
        assert server(switch) == kind
        assert ("to-red" in in_the_module()) == (kind == "system")
        traffic.tcp(*containers, "10.0.0.2", size=1 << 20)
    assert switch.status("to-red")["xdp-hook"] == "tcx"


def test_left_in_the_kernel_module(beside_the_module, containers):
    """A datapath of the kernel's that another daemon left keeps none of its devices from ours, when it has been deleted."""
    switch = beside_the_module
    add_bridge(switch, "system")
    traffic.wait_for_ping(containers[0], "10.0.0.2")
    switch.crash()
    switch.vsctl("--no-wait", "set", "open", ".", f"{SETTING}=system")
    assert "to-red" in in_the_module()
    lab.run(switches.tool("ovs-dpctl"), "del-dp", "ovs-system")
    switch.start()
    traffic.wait_for_ping(containers[0], "10.0.0.2")
    assert server(switch) == "xdp" and not switch.error("to-red") and "to-red" not in in_the_module()


def test_wrong_names(switch, containers):
    """They are said once, with what is allowed; the others count."""
    switch.expected.append(SETTING)
    switch.vsctl("set", "open", ".", f'{SETTING}="netdev dpdk"')
    add_bridge(switch, "netdev")
    switch.vsctl("set", "open", ".", "external_ids:again=1")
    said = [line for line in switch.log() if SETTING in line]
    assert len(said) == 1 and said[0].endswith(f"{SETTING}=netdev dpdk: allowed are netdev, system, or both; dpdk is not used")
    assert server(switch) == "xdp"


@contextlib.contextmanager
def second_daemon(switch):
    """Another one for the same database, which waits for the end of the first."""
    log = switch.rundir / "second.log"
    with lab.Process(switch.daemon, f"unix:{switch.rundir}/db.sock", f"--unixctl={switch.rundir}/second.ctl",
                     f"--log-file={log}", "-vconsole:off", "--disable-system", "--pidfile=second.pid", env=switch.env) as second:
        lab.wait_until(lambda: log.exists() and "another ovs-vswitchd process is running" in log.read_text(), "its refusal")
        yield second, log


def test_second_daemon_of_a_database_waits(switch, containers):
    """The first goes on, whatever the type of its bridges."""
    switch.vsctl("set", "open", ".", f"{SETTING}=netdev")
    add_bridge(switch, "netdev")
    with second_daemon(switch):
        traffic.wait_for_ping(containers[0], "10.0.0.2")
    assert server(switch) == "xdp"
    traffic.wait_for_ping(containers[0], "10.0.0.2")


def test_second_daemon_of_a_database_takes_over(switch, containers):
    """When the first is killed, the one that waits serves, and takes over what that one had, without an operator."""
    add_bridge(switch, "xdp")
    traffic.wait_for_ping(containers[0], "10.0.0.2")
    with second_daemon(switch) as (second, log), traffic.Stream(*containers, "10.0.0.2") as stream:
        stream.flowing()
        first, switch.process = switch.process, second
        first.kill()
        lab.wait_until(lambda: re.search(r"took over [1-9]\d* device", log.read_text()), "the take-over")
        stream.flowing()
        assert "programs go on, pinned in" in switch.appctl("xdp/show", target="second.ctl")
        switch.appctl("exit", "--cleanup", target="second.ctl")
        assert second.wait() == 0
    (switch.rundir / "ovs-vswitchd.ctl").unlink()
    switch.start()
