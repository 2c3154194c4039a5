# SPDX-License-Identifier: Apache-2.0
"""How the tools that observe find the daemon when nobody gives them -t: by its pidfile, also after a restart."""
import pathlib
import sys

import pytest

import switch as switches

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools/observe"))

from ovs_xdp_client import Client, Unreachable  # noqa: E402


def name(switch):
    """Pidfile and control socket under the names that a daemon with --pidfile gives them."""
    pid = switch.process.pid
    for former in switch.rundir.glob("ovs-vswitchd.*.ctl"):
        former.unlink()
    (switch.rundir / f"ovs-vswitchd.{pid}.ctl").symlink_to("ovs-vswitchd.ctl")
    (switch.rundir / "ovs-vswitchd.pid").write_text(f"{pid}\n", encoding="ascii")


def test_restarts(monkeypatch):
    """The same client asks the next daemon, and says in between why there is no answer."""
    with switches.Switch() as switch:
        monkeypatch.setenv("OVS_RUNDIR", str(switch.rundir))
        client = Client()
        with pytest.raises(Unreachable, match=r"ovs-vswitchd\.pid: No such file.*is the daemon running\?"):
            client.call("version")
        for end in switch.crash, switch.stop, switch.crash:
            name(switch)
            assert "OVS-XDP" in client.call("version")
            document = client.document("xdp/show")
            assert document["datapaths"] == []
            end()
            with pytest.raises(Unreachable, match=rf"ovs-vswitchd\.{switch.process.pid}\.ctl: No such file"):
                client.call("version")
            switch.start()
        name(switch)
        assert "OVS-XDP" in client.call("version")


def test_other_names(monkeypatch):
    """A daemon of another name has another pidfile; a path needs none."""
    with switches.Switch() as switch:
        monkeypatch.setenv("OVS_RUNDIR", str(switch.rundir))
        (switch.rundir / f"other.{switch.process.pid}.ctl").symlink_to("ovs-vswitchd.ctl")
        (switch.rundir / "other.pid").write_text(f"{switch.process.pid}\n", encoding="ascii")
        with pytest.raises(Unreachable, match="ovs-vswitchd.pid"):
            Client().call("version")
        assert Client("other").call("version") == Client(str(switch.rundir / "ovs-vswitchd.ctl")).call("version")
