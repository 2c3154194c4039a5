# SPDX-License-Identifier: Apache-2.0
"""A private Open vSwitch: own run directory, own database, nothing shared with an installed one."""

import os
import pathlib
import re
import shutil

from bench.lib import attack, tunnel, world

RUN = pathlib.Path("/run/ovs")              # A tmpfs of the measurement's own mount namespace.

# What a peer is asked to do, as the OpenFlow rules that do it; frames come from sw0 and leave at sw1.  "output" is
# the same for any number of pairs of ports, "chain" for any number of ports, see rules_for().
BACK = "in_port=sw1,actions=output:sw0"
SOURCES = "10.9.0.1-10.9.255.254"           # What NAT may give to connections.


def replies(zone):
    return [f"udp,in_port=sw1,actions=ct(zone={zone},nat,table=5)", "table=5,udp,actions=output:sw0"]


RULES = {
    "output": [],
    "match": ["udp,in_port=sw0,nw_dst=10.1.0.0/16,tp_dst=9,actions=output:sw1", BACK],
    "normal": ["actions=NORMAL"],
    "host": ["actions=NORMAL"],             # The one other port is the bridge's own.
    "drop": ["in_port=sw0,actions=drop"],
    "hairpin": ["in_port=sw0,actions=set_field:02:00:00:00:00:22->eth_dst,in_port"],
    "set-mac": ["in_port=sw0,actions=set_field:02:00:00:00:00:22->eth_dst,output:sw1", BACK],
    "set": ["in_port=sw0,ip,actions=set_field:02:00:00:00:00:11->eth_src,set_field:02:00:00:00:00:22->eth_dst,"
            "set_field:10.2.0.1->ip_src,set_field:10.3.0.1->ip_dst,dec_ttl,output:sw1", BACK],
    "push-vlan": ["in_port=sw0,actions=mod_vlan_vid:100,output:sw1", BACK],
    "pop-vlan": ["in_port=sw0,dl_vlan=100,actions=strip_vlan,output:sw1", BACK],
    "ip6": ["udp6,in_port=sw0,ipv6_src=2001:db8::,ipv6_dst=2001:db8:100::1,tp_src=1024,tp_dst=9,"
            "actions=output:sw1", BACK],
    # Reading a field for a move makes the datapath flow match it exactly: one flow per source.
    "per-source": ["priority=2,udp,in_port=sw0,actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],"
                   "move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],output:sw1",
                   "priority=1,in_port=sw0,actions=output:sw1", BACK],
    # By VLAN and destination address, to one port or two.
    "l2": [f"vlan_tci=0x0000/0x1fff,dl_dst={world.sink_mac(0)},actions=output:sw1",
           f"vlan_tci=0x0000/0x1fff,dl_dst={world.GENERATOR_MAC},actions=output:sw0"],
    "gre": ["in_port=sw0,actions=output:gre0"],
    "tunnel": [],                           # lib/tunnel.py; the next are what it may change to.
    **tunnel.RULES,
    "tunnel-tcp": ["actions=NORMAL"],
    # What lib/attack.py attacks; the generator's traffic is the victim's.
    "access-list": ["priority=3,udp,in_port=sw0,tp_dst=9,actions=output:sw1",
                    f"priority=2,udp,in_port=sw0,nw_src={attack.ALLOWED_IP},actions=output:sw1",
                    f"priority=1,udp,in_port=sw0,tp_src={attack.ALLOWED_PORT},actions=output:sw1", BACK],
    # Connections: of one zone; with NAT of the source; as OVN has them from a pod to a service, in three zones.  Each
    # has zones of its own, where no connection is left of the others.
    "ct": ["udp,in_port=sw0,actions=ct(zone=1,table=1)",
           "table=1,ct_state=+trk+new,udp,actions=ct(commit,zone=1),output:sw1",
           "table=1,ct_state=+trk+est,udp,actions=output:sw1", *replies(1)],
    "ct-nat": ["udp,in_port=sw0,actions=ct(zone=4,nat,table=1)",
               f"table=1,ct_state=+trk+new,udp,actions=ct(commit,zone=4,nat(src={SOURCES})),output:sw1",
               "table=1,ct_state=+trk+est,udp,actions=output:sw1", *replies(4)],
    "ct-zones": ["udp,in_port=sw0,actions=ct(zone=5,nat,table=1)",
                 "table=1,ct_state=+trk+new,udp,actions=ct(commit,zone=5,nat(dst=10.8.0.8),table=2)",
                 "table=1,ct_state=+trk+est,udp,actions=ct(zone=6,table=3)",
                 "table=2,udp,actions=ct(zone=6,table=3)",
                 "table=3,ct_state=+trk+new,udp,actions=ct(commit,zone=6),ct(zone=7,nat,table=4)",
                 "table=3,ct_state=+trk+est,udp,actions=ct(zone=7,nat,table=4)",
                 f"table=4,ct_state=+trk+new,udp,actions=ct(commit,zone=7,nat(src={SOURCES})),output:sw1",
                 "table=4,ct_state=+trk+est,udp,actions=output:sw1",
                 "udp,in_port=sw1,actions=ct(zone=7,nat,table=5)", "table=5,udp,actions=ct(zone=6,table=6)",
                 "table=6,udp,actions=ct(zone=5,nat,table=7)", "table=7,udp,actions=output:sw0"],
    "ct-new": ["udp,in_port=sw0,actions=ct(commit,zone=1),output:sw1", BACK],
    "ct-tcp": ["tcp,in_port=sw0,actions=ct(zone=3,table=1)", "tcp,in_port=sw1,actions=ct(zone=3,table=2)",
               "table=1,ct_state=+trk+new,tcp,actions=ct(commit,zone=3),output:sw1",
               "table=1,ct_state=+trk+est,tcp,actions=output:sw1", "table=2,ct_state=+trk+est,tcp,actions=output:sw0"],
    "ct-new-nat": [f"udp,in_port=sw0,actions=ct(commit,zone=2,nat(src={SOURCES})),output:sw1", BACK],
    # "ct" beside another pair of ports: UDP passes, each SYN makes a connection in a zone of its own.
    "ct-flood": ["udp,in_port=sw0,actions=ct(zone=1,table=1)",
                 "table=1,ct_state=+trk+new,udp,actions=ct(commit,zone=1),output:sw1",
                 "table=1,ct_state=+trk+est,udp,actions=output:sw1", *replies(1),
                 "udp,in_port=sw2,actions=output:sw3", "tcp,in_port=sw2,actions=ct(commit,zone=9),output:sw3"],
    # Between hosts, in two zones.
    "ct-hosts": ["ip,actions=ct(zone=1,table=1)",
                 "table=1,ct_state=+trk+new,ip,actions=ct(commit,zone=1),ct(zone=2,table=2)",
                 "table=1,ct_state=+trk+est,ip,actions=ct(zone=2,table=2)",
                 "table=2,ct_state=+trk+new,ip,actions=ct(commit,zone=2),NORMAL",
                 "table=2,ct_state=+trk+est,ip,actions=NORMAL", "priority=0,actions=NORMAL"],
    "chain": [],
    "flood": [],
}
TUNNEL = ("172.31.0.1", "172.31.0.2")       # Ends of the tunnel of rule "gre": on br-wire, behind sw1.


