# SPDX-License-Identifier: Apache-2.0
"""check_pkt_larger: programs run the flows of packets that are not larger, the engine those of the others; and both sorts
arrive as their branch of the pipeline says.
"""
import json

import pytest

import switch as switches
import traffic
import wire

HEADERS = 14 + 20 + 8           # Ethernet, IPv4, ICMP.
FRAME = 1514                    # The longest that the MTU of these devices allows.
COUNT = 5
pytestmark = pytest.mark.usefixtures("nothing_vanishes")


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has programs")


def for_the_engine(switch, port="to-red"):
    """Packets that 'port' handed to the engine with a flow."""
    (report,) = json.loads(switch.appctl("xdp/stats", "-f", "json", port))["datapaths"]
    return report["ports"][0]["frames"]["up_engine"]


def check(switch, limit):
    """From red to green: what is longer than 'limit' is marked by its TOS."""
    switch.flows("br0", "priority=2,in_port=to-green,actions=to-red", "priority=1,arp,in_port=to-red,actions=to-green",
                 f"priority=1,ip,in_port=to-red,actions=check_pkt_larger({limit})->reg0[0],resubmit(,1)",
                 "priority=0,actions=drop", "table=1,reg0=0/1,actions=to-green",
                 "table=1,ip,reg0=1/1,actions=set_field:32->nw_tos,to-green")


@pytest.mark.parametrize("hook", ("xdp", "tcx"))
def test_lengths(network, hook):
    switch = network.switch
    for name in "red", "green":
        switch.use_hook(f"to-{name}", f"options:xdp-hook={hook}")
    check(switch, 1000)
    for length in 100, 1000, 1001, 1500:
        traffic.wait_for_ping(network.red, "10.0.0.2", size=length - HEADERS)
        before, larger = for_the_engine(switch), length > 1000
        with wire.Wire(network.green) as seen:
            assert traffic.ping(network.red, "10.0.0.2", count=COUNT, size=length - HEADERS) == COUNT
            requests = seen.receive(lambda frame: frame[23] == 1 and frame[34] == 8, COUNT)
        assert [frame[15] for frame in requests] == [32 * larger] * COUNT
        assert for_the_engine(switch) - before == COUNT * larger
    assert any("check_pkt_len" in flow and "dp:" + hook in flow for flow in switch.dump_flows("-m"))


def test_segments(network):
    """Packets of TCP are as long as their segments will be: with this MTU at most FRAME bytes."""
    switch = network.switch
    for name in "red", "green":
        switch.use_hook(f"to-{name}", "options:xdp-hook=tcx")
    for limit, whole in ((FRAME, True), (FRAME - 1, False)):
        check(switch, limit)
        traffic.wait_for_ping(network.red, "10.0.0.2")
        traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
        before = for_the_engine(switch)
        traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
        assert (for_the_engine(switch) == before) == whole
