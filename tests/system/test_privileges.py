# SPDX-License-Identifier: Apache-2.0
"""A host that does not let the daemon use BPF or AF_XDP: the switch forwards with what is left, says why, and comes back by
itself."""
import contextlib
import json
import os
import re
import resource
import stat

import pytest

import lab
import switch as switches
import traffic

ADDRESSES = {"red": "10.0.0.1", "green": "10.0.0.2"}


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch needs no BPF")
    lab.run("setpriv", "--version")


def weak_daemon(world, *prefix):
    """A program that starts the daemon by 'prefix'."""
    folder = world.enter_context(switches.Switch()).rundir
    weak = folder / "weak-ovs-vswitchd"
    weak.write_text(f'#!/bin/sh\nexec {" ".join(prefix)} "{switches.DAEMON}" "$@"\n', encoding="utf-8")
    weak.chmod(weak.stat().st_mode | stat.S_IXUSR)
    return weak


@contextlib.contextmanager
def weak_switch(world, *prefix, hook=None):
    """A switch whose daemon is started by 'prefix', with two containers and the host."""
    with switches.Switch(daemon=weak_daemon(world, *prefix)) as switch:
        switch.expected += ["to-red", "to-green", "br0"]
        switch.add_bridge("br0")
        containers = []
        for name, address in ADDRESSES.items():
            container = world.enter_context(lab.Namespace(name))
            containers.append(container)
            lab.make_veth(f"to-{name}", container)
            lab.add_addresses(container, "eth0", f"{address}/24")
            switch.vsctl("add-port", "br0", f"to-{name}",
                         *(["--", "set", "interface", f"to-{name}", f"options:xdp-hook={hook}"] if hook else []))
        lab.run("ip", "link", "set", "br0", "up")
        lab.add_addresses(lab.Namespace(), "br0", "10.0.0.100/24")
        switch.red, switch.green = containers
        yield switch


def without(*capabilities):
    dropped = ",".join(f"-{name}" for name in capabilities)
    return "setpriv", f"--inh-caps={dropped}", f"--bounding-set={dropped}"


def check_forwards(switch):
    traffic.wait_for_ping(switch.red, "10.0.0.2")
    assert traffic.ping(switch.red, "10.0.0.2") == 3
    assert traffic.ping(switch.red, "10.0.0.100") == 3
    for source, target, address in ((switch.red, switch.green, "10.0.0.2"), (switch.red, lab.Namespace(), "10.0.0.100"),
                                    (lab.Namespace(), switch.red, "10.0.0.1")):
        traffic.tcp(source, target, address, size=1 << 20)


def segments_by_device(container):
    """Whether packets leave 'container' larger than the MTU."""
    return "tcp-segmentation-offload: on" in container.run("ethtool", "-k", "eth0")


def check_tracks(switch):
    """Connections are tracked in memory of the daemon."""
    switch.flows("br0", "priority=2,arp,actions=normal", "priority=1,ip,actions=ct(table=1)",
                 "table=1,in_port=to-red,ip,ct_state=+trk+new,actions=ct(commit),normal",
                 "table=1,ip,ct_state=+trk+est,actions=normal")
    traffic.tcp(switch.red, switch.green, "10.0.0.2", size=1 << 20)
    assert "dst=10.0.0.2" in switch.appctl("dpctl/dump-conntrack")
    assert "lost when the daemon ends" in switch.appctl("xdp/ct-show")


@pytest.mark.parametrize("hook", ("tcx", "xdp"))
def test_without_bpf(world, hook):
    """No CAP_BPF, and no CAP_SYS_ADMIN, which includes it: the engine forwards all."""
    with weak_switch(world, *without("bpf", "sys_admin"), hook=hook) as switch:
        for device in "to-red", "to-green":
            error = lab.wait_until(lambda: switch.error(device), "an error")
            assert "run as root, or with CAP_BPF and CAP_NET_ADMIN" in error
            assert error.endswith("the engine serves the port alone, through a packet socket")
            assert switch.status(device)["xdp-error"] == error and switch.status(device)["xdp-hook"] == "none"
            assert switch.ofport(device) > 0
        # Without CAP_SYS_ADMIN the daemon cannot enter a container to turn off what it leaves to its device.
        assert segments_by_device(switch.red) and segments_by_device(switch.green)
        check_forwards(switch)
        assert traffic.udp(switch.red, switch.green, "10.0.0.2") == 100
        check_tracks(switch)


