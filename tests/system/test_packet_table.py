# SPDX-License-Identifier: Apache-2.0
"""One packet table, every tier: the same bytes leave the same ports, and the same is counted.

Runners, each for the rows that its tier claims:

    native   dp/ compiled for userspace                       tests/bpf_pipeline/run_rows
    kernel   the same as an XDP program, BPF_PROG_TEST_RUN    tests/bpf_pipeline/run_rows
    xdp      a switch, frames on the wire                     dpctl says dp:xdp
    tcx      the same with xdp-hook=tcx                       dpctl says dp:tcx
    both     the same with xdp-hook=both                       dpctl says dp:xdp
    engine   the same switch with xdp-offload=false           dpctl says dp:ovs

Another tier is another line in SWITCHES.
"""
import re

import pytest

import jumbo
import lab
import packet_table
import switch as switches
import wire

HOOK = "xdp"

ROWS = packet_table.table()
IN_PORT, PORTS = 7, {"red": 7, "green": 8, "blue": 9}
RUN_ROWS = switches.BUILD / "tests/bpf_pipeline/run_rows"
PROGRAM = switches.BUILD / "tests/bpf_pipeline/pipeline.bpf.o"

# Name, other_config, what dpctl calls the tier, whether it claims a row.
SWITCHES = (
    ("xdp", {}, "xdp", lambda row: row.xdp),
    ("tcx", {"xdp-hook": "tcx"}, "tcx", lambda row: row.tcx),
    ("both", {"xdp-hook": "both"}, "xdp", lambda row: row.xdp),
    ("engine", {"xdp-offload": "false"}, "ovs", lambda row: True),
)


def test_without_a_switch():
    """Native code and the kernel's program agree with the table, and so with each other, of each frame and its like."""
    lines = ["\t".join([row.frame.hex(), *(part for flow in flows(row, PORTS) for part in flow)]) for row in ROWS]
    answers = iter(lab.run(RUN_ROWS, PROGRAM, text="\n".join(lines) + "\n").splitlines())
    wrong = []
    for row in ROWS:
        for runner in "native", "native", "kernel", "kernel":
            if (answer := next(answers)) != f"{runner} {expected_without_switch(row)}":
                wrong.append(f"{row.name}: expected {expected_without_switch(row)}\n    {answer}")
    assert not wrong, "\n".join(wrong)


def expected_without_switch(row):
    counted = f"1/{len(row.frame)}"
    if not row.xdp:
        return "engine - - " + ",".join("0/0" for _ in row.flows)
    counts = ",".join([counted, *(f"1/{length}" for length in later_lengths(row))])
    if not row.output:
        return f"drop - - {counts}"
    (frame,) = set(row.output.values())
    return f"output {'+'.join(str(PORTS[port]) for port in row.output)} {frame.hex()} {counts}"


def later_lengths(row):
    """What flows after the first count: no row changes its frame's length before it recirculates."""
    return [len(row.frame)] * (len(row.flows) - 1)


def flows(row, ports, source=None):
    """(key, actions) of the row's flows for these port numbers, for frames from 'source' or from anybody."""
    mac = f"eth(src={source})" if source else "eth()"
    return [(f"in_port({ports['red']}),{mac},{key}", actions.format(**ports)) for key, actions in row.flows]


@pytest.mark.parametrize("tier, config, layer, claims", SWITCHES, ids=[line[0] for line in SWITCHES])
def test_on_the_wire(world, switch, host, tier, config, layer, claims):
    run_rows(world, switch, tier, config, layer, [row for row in ROWS if claims(row)])


@pytest.mark.parametrize("tier, config, layer, claims", SWITCHES, ids=[line[0] for line in SWITCHES])
def test_jumbo(world, switch, host, tier, config, layer, claims):
    """Frames in several buffers."""
    if not jumbo.MULTI_BUFFER:
        pytest.skip("this kernel has no AF_XDP sockets for frames in several buffers (Linux 6.6)")
    run_rows(world, switch, tier, config, layer, [row for row in packet_table.jumbo() if claims(row)], mtu=9216)


def run_rows(world, switch, tier, config, layer, rows, **wires):
    """All rows at once, told apart by their source addresses."""
    for name, value in config.items():
        switch.vsctl("set", "open", ".", f"other_config:{name}={value}")
    ends = lay_wires(world, switch, **wires)
    switch.appctl("revalidator/pause")      # They would delete flows that no rule asks for.
    numbers = {name: switch.dp_port(f"to-{name}") for name in PORTS}
    frames = {row.name: with_source(row.frame, number) for number, row in enumerate(rows)}
    install(switch, [flow for row in rows for flow in flows(row, numbers, source_text(frames[row.name]))])
    wrong = []
    for row in rows:
        ends["red"].send(frames[row.name])
        for name in "green", "blue":
            want = [with_source(row.output[name], rows.index(row))] if name in row.output else []
            found = ends[name].receive(limit=2 if wrong else 20) if want else []
            if found != want:
                wrong.append(f"{row.name}, {name}:\n    {hexes(found)} instead of\n    {hexes(want)}"[:2000])
    wrong += [f"{name} got a frame more: {frame.hex()[:200]}" for name in ("green", "blue")
              for frame in ends[name].receive(limit=0)]
    wrong += wrong_counts(switch, rows, frames, layer)
    switch.appctl("dpctl/del-flows")
    switch.appctl("revalidator/resume")
    assert not wrong, f"{tier}:\n" + "\n".join(wrong)


def lay_wires(world, switch, kind=wire.Wire, mtu=1500):
    """Three ports without any traffic of their own, whose flows would be in the way; returns their peers."""
    quiet = "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
    lab.run(*quiet)
    switch.add_bridge("br0")
    switch.flows("br0", "actions=drop")
    ends = {}
    for name in PORTS:
        container = world.enter_context(lab.Namespace(name))
        container.run(*quiet)
        lab.make_veth(f"to-{name}", container, mtu=mtu)
        switch.add_port(f"to-{name}")
        ends[name] = world.enter_context(kind(container))
    return ends


def install(switch, pairs):
    path = switch.rundir / "flows"
    path.write_text("".join(f"{key} {actions}\n" for key, actions in pairs), encoding="ascii")
    switch.appctl("dpctl/add-flows", str(path))


def wrong_counts(switch, rows, frames, layer):
    """What the datapath's flows of each row say that they should not."""
    dumped, wrong = switch.dump_flows("-m"), []
    for row in rows:
        mine = [flow for flow in dumped if f"src={source_text(frames[row.name])}" in flow]
        want = [(1, len(row.frame))] * len(row.flows)
        found = [tuple(map(int, re.search(r"packets:(\d+), bytes:(\d+)", flow).groups())) for flow in mine]
        layers = {re.search(r"dp:(\w+)", flow)[1] for flow in mine}
        if found != want or layers != {layer}:
            wrong.append(f"{row.name}: counted {found} instead of {want}, by {layers}")
    return wrong


def with_source(frame, number):
    """A frame whose Ethernet source is this row's, unless an action has set it."""
    return frame[:6] + bytes((2, 0, 0, 0, 0x77, number)) + frame[12:] if frame[6:12] == packet_table.SOURCE_BYTES else frame


def hexes(frames):
    return [frame.hex() for frame in frames]


def source_text(frame):
    return ":".join(f"{byte:02x}" for byte in frame[6:12])
