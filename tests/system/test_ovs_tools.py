# SPDX-License-Identifier: Apache-2.0
"""Tools of Open vSwitch that people use, unmodified, on this datapath."""
import json
import re
import signal

import pytest

import lab
import pypi
import switch as switches
import traffic
from pypi import PYTHON


def python_path():
    """Open vSwitch's own Python modules, of the tree that its tools come from."""
    tree = switches.tool("ovs-vsctl").resolve().parent.parent / "python"
    return {"PYTHONPATH": str(tree), "PYTHONUNBUFFERED": "1"} if tree.is_dir() else {}


def test_ovs_tcpdump(network, tmp_path):
    """It makes a mirror, which sees both directions of a port at tcx, and takes it away at its end; the traffic goes on."""
    switch, said = network.switch, tmp_path / "said"
    switch.expected.append("mito-red.*No such device")  # The tool takes the device away while it is a port.
    switch.flows("br0", "priority=0,actions=normal")
    assert traffic.ping(network.red, "10.0.0.2", count=2) == 2
    with open(said, "wb") as out, \
            lab.Process(PYTHON, switches.tool("ovs-tcpdump"), "-i", "to-red", "-l", "-n", "icmp", stdout=out,
                        env={**switch.env, **python_path()}) as process:
        # "listening" is the beginning of tcpdump's own first line.
        lab.wait_until(lambda: b"listening" in said.read_bytes() or not process.running(), "listening")
        assert process.running(), said.read_text(encoding="utf-8")
        assert switch.vsctl("--bare", "--columns=name", "list", "mirror").strip() == "m_to-red"

        def both():
            traffic.ping(network.red, "10.0.0.2", count=2)
            text = said.read_text(encoding="utf-8")
            return "10.0.0.1 > 10.0.0.2: ICMP echo request" in text and "10.0.0.2 > 10.0.0.1: ICMP echo reply" in text
        lab.wait_until(both, "both directions")
        process.kill(signal.SIGINT)
    assert not switch.vsctl("--bare", "--columns=name", "list", "mirror").strip()
    assert traffic.ping(network.red, "10.0.0.2", count=2) == 2


def test_ovs_dpctl_top(network, tmp_path):
    """It reads flows of this datapath from a file and from its standard input, and finds ports, addresses and counts."""
    switch = network.switch
    switch.flows("br0", "priority=0,actions=normal")
    assert traffic.ping(network.red, "10.0.0.2", count=5) == 5
    flows = switch.appctl("dpctl/dump-flows")
    assert "eth_type(0x0800)" in flows
    (tmp_path / "flows").write_text(flows, encoding="utf-8")
    tool = switches.tool("ovs-dpctl-top")
    outputs = (lab.run(PYTHON, tool, "--script", "--verbose", "--flow-file", tmp_path / "flows", env=switch.env),
               lab.run(PYTHON, tool, "--script", "--verbose", text=flows, env=switch.env))
    for output in outputs:
        assert "Traceback" not in output and re.search(r"Total: \d+  errors: 0 ", output), output
        counts = re.search(rf"in_port\({switch.dp_port('to-red')}\) +\d+ +(\d+) +(\d+)", output)
        assert int(counts[1]) >= 4 and int(counts[2]) >= 4 * 98, output
        assert re.search(r"eth_type\(0x0800\) +\d+ +\d+ +\d+", output), output