def test_packets_of_packet_sockets_are_seen(world, tmp_path):
    """Where no program runs, xdp/trace has packets as the engine receives them, and ovs-xdp-tcpdump both directions."""
    with weak_switch(world, *without("bpf", "sys_admin")) as switch:
        lab.wait_until(lambda: switch.status("to-red").get("xdp-hook") == "none", "packet sockets")
        switch.flows("br0", "priority=40000,icmp,nw_dst=10.0.0.100,actions=drop",
                     "in_port=to-red,icmp,actions=output:to-green", "in_port=to-green,icmp,actions=output:to-red",
                     "priority=1,arp,actions=normal", "priority=0,actions=drop")
        with switch.red.start("ping", "-q", "-i", "0.05", "10.0.0.2"):
            lab.wait_until(lambda: switch.flow_counts("icmp")[0], "a flow")
            found, = json.loads(switch.appctl("xdp/trace", "-f", "json", "port=to-red", "icmp", "count=3"))["datapaths"]
            ufid = re.search(r"ufid:(\S+),[^\n]*in_port\(to-red\)[^\n]*proto=1", switch.appctl("dpctl/dump-flows", "-m", "--names"))[1]
            of_flow, = json.loads(switch.appctl("xdp/trace", "-f", "json", f"flow=ufid:{ufid}", "count=2"))["datapaths"]
            rare, = json.loads(switch.appctl("xdp/trace", "-f", "json", "every=10", "port=to-red", "count=2"))["datapaths"]
            none, = json.loads(switch.appctl("xdp/trace", "-f", "json", "udp", "wait=1"))["datapaths"]
            text = switch.appctl("xdp/trace", "port=to-red", "icmp", "count=1")
            captured = lab.run(switches.BUILD / "ovs-xdp-tcpdump", "-n", "-c", "4", "to-red", "icmp")
        green = switch.dp_port("to-green")
        with switch.red.start("ping", "-q", "-i", "0.05", "10.0.0.100"):
            dropped, = json.loads(switch.appctl("xdp/trace", "-f", "json", "drops", "ip,nw_dst=10.0.0.100", "count=1"))["datapaths"]
    assert len(found["packets"]) == 3 and found["matched"] >= 3 and not found["lost"]
    for packet in found["packets"]:
        assert (packet["hook"], packet["port_name"], packet["length"], packet["verdict"]) == ("socket", "to-red", 98, "engine")
        assert "icmp(type=8,code=0)" in packet["fields"] and len(packet["bytes"]) == 2 * 98
        assert any(line.startswith("flow ufid:") for line in packet["engine"]), packet
        assert f"sent to port {green} (to-green)" in packet["engine"] and not packet["dropped"]
    assert {packet["port_name"] for packet in of_flow["packets"]} == {"to-red"}
    assert len(rare["packets"]) == 2 and rare["looked_at"] < 30 and not none["packets"]
    assert re.search(r" socket, port \d+ \(to-red\), 98 bytes.*\n.*\n  verdict: received by the engine's packet socket: no program "
                     r"serves the port\n  engine: flow", text), text
    assert "10.0.0.1 > 10.0.0.2: ICMP echo request" in captured and "10.0.0.2 > 10.0.0.1: ICMP echo reply" in captured
    assert dropped["packets"][0]["dropped"]


@pytest.mark.parametrize("hook", ("tcx", "xdp"))
def test_without_perfmon(world, hook):
    """The verifier refuses programs that compare pointers; before Linux 6.8 also when they leave that out."""
    refuses_all = lab.kernel() < (6, 8)
    with weak_switch(world, *without("perfmon", "sys_admin"), hook=hook) as switch:
        check_forwards(switch)
        for device in "to-red", "to-green":
            assert "CAP_PERFMON" in switch.error(device)
            assert switch.error(device).endswith("through a packet socket" if refuses_all else switches.WITHOUT_FLOW_TABLES)
            assert switch.in_use(device)[0] == ("none" if refuses_all else "xdp")


def said_of_bridges(switch):
    """The line that says why there are none.  A thread of the daemon's writes the log, later."""
    return lab.wait_until(lambda: next((line for line in switch.log() if "nor serve any bridge" in line), None), "a reason")


def test_without_net_admin(world):
    """Without it there are no devices: the log says so, and the daemon goes on."""
    with switches.Switch(daemon=weak_daemon(world, *without("net_admin", "sys_admin"))) as switch:
        switch.expected += ["ovs-xdp", "br0", "datapath of type xdp"]
        switch.add_bridge("br0")
        said = said_of_bridges(switch)
        assert "(Operation not permitted): run as root, or with" in said and "(this process lacks CAP_NET_ADMIN)" in said
        assert switch.process.running()
        switch.vsctl("del-br", "br0")


