# SPDX-License-Identifier: Apache-2.0
"""Every test gets a host of its own (lab.py) and, if it asks, a switch on it.

    containers "red", "green", "blue": 10.0.0.1, .2, .3 and fc00::1, ::2, ::3 on eth0, plugged in as to-red ...
    the host itself: internal port br0, 10.0.0.100 and fc00::100

A test file that is about one hook says so: HOOK = "xdp".
"""
import contextlib
import os

import pytest

import drops
import lab
import switch as switches

NAMES = ("red", "green", "blue")


def pytest_sessionstart(session):
    if os.geteuid() != 0:
        pytest.exit("the system tests make network namespaces and load BPF programs: run as root", 2)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    os.environ["LC_ALL"] = "C.UTF-8"     # Tests read what tools print.
    if not is_distributor(session.config):
        lab.enter()


def is_distributor(config):
    """Whether this process only hands tests to workers of pytest-xdist, with which it talks over the network."""
    return config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Tells fixtures whether the test itself passed."""
    outcome = yield
    if call.when == "call":
        item.passed = outcome.get_result().passed


def pytest_terminal_summary(terminalreporter):
    """Shows why a test that was repeated had failed."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"failed, then repeated: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
        for title, text in report.sections:
            terminalreporter.write_line(f"{title}:\n{text}")


@pytest.fixture(autouse=True)
def world(request, monkeypatch):
    """What a test opens through this stack is closed after it."""
    monkeypatch.setattr(switches.Switch, "hook", getattr(request.module, "HOOK", None))
    lab.new_host()
    with contextlib.ExitStack() as stack:
        if switches.USER:
            stack.enter_context(lab.open_to_users())
        yield stack


@pytest.fixture
def host():
    return lab.Namespace()


@pytest.fixture
def environment():
    """Variables of the switch's environment; for files that have some."""
    return {}


@pytest.fixture
def switch(request, world, environment):
    """A running switch without bridges.  It ends before the namespaces do; after a failure its log, counters and flows are
    shown."""
    with switches.Switch(env=environment) as running:
        yield running
        if not getattr(request.node, "passed", True):
            print("\n".join(running.log()[-15:]))
            for command in (("xdp/stats", "--nonzero"), ("xdp/show",), ("dpctl/dump-flows", "-m")):
                print(running.appctl(*command, check=False) if running.process.running() else "")
            running.expected.append("")


@pytest.fixture(scope="session")
def watch():
    """What the kernel drops, None if it does not tell."""
    with contextlib.ExitStack() as stack:
        watching = None
        with contextlib.suppress(drops.Unusable):
            watching = stack.enter_context(drops.Watch())
        yield watching


@pytest.fixture
def nothing_vanishes(switch, watch):
    """For tests that end with an error if the kernel dropped anything that no counter of the switch or of a device knows."""
    ledger = drops.Ledger(watch, switch)
    yield ledger
    ledger.check()


@pytest.fixture
def network(world, switch, host):
    """A switch with bridge br0, on it three containers and the host."""
    return Network(world, switch, host)


class Network:
    def __init__(self, world, switch, host):
        self.world, self.switch, self.host = world, switch, host
        switch.add_bridge("br0")
        self.red, self.green, self.blue = (self.add_container(name, number) for number, name in enumerate(NAMES, 1))
        lab.run("ip", "link", "set", "br0", "up")
        lab.add_addresses(host, "br0", "10.0.0.100/24", "fc00::100/64")

    def add_container(self, name, number, *settings, interface=(), mtu=1500):
        """A namespace with addresses .'number', plugged in as to-'name'."""
        container = self.plug(name, mtu=mtu)
        lab.add_addresses(container, "eth0", f"10.0.0.{number}/24", f"fc00::{number}/64")
        self.switch.add_port(f"to-{name}", *settings, interface=interface)
        return container

    def plug(self, name, mtu=1500):
        """A namespace with the peer of the new device to-'name', which is no port yet."""
        container = self.world.enter_context(lab.Namespace(name))
        lab.make_veth(f"to-{name}", container, mtu=mtu)
        return container
