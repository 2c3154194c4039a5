# SPDX-License-Identifier: Apache-2.0
"""The tiers that run the rows of packet_table.py and tunnel_table.py, and the wires on which they do.

Runners, each for the rows that its tier claims:

    native   dp/ compiled for userspace                       tests/bpf_pipeline/run_rows
    kernel   the same as an XDP program, BPF_PROG_TEST_RUN    tests/bpf_pipeline/run_rows
    xdp      a switch, frames on the wire                     dpctl says dp:xdp
    tcx      the same with xdp-hook=tcx                       dpctl says dp:tcx
    both     the same with xdp-hook=both                       dpctl says dp:xdp
    engine   the same switch with xdp-offload=false           dpctl says dp:ovs

Another tier is another line in SWITCHES.
"""
import lab
import switch as switches
import wire

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


def flows(row, ports, source=None):
    """(key, actions) of the row's flows for these port numbers, for frames from 'source' or from anybody."""
    mac = f"eth(src={source})" if source else "eth()"
    return [(f"in_port({ports['red']}),{mac},{key}", actions.format(**ports)) for key, actions in row.flows]


def wrong_without_a_switch(rows, ports, flows_of, lengths_of):
    """Runs each frame and its like by native code and by the kernel's program.  Returns what is not as 'rows' say, whose
    flows are flows_of(row, ports) and count frames of lengths_of(row)."""
    lines = ["\t".join([row.frame.hex(), *(part for flow in flows_of(row, ports) for part in flow)]) for row in rows]
    answers = iter(lab.run(RUN_ROWS, PROGRAM, text="\n".join(lines) + "\n").splitlines())
    wrong = []
    for row in rows:
        wanted = _answer(row, ports, lengths_of(row))
        for runner in "native", "native", "kernel", "kernel":
            if (answer := next(answers)) != f"{runner} {wanted}":
                wrong.append(f"{row.name}: expected {wanted}\n    {answer}")
    return wrong


def _answer(row, ports, lengths):
    """What run_rows has to say about a row."""
    if not row.xdp or getattr(row, "refused", False):
        return "engine - - " + ",".join("0/0" for _ in row.flows)
    counts = ",".join(f"1/{length}" for length in lengths)
    if not row.output:
        return f"drop - - {counts}"
    (frame,) = set(row.output.values())
    return f"output {'+'.join(str(ports[port]) for port in row.output)} {frame.hex()} {counts}"


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


def hexes(frames):
    return [frame.hex() for frame in frames]
