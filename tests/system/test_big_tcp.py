# SPDX-License-Identifier: Apache-2.0
"""BIG TCP: packets of more than 64 kB, whose IP header cannot say how long they are, between containers at tcx.

    red ---[ switch ]--- green          sizes of up to 512 kB on both ends of both veths
"""
import json
import re

import pytest

import big_tcp
import lab
import switch as switches
import traffic

HOOK = "tcx"
ADDRESSES = {4: ("10.0.0.1", "10.0.0.2", "10.0.0.77"), 6: ("fc00::1", "fc00::2", "fc00::77")}
SIZE = 96 << 20
LONGEST = 65535 + 14        # Bytes of a packet whose IP header says its length.
pytestmark = pytest.mark.usefixtures("nothing_vanishes")


@pytest.fixture
def large(network):
    if switches.DATAPATH != "xdp":
        pytest.skip("looks at counters of our datapath")
    for name in "red", "green":
        network.switch.vsctl("set", "interface", f"to-{name}", "options:xdp-peer=true")
        try:
            big_tcp.set_sizes(getattr(network, name), "eth0")
            big_tcp.set_sizes(network.host, f"to-{name}")
        except OSError as problem:
            pytest.skip(f"this kernel has no BIG TCP on veth: {problem}")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    traffic.wait_for_ping(network.red, "fc00::2")
    return network


def handed_over(switch, port="to-red"):
    """Packets of a port that its programs handed to the engine, by reason."""
    (report,) = json.loads(switch.appctl("xdp/stats", "-f", "json", port))["datapaths"]
    return {reason: count for reason, count in report["ports"][0]["frames"].items() if reason.startswith("up_")}


def transfer(network, version, address, behind=None):
    """Sends over TCP until packets of more than 64 kB were seen; returns the flows of these."""
    def once():
        traffic.tcp(network.red, network.green, address, size=SIZE, behind=behind)
        flows = [flow for flow in network.switch.dump_flows("-m", "--names")
                 if "in_port(to-red)" in flow and {4: "eth_type(0x0800)", 6: "eth_type(0x86dd)"}[version] in flow]
        return [flow for flow in flows if size_of(flow) > LONGEST]
    return lab.wait_until(once, "packets of more than 64 kB")


def size_of(flow):
    packets, count = map(int, re.search(r"packets:(\d+), bytes:(\d+)", flow).groups())
    return count / packets if packets else 0


@pytest.mark.parametrize("version", (4, 6))
@pytest.mark.parametrize("peer", ("true", "false"), ids=("into the peer", "through the device"))
def test_forwarded_whole(large, version, peer):
    """None goes to the engine; a flow counts each as one packet with all its bytes, as openvswitch.ko does."""
    for name in "red", "green":
        large.switch.vsctl("set", "interface", f"to-{name}", f"options:xdp-peer={peer}")
    before = handed_over(large.switch)
    flows = transfer(large, version, ADDRESSES[version][1])
    assert all("dp:tcx" in flow for flow in flows), flows
    after = handed_over(large.switch)
    assert after["up_parse"] == before["up_parse"] and after["up_engine"] == before["up_engine"]


@pytest.mark.parametrize("version", (4, 6))
def test_rewritten(large, version):
    """Addresses, ports and TTL."""
    _, green, alias = ADDRESSES[version]
    source, target, tcp = {4: ("nw_src", "nw_dst", "tcp"), 6: ("ipv6_src", "ipv6_dst", "tcp6")}[version]
    large.red.run("ip", "neighbour", "replace", alias, "lladdr", lab.mac_of(large.green), "dev", "eth0")
    large.switch.flows(
        "br0",
        f"priority=2,in_port=to-red,{tcp},{target}={alias},tp_dst=5001,actions=dec_ttl,set_field:{green}->{target},"
        "set_field:6001->tcp_dst,to-green",
        f"priority=2,in_port=to-green,{tcp},{source}={green},tp_src=6001,actions=dec_ttl,set_field:{alias}->{source},"
        "set_field:5001->tcp_src,to-red",
        "priority=0,actions=normal")
    before = handed_over(large.switch)
    flows = transfer(large, version, alias, behind=(green, 6001))
    assert all("dp:tcx" in flow and "set(" in flow for flow in flows), flows
    after = handed_over(large.switch)
    assert after["up_parse"] == before["up_parse"] and after["up_engine"] == before["up_engine"]


@pytest.mark.parametrize("version", (4, 6))
def test_segmented_where_it_must_be(large, version):
    """The container behind takes no more than 64 kB at once."""
    big_tcp.set_sizes(large.green, "eth0", 65536)
    big_tcp.set_sizes(large.host, "to-green", 65536)
    large.switch.vsctl("set", "interface", "to-green", "options:xdp-peer=false")
    transfer(large, version, ADDRESSES[version][1])
