# SPDX-License-Identifier: Apache-2.0
"""The private world of a test or a demonstration: namespaces, programs, waiting.

enter() moves the calling process into network and mount namespaces of its own: the "host" of the test.  Nothing made
there is seen outside, and all of it is gone when the process and what it started end, however they end.

    host (a network namespace of our own)                 Namespace("red")
    [ ovs-vswitchd-xdp ]  br0 ---- to-red ============== eth0
"""
import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import threading
import time

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1

# The limit of every wait, in seconds.  It is long because machines may be slow and busy: on one with 18 runnable threads
# for 2 CPUs a daemon took 10 s to start.
PATIENCE = int(os.environ.get("OXDP_PATIENCE", "60"))     # Seconds.  An emulated machine needs more.

_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """A sentence that says what did not work."""


def enter():
    """Moves this process into namespaces of its own, with its own /run, /sys and /sys/fs/bpf."""
    _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWNET), "unshare")
    _check(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount --make-rprivate /")
    _show_this_namespace()
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    pathlib.Path("/run/netns").mkdir()
    run("ip", "link", "set", "lo", "up")


def new_host():
    """Exchanges the host for a fresh one: no devices, no addresses.  After enter()."""
    _check(_libc.unshare(CLONE_NEWNET), "unshare")
    run("umount", "-l", "/sys")
    _show_this_namespace()
    run("ip", "link", "set", "lo", "up")


@contextlib.contextmanager
def open_to_users():
    """For the time of a "with" block, users have what they have of a host with udev and systemd: a /dev/net/tun for all, and a
    /sys/fs/bpf that root alone may enter."""
    run("chmod", "700", "/sys/fs/bpf")
    tun = pathlib.Path("/run/tun")
    run("mknod", "-m", "666", tun, "c", "10", "200")
    run("mount", "--bind", tun, "/dev/net/tun")
    try:
        yield
    finally:
        run("umount", "/dev/net/tun")
        tun.unlink()


def thread():
    """The number of this thread, which tells ip(8) its namespaces: those of the process are its first thread's, and pytest-xdist
    may run tests in another."""
    return threading.get_native_id()


def run(*args, check=True, limit=PATIENCE, text=None, env=None):
    """Runs a program and returns what it printed.  If it fails: raises Failed with what it said, or, without
    'check', returns that.  'text' is its input."""
    args = [str(arg) for arg in args]
    try:
        done = subprocess.run(args, input=text or "", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=limit, env=env, check=False)
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"{' '.join(args)}: no end within {limit} s") from expired
    except FileNotFoundError as missing:
        raise Failed(f"{args[0]} is not installed") from missing
    if check and done.returncode:
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
        time.sleep(0.01)


@contextlib.contextmanager
def one_cpu():
    """This thread runs on one CPU: packets that it sends are received there, one behind the other."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)


class Process:
    """A program in the background.  It ends with close(), and also if this process is killed."""

    def __init__(self, *args, env=None, stdout=None):
        self.name = pathlib.Path(str(args[0])).name
        self._popen = subprocess.Popen([str(arg) for arg in args], stdin=subprocess.DEVNULL, env=env,
                                       stdout=stdout or subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                       preexec_fn=_begin_child)
        self.pid = self._popen.pid

    def running(self):
        return self._popen.poll() is None

    def wait(self, limit=PATIENCE):
        """Returns the exit status, negative for a signal."""
        try:
            return self._popen.wait(limit)
        except subprocess.TimeoutExpired as expired:
            raise Failed(f"{self.name} did not end within {limit} s") from expired

    def kill(self, number=signal.SIGKILL):
        """Sends a signal and waits for the end."""
        if self.running():
            self._popen.send_signal(number)
        return self.wait()

    def close(self):
        if self.running():
            self._popen.terminate()
            try:
                self._popen.wait(5)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait(120)   # The kernel closes its files: thousands of sockets take a while.

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Namespace:
    """A network namespace; without a name, the one in which this process lives."""

    def __init__(self, name=None):
        self.name = name
        if name:
            run("ip", "netns", "add", name)
            self.run("ip", "link", "set", "lo", "up")

    def run(self, *args, **how):
        return run(*self._inside(), *args, **how)

    def start(self, *args, **how):
        return Process(*self._inside(), *args, **how)

    def _inside(self):
        return ("ip", "netns", "exec", self.name) if self.name else ()

    @contextlib.contextmanager
    def entered(self):
        """For the time of a "with" block, this thread is in the namespace: sockets made there belong to it."""
        if not self.name:
            yield
            return
        with open("/proc/thread-self/ns/net", "rb") as home, open(f"/run/netns/{self.name}", "rb") as there:
            _check(_libc.setns(there.fileno(), CLONE_NEWNET), f"enter {self.name}")
            try:
                yield
            finally:
                _check(_libc.setns(home.fileno(), CLONE_NEWNET), "return")

    def close(self):
        if self.name:
            run("ip", "netns", "delete", self.name, check=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def make_veth(device, namespace, inside="eth0", mtu=1500):
    """Makes a veth pair: 'device' here, 'inside' in 'namespace', both up."""
    run("ip", "link", "add", device, "mtu", mtu, "type", "veth", "peer", "name", inside, "mtu", mtu,
        *(["netns", namespace.name] if namespace.name else []))
    namespace.run("ip", "link", "set", inside, "up")
    run("ip", "link", "set", device, "up")


def add_addresses(namespace, device, *addresses):
    """Gives 'device' IPv4 or IPv6 addresses such as "10.0.0.1/24", usable at once."""
    for address in addresses:
        namespace.run("ip", "address", "add", address, "dev", device, *(["nodad"] if ":" in address else []))


def mac_of(namespace, device="eth0"):
    return namespace.run("cat", f"/sys/class/net/{device}/address").strip()


def kernel():
    """The kernel's release: (6, 1)."""
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])


def kernel_counts(namespace, device, *names):
    """Statistics of a device in the kernel, such as "rx_packets"."""
    folder = f"/sys/class/net/{device}/statistics"
    return tuple(int(number) for number in namespace.run("cat", *(f"{folder}/{name}" for name in names)).split())


def cpu_seconds(pid):
    """CPU time of all threads of a process, from the scheduler's nanoseconds."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def memory_mib(pid):
    """Memory of a process that is in RAM."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise Failed("no VmRSS")


def _show_this_namespace():
    """/sys shows the devices of the network namespace in which it was mounted."""
    run("mount", "-t", "sysfs", "sysfs", "/sys")
    run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf")


def _begin_child():
    """It dies with this process, and of SIGINT, as in a terminal: what a shell runs in the background ignores that, and so do
    its children."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _check(result, what):
    if result:
        raise Failed(f"{what}: {os.strerror(ctypes.get_errno())}" + ("" if os.geteuid() == 0 else " (run as root)"))
