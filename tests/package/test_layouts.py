# SPDX-License-Identifier: Apache-2.0
"""Upgrade to versions whose tables are others, and downgrade from them, under traffic: tests/package/run has built them.

    red == to-red [tcx] == one zone == to-green [tcx] == green      TCP at full speed through ct(), 500 datagrams a second without
"""
import pathlib

import pytest

import lab
import system as systems
import traffic
import xdp
from test_package import LOG, Network

FOLDER = pathlib.Path("/sys/fs/bpf/ovs-xdp")
# A connection begins with a SYN: of one that was forgotten nothing passes.
RULES = ("priority=2,tcp,actions=ct(zone=1,table=1)", "priority=1,actions=normal",
         "table=1,priority=3,tcp,ct_state=+trk+new,tcp_flags=+syn-ack,actions=ct(commit,zone=1,exec(load:7->NXM_NX_CT_MARK[])),normal",
         "table=1,priority=2,tcp,ct_state=+trk+est,ct_mark=7,actions=normal", "table=1,priority=1,actions=drop")
METER = "meter=1,pktps,burst,band=type=drop,rate=1000000,burst_size=1000000"
# Of the version that other tables were left to: what its log says of the connections.
SAYS = {"layout": "are in tables of another layout: copied them",
        "format": "are in tables that this version cannot read: tracking begins anew"}


def add_rules(system):
    system.run("ovs-ofctl", "-O", "OpenFlow13", "add-meter", "br0", METER)
    for rule in RULES:
        system.run("ovs-ofctl", "add-flow", "br0", rule)


def restart(system, network):
    """Old flows stay until the rules are back."""
    system.vsctl("set", "open", ".", "other_config:flow-restore-wait=true")
    network.restart()
    lab.wait_until(lambda: "to-green" in system.run("ovs-ofctl", "show", "br0", check=False), "OpenFlow")
    add_rules(system)
    system.vsctl("remove", "open", ".", "other_config", "flow-restore-wait")
    network.taken_over()


def errors(system):
    """But those about recirculation ids, with which Open vSwitch ends that leaves its flows to programs."""
    return [line for line in system.text(LOG).splitlines()
            if ("|ERR|" in line or "|EMER|" in line) and "left allocated when ofproto" not in line]


def is_known(system):
    """The connection of this test, by the mark that its rules gave it."""
    return "dport=5011" in system.appctl("dpctl/dump-conntrack", "zone=1")


@pytest.mark.parametrize("kind", SAYS)
def test_other_tables(world, installed, kind):
    """Flows go on.  So do connections, unless what is in their tables means something else: then the log says that tracking
    begins anew, and new ones are tracked.  Nothing of the other version stays."""
    installed.choose(systems.OURS)
    network = Network(world, installed)
    installed.vsctl("set", "bridge", "br0", "protocols=OpenFlow10,OpenFlow13")
    add_rules(installed)
    for folder, version in (f"/packages/{kind}", {"layout": "-3", "format": "-4"}[kind]), ("/packages", "-1"):
        with network.loses_nothing(), traffic.Connection(network.red, network.green, "10.0.0.2") as connection:
            connection.goes_on()
            lab.wait_until(lambda: "programs-track:yes" in installed.appctl("xdp/ct-show"), "programs that track")
            assert is_known(installed)
            pid, others = installed.pid(), xdp.objects(installed.pid())
            installed.install(folder)
            assert installed.version().endswith(version) and installed.pid() == pid
            network.forget_log()
            restart(installed, network)
            log, pid = installed.text(LOG), installed.pid()
            assert SAYS[kind] in log and not [text for other, text in SAYS.items() if other != kind and text in log], log
            assert "not adopted, because this version has another layout or size of them: meters, ports" in log, log
            assert is_known(installed) == (kind == "layout")
            if kind == "layout":
                connection.goes_on()
                assert connection.same()
        traffic.tcp(network.red, network.green, "10.0.0.2")
        assert installed.pid() == pid and not errors(installed)
        assert not list(FOLDER.glob("*/*/old"))
        names = [path.name.rsplit("-", 1)[0] for path in FOLDER.glob("*/*/state-*")]
        assert len(names) == len(set(names)) > 9, names
        lab.wait_until(lambda others=others: not (others & xdp.in_the_kernel()) - xdp.objects(installed.pid()),
                       "what the other version had is freed")
    installed.appctl("exit", "--cleanup")
    lab.wait_until(lambda: not installed.processes("ovs-vswitchd"), "the end of the daemon")
    assert not FOLDER.exists()
