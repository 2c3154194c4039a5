# SPDX-License-Identifier: Apache-2.0
"""A flood of SYNs in one zone: it does not take the room of other zones, and touches no connection that is there.

    red floods zone 1;   blue talks to green in zone 2
"""
import itertools

import pytest

import floods
import lab
import switch as switches
import traffic
import wire

TIERS = {"xdp": {"xdp-hook": "xdp"}, "tcx": {"xdp-hook": "tcx"}, "both": {"xdp-hook": "both"},
         "engine": {"xdp-offload": "false"}}
ROOM = 1024
SHARE = range(900, 965)                 # Of zone 1: 16 of 17, less what zone 2 has.
RULES = ("table=0,priority=10,arp,actions=normal",
         "table=0,priority=2,ip,in_port=to-red,actions=ct(zone=1,table=1)",
         "table=0,priority=1,ip,actions=ct(zone=2,table=2)",
         "table=1,ip,ct_state=+trk+new,actions=ct(commit,zone=1),output:to-green",
         "table=2,priority=2,ip,ct_state=+trk+est,actions=normal",
         "table=2,priority=1,ip,in_port=to-blue,ct_state=+trk+new,actions=ct(commit,zone=2),normal")


@pytest.fixture(name="tier", params=TIERS)
def chosen_tier(request):
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch has one table without bound, and no xdp/ct-show")
    return request.param


@pytest.fixture(name="guarded")
def guarded_network(request, switch, tier):
    for name, value in {**TIERS[tier], "xdp-ct-max": str(ROOM)}.items():
        switch.vsctl("set", "open", ".", f"other_config:{name}={value}")
    network = request.getfixturevalue("network")
    switch.flows("br0", *RULES)
    traffic.tcp(network.blue, network.green, "10.0.0.2", size=1000)
    if tier != "engine":
        lab.wait_until(lambda: floods.shown(switch)["programs_track"], "programs that track")
    switch.expected.append("entries for connections and gets no more")
    return network


def test_frames_are_valid():
    frames = floods.syns(500)
    assert all(wire.checksums_valid(frame) for frame in frames) and len({frame[34:38] for frame in frames}) == 500


def test_other_zones_have_room(guarded, tier):
    switch, ports = guarded.switch, itertools.count(5100)
    with wire.Wire(guarded.red) as end, traffic.Connection(guarded.blue, guarded.green, "10.0.0.2") as held, \
            floods.Flood(end, floods.syns(5000)) as flood:
        held.goes_on()
        lab.wait_until(lambda: floods.shown(switch)["refused"]["share"] > 3000, "a zone that has its share")
        for _ in range(5):
            traffic.tcp(guarded.blue, guarded.green, "10.0.0.2", size=1000, port=next(ports))
        held.goes_on()
        shown = floods.shown(switch)
        assert flood.rounds < 1000 and held.same()
    assert shown["zones"][1]["connections"] in SHARE and shown["zones"][1]["refused"] >= shown["refused"]["share"]
    assert shown["zones"][2]["refused"] == 0 and shown["zones"][2]["connections"] >= 6
    assert shown["held"] <= ROOM and shown["refused"]["full"] == 0
    lab.wait_until(lambda: "zone 1 holds 9" in "\n".join(switch.log()), "a warning")
    if tier != "engine":
        assert shown["tiers"][tier]["tracked"] > 10 * shown["tiers"]["engine"]["tracked"]


def test_room_is_free_again(guarded):
    """What the flood took is free after its time, and was not anybody else's."""
    switch = guarded.switch
    switch.vsctl("--", "--id=@m", "create", "Datapath", "datapath_version=0", "--", "set", "Open_vSwitch", ".",
                 "datapaths:xdp=@m")
    switch.vsctl("add-zone-tp", "xdp", "zone=1", "tcp_syn_sent=3")
    with wire.Wire(guarded.red) as end:
        lab.wait_until(lambda: _send(end) and floods.shown(switch)["zones"].get(1, {}).get("connections", 0) in SHARE, "a flood")
        lab.wait_until(lambda: floods.shown(switch)["zones"].get(1, {}).get("connections", 0) == 0, "the end of its connections")
        lab.wait_until(lambda: floods.shown(switch)["held"] < ROOM / 17, "free entries")
        _send(end)
    assert floods.shown(switch)["zones"][1]["connections"] in SHARE


def _send(end):
    end.send(*floods.syns(1100, seed=3))
    return True
