# SPDX-License-Identifier: Apache-2.0
"""The sandboxed unit: what systemd says of it, and that the daemon asks the kernel for nothing that it takes away."""
import contextlib
import pathlib
import re
import shutil

import pytest

import lab
import switch as switches
import traffic

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
DROP_IN = TOP / "examples/systemd/ovs-vswitchd-xdp.conf"
# As Debian's package of Open vSwitch 3.1 has it, without comments.
STOCK = """[Unit]
Description=Open vSwitch Forwarding Unit
[Service]
LimitNOFILE=1048576
Type=forking
Restart=on-failure
Environment=HOME=/var/run/openvswitch
EnvironmentFile=-/etc/default/openvswitch-switch
ExecStart=/usr/share/openvswitch/scripts/ovs-ctl start
ExecStop=/usr/share/openvswitch/scripts/ovs-ctl stop
"""


def analyze(*args):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    return lab.run("systemd-analyze", "--no-pager", *args, check=False)


def exposure(folder, *drop_ins):
    unit = folder / "ovs-vswitchd.service"
    unit.write_text(STOCK, encoding="utf-8")
    (folder / "ovs-vswitchd.service.d").mkdir()
    for drop_in in drop_ins:
        shutil.copy(drop_in, folder / "ovs-vswitchd.service.d")
    return float(re.search(r"Overall exposure level for \S+: ([\d.]+)", analyze("security", "--offline=yes", unit))[1])


def test_exposure(tmp_path):
    """Below 5; the stock unit has more than 9."""
    for name in "stock", "sandboxed":
        (tmp_path / name).mkdir()
    assert exposure(tmp_path / "stock") > 9
    assert exposure(tmp_path / "sandboxed", DROP_IN) < 5


def test_system_calls():
    """A daemon that forwards makes no system call of the groups that the unit takes away."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed: apt-get install strace")
    groups = re.search(r"^SystemCallFilter=~(.*)$", DROP_IN.read_text(encoding="utf-8"), re.MULTILINE)[1].split()
    calls = {line.strip() for group in groups for line in analyze("syscall-filter", group).splitlines()
             if re.match(r"    \w", line)}
    assert {"ptrace", "init_module", "reboot"} <= calls
    with switches.Switch() as first, contextlib.ExitStack() as world:
        traced = first.rundir / "traced-ovs-vswitchd"
        said = first.rundir / "calls"
        command = f"strace -f -qq -e signal=none -o {said} -e trace=?{',?'.join(sorted(calls))} {switches.DAEMON}"
        traced.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        traced.chmod(0o755)
        with switches.Switch(daemon=traced) as switch:
            switch.add_bridge("br0")
            red, green = (world.enter_context(lab.Namespace(name)) for name in ("red", "green"))
            for number, (name, container) in enumerate((("red", red), ("green", green)), 1):
                lab.make_veth(f"to-{name}", container)
                lab.add_addresses(container, "eth0", f"10.0.0.{number}/24")
                switch.add_port(f"to-{name}", interface=[f"options:xdp-hook={'xdp' if number == 1 else 'tcx'}"])
            traffic.wait_for_ping(red, "10.0.0.2")
            switch.flows("br0", "ip,actions=ct(commit),normal", "priority=0,actions=normal")
            traffic.tcp(red, green, "10.0.0.2", size=1 << 20)
            switch.appctl("xdp/show")
        assert not said.read_text(encoding="utf-8", errors="replace"), said.read_text(encoding="utf-8", errors="replace")[:2000]
