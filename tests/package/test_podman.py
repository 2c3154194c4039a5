# SPDX-License-Identifier: Apache-2.0
"""examples/container/Dockerfile, which tests/package/run has built, started by Podman with the command of
docs/how-to/containers.md."""
import contextlib
import json
import pathlib
import re
import shlex
import shutil
import tempfile

import pytest

import lab
import system as systems
import traffic

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/how-to/containers.md"
NAME = "ovs-xdp"
# What Podman does by default and this host may not permit: cgroups, which need those that systemd makes, and limits of a user
# above those of this process, which need CAP_SYS_RESOURCE.
OF_THIS_HOST = ("--cgroups=disabled", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")


def documented():
    """The arguments of 'podman run' in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return shlex.split(re.search(r"^    podman run ((?:.*\\\n)+.*)$", text, re.MULTILINE)[1].replace("\\\n", ""))


class Podman:
    """Podman with the images of tests/package/run, and with containers of its own."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ovs-xdp-podman-", dir="/var/tmp"))
        lab.run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
        shutil.rmtree("/run/openvswitch", ignore_errors=True)
        for name in "openvswitch", "netns":
            pathlib.Path(f"/run/{name}").mkdir(exist_ok=True)

    def run(self, *args, **how):
        return lab.run("podman", "--root", systems.PACKAGES / "podman", "--runroot", systems.PACKAGES / "podman-run",
                       "--cgroup-manager=cgroupfs", *args, **how)

    def start(self, seccomp="unconfined"):
        words = [word.replace("seccomp=unconfined", f"seccomp={seccomp}") for word in documented()]
        self.run("run", *OF_THIS_HOST, *words)
        lab.wait_until(lambda: "Open vSwitch" in self.appctl("version", check=False), "the daemon in the container")

    def exec(self, *args, **how):
        return self.run("exec", NAME, *args, **how)

    def vsctl(self, *args, **how):
        return self.exec("ovs-vsctl", "--timeout=30", *args, **how)

    def appctl(self, *args, **how):
        return self.exec("ovs-appctl", "--timeout=30", "-t", "/run/openvswitch/ovs-vswitchd.ctl", *args, **how)

    def error(self, device):
        return self.vsctl("get", "interface", device, "error").strip()

    def replace(self):
        """Ends the container and starts the next one."""
        self.run("stop", NAME)
        self.run("rm", NAME)
        self.start()

    def said(self):
        return self.run("logs", NAME, check=False)

    def close(self):
        self.run("rm", "--force", "--time", "0", NAME, check=False)
        lab.run("umount", "-R", "-l", self.folder, check=False)
        lab.run("umount", "/sys/fs/cgroup", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(name="podman")
def podman_of_this_test(world):
    podman = Podman()
    world.callback(podman.close)
    return podman


@contextlib.contextmanager
def two_containers(world, podman):
    """Namespaces red and green, with ports of a bridge of the switch in the container."""
    podman.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=xdp")
    inside = {}
    for name, address in ("red", "10.0.0.1"), ("green", "10.0.0.2"):
        inside[name] = world.enter_context(lab.Namespace(name))
        lab.make_veth(f"to-{name}", inside[name])
        lab.add_addresses(inside[name], "eth0", f"{address}/24")
        podman.vsctl("add-port", "br0", f"to-{name}")
    yield inside["red"], inside["green"]


def forwards(podman, red):
    return traffic.ping(red, "10.0.0.2") and re.search(r"forwarded by the program: [1-9]", podman.appctl("xdp/stats", "--sum"))


def test_documented_command(world, podman):
    """Programs forward; the next container takes them over, and nothing is lost meanwhile."""
    podman.start()
    with two_containers(world, podman) as (red, green):
        lab.wait_until(lambda: forwards(podman, red), "packets that programs forward")
        assert podman.error("to-red") == "[]"
        with traffic.Stream(red, green, "10.0.0.2") as stream:
            stream.flowing()
            lab.wait_until(lambda: "dp:tcx" in podman.appctl("dpctl/dump-flows", "-m"), "flows in programs")
            podman.replace()
            lab.wait_until(lambda: re.search(r"took over [1-9]\d* device", podman.said()), "the take-over")
            stream.flowing()
            assert stream.lost() == 0


def test_profile_that_allows_bpf(world, podman):
    """The profile that the document makes of the default one."""
    profile = podman.folder / "profile.json"
    command = re.search(r"^    (python3 -c '(?:.*\n)+?.*' < \S+ > )(\S+)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    lab.run("sh", "-c", re.sub("^    ", "", command[1], flags=re.MULTILINE) + str(profile))
    podman.start(profile)
    with two_containers(world, podman) as (red, _):
        lab.wait_until(lambda: forwards(podman, red), "packets that programs forward")


def test_profile_that_forbids_bpf(world, podman):
    """The error names what it is, and the engine serves."""
    profile = podman.folder / "profile.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["bpf"], "action": "SCMP_ACT_ERRNO"}]}),
                       encoding="utf-8")
    podman.start(profile)
    with two_containers(world, podman) as (red, _):
        assert "its seccomp filter (in a container: use a profile that allows bpf, or none)" in podman.error("to-red")
        traffic.wait_for_ping(red, "10.0.0.2")
