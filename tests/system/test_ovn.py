# SPDX-License-Identifier: Apache-2.0
"""OVN drives the datapath: examples/ovn/three-hosts, as a user runs it, and a slice of OVN's own tests."""
import os
import pathlib
import re
import sys

import pytest

import lab
import switch as switches

EXAMPLE = switches.TOP / "examples/ovn/three-hosts"
PATHS = 6


class Example:
    """The example with a state folder of its own, and options with which all its commands are given."""

    def __init__(self, state, *options):
        self.state, self.options = pathlib.Path(state), options

    def __call__(self, *words, **how):
        return lab.run(sys.executable, EXAMPLE, "--state", self.state, "--daemon", switches.DAEMON, *self.options, *words, **how)

    def vsctl(self, host, *words):
        return self("exec", host, "ovs-vsctl", f"--db=unix:{self.state}/{host}/db.sock", "--timeout=50", *words)

    def appctl(self, host, *words):
        return self("exec", host, "ovs-appctl", "--timeout=50", "-t", self.state / host / "ovs-vswitchd.ctl", *words)

    def log(self, host):
        return (self.state / host / "ovs-vswitchd.log").read_text(encoding="utf-8", errors="replace").splitlines()


@pytest.fixture(name="hosts")
def fixture_hosts(world):
    return start(world)


def start(world, *options):
    example = Example("/run/three-hosts", *options)
    world.callback(example, "down", check=False)
    example("up", limit=300)
    return example


@pytest.mark.parametrize("served", (None, "system", "netdev"))
def test_three_hosts(world, served):
    """Switches, a router, stateful ACLs, a load balancer and SNAT work over three hosts, and leave no warning: with bridges of
    type xdp, and of Open vSwitch's own types, which this datapath serves."""
    hosts = start(world, *(["--served", served] if served else []))
    for host in "host1", "host2", "host3":
        lab.wait_until(lambda at=host: "programs track connections now" in "\n".join(hosts.log(at)), "programs that track")
    said = hosts("try", limit=300)
    rates = re.findall(r"([\d.]+) Gb/s +([\d.]+) %", said)
    assert len(rates) == PATHS and all(float(rate) > 0.01 and float(share) > 95 for rate, share in rates), said

    assert "0 received" not in hosts("exec", "a", "ping", "-c", "1", "10.2.0.15")
    # Nobody listens: a packet that the ACLs let in would be refused.
    with pytest.raises(lab.Failed, match="timed out"):
        hosts("exec", "a", "nc", "-vz", "-w", "1", "10.1.0.13", "9999")

    shown = hosts("show")
    assert shown.count("flows in programs") == 3 and "genev_sys_6081" in shown
    for host in "host1", "host2", "host3":
        assert hosts.vsctl(host, "get", "bridge", "br-int", "datapath_type").strip() == (served or "xdp")
        kinds = re.findall(r"^\S+@\S+:", hosts.appctl(host, "dpif/show"), re.MULTILINE)
        assert kinds == ["xdp@ovs-xdp:"] and "recirc_id" in hosts.appctl(host, "dpctl/dump-flows", "xdp@ovs-xdp")
        problems = [line for line in hosts.log(host) if switches.PROBLEM.search(line) and not switches.HARMLESS.search(line)]
        assert not problems


def test_endpoint_on_a_plain_interface(world):
    """The address of the tunnels is on eth0, in no bridge, as with the kernel module.  Two of the paths stay on one host."""
    hosts = start(world, "--plain", "--encap", "vxlan")
    for host in "host1", "host2", "host3":
        lab.wait_until(lambda at=host: "programs track connections now" in "\n".join(hosts.log(at)), "programs that track")
    said = hosts("try", limit=300)
    rates = re.findall(r"([\d.]+) Gb/s +([\d.]+) %", said)
    assert len(rates) == PATHS and all(float(rate) > 0.01 and float(share) > 95 for rate, share in rates), said
    assert "br-underlay" not in hosts("exec", "host1", "ovs-vsctl", "show")
    assert "by the routes of the host, through vxlan4789-host" in hosts.appctl("host1", "xdp/why")
    for host in "host1", "host2", "host3":
        problems = [line for line in hosts.log(host) if switches.PROBLEM.search(line) and not switches.HARMLESS.search(line)]
        assert not problems


