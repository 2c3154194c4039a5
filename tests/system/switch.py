# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch: own database, own run directory, nothing shared with an installed one."""
import json
import os
import pathlib
import re
import shutil
import tempfile

import lab

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("OXDP_BUILD", TOP / "build"))

# To see what a test says about the stock daemon: OXDP_DAEMON=.../ovs-vswitchd OXDP_DATAPATH=netdev
DAEMON = pathlib.Path(os.environ.get("OXDP_DAEMON", BUILD / "ovs-vswitchd-xdp"))
DATAPATH = os.environ.get("OXDP_DATAPATH", "xdp")
# The daemon goes on as this user (its option --user), with a few capabilities: OXDP_USER=nobody.
USER = os.environ.get("OXDP_USER")

# How the error of a port ends that has XDP without flow tables.
WITHOUT_FLOW_TABLES = "XDP in mode native without flow tables is used: AF_XDP takes every packet to the engine"

# Lines of the log above this level are failures, except those that a test expects.
PROBLEM = re.compile(r"\|(WARN|ERR|EMER)\||Sanitizer|runtime error:")
HARMLESS = re.compile("|".join((
    r"Unreasonably long .* poll interval", r"faults: .* minor", r"context switches: ", r"disk: .* reads",
    r"Dropped .* log messages in last", r"terminating with signal", r"connection dropped|connection reset|send error: Broken pipe",
    r"received packet on unknown port",         # It came while the bridge was being taken down.
    r"xlate_key failed \(No such device\)",     # A revalidator met a flow of a port that had just been removed.
    r"ukey installation fails",                 # It came while a revalidator deleted its flow: not installed again yet.
    # Open vSwitch frees flows after an RCU grace period, and looks for their recirculation IDs before (destruct() of
    # ofproto/ofproto-dpif.c): a busy machine ends the grace period later.
    r"recirc_id \d+ left allocated when ofproto",
    r"blocked [1-9]\d{3} ms waiting")))         # The machine is busy: less than 10 seconds are no deadlock.

# Of all of Open vSwitch's tools.  On a busy machine they warn that they had to wait, in the midst of their answers.
TOOL_OPTIONS = (f"--timeout={lab.PATIENCE - 10}", "--verbose=console:err")


def tool(name):
    """The path of one of Open vSwitch's programs: of our build, else an installed one."""
    for folder in "utilities", "ovsdb", "vswitchd":
        path = BUILD / "openvswitch" / folder / name
        if path.exists():
            return path
    path = shutil.which(name)
    if not path:
        raise lab.Failed(f"{name} is neither in {BUILD}/openvswitch nor installed: run make")
    return path


def source(name):
    """A file of the sources that the tools were built from; None where those are not here."""
    tree = tool("ovs-vsctl").resolve().parent.parent
    makefile = tree / "Makefile"
    found = re.search(r"^abs_top_srcdir = (.*)$", makefile.read_text(encoding="utf-8"), re.MULTILINE) if makefile.exists() else None
    path = pathlib.Path(found[1] if found else "/nonexistent") / name
    return path if path.exists() else None


def schema():
    tree = pathlib.Path(tool("ovsdb-tool")).resolve().parent.parent
    for path in tree / "vswitchd/vswitch.ovsschema", pathlib.Path("/usr/share/openvswitch/vswitch.ovsschema"):
        if path.exists():
            return path
    raise lab.Failed("vswitch.ovsschema is not installed")


