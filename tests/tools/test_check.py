# SPDX-License-Identifier: Apache-2.0
"""ovs-xdp-check: each situation is made, and the sentence about it compared."""
import contextlib
import json
import os
import pathlib
import subprocess

import pytest

import jumbo
import lab
import switch as switches
import xdp

CHECK = pathlib.Path(os.environ.get("OXDP_CHECK", switches.BUILD / "ovs-xdp-check"))


class Facts:
    """What the program said with --json."""

    def __init__(self, *args, before=(), env=None):
        done = subprocess.run([*before, CHECK, "--json", *args], stdout=subprocess.PIPE, text=True, timeout=lab.PATIENCE,
                              env=env, check=False)
        self.status = done.returncode
        self.answer = json.loads(done.stdout)
        self.all = self.answer["facts"]

    def of(self, about, fact):
        """(verdict, text, do) of each."""
        return [(item["verdict"], item["text"], item["do"]) for item in self.all
                if (item["about"], item["fact"]) == (about, fact)]

    def one(self, about, fact):
        found = self.of(about, fact)
        assert len(found) == 1, (about, fact, self.all)
        return found[0]


@contextlib.contextmanager
def mounted(path, *how):
    lab.run("mount", *how, path)
    try:
        yield pathlib.Path(path)
    finally:
        lab.run("umount", path)


@contextlib.contextmanager
def file_says(path, text, tmp_path):
    """For the time of a "with" block, the file of the kernel says 'text'."""
    file = tmp_path / "said"
    file.write_text(text)
    with mounted(path, "--bind", file):
        yield


def without(*capabilities):
    return ("setpriv", "--bounding-set=" + ",".join(f"-{name}" for name in capabilities))


@pytest.fixture
def red():
    with lab.Namespace("red") as namespace:
        lab.make_veth("to-red", namespace)
        yield namespace


# The host.

def test_healthy_host():
    facts = Facts()
    assert facts.status == 0 and facts.answer["refused"] == 0, facts.all
    for fact, text in {"kernel": f"Linux {os.uname().release}", "programs": "accepts the switch's XDP program",
                       "memlock": "32 MB of packet memory can be locked", "veth": "can be made",
                       "af-xdp": "AF_XDP sockets can be opened", "xdp": "native XDP can be attached to a veth",
                       "hugepages": "none are needed", "bpffs": "mounted at /sys/fs/bpf"}.items():
        verdict, said, _ = facts.one("host", fact)
        assert verdict == "ok" and text in said
    assert len(facts.of("host", "privilege")) == 7


def test_lines_for_people_say_the_same():
    facts = Facts("lo")
    lines = lab.run(CHECK, "lo", check=False).splitlines()
    assert len(lines) == len(facts.all) + 1
    assert lines[-1].endswith("nothing was changed")
    for line, fact in zip(lines, facts.all):
        if fact["fact"] not in ("memory",):
            assert line.startswith(f"{fact['verdict']:<7}  {fact['about']:<4}  {fact['fact']}") and fact["text"] in line


def test_nothing_is_changed(red):
    look = [("ip", "-d", "link"), ("ip", "address", "show", "scope", "global"), ("ip", "route"), ("tc", "qdisc"),
            ("tc", "filter", "show", "dev", "to-red", "ingress"),
            ("ip", "-n", "red", "-d", "link"), ("ip", "netns", "exec", "red", "ethtool", "-k", "eth0"),
            ("ethtool", "-k", "to-red"), ("ip", "netns"), ("find", "/sys/fs/bpf", "/run")]
    for end in ("to-red",), ("-n", "red", "eth0"):          # The kernel says a moment later that there is a carrier.
        lab.wait_until(lambda: "state UP" in lab.run("ip", *end[:-1], "link", "show", end[-1]), f"carrier of {end[-1]}")
    before = [lab.run(*what) for what in look]
    facts = Facts("to-red")
    assert facts.one("host", "xdp")[0] == "ok"              # It did try.
    assert [lab.run(*what) for what in look] == before


@pytest.mark.parametrize("capability", ["net_admin", "net_raw", "bpf"])
def test_needed_capability_is_missing(capability):
    facts = Facts(before=without("sys_admin", capability))
    name = f"CAP_{capability.upper()}"
    verdict, text, do = next(fact for fact in facts.of("host", "privilege") if fact[1].startswith(f"{name}:"))
    assert verdict == "refused" and "missing" in text and name in do
    assert facts.status == 1
    assert "no network namespace could be made" in facts.one("host", "trial")[1]


def test_perfmon_is_missing():
    """Ports are served, without flow tables."""
    _, text, do = next(fact for fact in Facts(before=without("sys_admin", "perfmon")).of("host", "privilege")
                       if fact[1].startswith("CAP_PERFMON: missing"))
    assert "the engine gets every packet" in text and "CAP_PERFMON" in do


