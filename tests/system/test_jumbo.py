# SPDX-License-Identifier: Apache-2.0
"""Frames of 4,000 and 9,000 bytes where the switch does more than match and edit (packet_table.py has that).

    red, green, blue, host (br0): MTU 9000
"""
import os
import select

import pytest

import jumbo
import lab
import switch as switches
import tap
import traffic
import wire
from firewall import stateful

MTU, SIZES = 9000, (4000, 9000)
HOOKS = ("xdp", "tcx", "both", "engine")

pytestmark = [pytest.mark.usefixtures("nothing_vanishes"), pytest.mark.skipif(
    not jumbo.MULTI_BUFFER, reason="this kernel has no AF_XDP sockets for frames in several buffers (Linux 6.6)")]


@pytest.fixture(params=HOOKS)
def jumbos(request, network):
    """The network with jumbo frames, on each hook; and at XDP with every flow in the engine."""
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has hooks")
    hook = "xdp" if request.param == "engine" else request.param
    network.switch.vsctl("set", "open", ".", f"other_config:xdp-hook={hook}",
                         f"other_config:xdp-offload={str(request.param != 'engine').lower()}")
    for name in "red", "green", "blue":
        lab.run("ip", "link", "set", f"to-{name}", "mtu", MTU)
        getattr(network, name).run("ip", "link", "set", "eth0", "mtu", MTU)
        lab.wait_until(lambda name=name: network.switch.status(f"to-{name}").get("xdp-hook") == hook, hook)
    lab.run("ip", "link", "set", "br0", "mtu", MTU)
    traffic.wait_for_ping(network.red, "10.0.0.2", size=MTU - 28, options=("-M", "do"))
    return network


def udp(source, target, size):
    """A datagram in a frame of 'size' bytes."""
    return wire.udp_frame(lab.mac_of(source), lab.mac_of(target), bytes(number % 251 for number in range(size - 42)))


def is_udp(frame):
    return frame[12:14] == b"\x08\x00" and frame[23] == 17


def is_long(frame):
    return is_udp(frame) and len(frame) >= min(SIZES)


def test_everybody(jumbos):
    """TCP, datagrams and the host's own packets, of one frame and of several fragments."""
    for address in "10.0.0.2", "10.0.0.100", "fc00::2":
        assert traffic.ping(jumbos.red, address, size=MTU - 48, options=("-M", "do")) >= 3
        assert traffic.ping(jumbos.red, address, size=20000) >= 3
    traffic.tcp(jumbos.red, jumbos.green, "10.0.0.2", size=8 << 20)
    traffic.tcp(jumbos.green, jumbos.host, "fc00::100", size=8 << 20)
    assert traffic.udp(jumbos.red, jumbos.blue, "10.0.0.3", count=20, size=30000) == 20


def test_conntrack(jumbos):
    """Also of fragments, which are put together for it."""
    stateful(jumbos.switch)
    assert traffic.ping(jumbos.red, "10.0.0.2", size=MTU - 28, options=("-M", "do")) >= 3
    assert traffic.ping(jumbos.red, "10.0.0.2", size=30000) >= 3
    assert traffic.ping(jumbos.red, "fc00::2", size=30000) >= 3
    traffic.tcp(jumbos.red, jumbos.green, "10.0.0.2", size=2 << 20)


def test_source_nat(jumbos):
    stateful(jumbos.switch, nat=",nat", commit=",nat(src=10.0.0.77)")
    jumbos.green.run("ip", "neighbour", "add", "10.0.0.77", "lladdr", lab.mac_of(jumbos.red), "dev", "eth0")
    traffic.tcp(jumbos.red, jumbos.green, "10.0.0.2", size=2 << 20)
    assert traffic.udp(jumbos.red, jumbos.green, "10.0.0.2", count=10, size=8000) == 10
    assert "dst=10.0.0.77" in jumbos.switch.appctl("dpctl/dump-conntrack")


def test_mirror(jumbos):
    jumbos.switch.expected.append("reserved exclusively for mirroring")
    jumbos.switch.vsctl("--", "--id=@blue", "get", "port", "to-blue", "--", "--id=@m", "create", "mirror", "name=m",
                        "select_all=true", "output_port=@blue", "--", "set", "bridge", "br0", "mirrors=@m")
    with wire.Wire(jumbos.red) as red, wire.Wire(jumbos.green) as green, wire.Wire(jumbos.blue) as blue:
        short = udp(jumbos.red, jumbos.green, 60)
        lab.wait_until(lambda: red.send(short) or blue.receive(is_udp, limit=1), "the mirror: flows of before mirror nothing")
        for size in SIZES:
            frame = udp(jumbos.red, jumbos.green, size)
            for _ in range(3):
                red.send(frame)
                assert green.receive(is_long) == blue.receive(is_long) == [frame]       # Short ones may still come.
    jumbos.switch.vsctl("clear", "bridge", "br0", "mirrors")


def test_labels(jumbos):
    """MPLS labels pushed, popped, and both: no row of packet_table.py, because dpctl cannot parse these actions."""
    def labelled(frame):
        return frame[:12] + b"\x88\x47" + (77 << 12 | 1 << 8 | 64).to_bytes(4, "big") + frame[14:]

    push = "push_mpls:0x8847,set_field:77->mpls_label"
    jumbos.switch.flows("br0", f"in_port=to-red,udp,actions={push},output:to-green",
                        "in_port=to-red,mpls,actions=pop_mpls:0x0800,output:to-green",
                        f"in_port=to-blue,udp,actions={push},pop_mpls:0x0800,output:to-green", "priority=0,actions=drop")
    with wire.Wire(jumbos.red) as red, wire.Wire(jumbos.blue) as blue, wire.Wire(jumbos.green) as green:
        for size in SIZES:
            frame = udp(jumbos.red, jumbos.green, size)
            for sender, sent, expected in (red, frame, labelled(frame)), (red, labelled(frame), frame), (blue, frame, frame):
                for _ in range(3):
                    sender.send(sent)
                    assert green.receive(lambda seen: seen[:6] == frame[:6] and len(seen) > 1000) == [expected]


