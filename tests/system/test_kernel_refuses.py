# SPDX-License-Identifier: Apache-2.0
"""A kernel that refuses the daemon something for a while (refuse.c): a port is served by what is left, its "error" says why,
and as soon as the kernel permits it the port is as it should be, by itself, with the number that it had."""
import pathlib
import re
import time

import pytest

import lab
import switch as switches
import traffic

REFUSE = pathlib.Path("/run/refuse")
ADDRESSES = {"red": "10.0.0.1", "green": "10.0.0.2"}
MODE = {"tcx": "none", "xdp": "native", "none": "none"}


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch needs no BPF")


@pytest.fixture
def switch(world):
    """A switch with its host's port; plug() adds containers."""
    REFUSE.write_text("", encoding="ascii")
    preload = {"LD_PRELOAD": str(switches.BUILD / "tests/system/refuse.so"), "REFUSE": str(REFUSE)}
    with switches.Switch(env=preload) as a_switch:
        a_switch.expected += ["to-red", "to-green", "br0", "cannot start", "create raw socket"]
        a_switch.world = world
        yield a_switch


def refuse(what):
    REFUSE.write_text(what, encoding="ascii")


def plug(switch, hook):
    containers = []
    for name, address in ADDRESSES.items():
        container = switch.world.enter_context(lab.Namespace(name))
        lab.make_veth(f"to-{name}", container)
        lab.add_addresses(container, "eth0", f"{address}/24")
        switch.vsctl("add-port", "br0", f"to-{name}", "--", "set", "interface", f"to-{name}", f"options:xdp-hook={hook}")
        containers.append(container)
    return containers


def until_used(switch, hook):
    for device in "to-red", "to-green":
        lab.wait_until(lambda device=device: switch.in_use(device) == (hook, MODE[hook]), f"{device}: {hook}")


def check_return(switch, red, green, hook):
    """What was refused is permitted: the ports are as they should be, and forward."""
    numbers = [switch.ofport(device) for device in ("to-red", "to-green")]
    with traffic.Stream(red, green, "10.0.0.2") as stream:
        stream.flowing()
        refuse("")
        until_used(switch, hook)
        lab.wait_until(lambda: not switch.error("to-red") and not switch.error("to-green"), "no more error")
        stream.flowing()
        lab.wait_until(lambda: any(f"dp:{hook}" in flow and "in_port(to-red)" in flow for flow in switch.dump_flows("-m")),
                       f"flows at {hook}")
    assert [switch.ofport(device) for device in ("to-red", "to-green")] == numbers
    assert traffic.ping(red, "10.0.0.2") == 3


@pytest.mark.parametrize("hook", ("tcx", "xdp"))
def test_large_programs(switch, hook):
    """The verifier takes none with flow tables: AF_XDP takes all packets to the engine."""
    refuse("large")
    switch.add_bridge("br0")
    red, green = plug(switch, hook)
    until_used(switch, "xdp")
    for device in "to-red", "to-green":
        assert switch.error(device).endswith(switches.WITHOUT_FLOW_TABLES)
        assert "Argument list too long" in switch.error(device)
        assert switch.status(device)["xdp-error"] == switch.error(device)
    traffic.wait_for_ping(red, "10.0.0.2")
    assert traffic.ping(red, "10.0.0.2") == 3
    traffic.tcp(red, green, "10.0.0.2", size=1 << 20)
    assert "comes in by a program without flow tables" in switch.appctl("xdp/show")
    assert not any("dp:xdp" in flow or "dp:tcx" in flow for flow in switch.dump_flows("-m"))
    check_return(switch, red, green, hook)
    assert any("programs have flow tables now" in line for line in switch.log())


def test_no_xdp(switch):
    """The kernel attaches no XDP program: tcx is used."""
    switch.add_bridge("br0")
    lab.wait_until(lambda: switch.status("br0").get("xdp-hook") == "tcx", "br0 at tcx")
    refuse("create")
    red, green = plug(switch, "xdp")
    until_used(switch, "tcx")
    assert switch.error("to-red").endswith("; tcx is used")
    check_return(switch, red, green, "xdp")


@pytest.mark.parametrize("hook", ("tcx", "xdp"))
def test_privilege_that_returns(switch, hook):
    """BPF was forbidden, as by lockdown or a security module, and is permitted again."""
    refuse("load")
    switch.add_bridge("br0")
    red, green = plug(switch, hook)
    until_used(switch, "none")
    for device in "to-red", "to-green":
        assert "something else forbids it: a user namespace, lockdown" in switch.error(device)
        assert switch.error(device).endswith("the engine serves the port alone, through a packet socket")
    traffic.wait_for_ping(red, "10.0.0.2")
    check_return(switch, red, green, hook)