def test_admin_stands_for_bpf():
    facts = Facts(before=without("bpf", "perfmon"))
    assert facts.status == 0
    for name in "CAP_BPF", "CAP_PERFMON":
        assert any(text.startswith(f"{name}: CAP_SYS_ADMIN stands for it") for _, text, _ in facts.of("host", "privilege"))


def test_kernel_refuses_the_program():
    verdict, text, _ = Facts(before=without("sys_admin", "bpf")).one("host", "programs")
    assert verdict == "refused" and "CAP_BPF" in text


def test_too_little_locked_memory():
    facts = Facts(before=(*without("ipc_lock", "sys_resource"), "prlimit", "--memlock=1048576"))
    verdict, text, do = facts.one("host", "memlock")
    assert (verdict, text) == ("refused", "32 MB of packet memory are wanted, the limit on locked memory is 1024 kB")
    assert "LimitMEMLOCK=infinity" in do
    assert facts.status == 1


def test_lockdown():
    with mounted("/sys/kernel/security", "-t", "tmpfs", "tmpfs") as folder:
        file = folder / "lockdown"
        file.write_text("none [integrity] confidentiality\n")
        assert Facts().one("host", "lockdown")[:2] == ("ok", "integrity: does not concern the switch")
        file.write_text("none integrity [confidentiality]\n")
        verdict, text, _ = Facts().one("host", "lockdown")
        assert verdict == "warning" and text.startswith("confidentiality: ")


def test_interpreted_and_hardened_programs():
    assert Facts().one("host", "jit")[1].startswith("only the host's first network namespace says")
    with mounted("/proc/sys/net/core", "-t", "tmpfs", "tmpfs") as folder:
        (folder / "bpf_jit_enable").write_text("0\n")
        verdict, _, do = Facts().one("host", "jit")
        assert (verdict, do) == ("warning", "sysctl -w net.core.bpf_jit_enable=1")
        (folder / "bpf_jit_enable").write_text("1\n")
        assert Facts().one("host", "jit")[:2] == ("ok", "the kernel compiles BPF programs")
        (folder / "bpf_jit_harden").write_text("2\n")
        verdict, text, _ = Facts().one("host", "jit")
        assert verdict == "warning" and "bpf_jit_harden is 2" in text


def test_little_memory(tmp_path):
    with file_says("/proc/meminfo", "MemTotal: 500000 kB\nMemAvailable: 102400 kB\n", tmp_path):
        verdict, text, _ = Facts().one("host", "memory")
        assert verdict == "warning" and text.startswith("100 MB are available")


def test_bpffs_that_is_missing_or_read_only():
    lab.run("mount", "-o", "remount,ro", "/sys/fs/bpf")
    verdict, text, do = Facts().one("host", "bpffs")
    assert verdict == "warning" and "read-only: without it known flows stop" in text and do == "mount -o remount,rw /sys/fs/bpf"
    lab.run("umount", "/sys/fs/bpf")
    assert Facts().one("host", "bpffs")[:2] == ("ok", "not mounted; the daemon mounts it at /sys/fs/bpf")
    verdict, text, _ = Facts(before=without("sys_admin")).one("host", "bpffs")
    assert verdict == "warning" and "takes CAP_SYS_ADMIN" in text


def test_open_vswitch_runs_as_another_user():
    with mounted("/etc/default", "-t", "tmpfs", "tmpfs") as folder:
        file = folder / "openvswitch-switch"
        file.write_text("# OVS_CTL_OPTS='--ovs-user=nobody'\n")
        assert not Facts().of("host", "user")
        file.write_text("OVS_CTL_OPTS='--ovs-user=openvswitch:hugetlbfs'\n")
        facts = Facts()
        verdict, text, _ = facts.one("host", "user")
        assert verdict == "refused" and "/etc/default/openvswitch-switch" in text and "drops CAP_BPF" in text
        assert facts.status == 1


def test_running_switch():
    assert Facts().one("host", "bridge")[1] == "no database of Open vSwitch answers"
    with switches.Switch() as running:
        assert Facts(env=running.env).one("host", "bridge")[1] == "the database has no bridge"
        running.add_bridge("br0")
        running.vsctl("--no-wait", "add-br", "br1")
        running.expected.append("br1|system")           # No openvswitch.ko for that one.
        facts = Facts("br0-xdp", env=running.env)
        assert sorted(facts.of("host", "bridge")) == [
            ("ok", "br0 has datapath_type=xdp", ""),
            ("ok", "br1 has datapath_type=system", "ovs-vsctl set bridge br1 datapath_type=xdp moves it to OVS-XDP")]
        assert f"(pid {running.process.pid}): it is OVS-XDP" in facts.one("host", "daemon")[1]
        assert facts.one("br0-xdp", "device")[:2] == (
            "refused", "it belongs to OVS-XDP itself: OVS-XDP: other end of internal port br0")