def rules_for(rule, ports):
    """The rules with which a peer starts; None: of a case that gives them later, or none."""
    if rule is None:
        return []
    if rule == "output":
        return [f"in_port={one},actions=output:{other}" for pair in world.pairs(ports)
                for one, other in (pair, pair[::-1])]
    if rule == "chain":
        return [f"in_port={one},actions=output:{other}" for one, other in zip(ports, ports[1:])]
    if rule == "l2":
        return RULES[rule] + [f"vlan_tci=0x0000/0x1fff,dl_dst={world.sink_mac(i)},actions=output:{port}"
                              for i, port in enumerate(ports[1:]) if i]
    return RULES[rule]


class OvsPeer:
    """A peer that is an ovs-vswitchd.  Subclasses say which one and how."""

    name = title = None
    role = "switch"                         # As in lib/kernel.py, like the next six.
    by_default = True
    only = None
    every = 1
    sockets = False
    sockets_only = False
    own_core = True
    daemon = "ovs-vswitchd"
    datapath_type = "netdev"
    cpu_mask = 1 << world.SWITCH_CPU        # Where threads that move packets run; None: anywhere.
    offloads = False                        # Whether hosts behind its ports may leave work to their devices.
    options = {}                            # Open_vSwitch:other_config, set before there is a datapath.
    run = RUN
    rules = frozenset(RULES)
    sink_at = ("s0", "sink")

    def __init__(self):
        self._pids = []
        self._daemon = None

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
        if options:                         # All at once: dpdk-init makes the daemon read the others.
            self.vsctl("--no-wait", "set", "open", ".", *(f"other_config:{option}={value}"
                                                          for option, value in options.items()))
        if rule == "tunnel":
            tunnel.start(self, ports)
        elif rule == "tunnel-tcp":
            tunnel.start_tcp(self, ports)
        elif rule == "gre":
            self.add_bridge("br-wire", ports[1:])
            self.add_bridge("br0", ports[:1])
            self._make_tunnel()
        else:
            self.add_bridge("br0", ports)
        if rules_for(rule, ports):
            self.set_flows("br0", rules_for(rule, ports))

    def rest(self):
        """Brings it into the state that it has when it has forwarded the same flows for a while."""

    def change_rule(self, rule):
        """Another of the rules that do not depend on ports, while frames may come; returns when flows follow it."""
        self.set_flows("br0", RULES[rule])
        self.appctl("revalidator/wait")

    def change_chain(self, _w, ports):
        """Frames go from each port to the next one from now on."""
        self.set_flows("br0", rules_for("chain", ports))
        self.appctl("revalidator/wait")

    def change_flood(self, _w, ports, n):
        """Frames from the first port go to the next 'n' from now on."""
        self.set_flows("br0", [f"in_port={ports[0]},actions={','.join(f'output:{port}' for port in ports[1:n + 1])}"])
        self.appctl("revalidator/wait")

    def interface(self, _port):
        """What is set in a port's Interface record."""
        return []

    def add_bridge(self, bridge, ports):
        add = ["--", "add-br", bridge, "--", "set", "bridge", bridge, f"datapath_type={self.datapath_type}",
               "fail-mode=secure"]
        for port in ports:
            add += ["--", "add-port", bridge, port]
            settings = self.interface(port)
            if settings:
                add += ["--", "set", "interface", port, *settings]
        self.vsctl(*add)
        for port in ports:
            error = self.vsctl("get", "interface", port, "error").strip()
            if error not in ("[]", '""'):
                raise world.Failed(f"port {port}: {error}")

    def set_flows(self, bridge, flows):
        (RUN / "flows").write_text("\n".join(flows) + "\n", encoding="ascii")
        # OpenFlow 1.0, in which mod_vlan_vid adds a tag, has one table.
        version = ["-O", "OpenFlow14"] if any(flow.startswith("table=") for flow in flows) else []
        world.command("ovs-ofctl", "--names", *version, "replace-flows", str(RUN / f"{bridge}.mgmt"), str(RUN / "flows"))

    def _make_tunnel(self):
        here, there = TUNNEL
        self.vsctl("add-port", "br0", "gre0", "--", "set", "interface", "gre0", "type=gre",
                   f"options:remote_ip={there}")
        self.set_flows("br-wire", ["in_port=LOCAL,actions=output:sw1", "in_port=sw1,actions=LOCAL"])
        world.command("ip", "address", "add", f"{here}/24", "dev", "br-wire")
        world.command("ip", "link", "set", "br-wire", "up")
        world.command("ip", "neighbour", "replace", there, "lladdr", world.SINK_MAC, "dev", "br-wire")
        if self.datapath_type != "system":
            self.appctl("tnl/arp/set", "br-wire", there, world.SINK_MAC)

    def vsctl(self, *args):
        try:
            return world.command("ovs-vsctl", f"--db=unix:{RUN}/db.sock", "--timeout=20", *args)
        except world.Failed:
            if self._daemon and self._daemon.poll() is not None:
                said = (self.log_tail() or ["nothing"])[-1].split("|")[-1]
                raise world.Failed(f"{os.path.basename(self.daemon)} ended; it said: {said}") from None
            raise

    def appctl(self, *args, under=()):
        """Asks the daemon; 'under' stands before the command."""
        return world.command(*under, "ovs-appctl", "-t", str(RUN / "vswitchd.ctl"), *args)

    def datapath(self):
        """The name that dpctl commands want."""
        return f"{self.datapath_type}@ovs-{self.datapath_type}"

    def port_number(self, port):
        """The number of a port in the datapath."""
        return re.search(rf"port (\d+): {port}\b", self.appctl("dpctl/show", self.datapath())).group(1)

    def upcalls(self):
        """Packets that ofproto decided about so far, from "lookups: hit:H missed:M lost:L"."""
        return self._lookups("missed")

    def handled(self):
        """Packets that a flow of the datapath matched."""
        return self._lookups("hit")

    def _lookups(self, what):
        return sum(int(number) for number in re.findall(rf"lookups:.*\b{what}:(\d+)",
                                                            self.appctl("dpctl/show")))

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
        daemon = self._daemon = w.start(self.daemon, f"unix:{RUN}/db.sock", f"--unixctl={RUN}/vswitchd.ctl",
                                        f"--log-file={RUN}/vswitchd.log", "-vconsole:off")
        self._pids = [daemon.pid]
        world.wait_for(lambda: (RUN / "vswitchd.ctl").exists() or daemon.poll() is not None,
                       "the daemon's control socket")
        if daemon.poll() is not None:
            raise world.Failed(f"{self.daemon} ended at once: {daemon.stderr.read().strip()}")


