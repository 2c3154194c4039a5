# SPDX-License-Identifier: Apache-2.0
"""A system whose first process is systemd.  systemd-nspawn(1) boots it in the test's network namespace, without a virtual
machine."""
import contextlib
import os
import pathlib
import re
import signal

import lab
import system as systems

CGROUPS = pathlib.Path("/sys/fs/cgroup")


class Booted(systems.System):
    """What a System offers, with its daemons as units."""

    def __init__(self, system, *options):       # pylint: disable=super-init-not-called
        self.folder, self.root, self.options = system.folder, system.root, options
        self._groups, self._nspawn, self._leader = [], None, None

    def __enter__(self):
        for name in "proc", "sys", "dev", "run":
            lab.run("umount", "-R", "-l", self.root / name)
        self._groups = make_groups(f"ovs-xdp-{os.getpid()}")
        enter = "; ".join(f"echo $$ > {group}/cgroup.procs" for group in self._groups)
        options = ("--quiet", "--boot", "--keep-unit", "--register=no", "--link-journal=no", "--console=read-only",
                   "--capability=all", "'--system-call-filter=bpf perf_event_open'", "--bind=/dev/net/tun", "--bind=/sys/fs/bpf",
                   *self.options)
        try:
            self._nspawn = lab.Process("sh", "-c", f"{enter}; exec systemd-nspawn {' '.join(options)} --directory={self.root}",
                                       stdout=open(self.folder / "console", "wb"))
            self._leader = lab.wait_until(self._find_leader, "systemd in the container")
            lab.wait_until(lambda: self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded"),
                           "the end of the boot")
        except BaseException:
            print((self.folder / "console").read_text(encoding="utf-8", errors="replace"))
            self.close()
            raise
        return self

    def _find_leader(self):
        """The container's first process, as the host numbers it."""
        if not self._nspawn.running():
            raise lab.Failed("systemd-nspawn has ended")
        found = pathlib.Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text(encoding="utf-8").split()
        return next((int(pid) for pid in found if comm_of(pid) == "systemd"), None)

    def close(self):
        if self._nspawn and self._nspawn.running():
            self._nspawn.kill(signal.SIGTERM)   # It has the system shut down.
        for group in self._groups:
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)

    def _inside(self):
        return "nsenter", "-t", self._leader, "-m", "-p", "-u", "-i", "-r", "-w"

    def run(self, *args, **how):
        return lab.run(*self._inside(), *args, **how)

    def start(self, *args):
        return lab.Process(*self._inside(), *args)

    def text(self, path):
        return self.run("cat", path)

    def start_database(self):
        """The unit has started it."""

    def start_daemon(self, **how):
        self.run("systemctl", "start", "ovs-vswitchd", **how)

    def stop_daemon(self):
        self.run("systemctl", "stop", "ovs-vswitchd")

    def pid(self):
        return int(self.run("systemctl", "show", "-P", "MainPID", "ovs-vswitchd"))

    def runs(self):
        return self.run("readlink", f"/proc/{self.pid()}/exe").strip()

    def exposure(self):
        """What systemd-analyze(1) says of the daemon's unit: 0 to 10, less is better."""
        said = self.run("systemd-analyze", "security", "--no-pager", "ovs-vswitchd.service", check=False)
        return float(re.search(r"exposure level for ovs-vswitchd.service: ([\d.]+)", said)[1])


def comm_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return None


def make_groups(name):
    """Control groups in which a systemd may make its own: in the hierarchies that this machine's version needs."""
    hybrid = ":name=systemd:" in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8")
    if hybrid:
        lab.run("mount", "-t", "tmpfs", "tmpfs", CGROUPS)
        tops = {CGROUPS / "unified": ("-t", "cgroup2"), CGROUPS / "systemd": ("-t", "cgroup", "-o", "none,name=systemd,xattr")}
    else:
        tops = {CGROUPS: ("-t", "cgroup2")}
    for top, options in tops.items():
        top.mkdir(exist_ok=True)
        lab.run("mount", *options, "cgroup", top)
        (top / name).mkdir()
    return [top / name for top in tops]
