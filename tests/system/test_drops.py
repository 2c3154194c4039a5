# SPDX-License-Identifier: Apache-2.0
"""The check that nothing vanishes (drops.py) takes each packet that the kernel drops for one, and finds it among the counters
once.

    red ---[ switch ]           or              red --- to-red ( linuxbr, a Linux bridge )---[ switch ]
"""
import os
import signal

import pytest

import drops
import lab
import switch as switches
import wire

RED, SINK = "02:00:00:00:00:01", "02:00:00:00:00:02"
N_UP, N_DROPPED = 10000, 100            # More than the engine has buffers for.
BY_ENGINE = "check_pkt_larger(1)->reg0[0],LOCAL"


@pytest.fixture(autouse=True)
def _only_ours(watch):
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has counters of programs")
    if not watch:
        pytest.skip("the kernel does not tell what it drops")


def plug(world, switch, where):
    """A port that is served as 'where' says; returns its name, and a wire that ends there."""
    end = world.enter_context(lab.Namespace("red"))
    for host in lab.Namespace(), end:
        host.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    lab.make_veth("to-red", end)
    port = "linuxbr" if where == "bridge" else "to-red"
    if where == "bridge":
        lab.run("ip", "link", "add", port, "type", "bridge")
        lab.run("ip", "link", "set", "to-red", "master", port)
        lab.run("ip", "link", "set", port, "up")
    switch.expected.append("generic XDP")
    hook, mode = {"tcx": ("tcx", "none"), "native": ("xdp", "native")}.get(where, ("xdp", "generic"))
    switch.add_port(port, interface=[f"options:xdp-hook={hook}", *([f"options:xdp-mode={mode}"] if hook == "xdp" else [])])
    assert switch.in_use(port) == (hook, mode)
    return port, world.enter_context(wire.Wire(end))


@pytest.mark.parametrize("where", ("generic", "bridge", "native", "tcx"))
def test_engine_that_stands_still(world, switch, watch, where):
    """What its AF_XDP socket has no room for is a drop for want of room, and what a flow drops meanwhile one by a program, exactly;
    although at generic XDP the kernel frees both kinds of packets in one function."""
    switch.add_bridge("br0")
    port, end = plug(world, switch, where)
    switch.flows("br0", "udp,tp_dst=3000,actions=drop", f"udp,tp_dst=2000,actions={BY_ENGINE}", "priority=0,actions=drop")
    up, dropped = (wire.udp_frame(RED, SINK, b"drops", ports=(1000, to)) for to in (2000, 3000))

    def done(to):
        """How many datagrams to that port had a flow's actions done."""
        return switch.flow_counts(f"dst={to}")[0]

    for to, frame in ((2000, up), (3000, dropped)):
        end.send(frame)
        lab.wait_until(lambda to=to: switch.flow_counts(f"dst={to}")[2], "the flow")
        end.send(frame)
        lab.wait_until(lambda to=to: done(to), "the flow's first packet")
    ledger, before = drops.Ledger(watch, switch), {to: done(to) for to in (2000, 3000)}
    os.kill(switch.process.pid, signal.SIGSTOP)
    try:
        end.send(*[up] * N_UP, *[dropped] * N_DROPPED)
    finally:
        os.kill(switch.process.pid, signal.SIGCONT)

    def ended():
        """{kind: (drops of the kernel, those that counters know)}, {port number: datagrams that had their actions}."""
        compared = ledger.compare()
        drops_of = {kind: [compared[device, kind] for device in devices] for kind, devices in at.items()}
        return ({kind: (sum(found.total() for found, _ in pairs), sum(known for _, known in pairs)) for kind, pairs in drops_of.items()},
                {to: done(to) - number for to, number in before.items()})

    at = {drops.DEVICE: {port, "ovs-xdp-in" if where == "tcx" else port}, drops.PROGRAM: {port}}
    lab.wait_until(lambda: (state := ended())[0][drops.DEVICE][0] + sum(state[1].values()) >= N_UP + N_DROPPED, "all of them")
    compared, packets = ended()
    assert packets[3000] == N_DROPPED and 0 < packets[2000] < N_UP
    lost = N_UP - packets[2000]
    assert compared == {drops.DEVICE: (lost, lost), drops.PROGRAM: (N_DROPPED, N_DROPPED)}