class StockPeer(OvsPeer):
    """Debian's package openvswitch-switch, or what is first on PATH where it is not installed."""

    def missing(self, settings):
        if not shutil.which(self.daemon):
            return f"{self.daemon} is not installed: apt-get install openvswitch-switch"
        return super().missing(settings)

    daemon = "/usr/lib/openvswitch-switch/ovs-vswitchd"
    if not os.path.exists(daemon):
        daemon = "ovs-vswitchd"


class DpdkPeer(OvsPeer):
    """Debian's package openvswitch-switch-dpdk, with a driver for ordinary devices and without huge pages."""

    driver = None
    daemon = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
    options = {"dpdk-init": "true", "dpdk-extra": "--no-huge --legacy-mem -m 1024 --no-pci"}

    def missing(self, settings):
        if not os.path.exists(self.daemon):
            return "not installed: apt-get install openvswitch-switch-dpdk"
        return super().missing(settings)

    def interface(self, port):
        name = f"{self.driver}_{port}"      # The driver finds itself by the beginning of the name.
        return ["type=dpdk", f"options:dpdk-devargs={name},iface={port}"]


def schema():
    """The database schema: beside the programs in a build tree, or where Debian installs it."""
    tree = pathlib.Path(shutil.which("ovsdb-tool")).resolve().parent.parent
    for path in tree / "vswitchd/vswitch.ovsschema", pathlib.Path("/usr/share/openvswitch/vswitch.ovsschema"):
        if path.exists():
            return str(path)
    raise world.Failed("vswitch.ovsschema is not installed")