class Switch:
    """ovsdb-server and the daemon.

    On leaving a "with" block both end, and an unexpected warning in the daemon's log is a failure."""

    hook = None                         # other_config:xdp-hook.
    options = ("--disable-system",)     # Of the daemon.

    def __init__(self, daemon=DAEMON, datapath=DATAPATH, env=None, user=USER):
        if not pathlib.Path(daemon).exists():
            raise lab.Failed(f"{daemon} does not exist: run make")
        self.daemon, self.datapath, self.user = daemon, datapath, user
        self.rundir = pathlib.Path(tempfile.mkdtemp(prefix="ovs-xdp-", dir="/run"))
        self.log_path = self.rundir / "ovs-vswitchd.log"
        self.expected = []              # Regular expressions of warnings that a test provokes.
        self.process = self._database = None
        self.env = {**os.environ, **(env or {}),
                    **{f"OVS_{name}DIR": str(self.rundir) for name in ("RUN", "LOG", "DB", "SYSCONF")}}
        self.env["PATH"] = f"{pathlib.Path(tool('ovs-vsctl')).parent}:{self.env['PATH']}"

    def start_database(self):
        lab.run(tool("ovsdb-tool"), "create", self.rundir / "conf.db", schema())
        self._database = lab.Process(
            tool("ovsdb-server"), self.rundir / "conf.db", f"--remote=punix:{self.rundir}/db.sock",
            f"--unixctl={self.rundir}/ovsdb-server.ctl", f"--log-file={self.rundir}/ovsdb-server.log",
            "-vconsole:off", env=self.env)
        lab.wait_until(lambda: (self.rundir / "db.sock").exists() or not self._database.running(), "ovsdb-server")
        self.vsctl("--retry", "--no-wait", "init")     # The socket is there before the server listens.
        if self.hook:
            self.vsctl("--no-wait", "set", "open", ".", f"other_config:xdp-hook={self.hook}")

    def start(self):
        """Starts the daemon and returns when it has read the database."""
        self.launch()
        lab.wait_until(lambda: (self.rundir / "ovs-vswitchd.ctl").exists() or not self.process.running(),
                       "the daemon's control socket")
        if not self.process.running():
            raise lab.Failed(f"{self.process.name} ended at once:\n" + "\n".join(self.log()[-10:]))
        self.vsctl("show")

    def launch(self):
        """Starts the daemon, and waits for nothing."""
        if self.user:
            lab.run("chown", "-R", self.user, self.rundir)
        with open(self.rundir / "stderr", "ab") as stderr:
            self.process = lab.Process(
                self.daemon, f"unix:{self.rundir}/db.sock", f"--unixctl={self.rundir}/ovs-vswitchd.ctl",
                f"--log-file={self.log_path}", "-vconsole:off", *self.options,
                *([f"--user={self.user}"] if self.user else []), env=self.env, stdout=stderr)

    def stop(self, cleanup=False):
        """Ends the daemon as "ovs-appctl exit" does."""
        self.appctl("exit", *(["--cleanup"] if cleanup else []))
        status = self.process.wait()
        if status:
            raise lab.Failed(f"{self.process.name}: exit status {status}\n" + "\n".join(self.log()[-10:]))

    def crash(self):
        """Kills the daemon without a chance to clean up.  Its control socket stays, as after a real crash."""
        self.process.kill()
        (self.rundir / "ovs-vswitchd.ctl").unlink(missing_ok=True)

    def __enter__(self):
        try:
            self.start_database()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, *_):
        crashed = not self.process.running()
        if kind:
            print("\n".join(self.log()[-40:]))
        try:
            if kind is None and not crashed:
                self.stop(cleanup=True)
        finally:
            problems = self.problems()
            self.close()
        if kind is None and (problems or crashed):
            raise lab.Failed("\n".join(["the daemon is gone"] * crashed + problems))

    def close(self):
        for process in self.process, self._database:
            if process:
                process.close()
        shutil.rmtree(self.rundir, ignore_errors=True)

    def vsctl(self, *args, **how):
        return lab.run(tool("ovs-vsctl"), f"--db=unix:{self.rundir}/db.sock", *TOOL_OPTIONS, *args, env=self.env, **how)

    def appctl(self, *args, target="ovs-vswitchd.ctl", **how):
        return lab.run(tool("ovs-appctl"), *TOOL_OPTIONS, "-t", self.rundir / target, *args, env=self.env, **how)

    def ofctl(self, command, bridge, *args, **how):
        return lab.run(tool("ovs-ofctl"), *TOOL_OPTIONS, "-O", "OpenFlow15", command,
                       f"unix:{self.rundir}/{bridge}.mgmt", *args, env=self.env, **how)

    def flows(self, bridge, *flows):
        """Replaces the OpenFlow rules of 'bridge'."""
        self.ofctl("del-flows", bridge)
        self.ofctl("add-flows", bridge, "-", text="\n".join(flows) + "\n")

    def add_bridge(self, name="br0", *settings):
        self.vsctl("add-br", name, "--", "set", "bridge", name, f"datapath_type={self.datapath}", *settings)

    def add_port(self, device, *settings, bridge="br0", interface=()):
        """Plugs 'device' in; 'settings' are of its Port, 'interface' of its Interface."""
        self.vsctl("add-port", bridge, device, *settings,
                   *(["--", "set", "interface", device, *interface] if interface else []))
        error = self.error(device)
        if error:
            raise lab.Failed(f"port {device}: {error}")

    def get(self, table, record, column):
        """A column of the database as JSON says it; an empty set is None."""
        answer = json.loads(self.vsctl("--format=json", f"--columns={column}", "list", table, record))["data"][0][0]
        return {("set"): lambda v: v or None, "map": dict}.get(answer[0], lambda v: v)(answer[1]) \
            if isinstance(answer, list) else answer

    def error(self, device):
        return self.get("interface", device, "error")

    def status(self, device):
        return self.get("interface", device, "status")

    def used_instead(self, device, *interface):
        """The error column after 'device' was added, which is served in another way than was asked for."""
        self.vsctl("add-port", "br0", device, "--", "set", "interface", device, *interface)
        error = lab.wait_until(lambda: self.error(device), "an error")
        assert self.ofport(device) > 0 and self.status(device)["xdp-error"] == error
        return error

    def flow_counts(self, *words):
        """(packets, bytes) of the datapath flows whose text has all 'words', and the flows."""
        flows = [flow for flow in self.dump_flows("-m") if all(word in flow for word in words)]
        counts = [re.search(r"packets:(\d+), bytes:(\d+)", flow) for flow in flows]
        return sum(int(found[1]) for found in counts), sum(int(found[2]) for found in counts), flows

    def use_hook(self, device, option):
        """Sets an option of 'device', xdp-hook or one that leads to it, and waits until that hook is used."""
        self.vsctl("set", "interface", device, option)
        wanted = option.rpartition("=")[2]
        lab.wait_until(lambda: self.status(device).get("xdp-hook") == wanted, f"{device} on {wanted}")
        assert self.error(device) is None

    def port_counts(self, port, bridge="br0"):
        """(received packets, bytes, sent packets, bytes) as OpenFlow says."""
        text = self.ofctl("dump-ports", bridge, port)
        found = re.findall(r"[rt]x pkts=(\d+), bytes=(\d+)", text)
        return tuple(int(number) for pair in found for number in pair)

    def in_use(self, device):
        status = self.status(device)
        return status["xdp-hook"], status["xdp-mode"]

    def stats(self, section):
        """A section of "xdp/stats", a number for each name: "programs", "engine" or the name of a port."""
        block = re.search(rf"^  (?:port \d+: )?{section}:?\n((?:    .*\n)+)", self.appctl("xdp/stats"), re.MULTILINE)[1]
        return {name: int(number) for name, number in re.findall(r"^ +(.+): (\d+)$", block, re.MULTILINE)}

    def engine_drops(self):
        """The engine's drops, a number for each name."""
        return json.loads(self.appctl("xdp/stats", "--format=json"))["datapaths"][0]["engine"]["drops"]

    def over_mtu(self):
        """What was too long for its output, wherever that was found."""
        (report,) = json.loads(self.appctl("xdp/stats", "-f", "json"))["datapaths"]
        return (sum(port["frames"]["over_mtu"] + port["long_copies"] for port in report["ports"] if "frames" in port)
                + report["engine"]["drops"]["over_mtu"])

    def ofport(self, device):
        return self.get("interface", device, "ofport")

    def dp_port(self, device):
        """The number of 'device' in the datapath."""
        found = re.search(rf"^\s+port (\d+): {re.escape(device)}( |$)", self.appctl("dpctl/show"), re.MULTILINE)
        if not found:
            raise lab.Failed(f"{device} is no port of the datapath")
        return int(found[1])

    def dump_flows(self, *args):
        return self.appctl("dpctl/dump-flows", *args).splitlines()

    def log(self):
        """Lines of the daemon's log, and what it said to nobody (a sanitizer's report)."""
        return [line for path in (self.log_path, self.rundir / "stderr") if path.exists()
                for line in path.read_text(errors="replace").splitlines()]

    def problems(self):
        """Warnings and errors in the log that nobody expects."""
        return [line for line in self.log() if PROBLEM.search(line) and not HARMLESS.search(line)
                and not any(re.search(pattern, line) for pattern in self.expected)]
