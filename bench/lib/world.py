# SPDX-License-Identifier: Apache-2.0
"""The private world of one measurement.

    namespace gen          the switch's namespace           namespace sink
    [generator] g0 ------- sw0 [ peer under test ] sw1 ------- s0 [sink]

The worker process runs in its own network, mount and process namespaces, so nothing it makes can be seen
outside, and all of it is gone when the worker ends, however it ends.  (Entered by lib/worker.py.)
"""

import contextlib
import ctypes
import json
import os
import pathlib
import socket
import subprocess
import time

GENERATOR_CPU = 0
SWITCH_CPU = min(1, os.cpu_count() - 1)     # Where a switch that polls is told to poll.
GENERATOR_MAC = "02:00:00:00:00:01"
SINK_MAC = "02:00:00:00:00:02"
GENERATOR_IP = "10.0.0.1"
SINK_IP = "10.1.0.1"


def sink_mac(number):
    """The address of the sink's 'number'-th receiver; bench-traffic generate --receivers counts in the same way."""
    return f"{SINK_MAC[:-2]}{int(SINK_MAC[-2:], 16) + number:02x}"


def pairs(ports):
    """[a, b, c, d] as [(a, b), (c, d)]: the ways that frames take through the switch."""
    return list(zip(ports[::2], ports[1::2]))


class Failed(Exception):
    """A sentence that says why something could not be measured."""


