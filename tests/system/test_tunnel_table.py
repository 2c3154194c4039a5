# SPDX-License-Identifier: Apache-2.0
"""The table of tunnels (tunnel_table.py) on every tier, as test_packet_table.py for other actions.

The engine, which has Open vSwitch's own code for tunnels, is one of the runners: what it makes of a row is what all must.
"""
import re

import pytest

import lab
import tiers
import tunnel_table

HOOK = "xdp"

ROWS = tunnel_table.table()
PORTS = {**tiers.PORTS, "vxlan": 20, "geneve": 21, "gre": 22}

# What Open vSwitch says of packets that it drops.
REFUSALS = ["invalid vxlan flags", "ip packet has invalid checksum", "unknown geneve version", "geneve packet too small",
            "ipv4 packet has invalid version"]


def test_without_a_switch():
    wrong = tiers.wrong_without_a_switch(ROWS, PORTS, flows, lengths)
    assert not wrong, "\n".join(wrong)


def lengths(row):
    """What flows count: each the frame as it found it; 0: it gets none."""
    return [len(row.frame), *getattr(row, "later", [len(row.frame)] * (len(row.flows) - 1))]


def flows(row, ports):
    return [(f"{'' if 'in_port' in key else 'in_port({red}),'}{key}".format(**ports).replace("),", "),eth(),", 1),
             actions.format(**ports)) for key, actions in row.flows]


@pytest.mark.parametrize("tier, config, layer, claims", tiers.SWITCHES, ids=[line[0] for line in tiers.SWITCHES])
def test_on_the_wire(world, switch, host, tier, config, layer, claims):
    rows = [row for row in ROWS if claims(row)]
    switch.expected += REFUSALS
    run_rows(world, switch, config, {layer, "both"}, rows)
    if layer != "ovs":
        assert refused(switch) == sum(getattr(row, "refused", False) for row in rows)
        lab.wait_until(lambda: dropped(switch) == sum(not row.output for row in rows), "the engine's counters of drops")


@pytest.mark.parametrize("tier, config, layer, claims", tiers.SWITCHES, ids=[line[0] for line in tiers.SWITCHES])
def test_popped_for_the_engine(world, switch, host, tier, config, layer, claims):
    """What programs pop and have no flow for: flows that match VXLAN's GBP are in the engine alone."""
    rows = [row for row in tunnel_table.pops() if claims(row) and len(row.flows) == 2 and row.flows[1][1] == "{green}"]
    assert len(rows) > 20
    for row in rows:
        row.flows[1] = (row.flows[1][0].replace("flags(", "vxlan(gbp(id=0,flags=0)),flags("), "{green}")
    run_rows(world, switch, config, {layer, "both", "ovs"}, rows)
    if layer != "ovs":
        assert refused(switch) == 0


def refused(switch):
    """How many packets programs have handed to the engine to be popped there."""
    return sum(map(int, re.findall(r"a tunnel's header that the program does not pop: (\d+)", switch.appctl("xdp/stats"))))


def dropped(switch):
    """How many of these Open vSwitch's code has dropped in the engine: because of the header, or of what is inside."""
    return sum(map(int, re.findall(r"(?:tunnel header could not be popped|frame shorter than an Ethernet header): (\d+)",
                                   switch.appctl("xdp/stats"))))


def run_rows(world, switch, config, layers, rows):
    for name, value in config.items():
        switch.vsctl("set", "open", ".", f"other_config:{name}={value}")
    ends = tiers.lay_wires(world, switch)
    for kind in tunnel_table.KINDS:
        switch.vsctl("add-port", "br0", f"{kind}0", "--", "set", "interface", f"{kind}0", f"type={kind}",
                     "options:remote_ip=flow", "options:local_ip=flow", "options:key=flow")
    switch.appctl("revalidator/pause")
    numbers = {name: switch.dp_port(f"to-{name}") for name in tiers.PORTS}
    numbers.update({kind: tunnel_table.port(switch, kind) for kind in tunnel_table.KINDS})
    wrong = []
    for row in rows:
        tiers.install(switch, flows(row, numbers))
        ends["red"].send(row.frame)
        for name in "green", "blue":
            want = [row.output[name]] if name in row.output else []
            found = ends[name].receive() if want else []
            if found != want:
                wrong.append(f"{row.name}, {name}:\n    {tiers.hexes(found)} instead of\n    {tiers.hexes(want)}")
        counted, dumped = counts_of(switch, sorted((int(length > 0), length) for length in lengths(row)))
        found = {re.search(r"dp:(\w+)", flow)[1] for flow in dumped}
        if counted != sorted((int(length > 0), length) for length in lengths(row)) or not found <= layers:
            wrong.append(f"{row.name}: counted {counted}, by {found}")
        switch.appctl("dpctl/del-flows")
    wrong += [f"{name} got a frame more: {frame.hex()}" for name in ("green", "blue")
              for frame in ends[name].receive(limit=0)]
    switch.appctl("revalidator/resume")
    assert not wrong, "\n".join(wrong)


def counts_of(switch, expected):
    """What the flows have counted: at last what is expected, unless that takes too long; and the flows."""
    def look():
        dumped[:] = switch.dump_flows("-m")
        counted[:] = sorted(tuple(map(int, re.search(r"packets:(\d+), bytes:(\d+)", flow).groups())) for flow in dumped)
        return counted == expected

    dumped, counted = [], []
    try:
        lab.wait_until(look, "the counters", limit=3)
    except lab.Failed:
        pass
    return counted, dumped


def test_port_range(world, switch, host):
    """Flows that are there follow "tnl/egress_port_range", too."""
    ends = tiers.lay_wires(world, switch)
    switch.vsctl("add-port", "br0", "vxlan0", "--", "set", "interface", "vxlan0", "type=vxlan", "options:remote_ip=flow")
    switch.appctl("revalidator/pause")
    numbers = {**{name: switch.dp_port(f"to-{name}") for name in tiers.PORTS}, "vxlan": tunnel_table.port(switch, "vxlan")}
    row = ROWS[0]
    tiers.install(switch, flows(row, numbers))
    ends["red"].send(row.frame)
    assert ends["green"].receive() == [row.output["green"]]
    switch.appctl("tnl/egress_port_range", "50000", "50001")

    def follows():
        ends["red"].send(row.frame)
        (frame,) = ends["green"].receive()
        return frame[34:36] == (50000).to_bytes(2, "big")

    lab.wait_until(follows, "the new port")
    switch.appctl("revalidator/resume")
