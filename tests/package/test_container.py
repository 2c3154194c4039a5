# SPDX-License-Identifier: Apache-2.0
"""examples/container: the switch as a container has it, with the capabilities of the manifest and no others, a root that
cannot be written, /run/openvswitch and /sys/fs/bpf of the host, a /tmp, and process numbers of its own."""
import os
import pathlib
import re
import signal

import pytest

import lab
import system as systems
from test_package import Network

EXAMPLE = systems.PACKAGES / "ovs-xdp/examples/container"
# linux/capability.h
NUMBERS = {"NET_ADMIN": 12, "NET_RAW": 13, "IPC_LOCK": 14, "SYS_ADMIN": 21, "PERFMON": 38, "BPF": 39}


def capabilities():
    """Those that the manifest adds, after it dropped all."""
    manifest = (EXAMPLE / "kubernetes.yaml").read_text(encoding="utf-8")
    added = re.search(r"drop: \[ALL\]\n +add:\n((?: +- [A-Z_]+ .*\n)+)", manifest)[1]
    return re.findall(r"- ([A-Z_]+)", added)


def of_process(pid, file):
    return pathlib.Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8")


def children(pid):
    return [int(child) for child in of_process(pid, f"task/{pid}/children").split()]


class Container:
    """A container of the image that the Dockerfile makes, as its command says it."""

    def __init__(self, system, folder, names):
        self.system, self.root, self.names = system, folder / "container", names
        self.process = None

    def __enter__(self):
        """A second view of the system: read-only, and with only what the manifest mounts."""
        self.root.mkdir()
        lab.run("cp", EXAMPLE / "start", self.system.root / "usr/local/sbin/start")
        lab.run("mount", "--bind", self.system.root, self.root)
        lab.run("mount", "-o", "remount,bind,ro", self.root)
        for name in "openvswitch", "netns":
            pathlib.Path(f"/run/{name}").mkdir(exist_ok=True)
        lab.run("mount", "-t", "tmpfs", "tmpfs", self.root / "run")
        for name in "openvswitch", "netns":
            (self.root / "run" / name).mkdir()
            lab.run("mount", "--bind", f"/run/{name}", self.root / "run" / name)
        lab.run("mount", "-o", "remount,ro", self.root / "run")
        lab.run("mount", "--bind", "/sys", self.root / "sys")
        lab.run("mount", "-o", "remount,bind,ro", self.root / "sys")
        lab.run("mount", "--bind", "/sys/fs/bpf", self.root / "sys/fs/bpf")
        for name in "tmp", "dev":
            lab.run("mount", "-t", "tmpfs", "tmpfs", self.root / name)
        (self.root / "dev/net").mkdir()
        for device in "null", "zero", "random", "urandom", "net/tun":
            (self.root / "dev" / device).touch()
            lab.run("mount", "--bind", f"/dev/{device}", self.root / "dev" / device)
        return self

    def start_database(self):
        """Its first process does."""

    def start_daemon(self):
        """Its first process is number 1 of its own."""
        kept = ",".join(f"+{name.lower()}" for name in self.names)
        self.process = lab.Process(
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
            f"mount -t proc proc {self.root}/proc && exec chroot {self.root} setpriv --bounding-set=-all,{kept} "
            "--inh-caps=-all --no-new-privs /usr/local/sbin/start", stdout=open(self.system.folder / "said", "ab"))
        lab.wait_until(lambda: "Open vSwitch" in self.appctl("version", check=False) or not self.process.running(),
                       "the daemon in the container")
        assert self.process.running(), self.said()
        self.vsctl("show")

    def vsctl(self, *args, **how):
        return self.system.vsctl(*args, **how)

    def appctl(self, *args, **how):
        return self.system.appctl("-t", "/run/openvswitch/ovs-vswitchd.ctl", *args, **how)

    def first(self):
        """Its first process, as this namespace numbers it."""
        return children(self.process.pid)[0]

    def daemon(self):
        found, = (pid for pid in children(self.first()) if "vswitchd" in of_process(pid, "comm"))
        return found

    def stop_daemon(self):
        """As an engine does it: a signal to the first process."""
        os.kill(self.first(), signal.SIGTERM)
        self.process.wait()

    def said(self):
        return (self.system.folder / "said").read_text(encoding="utf-8")

    def close(self):
        if self.process:
            self.process.close()

    def __exit__(self, kind, *_):
        if kind:
            print(self.said())
        self.close()
        lab.run("umount", "-R", "-l", self.root, check=False)


def test_capabilities(world, installed):
    """With those of the manifest programs run, outlive the container, and the next one takes them over."""
    with Container(installed, installed.folder, capabilities()) as container:
        network = Network(world, container)
        held = re.search(r"^CapEff:\s+(\S+)", of_process(container.daemon(), "status"), re.MULTILINE)[1]
        assert int(held, 16) == sum(1 << NUMBERS[name] for name in capabilities())
        assert "Read-only file system" in lab.run("touch", container.root / "etc/x", check=False)
        network.programs_forward()
        assert installed.status("to-red")["xdp-hook"] == "tcx"
        assert installed.vsctl("get", "interface", "to-red", "error").strip() == "[]"
        assert "programs go on, pinned in" in container.appctl("xdp/show")
        with network.loses_nothing() as stream:
            container.stop_daemon()
            stream.flowing()
            container.start_daemon()
            lab.wait_until(lambda: re.search(r"took over [1-9]\d* device", container.said()), "the take-over")


@pytest.mark.parametrize("missing", capabilities())
def test_each_capability_is_needed(world, installed, missing):
    """Without any one of them programs do not forward as with it: the manifest asks for nothing in vain."""
    names = [name for name in capabilities() if name != missing]
    if missing == "NET_ADMIN":
        with Container(installed, installed.folder, names) as container:
            container.start_daemon()
            said = installed.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=xdp", check=False)
            assert "not permitted" in said or "CAP_NET_ADMIN" in said + container.said(), said
        return
    with Container(installed, installed.folder, names) as container:
        container.start_daemon()
        installed.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=xdp", check=False)
        inside = world.enter_context(lab.Namespace("red"))
        lab.make_veth("to-red", inside)
        installed.vsctl("add-port", "br0", "to-red", check=False)
        error = installed.vsctl("get", "interface", "to-red", "error")
        assert error.strip() != "[]" and installed.status("to-red").get("xdp-hook") != "tcx"