def test_packet_out_and_in(jumbos):
    """A controller's packets, and those that one asks for."""
    with wire.Wire(jumbos.green) as green:
        for size in SIZES:
            frame = udp(jumbos.red, jumbos.green, size)
            jumbos.switch.ofctl("packet-out", "br0", f"in_port=controller packet={frame.hex()} actions=output:to-green")
            assert green.receive(is_udp) == [frame]
    jumbos.switch.flows("br0", "in_port=to-red,udp,actions=controller(max_len=65535)", "priority=0,actions=drop")
    switch, log = jumbos.switch, jumbos.switch.rundir / "seen"
    with wire.Wire(jumbos.red) as red, open(log, "wb") as out, lab.Process(
            switches.tool("ovs-ofctl"), "monitor", f"unix:{switch.rundir}/br0.mgmt", "65534", "-P", "nxt_packet_in",
            env=switch.env, stdout=out):
        for size in SIZES:
            lab.wait_until(lambda size=size: red.send(udp(jumbos.red, jumbos.green, size)) or f"total_len={size} " in log.read_text(),
                           f"a packet-in of {size} bytes")


def test_groups(jumbos):
    """Each frame leaves through one bucket of a group that selects, and through all of one that does not."""
    jumbos.switch.ofctl("add-groups", "br0", "-", text="group_id=1,type=select,selection_method=hash,bucket=to-green,bucket=to-blue\n"
                        "group_id=2,type=all,bucket=dec_ttl,to-green,bucket=to-blue\n")
    with wire.Wire(jumbos.red) as red, wire.Wire(jumbos.green) as green, wire.Wire(jumbos.blue) as blue:
        for group, copies in (1, 1), (2, 2):
            jumbos.switch.flows("br0", f"in_port=to-red,udp,actions=group:{group}", "priority=0,actions=drop")
            jumbos.switch.appctl("revalidator/wait")
            for size in SIZES * 3:
                red.send(udp(jumbos.red, jumbos.green, size))
                found = []
                lab.wait_until(lambda: found.extend([*green.receive(is_udp, limit=0.1), *blue.receive(is_udp, limit=0.1)])
                               or len(found) >= copies, f"frames of group {group}")
                assert [len(frame) for frame in found] == [size] * copies


def test_tap(jumbos):
    """Both ways, from a reader without offloads."""
    guest = jumbos.world.enter_context(tap.Tap("tap0", header=False))
    lab.run("ip", "link", "set", "tap0", "mtu", MTU)
    jumbos.switch.add_port("tap0")
    jumbos.switch.flows("br0", "in_port=tap0,actions=to-green", "in_port=to-red,actions=tap0", "actions=drop")
    with wire.Wire(jumbos.red) as red, wire.Wire(jumbos.green) as green:
        for size in SIZES:
            frame = udp(jumbos.red, jumbos.green, size)
            for _ in range(3):
                guest.send(frame)
                assert green.receive(is_udp) == [frame]
                red.send(frame)
                assert next(received for received in from_tap(guest) if is_udp(received)) == frame


def from_tap(guest):
    while select.select([guest.fileno()], [], [], lab.PATIENCE)[0]:
        yield os.read(guest.fileno(), 1 << 16)


@pytest.mark.parametrize("kind", ("vxlan", "geneve", "gre"))
def test_tunnel(jumbos, kind):
    """Between two bridges of the switch, over an underlay of jumbo frames: pushed by programs, popped by the engine or by
    programs."""
    switch, host = jumbos.switch, jumbos.host
    switch.expected += ["receive tunnel port not found", "xlate_key failed"]
    far = jumbos.world.enter_context(lab.Namespace("far"))
    lab.make_veth("to-far", far, mtu=MTU + 100)
    lab.add_addresses(far, "eth0", "172.16.0.2/24")
    switch.add_bridge("br-phy")
    switch.add_port("to-far", bridge="br-phy")
    lab.run("ip", "link", "set", "br-phy", "up", "mtu", MTU + 100)
    lab.add_addresses(host, "br-phy", "172.16.0.1/24")
    switch.add_port("tun0", interface=(f"type={kind}", "options:remote_ip=172.16.0.2", "options:key=42"))
    switch.flows("br0", "in_port=to-red,actions=tun0", "in_port=tun0,actions=to-green", "actions=drop")
    with wire.Wire(jumbos.red) as red, wire.Wire(far) as outside, wire.Wire(jumbos.green) as green:
        for size in SIZES:
            frame = udp(jumbos.red, jumbos.green, size)

            def came(frame=frame):
                red.send(frame)
                return outside.receive(lambda received: received.endswith(frame), limit=1)
            (pushed,) = lab.wait_until(came, "a frame in the tunnel")
            back = turned(pushed, len(pushed) - len(frame))
            outside.send(back)
            assert green.receive(is_udp) == [frame]


def turned(frame, header_len):
    """A pushed frame with its outer addresses exchanged: what the tunnel's peer would send."""
    addresses = frame[6:12] + frame[:6]
    ip = frame[14:34]
    assert header_len > 34
    return addresses + frame[12:14] + ip[:12] + ip[16:20] + ip[12:16] + frame[34:]
