# SPDX-License-Identifier: Apache-2.0
import pathlib
import shutil

from bench.lib import world
from bench.peers import bridge

SWITCH = pathlib.Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


class Peer(bridge.Peer):
    """What a host does that filters the packets of its bridge by connection: br_netfilter, and a rule of iptables."""

    name = "bridge-ct"
    title = "Linux bridge with br_netfilter"
    only = {"ct", "ct_hosts"}
    rules = frozenset({"ct", "ct-hosts"})

    def missing(self, settings):
        if not shutil.which("iptables"):
            return "iptables is not installed: apt-get install iptables"
        return super().missing(settings)

    def start(self, w, ports, rule):
        if not SWITCH.exists():
            raise world.Failed("this kernel has no bridge-nf-call-iptables: modprobe br_netfilter")
        super().start(w, ports, "normal")
        if rule in self.rules:
            self.change_rule(rule)

    def change_rule(self, rule):
        """Tracks from now on; NAT and zones are not asked of it."""
        if rule not in self.rules:
            raise world.Failed("has neither zones nor NAT here")
        SWITCH.write_text("1", encoding="ascii")
        world.command("iptables", "-P", "FORWARD", "DROP")
        world.command("iptables", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "NEW,ESTABLISHED", "-j", "ACCEPT")