# Devices.

def test_veth(red):
    facts = Facts("to-red")
    assert facts.status == 0 and not [fact for fact in facts.all if fact["about"] == "to-red" and fact["verdict"] != "ok"]
    assert facts.one("to-red", "hook")[1].startswith("xdp-hook=auto chooses tcx here")
    assert facts.one("to-red", "mtu")[1].startswith(f"1500, of at most {jumbo.TCX} with hook tcx")
    assert facts.one("to-red", "peer")[1] == "its peer is eth0 in another network namespace"
    assert facts.one("to-red", "driver")[1].startswith("veth, ")


def test_what_is_no_port():
    assert Facts("none").one("none", "device")[:2] == (
        "refused", "there is no such device in this network namespace (No such device)")
    assert Facts("lo").one("lo", "device")[1] == "it is no Ethernet device (type 772)"
    lab.run("ip", "tuntap", "add", "tun0", "mode", "tun")
    facts = Facts("tun0")
    assert facts.one("tun0", "device")[1] == "it is no Ethernet device (type 65534, tun)"
    assert facts.status == 1


def test_device_that_is_down(red):
    lab.run("ip", "link", "set", "to-red", "down")
    verdict, _, do = Facts("to-red").one("to-red", "state")
    assert (verdict, do) == ("warning", "ip link set dev to-red up")


def test_mtu(red):
    lab.run("ip", "link", "set", "to-red", "mtu", "9000")
    facts = Facts("to-red")
    verdict, text, do = facts.one("to-red", "mtu")
    if jumbo.MULTI_BUFFER:
        assert verdict == "ok" and text.startswith("9000, of at most 65535 with hook tcx")
    else:
        assert verdict == "warning" and text.startswith("9000 is more than the 3450 bytes that tcx hands to the engine")
        assert do == "ip link set dev to-red mtu 3450"
    assert facts.status == 0
    lab.run("ip", "link", "add", "bridge0", "mtu", "9300", "type", "bridge")
    verdict, text, do = Facts("bridge0").one("bridge0", "mtu")
    assert verdict == "warning" and text.startswith(f"9300 is more than XDP takes, which is {jumbo.LIMIT}: tcx would serve the port")


def test_member_of_a_bridge(red):
    lab.run("ip", "link", "add", "br-lan", "type", "bridge")
    lab.run("ip", "link", "set", "to-red", "master", "br-lan")
    facts = Facts("to-red")
    verdict, text, do = facts.one("to-red", "master")
    assert verdict == "refused" and text.startswith("it is in bridge br-lan, ")
    assert facts.status == 1
    lab.run(*do.split())
    assert not Facts("to-red").of("to-red", "master")


@pytest.mark.parametrize("kind, extra", [("bond", ()), ("vrf", ("table", "7"))])
def test_member_of_something_else(red, kind, extra):
    if said := lab.run("ip", "link", "add", "master0", "type", kind, *extra, check=False):
        pytest.skip(f"this kernel has no {kind}: {said.strip()}")
    lab.run("ip", "link", "set", "to-red", "down")
    lab.run("ip", "link", "set", "to-red", "master", "master0")
    assert Facts("to-red").one("to-red", "master")[1].startswith(f"it is in {kind} master0, ")


def test_parent_of_a_macvlan(red):
    lab.run("ip", "link", "add", "mac0", "link", "to-red", "type", "macvlan")
    verdict, text, do = Facts("to-red").one("to-red", "upper")
    assert verdict == "refused" and text.startswith("macvlan mac0 is on top of it")
    assert do.startswith("ip link delete dev mac0")


def test_parent_of_a_vlan(red):
    if said := lab.run("ip", "link", "add", "v7", "link", "to-red", "type", "vlan", "id", "7", check=False):
        pytest.skip(f"this kernel has no VLAN devices: {said.strip()}")
    verdict, text, _ = Facts("to-red").one("to-red", "upper")
    assert verdict == "warning" and text.startswith("vlan v7 is on top of it")


