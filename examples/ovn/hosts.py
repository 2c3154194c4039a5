# SPDX-License-Identifier: Apache-2.0
"""Hosts and containers made of Linux namespaces, and the programs that run on them.

A host has network, mount and process namespaces of its own, with its own /run/netns, /sys and /sys/fs/bpf.  Process 1 in it
waits: when that ends, the kernel ends all processes of the host, and its devices go with them.  A container is a network
namespace of a host.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import time

PATIENCE = 60           # Seconds after which what has not happened will not happen.

# What the first process of a host does.  /sys shows the network namespace in which it was mounted.
FIRST_PROCESS = """
set -e
mount --make-rprivate /
mkdir -p /run/netns
mount -t tmpfs -o mode=755 tmpfs /run/netns
mount -t sysfs sysfs /sys
mount -t bpf bpf /sys/fs/bpf
ip link set lo up
exec sleep infinity
"""


class Failed(Exception):
    """A sentence that says what did not work."""


def run(*args, text=None, limit=PATIENCE):
    """Runs a program and returns what it printed.  Raises Failed with what it said if it fails; 'text' is its input."""
    args = [str(arg) for arg in args]
    try:
        done = subprocess.run(args, input=text or "", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=limit, check=False)
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"{' '.join(args)}: no end within {limit} s") from expired
    except FileNotFoundError as missing:
        raise Failed(f"{args[0]} is not installed") from missing
    if done.returncode:
        raise Failed(f"{' '.join(args)}: {done.stdout.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def wait_until(condition, what, limit=PATIENCE):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {limit} s")
        time.sleep(0.05)


class Host:
    """A host.  'folder' keeps the number of its first process, its logs and its databases."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = pathlib.Path(folder) / name
        self._file = self.folder / "first-process"
        self._programs = []     # (name, process) of what this object started.

    def start(self):
        self.folder.mkdir(parents=True)
        with open(self.folder / "host.log", "wb") as log:
            keeper = subprocess.Popen(
                ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", FIRST_PROCESS],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        children = pathlib.Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children")
        first = wait_until(lambda: keeper.poll() is not None or children.read_text(encoding="utf-8").split(), self.name)
        if first is True:
            raise Failed(f"{self.name}: {(self.folder / 'host.log').read_text(encoding='utf-8').strip()} (run as root)")
        self._file.write_text(f"{first[0]} {started(first[0])}\n", encoding="utf-8")
        wait_until(lambda: name_of(first[0]) == "sleep" or not self.running(), self.name)
        if not self.running():
            raise Failed(f"{self.name}: {(self.folder / 'host.log').read_text(encoding='utf-8').strip()}")

    def first_process(self):
        """The number of its first process, or None.  A number that belongs to another process now is not taken."""
        with contextlib.suppress(OSError, ValueError):
            number, since = self._file.read_text(encoding="utf-8").split()
            if started(number) == since:
                return int(number)
        return None

    def running(self):
        return self.first_process() is not None

    def stop(self):
        number = self.first_process()
        if number:
            os.kill(number, signal.SIGKILL)
            wait_until(lambda: not self.running(), f"the end of {self.name}")

    def inside(self, container=None):
        """The words that make a command run here, or in one of the containers."""
        number = self.first_process()
        if not number:
            raise Failed(f"{self.name} does not run")
        words = ["nsenter", f"--target={number}", "--net", "--mount", "--pid"]
        # The container's /sys would hide the host's: only the network is the container's.
        return words + (["nsenter", f"--net=/run/netns/{container}"] if container else [])

    def run(self, *args, container=None, **how):
        return run(*self.inside(container), *args, **how)

    def spawn(self, *args, container=None, env=(), log="programs.log"):
        """Starts a program that runs as long as the host."""
        with open(self.folder / log, "ab") as output:
            process = subprocess.Popen([*self.inside(container), "env", *env, *(str(arg) for arg in args)],
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        self._programs.append((pathlib.Path(args[0]).name, process))

    def ended(self):
        """A sentence about a program that was started and runs no more, or None."""
        for name, process in self._programs:
            status = process.poll()
            if status is not None:
                how = f"with exit status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"
                return f"{self.name}: {name} ended {how}"
        return None

    def add_container(self, name, device, mac, mtu):
        """A namespace 'name' with eth0, whose peer is 'device' here."""
        self.run("ip", "netns", "add", name)
        self.run("ip", "link", "add", device, "mtu", mtu, "type", "veth", "peer", "name", "eth0", "address", mac, "mtu", mtu,
                 "netns", name)
        self.run("ip", "link", "set", device, "up")
        for device in "lo", "eth0":
            self.run("ip", "link", "set", device, "up", container=name)


def connect(one, device, other, other_device, mtu=1500):
    """A cable between two hosts."""
    run("ip", "link", "add", "name", device, "mtu", mtu, "netns", one.first_process(), "type", "veth",
        "peer", "name", other_device, "mtu", mtu, "netns", other.first_process())
    one.run("ip", "link", "set", device, "up")
    other.run("ip", "link", "set", other_device, "up")


def started(number):
    """When a process was started, as the kernel says it; "" if there is none."""
    try:
        text = pathlib.Path(f"/proc/{number}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def name_of(number):
    try:
        return pathlib.Path(f"/proc/{number}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
