# SPDX-License-Identifier: Apache-2.0
"""Settings of the whole switch: other_config, the version, one daemon for each network namespace; and the order in which
flows are dumped."""
import os
import re

import pytest

import lab
import switch as switches
import traffic

FLOW = "in_port({port}),eth(),eth_type(0x0800),ipv4(dst=10.1.{n}.1,frag=no)"


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("these are settings of type xdp")


def warnings(switch, n_logged=0):
    """What is wrong with other_config, by the log, when it has so many lines of it, and by xdp/show."""
    def logged():
        return [line.split("|WARN|ovs-xdp: ")[1] for line in switch.log() if "|dpif_xdp_config|WARN|ovs-xdp: " in line]
    lab.wait_until(lambda: len(logged()) >= n_logged, f"{n_logged} lines of the log")       # A thread writes them.
    return logged(), re.findall(r"^  warning: (.*)$", switch.appctl("xdp/show"), re.MULTILINE)


def test_wrong_settings_are_said_once(network):
    """Each says what was given, what is allowed, and what is used; again only when it is wrong in another way."""
    switch = network.switch
    switch.expected += ["other_config:"]
    absent = 4 * (os.cpu_count() + 4)
    wrong = {
        "xdp-hok=tcx": "there is no such setting, it is not used; did you mean xdp-hook?",
        "xdp_flows=5": "there is no such setting, it is not used; did you mean xdp-flows?",
        "xdp-umem-frames=12": "allowed are numbers from 256 to 1048576, 256 is used",
        "xdp-flows=-5": "allowed are numbers from 0 to 2097152, 200000 is used",
        "xdp-ct-max=1": "allowed are numbers from 1024 to 4194304, 1024 is used",
        "xdp-offload=nope": "allowed are true and false, true is used",
        "xdp-hook=bogus": "unsupported value, expected auto, xdp, tcx or both; auto is used",
        "xdp-obj=/nonexistent.o": "cannot read the file (No such file or directory)",
        f"pmd-cpu-mask={1 << absent:x}": f"there are no CPUs {absent}; engine threads are bound to no CPU",
    }
    expected = sorted(f"other_config:{setting.split('=')[0] if 'no such' in sentence else setting}: {sentence}"
                      for setting, sentence in wrong.items())
    switch.vsctl("set", "open", ".", *(f"other_config:{setting}" for setting in wrong))
    switch.vsctl("set", "open", ".", "external_ids:again=1")
    logged, shown = warnings(switch, len(expected))
    assert shown == expected and sorted(logged) == expected

    switch.vsctl("set", "open", ".", "other_config:xdp-flows=abc", "other_config:pmd-cpu-mask=zzz")
    logged, shown = warnings(switch, len(expected) + 2)
    assert ("other_config:xdp-flows=abc: allowed are numbers from 0 to 2097152, 200000 is used" in shown
            and "other_config:pmd-cpu-mask=zzz: expected hexadecimal digits; engine threads are bound to no CPU" in shown)
    assert len(shown) == len(expected) and len(logged) == len(expected) + 2
    traffic.wait_for_ping(network.red, "10.0.0.2")

    switch.vsctl("clear", "open", ".", "other_config")
    assert warnings(switch)[1] == []


def test_room_for_connections_stays(network):
    """Tables that are there keep their size: what is wrong with another one, what is used now, and what after the next start."""
    switch = network.switch
    switch.expected += ["other_config:"]
    switch.vsctl("set", "open", ".", "other_config:xdp-ct-max=2048")
    switch.flows("br0", "priority=1,ip,actions=ct(commit),normal", "priority=0,actions=normal")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    allowed, later = "allowed are numbers from 1024 to 4194304", "2048 is used until the daemon starts anew, then"
    wrong = (("abc", 262144), ("-7", 262144), ("3x", 262144), ("1", 1024), ("99999999999999999999", 4194304))
    for i, (value, then) in enumerate(wrong):
        switch.vsctl("set", "open", ".", f"other_config:xdp-ct-max={value}")
        sentence = f"other_config:xdp-ct-max={value}: {allowed}, {later} {then}"
        logged, shown = warnings(switch, i + 1)
        assert shown == [sentence] and logged[-1] == sentence
    switch.vsctl("set", "open", ".", "other_config:xdp-ct-max=5000")
    assert warnings(switch)[1] == []
    said = "xdp-ct-max is 2048 until the daemon starts anew, then 5000"
    lab.wait_until(lambda: said in "\n".join(switch.log()), "a line of the log")
    for i in range(3):
        switch.vsctl("set", "open", ".", f"external_ids:other={i}")
    assert "\n".join(switch.log()).count(said) == 1
    assert "room:2048 " in switch.appctl("xdp/ct-show")