def test_addresses_are_moved_by_the_command(red):
    host = lab.Namespace()
    lab.add_addresses(host, "to-red", "10.0.0.100/24", "fc00::100/64")
    lab.add_addresses(red, "eth0", "10.0.0.1/24", "10.9.9.9/32", "fc00::1/64", "fd09::9/128")
    lab.run("ip", "route", "add", "default", "via", "10.0.0.1")
    lab.run("ip", "route", "add", "10.9.0.0/16", "via", "10.0.0.1", "metric", "50")
    lab.run("ip", "-6", "route", "add", "default", "via", "fc00::1", "metric", "77")
    lab.run("ping", "-c1", "-W5", "10.9.9.9")
    facts = Facts("to-red")
    verdict, text, command = facts.one("to-red", "addresses")
    assert verdict == "warning" and text.startswith("it has 10.0.0.100/24, fc00::100/64: ")
    assert facts.status == 0

    def routes():
        return {line.replace("br0", "to-red").replace("pref medium", "").strip() for family in ("-4", "-6")
                for line in lab.run("ip", family, "route").splitlines() if " via " in line}

    before = routes()
    with switches.Switch() as running:
        running.expected.append("to-red has addresses")
        tools = {**running.env, "PATH": f"{running.env['PATH']}:{os.environ['PATH']}"}
        lab.run("sh", "-c", command, env=tools)
        assert running.error("to-red") is None
        assert routes() == before
        assert lab.mac_of(host, "br0") == lab.mac_of(host, "to-red")
        lab.run("ping", "-c1", "-W5", "10.9.9.9")
        lab.wait_until(lambda: "1 received" in lab.run("ping", "-6", "-c1", "-W1", "fd09::9", check=False), "IPv6 ping")
        assert not Facts("to-red", env=running.env).of("to-red", "addresses")


def test_foreign_program(red):
    xdp.pin_foreign_program("/sys/fs/bpf/foreign")
    lab.run("ip", "link", "set", "dev", "to-red", "xdp", "pinned", "/sys/fs/bpf/foreign")
    facts = Facts("to-red")
    verdict, text, do = facts.one("to-red", "program")
    assert verdict == "warning" and f"(id {xdp.attached('to-red')[1]}, native mode) has its XDP hook: only what it lets" in text
    assert do.startswith("ip link set dev to-red xdp off")


def test_program_at_the_other_end(red):
    xdp.pin_foreign_program("/sys/fs/bpf/foreign")
    red.run("ip", "link", "set", "dev", "eth0", "xdp", "pinned", "/sys/fs/bpf/foreign", check=False)
    if not lab.run("ip", "-n", "red", "-d", "link", "show", "eth0").count("xdp"):
        with red.entered():                             # "ip netns exec" has a /sys/fs/bpf of its own.
            lab.run("ip", "link", "set", "dev", "eth0", "xdp", "pinned", "/sys/fs/bpf/foreign")
    facts = Facts("to-red")
    assert facts.one("to-red", "hook")[1] == "xdp-hook=auto chooses xdp here: an XDP program runs on its peer"
    assert facts.one("to-red", "mtu")[1].startswith(f"1500, of at most {jumbo.LIMIT} with hook xdp")


def test_filters(red):
    lab.run("tc", "qdisc", "add", "dev", "to-red", "clsact")
    xdp.pin_foreign_program("/sys/fs/bpf/filter", kind=xdp.BPF_PROG_TYPE_SCHED_CLS)
    lab.run("tc", "filter", "add", "dev", "to-red", "ingress", "pref", "7", "bpf", "da", "object-pinned", "/sys/fs/bpf/filter")
    verdict, text, do = Facts("to-red").one("to-red", "filter")
    assert verdict == "warning" and "(the first: bpf, pref 7)" in text and do == "tc filter show dev to-red ingress"


def test_port_of_the_switch(red):
    with switches.Switch() as running:
        running.add_bridge("br0")
        running.add_port("to-red", interface=("options:xdp-hook=xdp",))
        facts = Facts("to-red", env=running.env)
        assert facts.one("to-red", "program")[0] == "ok"
        assert facts.one("to-red", "program")[1].endswith("has its XDP hook: OVS-XDP's own")


def test_generic_xdp_only():
    lab.run("ip", "link", "add", "bridge0", "type", "bridge")
    verdict, text, _ = Facts("bridge0").one("bridge0", "xdp")
    assert verdict == "warning" and text.startswith("driver bridge has no native XDP")


def test_more_queues_at_the_other_end():
    with lab.Namespace("red"):
        lab.run("ip", "link", "add", "to-red", "numrxqueues", "1", "numtxqueues", "1", "type", "veth", "peer", "name", "eth0",
                "netns", "red", "numrxqueues", "4", "numtxqueues", "4")
        verdict, text, _ = Facts("to-red").one("to-red", "queues")
        assert verdict == "ok" and "has 4 transmit queues, more than the 1 receive queues here" in text


def test_name_that_a_shell_would_obey():
    name = "a;reboot"
    lab.run("ip", "link", "add", name, "type", "bridge")
    verdict, _, do = Facts(name).one(name, "state")
    assert (verdict, do) == ("warning", "")


def test_all_devices(red):
    facts = Facts("--all")
    assert facts.of("to-red", "hook") and not facts.of("lo", "device")


@pytest.mark.parametrize("args", [("--bogus",), ("--all", "lo")])
def test_usage(args):
    done = subprocess.run([CHECK, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and done.stderr and not done.stdout


def test_version():
    assert lab.run(CHECK, "--version").startswith("ovs-xdp-check (OVS-XDP) ")
