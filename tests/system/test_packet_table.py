# SPDX-License-Identifier: Apache-2.0
"""One packet table, every tier: the same bytes leave the same ports, and the same is counted.

The runners are those of tiers.py.
"""
import re

import pytest

import jumbo
import packet_table
import tiers

HOOK = "xdp"

ROWS = packet_table.table()


def test_without_a_switch():
    wrong = tiers.wrong_without_a_switch(ROWS, tiers.PORTS, tiers.flows, lambda row: [len(row.frame)] * len(row.flows))
    assert not wrong, "\n".join(wrong)


@pytest.mark.usefixtures("nothing_vanishes")
@pytest.mark.parametrize("tier, config, layer, claims", tiers.SWITCHES, ids=[line[0] for line in tiers.SWITCHES])
def test_on_the_wire(world, switch, host, tier, config, layer, claims):
    run_rows(world, switch, tier, config, layer, [row for row in ROWS if claims(row)])


@pytest.mark.usefixtures("nothing_vanishes")
@pytest.mark.parametrize("tier, config, layer, claims", tiers.SWITCHES, ids=[line[0] for line in tiers.SWITCHES])
def test_jumbo(world, switch, host, tier, config, layer, claims):
    """Frames in several buffers."""
    if not jumbo.MULTI_BUFFER:
        pytest.skip("this kernel has no AF_XDP sockets for frames in several buffers (Linux 6.6)")
    run_rows(world, switch, tier, config, layer, [row for row in packet_table.jumbo() if claims(row)], mtu=9216)


def run_rows(world, switch, tier, config, layer, rows, **wires):
    """All rows at once, told apart by their source addresses."""
    for name, value in config.items():
        switch.vsctl("set", "open", ".", f"other_config:{name}={value}")
    ends = tiers.lay_wires(world, switch, **wires)
    switch.appctl("revalidator/pause")      # They would delete flows that no rule asks for.
    numbers = {name: switch.dp_port(f"to-{name}") for name in tiers.PORTS}
    frames = {row.name: with_source(row.frame, number) for number, row in enumerate(rows)}
    tiers.install(switch, [flow for row in rows for flow in tiers.flows(row, numbers, source_text(frames[row.name]))])
    wrong = []
    for row in rows:
        ends["red"].send(frames[row.name])
        for name in "green", "blue":
            want = [with_source(row.output[name], rows.index(row))] if name in row.output else []
            found = ends[name].receive(limit=2 if wrong else 20) if want else []
            if found != want:
                wrong.append(f"{row.name}, {name}:\n    {tiers.hexes(found)} instead of\n    {tiers.hexes(want)}"[:2000])
    wrong += [f"{name} got a frame more: {frame.hex()[:200]}" for name in ("green", "blue")
              for frame in ends[name].receive(limit=0)]
    wrong += wrong_counts(switch, rows, frames, layer)
    switch.appctl("dpctl/del-flows")
    switch.appctl("revalidator/resume")
    assert not wrong, f"{tier}:\n" + "\n".join(wrong)


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


def source_text(frame):
    return ":".join(f"{byte:02x}" for byte in frame[6:12])
