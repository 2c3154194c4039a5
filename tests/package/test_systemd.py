# SPDX-License-Identifier: Apache-2.0
"""The units, started and stopped by systemd itself."""
import pathlib
import shutil

import pytest

import lab
import system as systems
from booted import Booted
from test_package import LONG, MOMENTS, Network

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


@pytest.mark.parametrize("booted", ["packaged"], indirect=True)
def test_killed_around_an_upgrade(world, booted):
    """At its beginning, in its midst (the way back), and when it has ended: flows go on, and systemd's next start of the daemon
    takes them over.  Nobody else does anything."""
    network = Network(world, booted)
    for folder, moment in ("/packages/next", "the new file is there"), ("/packages", "the old file is gone"), ("/packages/next", None):
        debs = [f"{folder}/{path.name}" for path in (booted.root / folder.lstrip("/")).glob("*.deb")]
        network.forget_log()
        with network.loses_nothing():
            with booted.start("dpkg", "-i", *debs) as upgrade:
                if moment:
                    lab.wait_until(lambda moment=moment: MOMENTS[moment](booted), moment)
                else:
                    assert upgrade.wait() == 0
                pid = booted.pid()
                booted.run("kill", "-KILL", pid)
                assert upgrade.wait() == 0
            lab.wait_until(lambda pid=pid: booted.pid() not in (0, pid), "the next daemon", LONG)
            network.taken_over()
        assert booted.runs() == systems.OURS
        assert not list(pathlib.Path("/sys/fs/bpf/ovs-xdp").glob("*/*/old"))
    assert not booted.run("systemctl", "--failed", "--no-legend", "--plain", "list-units", "ovs*", "openvswitch*").strip()


def test_read_only_root(world, installed):
    """systemd mounts what the page says to put into /etc/fstab, and starts the units as they are packaged."""
    installed.choose(systems.OURS)
    (installed.root / "etc/fstab").write_text("\n".join(systems.FSTAB) + "\n", encoding="utf-8")
    with Booted(installed, "--read-only") as system:
        assert system.run("systemctl", "is-active", "openvswitch-switch", "ovs-vswitchd", "ovsdb-server").split() == 3 * ["active"]
        assert "Read-only file system" in system.run("touch", "/etc/x", "/var/lib/x", "/var/log/x", check=False)
        network = Network(world, system)
        assert system.runs() == systems.OURS and system.status("to-red")["xdp-hook"] == "tcx"
        with network.loses_nothing():
            network.forget_log()
            system.run("systemctl", "restart", "openvswitch-switch")
            network.taken_over()
