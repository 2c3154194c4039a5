# SPDX-License-Identifier: Apache-2.0
"""`--user`: the daemon runs as an ordinary user, with the capabilities that it needs and no others."""
import pathlib
import pwd
import re

import pytest

import lab
import switch as switches

USER = "nobody"
# linux/capability.h: the least that a daemon with programs needs, and CAP_NET_BIND_SERVICE, which Open vSwitch keeps.
CAPABILITIES = {"NET_BIND_SERVICE": 10, "NET_BROADCAST": 11, "NET_ADMIN": 12, "NET_RAW": 13, "IPC_LOCK": 14, "PERFMON": 38,
                "BPF": 39}
ADDRESSES = {"red": "10.0.0.1", "green": "10.0.0.2"}


def status_of_process(switch, name):
    return re.search(rf"^{name}:\s+(\S+)", pathlib.Path(f"/proc/{switch.process.pid}/status").read_text(encoding="utf-8"),
                     re.MULTILINE)[1]


@pytest.fixture(name="switch")
def fixture_switch(world):
    if switches.DATAPATH != "xdp":
        pytest.skip("the stock daemon has no programs")
    if not switches.USER:
        world.enter_context(lab.open_to_users())
    with switches.Switch(user=USER) as switch:
        switch.add_bridge()
        switch.containers = {}
        for name, address in ADDRESSES.items():
            container = switch.containers[name] = world.enter_context(lab.Namespace(name))
            lab.make_veth(f"to-{name}", container)
            lab.add_addresses(container, "eth0", f"{address}/24")
            switch.add_port(f"to-{name}")
        yield switch


def forwarded(switch, port):
    return int(re.search(r"forwarded by the program: (\d+)", switch.appctl("xdp/stats", port))[1])


def check_programs_forward(switch):
    before = forwarded(switch, "to-red")

    def more():
        switch.containers["red"].run("ping", "-q", "-c", "5", "-i", "0.01", ADDRESSES["green"])
        return forwarded(switch, "to-red") > before
    lab.wait_until(more, "packets that programs forward")


def test_privileges(switch):
    """It has the user's number and these capabilities, and programs run at both hooks."""
    assert status_of_process(switch, "Uid") == str(pwd.getpwnam(USER).pw_uid)
    for kind in "CapEff", "CapPrm":
        assert int(status_of_process(switch, kind), 16) == sum(1 << bit for bit in CAPABILITIES.values())
    check_programs_forward(switch)
    for name in ADDRESSES:
        assert switch.status(f"to-{name}")["xdp-hook"] == "tcx" and not switch.error(f"to-{name}")
        switch.vsctl("set", "interface", f"to-{name}", "options:xdp-hook=xdp")
        assert switch.status(f"to-{name}")["xdp-hook"] == "xdp" and not switch.error(f"to-{name}")
        switch.vsctl("set", "interface", f"to-{name}", "options:xdp-hook=auto")
        lab.wait_until(lambda name=name: switch.status(f"to-{name}")["xdp-hook"] == "tcx", "tcx again")
        # It may not read names of programs: no reason to call its own another's.
        assert "xdp-warning" not in switch.status(f"to-{name}")
        switch.vsctl("set", "interface", f"to-{name}", "options:xdp-hook=xdp")
    # Without CAP_SYS_ADMIN it cannot enter the containers to make their ends take frames that XDP redirects: the engine sends.
    switch.containers["red"].run("ping", "-q", "-c", "5", "-i", "0.01", ADDRESSES["green"])


def test_outlives(switch):
    """Programs go on when the daemon is killed, and the next daemon takes them over."""
    check_programs_forward(switch)
    switch.crash()
    switch.containers["red"].run("ping", "-q", "-c", "5", "-i", "0.01", ADDRESSES["green"])
    switch.start()
    lab.wait_until(lambda: re.search(r"took over [1-9]\d* device", "\n".join(switch.log())), "the take-over")
    check_programs_forward(switch)
