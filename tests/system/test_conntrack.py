# SPDX-License-Identifier: Apache-2.0
"""Connection tracking and address translation."""
import re

import lab
import traffic
import wire
from firewall import stateful


def refused(client, server, address):
    try:
        traffic.tcp(client, server, address, size=1, limit=1)
    except lab.Failed:
        return True
    return False


def test_firewall(network):
    """red may open connections, others may only answer."""
    stateful(network.switch)
    for address, back in ("10.0.0.2", "10.0.0.1"), ("fc00::2", "fc00::1"):
        traffic.tcp(network.red, network.green, address, size=1 << 20)
        assert traffic.udp(network.red, network.green, address, count=20) == 20
        assert refused(network.green, network.red, back)
    assert traffic.ping(network.red, "10.0.0.2") == 3
    assert traffic.ping(network.green, "10.0.0.1", count=1, limit=1) == 0


def test_connections_are_shown_and_flushed(network):
    stateful(network.switch)
    assert traffic.udp(network.red, network.green, "10.0.0.2", count=3) == 3
    shown = network.switch.appctl("dpctl/dump-conntrack")
    assert re.search(r"udp,orig=\(src=10\.0\.0\.1,dst=10\.0\.0\.2,sport=\d+,dport=5002\)", shown)
    assert int(network.switch.appctl("dpctl/ct-get-nconns")) >= 1
    assert "UDP" in network.switch.appctl("dpctl/ct-stats-show")
    network.switch.appctl("dpctl/flush-conntrack",
                          "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_dst=5002,ct_tp_src="
                          + re.search(r"sport=(\d+),dport=5002", shown)[1])
    assert "dport=5002" not in network.switch.appctl("dpctl/dump-conntrack")
    network.switch.appctl("dpctl/flush-conntrack")
    assert network.switch.appctl("dpctl/dump-conntrack").strip() == ""


def test_source_nat(network):
    stateful(network.switch, nat=",nat", commit=",nat(src=10.0.0.77)")
    mac = lab.mac_of(network.red)
    network.green.run("ip", "neighbour", "add", "10.0.0.77", "lladdr", mac, "dev", "eth0")
    with wire.Wire(network.green) as seen:
        traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 18)
        frames = seen.receive(lambda frame: frame[12:14] == b"\x08\x00" and frame[23] == 6, count=1 << 20, limit=0.1)
    assert {frame[26:30] for frame in frames} == {bytes((10, 0, 0, 77))}
    assert all(wire.checksums_valid(frame) for frame in frames)
    assert "dst=10.0.0.77" in network.switch.appctl("dpctl/dump-conntrack")


def test_limit(network):
    """A full zone refuses new connections and keeps the others."""
    network.switch.appctl("dpctl/ct-set-limits", "zone=0,limit=2")
    stateful(network.switch)
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        red.send(*(wire.udp_frame(lab.mac_of(network.red), lab.mac_of(network.green), b"new", ports=(port, 7))
                   for port in range(3000, 3010)))
        green.receive(lambda frame: b"new" in frame, count=10, limit=0.5)
    lab.wait_until(lambda: network.switch.appctl("dpctl/dump-conntrack").count("dport=7)") == 2, "two connections")
    assert "zone=0,limit=2,count=2" in network.switch.appctl("dpctl/ct-get-limits", "zone=0")
    network.switch.appctl("dpctl/ct-del-limits", "zone=0")


def test_fragments_are_reassembled_for_tracking(network):
    stateful(network.switch)
    assert traffic.ping(network.red, "10.0.0.2", size=4000) == 3
    assert traffic.ping(network.red, "fc00::2", size=4000) == 3


def test_fragments_without_tracking(network):
    assert traffic.ping(network.red, "10.0.0.2", size=4000) == 3
    assert traffic.ping(network.red, "fc00::2", size=4000) == 3
    assert traffic.udp(network.red, network.green, "10.0.0.2", count=10, size=8000) == 10
    network.switch.ofctl("set-frags", "br0", "drop")
    lab.wait_until(lambda: not traffic.ping(network.red, "10.0.0.2", size=4000, count=1, limit=1), "dropped fragments")
    assert traffic.ping(network.red, "10.0.0.2", size=400) == 3
