# SPDX-License-Identifier: Apache-2.0
"""Programs, links and tables outlive a killed switch, and nothing else."""
import fcntl
import os
import pathlib
import re
import threading

import pytest

import lab
import switch as switches
import wire
import xdp

HOOK = "xdp"

RED = "02:00:00:00:00:01"
PINS = pathlib.Path("/sys/fs/bpf/ovs-xdp")


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath pins anything")


def pinned():
    return sorted(str(path.relative_to(PINS)) for path in PINS.glob("*/*/*"))


def of_its_datapath(process):
    """What 'process' holds, except the programs of core/kernel/grace.c, which it keeps until it ends."""
    return {item for item in xdp.objects(process.pid) if not xdp.waits(*item)}


def gone(objects):
    return not [item for item in objects if xdp.exists(*item)]


def folder():
    return f"{os.stat('/proc/thread-self/ns/net').st_ino}/ovs-xdp"


def frames_through(network, count=100):
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        red.send(*[wire.udp_frame(RED, lab.mac_of(network.green), b"number")] * count)
        return len(green.receive(lambda frame: b"number" in frame, count))


def restart(network):
    """Returns when the switch has its ports again."""
    network.switch.start()
    lab.wait_until(lambda: "to-blue" in network.switch.appctl("dpctl/show", check=False), "the switch is back")


def prepare(network):
    network.switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "actions=drop")
    assert frames_through(network) == 100


def test_what_is_pinned(network):
    names = pinned()
    assert {pathlib.Path(name).parent.as_posix() for name in names} == {folder()}
    names = {pathlib.Path(name).name for name in names}
    index = network.host.run("cat", "/sys/class/net/to-red/ifindex").strip()
    assert {"xdp", "dp_head", "dp_flows", "sockets", "dp_counters", f"link-{index}"} <= names
    mode = lambda path: os.stat(path).st_mode & 0o777
    assert mode(PINS) == mode(PINS / folder()) == 0o700 and mode(PINS / folder() / "xdp") == 0o600
    network.switch.vsctl("del-port", "to-red")
    assert f"{folder()}/link-{index}" not in pinned()


def test_flows_survive_a_kill(network):
    """Known flows keep flowing; the next start takes over and leaves nothing of the old behind."""
    prepare(network)
    for _ in range(2):
        held = {item for item in xdp.objects(network.switch.process.pid) if item[0] != "link" and not xdp.is_adopted(*item)}
        network.switch.crash()
        assert pinned()
        assert frames_through(network) == 100
        restart(network)
        assert network.switch.error("to-red") is None
        lab.wait_until(lambda: gone(held), "what the killed switch had is freed")
        prepare(network)


@pytest.mark.parametrize("how", ("cleanup", "delete"))
def test_nothing_stays_behind(network, how):
    held = of_its_datapath(network.switch.process)
    assert held and pinned()
    if how == "delete":
        network.switch.vsctl("del-br", "br0")
        lab.wait_until(lambda: not PINS.exists(), "the datapath's pins go")
    else:
        network.switch.stop(cleanup=True)
    assert not PINS.exists()
    lab.wait_until(lambda: gone(held), "the kernel frees programs, maps and links")
    if how != "delete":
        network.switch.start()


def test_namespaces_do_not_meet(network, world):
    """A switch in another network namespace has its own folder, and leaves the first one alone."""
    prepare(network)
    before = pinned()
    with lab.Namespace("elsewhere") as elsewhere, elsewhere.entered():
        lab.make_veth("to-x", elsewhere, inside="x")
        with switches.Switch() as other:
            other.add_bridge("br0")
            other.add_port("to-x")
            assert folder() + "/xdp" in pinned() and set(before) < set(pinned())
    assert pinned() == before
    assert frames_through(network) == 100


def test_folders_of_the_dead_go(network):
    """A switch that was killed with its namespace: the next one anywhere removes what it pinned."""
    with lab.Namespace("elsewhere") as elsewhere:
        with elsewhere.entered():
            lab.make_veth("to-x", elsewhere, inside="x")
            other = switches.Switch()
            other.start_database()
            other.start()
            other.add_bridge("br0")
            other.add_port("to-x")
            place = folder()
        other.crash()
        other.close()
        assert place + "/xdp" in pinned()
        elsewhere.run("ip", "link", "del", "to-x")
    network.switch.crash()
    restart(network)
    assert folder() + "/xdp" in pinned()
    assert not [name for name in pinned() if name.startswith(place)]


def test_taken_folder(network):
    """When another process has the folder, the switch works unpinned, leaves it alone, and says so once."""
    switch = network.switch
    switch.stop(cleanup=True)
    (PINS / folder()).mkdir(parents=True)
    taken = os.open(PINS / folder(), os.O_RDONLY)
    fcntl.flock(taken, fcntl.LOCK_EX)
    try:
        restart(network)
        prepare(network)
        assert not pinned()
        said = [line for line in switch.log() if "programs end with this process" in line]
        assert len(said) == 1 and "in use by another process" in said[0]
        assert re.search(r"when the daemon ends: programs end, too: \S+ is in use by another process$",
                         switch.appctl("xdp/show"), re.MULTILINE)
    finally:
        os.close(taken)


def test_folder_of_a_dying_daemon(network):
    """While the kernel closes what a killed daemon had, its folder is taken.  The next one waits, and takes over."""
    switch = network.switch
    prepare(network)
    switch.crash()
    taken = os.open(PINS / folder(), os.O_RDONLY)
    fcntl.flock(taken, fcntl.LOCK_EX)
    release = threading.Timer(1.5, os.close, (taken,))
    release.start()
    try:
        restart(network)
        lab.wait_until(lambda: any("took over" in line for line in switch.log()), "the take-over")
        assert "programs go on, pinned in" in switch.appctl("xdp/show")
    finally:
        release.join()