def test_no_tun(world):
    """The datapath's own device is a tap.  The log says what is missing, and bridges are made once it is there."""
    lab.run("mount", "-t", "tmpfs", "tmpfs", "/dev/net")
    with contextlib.ExitStack() as hidden:
        hidden.callback(lab.run, "umount", "/dev/net")
        with switches.Switch() as switch:
            switch.expected += ["ovs-xdp", "br0", "datapath of type xdp", "/dev/net/tun"]
            switch.add_bridge("br0")
            assert "(No such file or directory): it needs /dev/net/tun: load the module tun" in said_of_bridges(switch)
            assert switch.process.running()
            switch.vsctl("del-br", "br0")
            hidden.close()
            switch.add_bridge("br0")
            assert "br0" in switch.appctl("dpif/show")


TUN_REFUSED = {
    "mode": (("0600",), "user 65534 may not open /dev/net/tun, which has the mode 0600, owner 0 and group 0: \"chmod 666 /dev/net/tun\""),
    "no device": (("0666", "nodev"), "/dev/net/tun may not be opened: give the container that device; or it is on a file system that "
                                     "is mounted with \"nodev\""),
}


@pytest.mark.parametrize("kind", TUN_REFUSED)
def test_tun_that_may_not_be_opened(world, kind):
    """The log says what keeps the daemon from it, and bridges are made once it may."""
    (mode, *options), reason = TUN_REFUSED[kind]
    world.enter_context(lab.open_to_users())
    lab.run("mount", "-t", "tmpfs", *(["-o", *options] if options else []), "tmpfs", "/dev/net")
    world.callback(lab.run, "umount", "/dev/net")
    lab.run("mknod", "-m", mode, "/dev/net/tun", "c", "10", "200")
    with switches.Switch(user="nobody") as switch:
        switch.expected += ["ovs-xdp", "br0", "datapath of type xdp", "/dev/net/tun"]
        switch.add_bridge("br0")
        assert f"(Permission denied): {reason}" in said_of_bridges(switch)
        assert switch.process.running()
        switch.vsctl("del-br", "br0")
        lab.run("chmod", "666", "/dev/net/tun")
        lab.run("mount", "-o", "remount,dev", "/dev/net")
        switch.add_bridge("br0")
        assert "br0" in switch.appctl("dpif/show")


def test_locked_memory(world):
    """A limit too low for the UMEM.  When less is asked for, ports get their programs, with the numbers that they have."""
    limit = min(8 << 20, *(n for n in resource.getrlimit(resource.RLIMIT_MEMLOCK) if n != resource.RLIM_INFINITY), 8 << 20)
    with weak_switch(world, "prlimit", f"--memlock={limit}:{limit}", *without("ipc_lock", "sys_resource")) as switch:
        error = lab.wait_until(lambda: switch.error("to-red"), "an error")
        assert "raise the limit on locked memory" in error and error.endswith("through a packet socket")
        check_forwards(switch)
        numbers = [switch.ofport(device) for device in ("to-red", "to-green")]
        assert len([line for line in switch.log() if "locked memory" in line]) <= 3         # Each port says so once.
        switch.vsctl("set", "open", ".", "other_config:xdp-umem-frames=256")
        lab.wait_until(lambda: switch.status("to-red")["xdp-hook"] == switch.status("to-green")["xdp-hook"] == "tcx",
                       "programs")
        assert not switch.error("to-red") and "xdp-error" not in switch.status("to-red")
        assert [switch.ofport(device) for device in ("to-red", "to-green")] == numbers
        check_forwards(switch)
        with traffic.Stream(switch.red, switch.green, "10.0.0.2") as stream:
            stream.flowing()
            lab.wait_until(lambda: any("dp:tcx" in flow and "in_port(to-red)" in flow for flow in switch.dump_flows("-m")),
                           "flows at tcx")


def test_no_bpf_filesystem(world):
    """It is mounted read-only: programs are not pinned, and everything works."""
    lab.run("umount", "-l", "/sys/fs/bpf")
    lab.run("mount", "-t", "bpf", "-o", "ro", "bpf", "/sys/fs/bpf")
    with weak_switch(world) as switch:
        check_forwards(switch)
        assert switch.status("to-red")["xdp-hook"] == "tcx"
        assert any("programs end with this process" in line for line in switch.log())