def test_flow_library(network):
    """Open vSwitch's parser of flows (ovs.flow, on which ovs-flowviz of later versions stands) takes each that is dumped here."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,icmp,actions=mod_vlan_vid:7,output:to-blue,strip_vlan,output:to-green", "priority=0,actions=normal")
    assert traffic.ping(network.red, "10.0.0.2", count=2) == 2
    program = ("import json, sys\nfrom ovs.flow.odp import ODPFlow\n"
               "for line in sys.stdin:\n"
               "    flow = ODPFlow(line.strip())\n"
               "    print(json.dumps([flow.match.get('in_port'), flow.info.get('packets'), [list(a) for a in flow.actions]]))\n")
    tree = switches.tool("ovs-vsctl").resolve().parent.parent / "python"
    lines = switch.dump_flows()
    answer = lab.run(PYTHON, "-c", program, text="\n".join(lines), env={**switch.env, "PYTHONPATH": str(tree)}, check=False)
    if "requires netaddr" in answer or "requires pyparsing" in answer:
        pytest.skip(f"ovs.flow lacks a module: {answer.strip().splitlines()[-1]}")
    flows = [json.loads(line) for line in answer.splitlines()]
    assert len(flows) == len(lines) and all(actions for _, _, actions in flows), answer
    assert any("push_vlan" in actions[0] for _, _, actions in flows), answer


def test_ovs_flowviz(network, tmp_path):
    """ovs-flowviz of later releases shows the flows that are dumped here: as JSON, with colours and by recirculation."""
    switch = network.switch
    modules = pypi.folder("python-flowviz", "ovs[flowviz]>=3.5")
    switch.flows("br0", "in_port=to-red,icmp,actions=ct(zone=3,table=1)", "table=1,icmp,actions=ct(commit,zone=3),output:to-green",
                 "priority=0,actions=normal")
    assert traffic.ping(network.red, "10.0.0.2", count=3) == 3
    dump = switch.appctl("dpctl/dump-flows", "-m", "--names")
    (tmp_path / "flows").write_text(dump, encoding="utf-8")

    def flowviz(form):
        return lab.run(PYTHON, modules / "bin/ovs-flowviz", "-i", f"here,{tmp_path}/flows", "datapath", form,
                       env={**switch.env, "PYTHONPATH": str(modules), "COLUMNS": "400", "NO_COLOR": "1"})
    flows = json.loads(flowviz("json"))
    assert len(flows) == len(dump.splitlines()) and all(flow["actions"] for flow in flows)
    assert any("ct" in action for flow in flows for action in flow["actions"]), flows
    assert {flow["match"]["in_port"] for flow in flows} >= {"to-red", "to-green"}, flows
    for form, wanted in ("console", "recirc_id(0x1)"), ("tree", "[recirc_id(0x1) in_port(to-red)]"):
        text = flowviz(form)
        assert wanted in text and "ct(commit,zone=3),to-green" in text, text


def test_names_of_statistics(network):
    """An Interface has each statistic that it has on a bridge of the stock userspace datapath, and more."""
    switch = network.switch
    switch.vsctl("set", "open", ".", "other_config:stats-update-interval=1000")
    switch.vsctl("add-br", "stock", "--", "set", "bridge", "stock", "datapath_type=netdev")
    network.plug("other")
    switch.vsctl("add-port", "stock", "to-other")

    def names(device):
        return set(switch.get("interface", device, "statistics") or ())
    stock = lab.wait_until(lambda: names("to-other"), "statistics of the stock datapath", 20)
    assert {"rx_packets", "tx_bytes", "rx_dropped", "collisions", "rx_crc_err"} <= stock
    missing = lab.wait_until(lambda: names("to-red"), "statistics", 20) and stock - names("to-red")
    assert not missing, missing


def test_reports_of_open_vswitch(network):
    """upcall/show, memory/show, dpctl/dump-dps, dpctl/show read as they do elsewhere."""
    switch = network.switch
    switch.flows("br0", "priority=0,actions=normal")
    assert traffic.ping(network.red, "10.0.0.2", count=3) == 3
    assert re.search(r"^xdp@ovs-xdp:\n +flows +: \(current [1-9]\d*\) \(avg \d+\) \(max \d+\) \(limit \d+\)\n"
                     r" +dump duration : \d+ms\n +ufid enabled : true\n\n( +\d+: \(keys \d+\)\n)+",
                     switch.appctl("upcall/show"), re.MULTILINE)
    assert switch.appctl("dpctl/dump-dps").split() == ["xdp@ovs-xdp"]
    assert re.search(r"lookups: hit:\d+ missed:\d+ lost:\d+\n +flows: [1-9]\d*\n +masks: hit:\d+ total:[1-9]\d* hit/pkt:",
                     switch.appctl("dpctl/show"))

    def memory():
        return dict(pair.split(":", 1) for pair in switch.appctl("memory/show").split() if ":" in pair)
    found = lab.wait_until(lambda: (found := memory()) and int(found.get("udpif keys", found.get("keys", 0))) and found, "memory/show")
    assert int(found["ports"]) >= 4 and int(found["rules"]) >= 1, found