def test_stock_daemon(world, tmp_path):
    """The stock daemon, to compare with: TCP on each path, though it neither computes checksums nor segments; and what it can
    say of its flows."""
    stock = switches.tool("ovs-vswitchd")
    hosts = start(world, "--daemon", stock, "--datapath-type", "netdev")
    # A server that is still busy with the stream before, once.
    busy = tmp_path / "iperf3"
    busy.write_text(f"""#!/bin/sh
PATH={os.environ['PATH']}
mkdir {tmp_path}/asked 2> /dev/null || exec iperf3 "$@"
echo '{{"end": {{}}, "error": "the server is busy running a test. try again later"}}'
""", encoding="utf-8")
    busy.chmod(0o755)
    said = hosts("try", limit=300, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert (tmp_path / "asked").exists()
    rates = re.findall(r"([\d.]+) Gb/s +-$", said, re.MULTILINE)
    assert len(rates) == PATHS and all(float(rate) > 0.01 for rate in rates), said
    shown = hosts("show")
    assert shown.count("no datapath of type xdp") == 3 and shown.count("netdev@ovs-netdev:") == 3
    assert "port 1: br-underlay (tap)" in shown and re.search(r"^ +flows: [1-9]", shown, re.MULTILINE), shown


def test_misuse(hosts):
    """What does not fit is refused with a sentence, and harms nothing."""
    for words, sentence in ((("up",), "the hosts run already"), (("exec", "nobody", "true"), "there is no 'nobody'"),
                            (("exec", "a"), "say where and what")):
        with pytest.raises(lab.Failed, match=sentence):
            hosts(*words)
    hosts("down")
    assert not hosts.state.exists()
    with pytest.raises(lab.Failed, match="the hosts do not run"):
        hosts("show")
    hosts("down")


def test_daemon_that_ends(world, tmp_path):
    """up says so at once and why, and leaves the logs, but no host."""
    daemon = tmp_path / "daemon"
    daemon.write_text("#!/bin/sh\necho 'the reason'; exit 7\n", encoding="utf-8")
    daemon.chmod(0o755)
    hosts = Example("/run/three-hosts")
    world.callback(hosts, "down", check=False)
    with pytest.raises(lab.Failed, match="the reason(.|\n)*host1: daemon ended with exit status 7.  The hosts' logs are in"):
        hosts("--daemon", os.path.relpath(daemon), "up", limit=45)
    assert "the reason\n" in (hosts.state / "host1/programs.log").read_text(encoding="utf-8")
    with pytest.raises(lab.Failed, match="the hosts do not run"):
        hosts("show")
    hosts("down")
    assert not hosts.state.exists()


@pytest.mark.parametrize("what", ("up", "down"))
def test_folder_of_somebody_else(what, tmp_path):
    """Neither command deletes in a folder, or takes a file, that the example did not make."""
    (tmp_path / "folder/host1").mkdir(parents=True)
    for name in "file", "folder/host1/file":
        (tmp_path / name).write_text("mine", encoding="utf-8")
    for name in "file", "folder":
        with pytest.raises(lab.Failed, match=f"{name} exists, and was not made by three-hosts"):
            Example(tmp_path / name)(what)
    assert all((tmp_path / name).read_text(encoding="utf-8") == "mine" for name in ("file", "folder/host1/file"))


def test_file_beside_those_of_the_example(hosts):
    """down deletes what the example made and nothing else."""
    (hosts.state / "mine").touch()
    hosts("down")
    assert [path.name for path in hosts.state.iterdir()] == ["mine"]
    with pytest.raises(lab.Failed, match="was not made by three-hosts"):
        hosts("up")
    (hosts.state / "mine").unlink()
    hosts("down")


def test_ovns_own(world):
    """A slice of OVN's own system tests, if there is OVN's source."""
    if not os.environ.get("OVN_SOURCE"):
        pytest.skip("OVN_SOURCE=DIR names no source tree of OVN")
    lab.run(switches.TOP / "tests/ovn/run", "--quick", "--daemon", switches.DAEMON, limit=900)
