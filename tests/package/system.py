# SPDX-License-Identifier: Apache-2.0
"""A system with Debian's Open vSwitch, in which packages are installed and daemons are started as the units do it."""
import os
import pathlib
import re
import shutil
import signal
import tempfile

import lab

CACHE = pathlib.Path(os.environ.get("OVSXDP_CACHE") or os.environ.get("XDG_CACHE_HOME", "~/.cache") + "/ovs-xdp").expanduser()
PACKAGES = pathlib.Path(os.environ.get("OXDP_PACKAGES", CACHE / "package/bookworm"))
ROOT = pathlib.Path(os.environ.get("OXDP_ROOT", PACKAGES / "root"))

OURS = "/usr/lib/openvswitch-switch-xdp/ovs-vswitchd-xdp"
STOCK = "/usr/lib/openvswitch-switch/ovs-vswitchd"
NAMES = ("openvswitch-switch-xdp", "ovs-xdp-tools")
DROP_IN = "ovs-vswitchd.service.d/10-openvswitch-switch-xdp.conf"
UNITS = pathlib.Path("usr/lib/systemd/system")
# Lines of /etc/fstab with which the units start with a read-only root.
FSTAB = re.search(r"^```fstab\n(.*?)^```$", (pathlib.Path(__file__).resolve().parent.parent.parent / "docs/how-to/upgrade.md")
                  .read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1].splitlines()
# What installing and removing any package changes, and what is the host's.
OTHERS = re.compile(r"(?:var/(?:lib/(?:dpkg|apt|systemd/deb-systemd-helper)|cache|log|tmp)|etc/ld\.so\.cache|"
                    r"proc|sys|dev|run|tmp)(?:/|$)")


class System:
    """What is written to it is gone when it is closed, and so is what was started in it."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ovs-xdp-system-", dir="/var/tmp"))
        self.root = self.folder / "root"

    def __enter__(self):
        try:
            self._mount()
        except BaseException:
            self.close()
            raise
        return self

    def _mount(self):
        shutil.rmtree("/run/openvswitch", ignore_errors=True)
        lab.run("mount", "-t", "tmpfs", "tmpfs", self.folder)
        for name in "root", "upper", "work":
            (self.folder / name).mkdir()
        lab.run("mount", "-t", "overlay", "overlay", "-o",
                f"lowerdir={ROOT},upperdir={self.folder}/upper,workdir={self.folder}/work", self.root)
        for name in "proc", "sys", "dev", "run":
            lab.run("mount", "--rbind", f"/{name}", self.root / name)

    def close(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        lab.wait_until(lambda: not self.processes(), "the end of what was started in the system")
        lab.run("umount", "-R", "-l", self.folder, check=False)
        self.folder.rmdir()

    def __exit__(self, *_):
        self.close()

    def make_read_only(self, *writable):
        """All but what is a file system of its own, and lines of fstab(5)."""
        for kind, folder, _, options, *_ in map(str.split, writable):
            lab.run("mount", "-t", kind, "-o", options, kind, self.root / folder.lstrip("/"))
        lab.run("mount", "-o", "remount,ro", self.root)

    def run(self, *args, **how):
        return lab.run("chroot", self.root, *args, **how)

    def start(self, *args):
        return lab.Process("chroot", self.root, *args)

    def text(self, path):
        return (self.root / path.lstrip("/")).read_text(encoding="utf-8")

    def processes(self, *names):
        """The processes that run in the system; of 'names', if there are any."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "root") == str(self.root) \
                        and (not names or (entry / "comm").read_text(encoding="utf-8").strip() in names) \
                        and not re.search(r"^State:\tZ", (entry / "status").read_text(encoding="utf-8"), re.MULTILINE):
                    found.append(int(entry.name))
            except OSError:
                pass                    # It has ended.
        return found

    def install(self, folder="/packages"):
        """Installs both packages from a folder of the system with apt, without a network.  Returns what that said."""
        debs = [f"{folder}/{path.name}" for path in (self.root / folder.lstrip("/")).glob("*.deb")]
        assert len(debs) == len(NAMES)
        return self.run("apt-get", "-qq", "-y", "--no-install-recommends", "--allow-downgrades", "install",
                        *debs)

    def version(self):
        return self.run("dpkg-query", "-W", "-f", "${Version}", NAMES[0])

    def files(self):
        """Everything in the system but what belongs to no single package: {path: what it is}."""
        found = {}
        for folder, folders, names in os.walk(self.root):
            here = os.path.relpath(folder, self.root)
            folders[:] = [name for name in folders if not OTHERS.match(os.path.normpath(f"{here}/{name}"))]
            for name in [*folders, *names]:
                path = os.path.normpath(f"{here}/{name}")
                if not OTHERS.match(path):
                    whole = os.path.join(folder, name)
                    found[path] = os.readlink(whole) if os.path.islink(whole) else oct(os.lstat(whole).st_mode)
        return found

    def choose(self, daemon):
        self.run("update-alternatives", "--set", "ovs-vswitchd", daemon)

    def chosen(self):
        return os.path.realpath(self.root / "etc/alternatives/ovs-vswitchd").removeprefix(str(self.root)) \
            if not os.path.islink(self.root / "etc/alternatives/ovs-vswitchd") \
            else os.readlink(self.root / "etc/alternatives/ovs-vswitchd")

    def command_of_unit(self, unit, key="ExecStart"):
        """The words of the line that systemd would run: the last one, of the unit and its drop-ins."""
        files = [self.root / UNITS / unit, *sorted((self.root / UNITS / f"{unit}.d").glob("*.conf"))]
        lines = [line for path in files for line in
                 re.findall(rf"^{key}=(.*)$", re.sub(r"\\\n\s*", "", path.read_text(encoding="utf-8")), re.MULTILINE)]
        return [word for word in lines[-1].split() if word != "$OVS_CTL_OPTS"]

    def start_database(self):
        self.run(*self.command_of_unit("ovsdb-server.service"))

    def start_daemon(self, **how):
        return self.run(*self.command_of_unit("ovs-vswitchd.service"), **how)

    def stop_daemon(self):
        self.run(*self.command_of_unit("ovs-vswitchd.service", "ExecStop"))

    def pid(self):
        return int((self.root / "run/openvswitch/ovs-vswitchd.pid").read_text(encoding="utf-8"))

    def runs(self):
        """The daemon's file."""
        return os.readlink(f"/proc/{self.pid()}/exe").removeprefix(str(self.root))

    def vsctl(self, *args, **how):
        return self.run("ovs-vsctl", f"--timeout={lab.PATIENCE - 10}", *args, **how)

    def appctl(self, *args, **how):
        return self.run("ovs-appctl", *args, **how)

    def status(self, device):
        return dict(re.findall(r'"?([\w-]+)"?="?([^",}]*)"?', self.vsctl("get", "interface", device, "status")))
