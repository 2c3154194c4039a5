# SPDX-License-Identifier: Apache-2.0
"""examples/container/Dockerfile, which tests/package/run has built, started by Podman with the command of
docs/how-to/containers.md."""
import json
import pathlib
import re
import shlex
import shutil
import tempfile

import pytest

import lab
import system as systems
from test_package import Network

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
    """Podman with the images of tests/package/run, and a container of its own, in which the switch runs."""

    def __init__(self, name=NAME):
        self.name = name
        self.seccomp = "unconfined"     # The profile of the next container.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ovs-xdp-podman-", dir="/var/tmp"))
        lab.run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
        shutil.rmtree("/run/openvswitch", ignore_errors=True)
        for name in "openvswitch", "netns":
            pathlib.Path(f"/run/{name}").mkdir(exist_ok=True)

    def run(self, *args, **how):
        return lab.run("podman", "--root", systems.PACKAGES / "podman", "--runroot", systems.PACKAGES / "podman-run",
                       "--cgroup-manager=cgroupfs", *args, **how)

    def start_database(self):
        """The container does."""

    def start_daemon(self):
        words = [word.replace("seccomp=unconfined", f"seccomp={self.seccomp}") for word in documented()]
        self.run("run", *OF_THIS_HOST, *words)
        lab.wait_until(lambda: "Open vSwitch" in self.appctl("version", check=False), "the daemon in the container")

    def exec(self, *args, **how):
        return self.run("exec", self.name, *args, **how)

    def vsctl(self, *args, **how):
        return self.exec("ovs-vsctl", "--timeout=30", *args, **how)

    def appctl(self, *args, **how):
        return self.exec("ovs-appctl", "--timeout=30", "-t", "/run/openvswitch/ovs-vswitchd.ctl", *args, **how)

    def error(self, device):
        return self.vsctl("get", "interface", device, "error").strip()

    def stop_daemon(self):
        self.run("stop", self.name)
        self.run("rm", self.name)

    def said(self):
        return self.run("logs", self.name, check=False)

    def close(self):
        self.run("rm", "--force", "--time", "0", self.name, check=False)
        lab.run("umount", "/sys/fs/cgroup", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(name="podman")
def podman_of_this_test(world):
    podman = Podman()
    world.callback(podman.close)
    return podman


def test_documented_command(world, podman):
    """Programs forward; the next container takes them over, and nothing is lost meanwhile."""
    network = Network(world, podman)
    network.programs_forward()
    assert podman.error("to-red") == "[]"
    with network.loses_nothing():
        network.restart()
        lab.wait_until(lambda: re.search(r"took over [1-9]\d* device", podman.said()), "the take-over")


def test_profile_that_allows_bpf(world, podman):
    """The profile that the document makes of the default one."""
    podman.seccomp = podman.folder / "profile.json"
    command = re.search(r"^    (python3 -c '(?:.*\n)+?.*' < \S+ > )(\S+)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    lab.run("sh", "-c", re.sub("^    ", "", command[1], flags=re.MULTILINE) + str(podman.seccomp))
    Network(world, podman).programs_forward()


def test_profile_that_forbids_bpf(world, podman):
    """The error names what it is, and the engine serves."""
    podman.seccomp = podman.folder / "profile.json"
    podman.seccomp.write_text(
        json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["bpf"], "action": "SCMP_ACT_ERRNO"}]}),
        encoding="utf-8")
    network = Network(world, podman)
    assert "its seccomp filter (in a container: use a profile that allows bpf, or none)" in podman.error("to-red")
    network.forwards()
