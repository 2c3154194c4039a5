# SPDX-License-Identifier: Apache-2.0
"""What Open vSwitch says about interfaces: every byte received and sent, the link's state."""
import fcntl
import os
import re
import select
import struct
import time

import pytest

import lab
import traffic
import wire

LENGTHS = (60, 61, 100, 512, 1514)
RED, GREEN = "02:00:00:00:00:01", "02:00:00:00:00:02"
FRAMES = [wire.udp_frame(RED, GREEN, b"\x07" * (length - 42)) for length in LENGTHS]

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454ca, 0x0002, 0x1000


class Tap:
    """A tap device and the program (a VM) behind it."""

    def __init__(self, name):
        self._file = open("/dev/net/tun", "r+b", buffering=0)
        fcntl.ioctl(self._file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        lab.run("ip", "link", "set", name, "up")

    def send(self, *frames):
        for frame in frames:
            self._file.write(frame)

    def receive(self, count, limit=5):
        """Waits for 'count' frames of this test and returns how many came."""
        found, end = 0, time.monotonic() + limit
        while found < count and select.select([self._file], [], [], max(0, end - time.monotonic()))[0]:
            found += os.read(self._file.fileno(), 65536) in FRAMES
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


def counts(switch, port):
    """(received packets, bytes, sent packets, bytes)."""
    found = re.findall(r"[rt]x pkts=(\d+), bytes=(\d+)", switch.ofctl("dump-ports", "br0", port))
    return tuple(int(number) for pair in found for number in pair)


def no_ipv6(namespace):
    """Without IPv6 a device sends nothing by itself."""
    namespace.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")


def wait_for_mode(switch, mode, *devices):
    if switch.datapath == "xdp":
        for device in devices:
            lab.wait_until(lambda device=device: switch.status(device).get("xdp-mode") == mode,
                           f"{device} in mode {mode}")


@pytest.mark.parametrize("first, then", (("native", "generic"), ("generic", "native")))
def test_statistics_are_exact(world, host, switch, first, then):
    """Also when the port is opened in another mode between."""
    no_ipv6(host)
    red = world.enter_context(lab.Namespace("red"))
    no_ipv6(red)
    lab.make_veth("to-red", red)
    tap = world.enter_context(Tap("tap0"))
    switch.add_bridge("br0")
    for device in "to-red", "tap0":
        switch.add_port(device, interface=[f"options:xdp-mode={first}"] if switch.datapath == "xdp" else [])
    switch.flows("br0", "in_port=to-red,actions=output:tap0", "in_port=tap0,actions=output:to-red")
    before = counts(switch, "to-red"), counts(switch, "tap0")

    packets = size = 0
    with wire.Wire(red) as far:
        for mode in first, then:
            if mode != first and switch.datapath == "xdp":
                for device in "to-red", "tap0":
                    switch.vsctl("set", "interface", device, f"options:xdp-mode={mode}")
            wait_for_mode(switch, mode, "to-red", "tap0")
            for _ in range(20):
                far.send(*FRAMES)
                assert tap.receive(len(FRAMES)) == len(FRAMES)
                tap.send(*FRAMES)
                assert len(far.receive(lambda frame: frame in FRAMES, len(FRAMES))) == len(FRAMES)
            packets, size = packets + 20 * len(FRAMES), size + 20 * sum(LENGTHS)
            for device, start in zip(("to-red", "tap0"), before):
                def counted(device=device, start=start):
                    return tuple(now - then for now, then in zip(counts(switch, device), start))
                lab.wait_until(lambda counted=counted: counted() == (packets, size) * 2,
                               f"{device} in {mode}: {counted()} instead of {(packets, size) * 2}")


def test_bond_polls_the_link(world, switch):
    """other_config:bond-detect-mode=miimon."""
    red = world.enter_context(lab.Namespace("red"))
    for number in 1, 2:
        lab.make_veth(f"member{number}", red, f"eth{number}")
    switch.add_bridge("br0")
    switch.vsctl("add-bond", "br0", "bond0", "member1", "member2", "bond_mode=active-backup",
                 "other_config:bond-detect-mode=miimon", "other_config:bond-miimon-interval=100")

    def states():
        return re.findall(r"^member (\w+): (\w+)", switch.appctl("bond/show"), re.MULTILINE)

    for down in None, "1", "2", None:
        for number in "1", "2":
            red.run("ip", "link", "set", f"eth{number}", "down" if number == down else "up")
        expected = [(f"member{number}", "disabled" if number == down else "enabled") for number in ("1", "2")]
        lab.wait_until(lambda expected=expected: sorted(states()) == expected, f"{expected}")


@pytest.fixture
def htb():
    answer = lab.run("tc", "qdisc", "add", "dev", "lo", "root", "htb", check=False)
    if answer:
        pytest.skip(f"this kernel has no HTB qdisc: {answer.strip()}")


def test_qos_shapes(world, host, switch, htb):
    """A port's QoS limits what is sent, as long as it is there."""
    switch.expected += ["error sending Ethernet packet on to-green"]      # Its queue is full.
    red, green = (world.enter_context(lab.Namespace(name)) for name in ("red", "green"))
    switch.add_bridge("br0")
    for namespace in red, green:
        no_ipv6(namespace)
        lab.make_veth(f"to-{namespace.name}", namespace)
        # At tcx a sender would wait for room in the queue: its packets belong to its socket until they leave.
        switch.add_port(f"to-{namespace.name}", interface=("options:xdp-hook=xdp",))
    switch.flows("br0", "in_port=to-red,actions=output:to-green")

    def arrive():
        count = 0
        with wire.Wire(red) as sender, wire.Wire(green) as receiver:
            for _ in range(20):
                sender.send(*[FRAMES[-1]] * 10)
                count += len(receiver.receive(lambda frame: frame == FRAMES[-1], 10, limit=0.05))
        return count

    lab.wait_until(lambda: arrive() == 200, "all packets")
    switch.vsctl("set", "port", "to-green", "qos=@limit",
                 "--", "--id=@limit", "create", "qos", "type=linux-htb", "other-config:max-rate=100000",
                 "queues:0=@queue", "--", "--id=@queue", "create", "queue", "other-config:max-rate=100000")
    lab.wait_until(lambda: arrive() < 50, "fewer packets than the rate allows")
    switch.vsctl("clear", "port", "to-green", "qos")
    lab.wait_until(lambda: arrive() == 200, "all packets again")


def test_afxdp_interfaces(network):
    """Interfaces that were of type afxdp go on with their options."""
    if network.switch.datapath != "xdp":
        pytest.skip("the stock datapath's afxdp is tested by Open vSwitch")
    network.switch.expected += ["options:n_rxq"]
    for number, kind in enumerate(("afxdp", "afxdp-nonpmd", "xdp"), 11):
        network.add_container(kind, number, interface=[f"type={kind}", "options:xdp-mode=native", "options:n_rxq=1",
                                                       "options:use-need-wakeup=true"])
        assert network.switch.status(f"to-{kind}")["xdp-mode"] == "native"
        traffic.wait_for_ping(network.red, f"10.0.0.{number}")


def test_device_goes_and_comes_back(network):
    """Also where openvswitch.ko is loaded, which is asked for devices and knows nothing of them."""
    switch = network.switch
    switch.expected += ["to-red", "No such device"]
    lab.run("ip", "link", "del", "to-red")
    lab.wait_until(lambda: switch.get("interface", "to-red", "link_state") != "up", "the device's end to be noticed")
    lab.make_veth("to-red", network.red)
    lab.add_addresses(network.red, "eth0", "10.0.0.1/24")
    ifindex = int(network.host.run("cat", "/sys/class/net/to-red/ifindex"))
    lab.wait_until(lambda: switch.get("interface", "to-red", "ifindex") == ifindex, "the new device to be noticed")
    traffic.wait_for_ping(network.red, "10.0.0.2")


def test_bond_balances_in_the_datapath(network):
    """other_config:lb-output-action: flows are spread over the members, and go on when one fails.

        red - br0 - m1 == n1 - br1 - far
                  - m2 == n2 -
    """
    switch = network.switch
    # LACP goes on while its bridge is taken down: Open vSwitch finds flows whose ports are gone.
    switch.expected += ["xlate_key failed"]
    switch.add_bridge("br1")
    for number in "1", "2":
        lab.run("ip", "link", "add", f"m{number}", "up", "type", "veth", "peer", "name", f"n{number}")
        lab.run("ip", "link", "set", f"n{number}", "up")
    for number, side in enumerate("mn"):
        switch.vsctl("add-bond", f"br{number}", f"bond{number}", f"{side}1", f"{side}2", "bond_mode=balance-tcp",
                     "lacp=active", "other_config:lacp-time=fast")
    switch.vsctl("set", "port", "bond0", "other_config:lb-output-action=true")
    far = network.plug("far")
    lab.add_addresses(far, "eth0", "10.0.0.9/24")
    switch.add_port("to-far", bridge="br1")

    def buckets():
        """(port, packets) of each bucket."""
        found = re.findall(r"port (\d+) packets:(\d+)", switch.appctl("xdp/bond-show"))
        return [(int(port), int(count)) for port, count in found]

    if switch.datapath == "xdp":
        lab.wait_until(lambda: len({port for port, _ in buckets()}) == 2, "both members in use")
    traffic.wait_for_ping(network.red, "10.0.0.9")
    frames = [wire.udp_frame(lab.mac_of(network.red), lab.mac_of(far), b"\x07" * 100, ports=(port, 2000))
              for port in range(1000, 1200)]
    with wire.Wire(network.red) as red, wire.Wire(far) as seen:
        for i in range(0, len(frames), 20):
            red.send(*frames[i:i + 20])
            assert len(seen.receive(lambda frame: frame in frames, 20)) == 20
    if switch.datapath == "xdp":
        assert any("lb_output" in flow for flow in switch.dump_flows())
        members = {port for port, _ in buckets()}
        sent = [sum(count for port, count in buckets() if port == member) for member in members]
        assert len(sent) == 2 and min(sent) > len(frames) / 10, sent

    lab.run("ip", "link", "set", "n1", "down")
    lab.wait_until(lambda: "member m1: disabled" in switch.appctl("bond/show", "bond0"), "the failure to be seen")
    traffic.wait_for_ping(network.red, "10.0.0.9")