class World:
    def __init__(self, traffic):
        """'traffic' is the path of the bench-traffic program."""
        self.traffic = traffic
        self.frames = []                    # More options of 'generate': what frames look like.
        self.profile = None                 # Where perf's data go: the beginning of their names.
        self._children = []
        self._recordings = []
        self._receivers = []                # (namespace, device, address) that frames are sent to.
        for args in (("-t", "sysfs", "sysfs", "/sys"), ("-t", "bpf", "bpf", "/sys/fs/bpf"),
                     ("-t", "tmpfs", "tmpfs", "/run")):
            command("mount", *args)
        make_quiet()
        for namespace in "gen", "sink":
            self.make_namespace(namespace)

    def inside(self, namespace, *args):
        return command(*(("ip", "netns", "exec", namespace) if namespace else ()), *args)

    def make_path(self):
        """Makes the two veth pairs of the drawing above."""
        self.make_veth("sw0", "gen", "g0", GENERATOR_MAC)
        self.make_receiver("sw1", "s0")
        return ["sw0", "sw1"]

    def make_receiver(self, here, there):
        """One more veth to the sink's namespace, with the next address."""
        mac = sink_mac(len(self._receivers))
        self.make_veth(here, "sink", there, mac)
        self._receivers.append(("sink", there, mac))

    def make_namespace(self, name):
        command("ip", "netns", "add", name)
        with in_namespace(name):
            make_quiet()

    def make_veth(self, here, namespace, there, mac):
        command("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", namespace,
                "address", mac)
        command("ip", "-n", namespace, "link", "set", there, "up")
        command("ip", "link", "set", here, "up")
        # Redirecting into a veth needs NAPI on its peer.  XDP turns it on, and so does GRO, which is for
        # switches without XDP.
        command("ethtool", "-K", here, "gro", "on")

    def make_pair(self, namespace, one, other):
        """A veth pair inside a namespace."""
        command("ip", "-n", namespace, "link", "add", one, "type", "veth", "peer", "name", other)
        for device in one, other:
            command("ip", "-n", namespace, "link", "set", device, "up")

    def make_machine(self, one, other):
        """Two taps, and a process that copies frames from each to the other."""
        self.hold("vm", "--dev", one, "--to", other)
        for device in one, other:
            command("ip", "link", "set", device, "up")

    def start(self, *args, namespace=None, **popen):
        """Starts a process that lives as long as this world."""
        if namespace:
            args = ("ip", "netns", "exec", namespace, *args)
        child = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, **popen)
        self._children.append(child)
        return child

    def record(self, name, seconds):
        """Records what all CPUs do during the next 'seconds', if asked to profile."""
        if self.profile:
            self._recordings.append(self.start(*self.recorder(name), "-a", "--", "sleep", str(seconds)))

    def recorder(self, name, *options):
        """What stands before a command that is to be profiled; nothing if not asked to."""
        if not self.profile:
            return []
        pathlib.Path(self.profile).parent.mkdir(parents=True, exist_ok=True)
        return ["perf", "record", "-q", "-g", "-F", "1999", "-e", "cpu-clock", "-o", f"{self.profile}-{name}.data",
                *options]

    def finish_recordings(self):
        for child in self._recordings:
            child.communicate(timeout=30)

    def hold(self, *args, namespace=None):
        """Starts a bench-traffic command that attaches a program, and waits until it is attached."""
        child = self.start(self.traffic, *args, namespace=namespace)
        if not child.stdout.readline():
            raise Failed(child.stderr.read().strip() or f"{args[0]} ended at once")
        return child

    def release(self, child):
        """Ends what hold() started; its program is detached when this returns."""
        child.stdin.close()
        child.wait()

    def counting(self, *args, namespace=None):
        return Counts(self.hold(*args, namespace=namespace))

    def sink(self, device="s0", namespace="sink"):
        return self.counting("sink", "--dev", device, namespace=namespace)

    def generate(self, seconds, flows=1, rate=0, size=60, device="g0", cpu=GENERATOR_CPU, hold="lo"):
        """Starts the generator; its result is for generated()."""
        return self._send("generate", "--dev", device, "--cpu", str(cpu), "--seconds", str(seconds), "--flows", str(flows),
                          "--rate", str(rate), "--size", str(size), "--hold", hold)

    def take_turns(self, device, other, seconds, flows):
        """Has the generator send into two devices by turns; returns the frames of each turn, and pairs of how many
        nanoseconds a frame took."""
        return generated(self._send("turns", "--dev", device, "--to", other, "--cpu", str(GENERATOR_CPU),
                                    "--seconds", str(seconds), "--flows", str(flows)))

    def _send(self, what, *options):
        return self.start(self.traffic, what, "--src", GENERATOR_MAC, "--dst", SINK_MAC, *options, *self.frames,
                          namespace="gen")

    def give_addresses(self, offloads=False):
        """Makes the two ends hosts that know each other, without the offloads that a switch in userspace
        would have to make up for, unless 'offloads'."""
        self.give_address("gen", "g0", GENERATOR_IP, (SINK_IP, SINK_MAC), offloads)
        self.give_address("sink", "s0", SINK_IP, (GENERATOR_IP, GENERATOR_MAC), offloads)

    def give_host_addresses(self, device, offloads):
        """The same between gen and the switch's own namespace, where 'device' is on the switch."""
        mac = pathlib.Path(f"/sys/class/net/{device}/address").read_text(encoding="ascii").strip()
        command("ip", "link", "set", device, "up")
        self.give_address("gen", "g0", GENERATOR_IP, (SINK_IP, mac), offloads)
        self.give_address(None, device, SINK_IP, (GENERATOR_IP, GENERATOR_MAC), offloads)

    def give_address(self, namespace, device, address, other, offloads):
        """'address' is IP[/LENGTH], 8 bits of network without, 'other' the (IP, MAC) of the host there."""
        where = ["-n", namespace] if namespace else []
        command("ip", *where, "address", "add", address if "/" in address else f"{address}/8", "dev", device)
        command("ip", *where, "neighbour", "replace", other[0], "lladdr", other[1], "dev", device)
        if not offloads:
            self.inside(namespace, "ethtool", "-K", device, "tx", "off", "gro", "on")

    def lend_many_ports(self, namespace):
        """Lets a client make many connections: each keeps its port for a minute."""
        self.inside(namespace, "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65000", "net.ipv4.tcp_tw_reuse=1")

    def start_echo(self):
        """Starts who answers ping(), over UDP and over TCP."""
        for command_ in "echo", "serve":
            self.hold(command_, "--address", SINK_IP, "--cpu", str(GENERATOR_CPU), namespace="sink")

    def ping(self, seconds, new_flows=False, tcp=False):
        """Returns answers, lost, and the percentiles min, p50, p99, p999, max in nanoseconds; 'new_flows': each
        request from another port, or with 'tcp' by a connection of its own."""
        return json.loads(self.inside("gen", self.traffic, "ping", "--address", SINK_IP, "--seconds",
                                      str(seconds), "--cpu", str(GENERATOR_CPU), *["--new-flows"] * new_flows,
                                      *["--tcp"] * tcp))

    def wait_for_answers(self, limit=10):
        wait_for(lambda: self.ping(0.05)["answers"], "an answer through the switch", limit)

    def flood(self, seconds, size=60):
        """Starts sending datagrams from a socket; its result is for generated()."""
        return self.start(self.traffic, "flood", "--address", SINK_IP, "--seconds", str(seconds), "--size", str(size),
                          "--cpu", str(GENERATOR_CPU), namespace="gen")

    def announce_sink(self):
        """Sends a frame from each receiver's address, so that learning switches know where it lives."""
        for namespace, device, mac in self._receivers:
            frame = b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) + b"\x88\xb5" + bytes(46)
            with self.raw_socket(namespace, device) as sock:
                sock.send(frame)

    def introduce(self):
        """Lets switches learn where the sink lives before the first request, which they would flood: Open vSwitch
        looks at its flows again only after up to half a second."""
        self.announce_sink()
        time.sleep(0.25)

    def raw_socket(self, namespace, device):
        """A socket that sends frames out of a device."""
        with in_namespace(namespace):
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        sock.bind((device, 0))
        return sock

    def wait_for_path(self, sink, limit=10):
        """Returns when a frame of the generator reaches the sink."""
        before = sink.read()["packets"]
        end = time.monotonic() + limit
        while time.monotonic() < end:
            self.announce_sink()
            generated(self.generate(0.02, rate=10000))
            if sink.read()["packets"] > before:
                return
        raise Failed(f"no frame came through the switch within {limit} seconds")


