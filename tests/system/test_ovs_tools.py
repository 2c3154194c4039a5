# SPDX-License-Identifier: Apache-2.0
"""Tools of Open vSwitch that people use, unmodified, on this datapath."""
import re
import signal

import lab
import switch as switches
import traffic

# As in Debian's package of Open vSwitch.
PYTHON = "/usr/bin/python3"


def python_path():
    """Open vSwitch's own Python modules, of the tree that its tools come from."""
    tree = switches.tool("ovs-vsctl").resolve().parent.parent / "python"
    return {"PYTHONPATH": str(tree), "PYTHONUNBUFFERED": "1"} if tree.is_dir() else {}


def test_ovs_tcpdump(network, tmp_path):
    """It makes a mirror, which sees both directions of a port at tcx, and takes it away at its end; the traffic goes on."""
    switch, said = network.switch, tmp_path / "said"
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
