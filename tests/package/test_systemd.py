# SPDX-License-Identifier: Apache-2.0
"""The units, started and stopped by systemd itself."""
import shutil

import pytest

import system as systems
from booted import Booted
from test_package import Network

HARDENED = systems.PACKAGES / "ovs-xdp/examples/systemd/ovs-vswitchd-xdp.conf"
MOST_EXPOSURE = 5


@pytest.fixture(params=("packaged", "hardened"))
def booted(world, installed, request):
    """With the unit as it is installed, and with the sandbox of examples/systemd."""
    installed.choose(systems.OURS)
    if request.param == "hardened":
        folder = installed.root / "etc/systemd/system/ovs-vswitchd.service.d"
        folder.mkdir(parents=True)
        shutil.copy(HARDENED, folder)
    with Booted(installed) as system:
        system.hardened = request.param == "hardened"
        yield system


def test_units(world, booted):
    """systemd starts the daemon at boot, and a restart of the service under traffic loses nothing."""
    assert booted.run("systemctl", "is-active", "openvswitch-switch", "ovs-vswitchd", "ovsdb-server").split() == 3 * ["active"]
    assert booted.runs() == systems.OURS
    network = Network(world, booted)
    assert booted.status("to-red")["xdp-hook"] == "tcx"
    with network.loses_nothing():
        pid = booted.pid()
        booted.run("systemctl", "restart", "openvswitch-switch")
        assert booted.pid() != pid and booted.runs() == systems.OURS
        network.taken_over()
    assert not booted.run("systemctl", "--failed", "--no-legend", "--plain", "list-units", "ovs*", "openvswitch*").strip()
    if booted.hardened:
        assert booted.exposure() < MOST_EXPOSURE