class Counts:
    """What a bench-traffic command counts."""

    def __init__(self, child):
        self.child = child

    def read(self):
        """Returns counts so far: ns (when), and for a sink packets, bytes, others."""
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())


def generated(child):
    """Waits for the generator and returns what it did: sent, seconds, cpu_seconds."""
    out, err = child.communicate(timeout=120)
    if child.returncode:
        raise Failed(err.strip() or "the generator failed")
    return json.loads(out)


def command(*args, limit=30):
    """Runs a program and returns what it printed.  Raises Failed with what it said if it fails."""
    try:
        done = subprocess.run(args, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"{_short(args)}: no answer within {limit} seconds") from expired
    except FileNotFoundError as missing:
        raise Failed(f"{args[0]} is not installed") from missing
    if done.returncode:
        raise Failed(f"{_short(args)}: {done.stderr.strip() or 'failed'}")
    return done.stdout


def _short(args):
    shown = " ".join(args)
    return shown if len(shown) < 80 else shown[:77] + "..."


def make_quiet():
    """Sets up this network namespace without IPv6, whose neighbour discovery would join the traffic."""
    switch = pathlib.Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")
    if switch.exists():
        switch.write_text("1", encoding="ascii")
    command("ip", "link", "set", "lo", "up")


def wait_for(condition, what, limit=10):
    """Polls until condition() is true."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {limit} seconds")
        time.sleep(0.02)


@contextlib.contextmanager
def in_namespace(name):
    """Moves this thread into a network namespace for the duration of a 'with' block."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as home, open(f"/run/netns/{name}", "rb") as there:
        if libc.setns(there.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"cannot enter network namespace {name}")
        try:
            yield
        finally:
            libc.setns(home.fileno(), 0)
