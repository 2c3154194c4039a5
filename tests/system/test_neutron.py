# SPDX-License-Identifier: Apache-2.0
"""What Neutron does with bridges of this datapath: its own option parsers, and its own choice of how Nova plugs guests in, asked
with what the database of a switch says (neutron_says.py)."""
import json
import os
import pathlib
import subprocess

import pytest

import lab
import pypi
import switch as switches

HERE = pathlib.Path(__file__).resolve().parent
TYPES = ("system", "netdev", "xdp")


@pytest.fixture(name="ask", scope="module")
def neutron():
    """A function that tells what Neutron makes of types, given the types of interfaces: {type: {question: answer}}."""
    if switches.DATAPATH != "xdp":
        pytest.skip("this is about type xdp")
    folder = pypi.locked("python-neutron", HERE / "neutron.txt")

    def ask(iface_types):
        done = subprocess.run([pypi.PYTHON, "-W", "ignore", HERE / "neutron_says.py", ",".join(iface_types), *TYPES], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=4 * lab.PATIENCE,
                              env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])
    return ask


def test_neutron(world, ask):
    """ML2/OVS's agent takes types that other_config:xdp-datapath-types serves, and no other; ML2/OVN's has no such option.  Guests
    are plugged in as into any Open vSwitch without DPDK, whatever the type."""
    with switches.Switch() as switch:
        switch.vsctl("set", "open", ".", "other_config:xdp-datapath-types=netdev,system")
        for kind in TYPES:
            switch.vsctl("add-br", f"br-{kind}", "--", "set", "bridge", f"br-{kind}", f"datapath_type={kind}")
        shown = switch.appctl("dpif/show")
        assert all(f" br-{kind}:" in shown for kind in TYPES) and "netdev@" not in shown
        iface_types = switch.get("open", ".", "iface_types")
        assert set(TYPES) <= set(switch.get("open", ".", "datapath_types"))
    assert "tap" in iface_types
    for kind, says in ask(iface_types).items():
        if kind == "xdp":
            assert "Valid values are [system, netdev], but found 'xdp'" in says["ovs-agent"]
        else:
            assert says["ovs-agent"] == kind
        assert not says["ovn-agent"]
        assert says["ovs-vif"] == "ovs" and says["ovn-vif"] == ["ovs", kind]


def test_dpdk_would_be_another(ask):
    """The questions tell the difference."""
    assert [(says["ovs-vif"], says["ovn-vif"][0]) for says in ask(["dpdkvhostuser", "dpdkvhostuserclient"]).values()] \
        == [("ovs", "ovs"), ("vhostuser", "vhostuser"), ("ovs", "ovs")]