def test_bpf_filesystem_that_returns(world):
    """What could not be pinned is pinned then, and goes on when the daemon is killed."""
    lab.run("umount", "-l", "/sys/fs/bpf")
    lab.run("mount", "-t", "bpf", "-o", "ro", "bpf", "/sys/fs/bpf")
    with weak_switch(world) as switch:
        check_forwards(switch)
        assert "programs end" in switch.appctl("xdp/show")
        lab.run("mount", "-o", "remount,rw", "/sys/fs/bpf")
        lab.wait_until(lambda: "programs go on, pinned in" in switch.appctl("xdp/show"), "pins")
        traffic.introduce(switch.red, switch.green, "10.0.0.2")
        with traffic.Stream(switch.red, switch.green, "10.0.0.2") as stream:
            stream.flowing()
            switch.crash()
            stream.flowing()
            switch.start()
            lab.wait_until(lambda: switch.status("to-red").get("xdp-hook") == "tcx", "the next daemon")
            stream.flowing()
            assert stream.lost() == 0
        lab.wait_until(lambda: any("took over" in line for line in switch.log()), "the old programs")


def test_locked_memory_that_returns(world):
    """The limit itself is raised while the daemon runs."""
    hard = 64 << 20
    if "Operation not permitted" in lab.run("prlimit", f"--memlock={hard}:{hard}", "true", check=False):
        pytest.skip("root has no CAP_SYS_RESOURCE here, which raising a limit takes")
    with weak_switch(world, "prlimit", "--memlock=1048576:1048576", *without("ipc_lock", "sys_resource")) as switch:
        lab.wait_until(lambda: "limit on locked memory" in (switch.error("to-red") or ""), "an error")
        check_forwards(switch)
        lab.run("prlimit", f"--pid={switch.process.pid}", f"--memlock={hard}:{hard}")
        for device in "to-red", "to-green":
            lab.wait_until(lambda device=device: switch.status(device)["xdp-hook"] == "tcx", "programs")
            assert not switch.error(device)
        check_forwards(switch)


def test_descriptors_that_return(world):
    """RLIMIT_NOFILE is reached, and raised."""
    with weak_switch(world) as switch:
        check_forwards(switch)
        pid = switch.process.pid
        limit = lab.run("prlimit", f"--pid={pid}", "--nofile", "--noheadings", "--output=SOFT").strip()
        lab.run("prlimit", f"--pid={pid}", f"--nofile={max(map(int, os.listdir(f'/proc/{pid}/fd'))) + 1}:")
        switch.expected.append("Too many open files")
        switch.vsctl("set", "interface", "to-red", "options:xdp-hook=xdp")
        lab.wait_until(lambda: "Too many open files" in (switch.error("to-red") or ""), "an error")
        assert switch.error("to-red").endswith("tcx is used")
        assert traffic.ping(switch.red, "10.0.0.2") == 3
        lab.run("prlimit", f"--pid={pid}", f"--nofile={limit}:")
        lab.wait_until(lambda: switch.in_use("to-red") == ("xdp", "native"), "XDP")
        assert not switch.error("to-red")
        check_forwards(switch)


def test_does_not_storm(world):
    """While programs cannot be had, tries become rare, and no device is made and deleted for each."""
    with weak_switch(world, *without("bpf", "sys_admin")) as switch:
        check_forwards(switch)
        with open(f"/proc/{switch.process.pid}/stat", encoding="ascii") as file:
            before = sum(int(n) for n in file.read().split()[13:15])
        names = set(os.listdir("/sys/class/net"))
        lines = len(switch.log())
        switch.appctl("vlog/set", "dpif_xdp_port_serve:file:dbg")
        with traffic.Stream(switch.red, switch.green, "10.0.0.2") as stream:
            lab.wait_until(lambda: stream.received >= 1500, "three seconds of datagrams")
        assert set(os.listdir("/sys/class/net")) == names
        switch.appctl("vlog/set", "dpif_xdp_port_serve:file:info")
        new = switch.log()[lines:]
        tries = [line for line in new if ": not at " in line]           # Of three ports, each in up to four ways.
        assert len(tries) <= 3 * 4 * 3 and len(new) - len(tries) < 5, "\n".join(new)
        with open(f"/proc/{switch.process.pid}/stat", encoding="ascii") as file:
            used = sum(int(n) for n in file.read().split()[13:15]) - before
        assert used < 150               # Ticks of 10 ms, in at least 3 s.
