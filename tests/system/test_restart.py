# SPDX-License-Identifier: Apache-2.0
"""Restarts without a gap: programs go on while there is no daemon, and the next daemon takes them over.

    red == to-red [XDP] == green       1,000 datagrams a second to green, 100 back
"""
import contextlib
import pathlib
import signal

import pytest

import lab
import switch as switches
import traffic
import wire
import xdp

HOOK = "xdp"

# Of 1,000 datagrams a second that the switch may lose over a whole restart.  None is lost when nothing else runs.
BOUND = 50
FOLDER = pathlib.Path("/sys/fs/bpf/ovs-xdp")
WAYS = ("kill", "terminate", "exit")


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch's userspace datapath ends with its daemon")


def end(switch, how):
    if how == "kill":
        switch.crash()
    elif how == "terminate":
        switch.process.kill(signal.SIGTERM)
        with contextlib.suppress(FileNotFoundError):
            (switch.rundir / "ovs-vswitchd.ctl").unlink()
    else:
        switch.stop()


def programs():
    return {name: xdp.attached(f"to-{name}") for name in ("red", "green", "blue")}


def wait_for_take_over(switch, count):
    lab.wait_until(lambda: sum("took over" in line for line in switch.log()) == count, "devices to be taken over")


class Load:
    """Datagrams in both directions, so that every flow is known, and how many of those from red are lost."""

    def __init__(self, network):
        self._network = network

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        network = self._network
        self.there = self._stack.enter_context(
            traffic.Stream(network.red, network.green, "10.0.0.2", interval=0.001))
        self.back = self._stack.enter_context(
            traffic.Stream(network.green, network.red, "10.0.0.1", port=5010, interval=0.01))
        self.there.flowing()
        self.back.flowing()
        self.settle()
        self._start = self.there.sent - self.there.received
        return self

    def settle(self, count=300):
        """Waits until a number of datagrams arrived: long enough for flows to be where they stay."""
        before = self.there.received
        lab.wait_until(lambda: self.there.received > before + count, "datagrams")

    def lost(self):
        return self.there.sent - self.there.received - self._start

    def __exit__(self, *_):
        self._stack.close()


def in_xdp(network):
    return any("in_port(to-red)" in flow and "dp:xdp" in flow and "actions:to-green" in flow
               for flow in network.switch.dump_flows("-m"))


@pytest.mark.parametrize("how", WAYS)
def test_restart_loses_nothing(network, how):
    network.switch.expected += ["terminating with signal"]
    with Load(network) as load:
        lab.wait_until(lambda: in_xdp(network), "the flow in XDP")
        for count in 1, 2:
            before = programs()
            end(network.switch, how)
            assert programs() == before
            load.settle()
            network.switch.start()
            wait_for_take_over(network.switch, count)
            load.settle()
            lab.wait_until(lambda: in_xdp(network), "the flow in XDP")
            after = programs()
            assert all(after[name] and after[name] != before[name] for name in after)
        lost = load.lost()
        print(f"{how}: {lost} lost of {load.there.sent}")
        assert lost <= 2 * BOUND
    assert not (next(FOLDER.glob("*/ovs-xdp")) / "old").exists()


def test_old_flows_until_the_rules_are_back(network):
    """With flow-restore-wait the old programs run until ofproto has its rules; also if that daemon dies, too."""
    switch = network.switch
    rules = ("priority=1,in_port=to-red,udp,actions=output:to-green", "priority=1,in_port=to-green,actions=to-red",
             "priority=1,arp,actions=normal", "priority=0,actions=drop")
    switch.flows("br0", *rules)
    with Load(network) as load:
        lab.wait_until(lambda: in_xdp(network), "the flow in XDP")
        before = programs()
        switch.vsctl("set", "open", ".", "other_config:flow-restore-wait=true")
        for _ in range(2):
            end(switch, "kill")
            load.settle()
            switch.start()
            lab.wait_until(lambda: "to-blue" in switch.appctl("dpctl/show", check=False), "the ports")
            load.settle()
            assert programs() == before
        switch.flows("br0", *rules)
        switch.vsctl("remove", "open", ".", "other_config", "flow-restore-wait")
        wait_for_take_over(switch, 1)
        load.settle()
        lost = load.lost()
        print(f"{lost} lost of {load.there.sent}")
        assert lost <= BOUND
    after = programs()
    assert all(after[name] and after[name] != before[name] for name in after)


def test_changes_while_there_is_no_daemon(network):
    """Ports that were removed or configured anew meanwhile: their old programs go."""
    switch = network.switch
    with Load(network) as load:
        end(switch, "kill")
        switch.vsctl("--no-wait", "--", "del-port", "to-blue",
                     "--", "set", "interface", "to-green", "options:xdp-mode=generic")
        switch.start()
        load.settle()
    lab.wait_until(lambda: xdp.attached("to-blue") is None, "to-blue to be free")
    assert xdp.attached("to-green")[0] == "generic" and xdp.attached("to-red")[0] == "native"
    assert not switch.error("to-green")
    switch.add_port("to-blue")
    traffic.wait_for_ping(network.red, "10.0.0.3")


def test_device_replaced_while_there_is_no_daemon(network):
    """Another device with the same name has nothing of the old one's."""
    switch = network.switch
    mac = lab.mac_of(network.green)
    end(switch, "kill")
    lab.run("ip", "link", "del", "to-green")
    lab.make_veth("to-green", network.green)
    network.green.run("ip", "link", "set", "eth0", "address", mac)
    lab.add_addresses(network.green, "eth0", "10.0.0.2/24")
    switch.start()
    traffic.wait_for_ping(network.red, "10.0.0.2")
    traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)


def test_statistics_count_the_time_between(network):
    """What a device received while there was no daemon counts, too."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "actions=drop")
    frames = [wire.udp_frame("02:00:00:00:00:01", lab.mac_of(network.green), b"\x07" * 100)] * 100
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        def through():
            red.send(*frames)
            assert len(green.receive(lambda frame: frame in frames, 100)) == 100
        through()
        end(switch, "kill")
        through()
        switch.start()
        wait_for_take_over(switch, 1)
    received = int(switch.get("interface", "to-red", "statistics").get("rx_packets", 0)) \
        if switch.get("interface", "to-red", "statistics") else 0
    lab.wait_until(lambda: (switch.get("interface", "to-red", "statistics") or {}).get("rx_packets", 0) >= 200,
                   f"200 packets counted, not {received}")


def test_devices_stay_promiscuous(network):
    """A NIC must not begin to filter when the daemon ends, nor when its device is made anew; only with the port."""
    switch = network.switch
    switch.expected += ["terminating with signal", "to-green", "No such device"]

    def promiscuous(device):
        return "PROMISC" in lab.run("ip", "-o", "link", "show", "dev", device)
    for how in "terminate", "exit":
        end(switch, how)
        assert promiscuous("to-green")
        switch.start()
        lab.wait_until(lambda: "to-blue" in switch.appctl("dpctl/show", check=False), "the ports")
    lab.run("ip", "link", "del", "to-green")
    lab.make_veth("to-green", network.green)
    lab.wait_until(lambda: promiscuous("to-green"), "the new device to be promiscuous")
    switch.vsctl("del-port", "to-green")
    assert not promiscuous("to-green")