@pytest.mark.parametrize("what", ("tracks", "traces"))
def test_end_while_programs_load(switch, what):
    """Not even on a busy machine, where the verifier takes long, does the end of the daemon wait for programs that nobody
    needs any more: who waits for that end would kill it, and devices would stay."""
    switch.add_bridge("br0")
    red, _ = plug(switch, "tcx")
    until_used(switch, "tcx")
    traffic.wait_for_ping(red, "10.0.0.2")
    begun = pathlib.Path(f"{REFUSE}.slow")
    begun.unlink(missing_ok=True)
    refuse("slow")
    if what == "tracks":
        switch.flows("br0", "priority=2,arp,actions=normal", "priority=1,ip,actions=ct(commit),normal")
        traffic.wait_for_ping(red, "10.0.0.2")
    else:
        switch.appctl("xdp/trace-start", "port=to-red")
    lab.wait_until(begun.exists, "a thread that loads programs")
    since = time.monotonic()
    switch.stop(cleanup=True)
    assert time.monotonic() - since < 20        # Half of the time that one program takes.
    assert not re.search(r"ovs-xdp|br0", lab.run("ip", "-o", "link"))
    refuse("")
    switch.start()


NEEDS = {"cap_bpf": "CAP_BPF", "cap_perfmon": "CAP_PERFMON", "cap_net_raw": "CAP_NET_RAW"}


@pytest.mark.parametrize("hook", ("tcx", "xdp"))
@pytest.mark.parametrize("capability", NEEDS)
def test_capability_that_returns(switch, capability, hook):
    """The kernel itself refuses, and permits again.  Without CAP_NET_RAW nothing can serve a port, which waits."""
    refuse(capability)
    switch.add_bridge("br0")
    red, green = plug(switch, hook)
    numbers = [switch.ofport(device) for device in ("to-red", "to-green", "br0")]
    assert min(numbers[:2]) > 0
    for device in "to-red", "to-green", "br0":
        lab.wait_until(lambda device=device: NEEDS[capability] in (switch.error(device) or ""), f"{device}: an error")
    if capability == "cap_net_raw":
        before = switch.appctl("dpctl/show")
        ends = lab.run("ip", "-o", "link", "show", "br0-xdp")
        with traffic.Stream(red, green, "10.0.0.2") as stream:
            lab.wait_until(lambda: stream.sent >= 1000, "two seconds of datagrams")
            assert not stream.received
            assert lab.run("ip", "-o", "link", "show", "br0-xdp") == ends       # No pair comes and goes.
            assert len([line for line in switch.log() if "CAP_NET_RAW" in line]) <= 3
            refuse("")
            stream.flowing()
        assert before.count("port ") == switch.appctl("dpctl/show").count("port ")
    else:
        traffic.wait_for_ping(red, "10.0.0.2")
    check_return(switch, red, green, hook)
    assert [switch.ofport(device) for device in ("to-red", "to-green", "br0")] == numbers
    lab.wait_until(lambda: switch.status("br0")["xdp-hook"] == "tcx" and not switch.error("br0"), "br0 at tcx")
    lab.run("ip", "link", "set", "br0", "up")
    lab.add_addresses(lab.Namespace(), "br0", "10.0.0.100/24")
    traffic.tcp(red, lab.Namespace(), "10.0.0.100", size=1 << 20)


def test_no_thread(switch):
    """The threads of the engine cannot be started, for new ports and for a new set of CPUs."""
    switch.add_bridge("br0")
    red, green = plug(switch, "xdp")
    until_used(switch, "xdp")
    traffic.wait_for_ping(red, "10.0.0.2")
    refuse("threads")
    switch.vsctl("set", "open", ".", "other_config:pmd-cpu-mask=1")
    lab.wait_until(lambda: any("cannot start" in line for line in switch.log()), "a complaint")
    refuse("")
    traffic.wait_for_ping(red, "10.0.0.2")
    check_return(switch, red, green, "xdp")


def test_no_thread_for_connections(switch):
    """The first ct() cannot have the thread that lets connections expire: packets are not tracked, until there are threads."""
    switch.add_bridge("br0")
    red, green = plug(switch, "xdp")
    until_used(switch, "xdp")
    traffic.wait_for_ping(red, "10.0.0.2")
    refuse("threads")
    switch.expected.append("no thread for connections")
    switch.flows("br0", "table=0,arp,actions=normal", "table=0,ip,actions=ct(table=1)", "table=1,ct_state=+trk,ip,actions=normal")
    assert traffic.ping(red, "10.0.0.2", limit=1) == 0
    assert any("no thread for connections" in line and "TasksMax" in line for line in switch.log())
    refuse("")
    traffic.wait_for_ping(red, "10.0.0.2")
    assert traffic.ping(green, "10.0.0.1") == 3


def test_nothing_to_wait_on(switch):
    """The kernel does not let threads wait for a socket (fs.epoll.max_user_watches): tcx needs no more sockets."""
    switch.add_bridge("br0")
    lab.wait_until(lambda: switch.status("br0").get("xdp-hook") == "tcx", "br0 at tcx")
    refuse("epoll")
    red, green = plug(switch, "xdp")
    until_used(switch, "tcx")
    for device in "to-red", "to-green":
        assert "No space left on device" in switch.error(device) and switch.error(device).endswith("tcx is used")
    traffic.wait_for_ping(red, "10.0.0.2")
    check_return(switch, red, green, "xdp")