def test_version(network):
    """The command, the log and the database say which OVS-XDP it is, and which Open vSwitch is inside."""
    switch = network.switch
    ours = re.search(r"^ovs-vswitchd-xdp \(OVS-XDP\) (\S+)$", lab.run(switches.DAEMON, "--version"), re.MULTILINE)[1]
    stock, said = switch.appctl("version").splitlines()
    theirs = re.fullmatch(r"ovs-vswitchd \(Open vSwitch\) (\S+)", stock)[1]
    assert said == f"OVS-XDP {ours}"
    assert switch.log()[1].endswith(f"|INFO|ovs-vswitchd (Open vSwitch) {theirs}, of OVS-XDP {ours}"), switch.log()[:3]
    assert switch.get("bridge", "br0", "datapath_version") == f"OVS-XDP {ours}, Open vSwitch {theirs}"
    assert switch.get("open", ".", "external_ids") == {"ovs-xdp-version": ours} and not switch.get("open", ".", "other_config")


def test_version_in_the_database_is_that_of_who_serves_it(network):
    """A restart writes it again, the end takes it away, and keys of others stay."""
    switch = network.switch
    ours = switch.get("open", ".", "external_ids")["ovs-xdp-version"]
    switch.stop()
    switch.vsctl("--no-wait", "set", "open", ".", "external_ids:ovs-xdp-version=0.0.1", "external_ids:system-id=mine")
    switch.start()
    lab.wait_until(lambda: switch.get("open", ".", "external_ids")["ovs-xdp-version"] == ours, "its version")
    switch.vsctl("set", "open", ".", "external_ids:system-id=another")
    assert switch.get("open", ".", "external_ids") == {"ovs-xdp-version": ours, "system-id": "another"}
    switch.stop(cleanup=True)
    lab.wait_until(lambda: switch.get("open", ".", "external_ids") == {"system-id": "another"}, "the version to go")
    switch.start()


def test_second_daemon_is_refused(network):
    """The first goes on; when it has ended, the other may serve the namespace."""
    process = network.switch.process.pid
    with switches.Switch() as other:
        other.expected += ["another ovs-vswitchd-xdp", "Address already in use", "poll interval"]
        other.add_bridge("br1")
        said = [line for line in other.log() if "another ovs-vswitchd-xdp (pid" in line]
        assert said and f"(pid {process})" in said[0], other.log()[-5:]
        traffic.wait_for_ping(network.red, "10.0.0.2")
        other.vsctl("--no-wait", "del-br", "br1")


def test_few_flows_are_dumped_as_they_were_installed(network):
    """Also when the table reuses the places of others that were deleted, in whichever order."""
    switch = network.switch
    switch.appctl("revalidator/pause")
    port = switch.dp_port("to-red")

    def add(n):
        switch.appctl("dpctl/add-flow", FLOW.format(port=port, n=n), "drop")

    def dumped():
        return [int(n) for n in re.findall(r"dst=10\.1\.(\d+)\.1", "\n".join(switch.dump_flows()))]

    for n in range(8):
        add(n)
    assert dumped() == [*range(8)]
    for n in (1, 6, 3):
        switch.appctl("dpctl/del-flow", FLOW.format(port=port, n=n))
    for n in (20, 21, 22, 23):
        add(n)
    assert dumped() == [0, 2, 4, 5, 7, 20, 21, 22, 23]
    for n in dumped():
        switch.appctl("dpctl/del-flow", FLOW.format(port=port, n=n))
    switch.appctl("revalidator/resume")
