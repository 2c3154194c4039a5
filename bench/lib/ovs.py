# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch: own run directory, own database, nothing shared with an installed one."""

import os
import pathlib
import re
import shutil

from bench.lib import world

RUN = pathlib.Path("/run/ovs")              # A tmpfs of the measurement's own mount namespace.

# What a peer is asked to do, as the OpenFlow rules that do it.
RULES = {
    "output": ["in_port=sw0,actions=output:sw1", "in_port=sw1,actions=output:sw0"],
    "match": ["udp,in_port=sw0,nw_dst=10.1.0.0/16,tp_dst=9,actions=output:sw1",
              "in_port=sw1,actions=output:sw0"],
    "normal": ["actions=NORMAL"],
    "set": ["in_port=sw0,ip,actions=set_field:02:00:00:00:00:11->eth_src,set_field:02:00:00:00:00:22->eth_dst,"
            "set_field:10.2.0.1->ip_src,set_field:10.3.0.1->ip_dst,dec_ttl,output:sw1",
            "in_port=sw1,actions=output:sw0"],
    "push-vlan": ["in_port=sw0,actions=mod_vlan_vid:100,output:sw1",
                  "in_port=sw1,actions=output:sw0"],
    "pop-vlan": ["in_port=sw0,dl_vlan=100,actions=strip_vlan,output:sw1", "in_port=sw1,actions=output:sw0"],
    "ip6": ["udp6,in_port=sw0,ipv6_src=2001:db8::,ipv6_dst=2001:db8:100::1,tp_src=1024,tp_dst=9,"
            "actions=output:sw1", "in_port=sw1,actions=output:sw0"],
    # Reading a field for a move makes the datapath flow match it exactly: one flow per source.
    "per-source": ["priority=2,udp,in_port=sw0,actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],"
                   "move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],output:sw1",
                   "priority=1,in_port=sw0,actions=output:sw1",
                   "in_port=sw1,actions=output:sw0"],
}


class OvsPeer:
    """A peer that is an ovs-vswitchd.  Subclasses say which one and how."""

    name = title = None
    daemon = "ovs-vswitchd"
    datapath_type = "netdev"
    port_type = "system"
    cpu_mask = 1 << world.SWITCH_CPU        # Where threads that move packets run; None: anywhere.
    offloads = False                        # Whether hosts behind its ports may leave work to their devices.
    options = {}                            # Open_vSwitch:other_config, set before there is a datapath.
    rules = frozenset(RULES)
    sink_at = ("s0", "sink")

    def __init__(self):
        self._pids = []

    def missing(self, _settings):
        """Why this peer cannot run here, or None."""
        for program in self.daemon, "ovsdb-server", "ovs-vsctl", "ovs-ofctl":
            if not shutil.which(program):
                return f"{program} is not installed"
        return None

    def version(self):
        return world.command(self.daemon, "--version").splitlines()[0]

    def pids(self):
        return self._pids

    def start(self, w, ports, rule):
        """Starts the daemon with a bridge of 'ports' that forwards by 'rule'."""
        self._start_daemons(w)
        options = dict(self.options)
        if self.cpu_mask is not None:
            options["pmd-cpu-mask"] = f"{self.cpu_mask:x}"
        for option, value in options.items():
            self.vsctl("--no-wait", "set", "open", ".", f"other_config:{option}={value}")
        add = ["--", "add-br", "br0", "--", "set", "bridge", "br0", f"datapath_type={self.datapath_type}",
               "fail-mode=secure"]
        for port in ports:
            add += ["--", "add-port", "br0", port, "--", "set", "interface", port, f"type={self.port_type}"]
        self.vsctl(*add)
        for port in ports:
            error = self.vsctl("get", "interface", port, "error").strip()
            if error not in ("[]", '""'):
                raise world.Failed(f"port {port}: {error}")
        if rule:
            (RUN / "flows").write_text("\n".join(RULES[rule]) + "\n", encoding="ascii")
            world.command("ovs-ofctl", "--names", "replace-flows", str(RUN / "br0.mgmt"), str(RUN / "flows"))

    def vsctl(self, *args):
        return world.command("ovs-vsctl", f"--db=unix:{RUN}/db.sock", "--timeout=20", *args)

    def appctl(self, *args):
        return world.command("ovs-appctl", "-t", str(RUN / "vswitchd.ctl"), *args)

    def datapath(self):
        """The name that dpctl commands want."""
        return f"{self.datapath_type}@ovs-{self.datapath_type}"

    def port_number(self, port):
        """The number of a port in the datapath."""
        return re.search(rf"port (\d+): {port}\b", self.appctl("dpctl/show", self.datapath())).group(1)

    def upcalls(self):
        """Packets that the datapath did not know so far, from "lookups: hit:H missed:M lost:L"."""
        shown = self.appctl("dpctl/show")
        return sum(int(number) for number in re.findall(r"missed:(\d+)", shown))

    def log_tail(self):
        """The end of the daemon's log, for a failure's report."""
        log = RUN / "vswitchd.log"
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:] if log.exists() else []

    def _start_daemons(self, w):
        RUN.mkdir()
        for variable in "OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR":
            os.environ[variable] = str(RUN)
        world.command("ovsdb-tool", "create", str(RUN / "conf.db"), schema())
        w.start("ovsdb-server", str(RUN / "conf.db"), f"--remote=punix:{RUN}/db.sock",
                f"--unixctl={RUN}/db.ctl", "-vconsole:off")
        world.wait_for((RUN / "db.sock").exists, "ovsdb-server's socket")
        self.vsctl("--no-wait", "init")
        daemon = w.start(self.daemon, f"unix:{RUN}/db.sock", f"--unixctl={RUN}/vswitchd.ctl",
                         f"--log-file={RUN}/vswitchd.log", "-vconsole:off")
        self._pids = [daemon.pid]
        world.wait_for(lambda: (RUN / "vswitchd.ctl").exists() or daemon.poll() is not None,
                       "the daemon's control socket")
        if daemon.poll() is not None:
            raise world.Failed(f"{self.daemon} ended at once: {daemon.stderr.read().strip()}")


def schema():
    """The database schema: beside the programs in a build tree, or where Debian installs it."""
    tree = pathlib.Path(shutil.which("ovsdb-tool")).resolve().parent.parent
    for path in tree / "vswitchd/vswitch.ovsschema", pathlib.Path("/usr/share/openvswitch/vswitch.ovsschema"):
        if path.exists():
            return str(path)
    raise world.Failed("vswitch.ovsschema is not installed")
