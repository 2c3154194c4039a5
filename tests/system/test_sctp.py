# SPDX-License-Identifier: Apache-2.0
"""SCTP sockets whose ports a flow changes at tcx, both ways: its checksum, a CRC-32C over all that follows, stays right,
with every implementation.

    red ---[ 5004 -> 5005 ]--- green
"""
import re
import socket

import pytest

import lab

HOOK = "tcx"

ASKED, SERVED = 5004, 5005
SIZES = (1, 3, 100, 1452, 1453, 5000, 60000)     # The largest are several chunks, and packets of several segments.
COMPUTED = ("by the sender", "behind the switch", "never")


@pytest.fixture(autouse=True)
def _sctp():
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    except OSError as error:
        pytest.skip(f"this kernel has no SCTP: {error}")


@pytest.mark.parametrize("computed", COMPUTED)
@pytest.mark.parametrize("address", ("10.0.0.2", "fc00::2"))
def test_ports_are_changed(network, address, computed):
    switch = network.switch
    switch.flows("br0", f"in_port=to-red,sctp,sctp_dst={ASKED},actions=set_field:{SERVED}->sctp_dst,output:to-green",
                 f"in_port=to-green,sctp,sctp_src={SERVED},actions=set_field:{ASKED}->sctp_src,output:to-red",
                 f"in_port=to-red,sctp6,sctp_dst={ASKED},actions=set_field:{SERVED}->sctp_dst,output:to-green",
                 f"in_port=to-green,sctp6,sctp_src={SERVED},actions=set_field:{ASKED}->sctp_src,output:to-red",
                 "priority=1,sctp,actions=drop", "priority=1,sctp6,actions=drop", "priority=0,actions=NORMAL")
    for name, namespace in ("red", network.red), ("green", network.green):
        if computed == "by the sender":
            namespace.run("ethtool", "-K", "eth0", "tx-checksum-sctp", "off", "tx-sctp-segmentation", "off")
        elif computed == "behind the switch":
            lab.run("ethtool", "-K", f"to-{name}", "tx-checksum-sctp", "off", "tx-sctp-segmentation", "off")

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with network.green.entered():
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    with network.red.entered():
        client = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    with listener, client:
        for end in listener, client:
            end.settimeout(lab.PATIENCE)
        listener.bind((address, SERVED))
        listener.listen()
        client.connect((address, ASKED))
        server, _ = listener.accept()
        with server:
            server.settimeout(lab.PATIENCE)
            for size in SIZES * 3:
                carry(client, server, bytes(i * 7 & 0xff for i in range(size)))
                carry(server, client, bytes(i * 5 & 0xff for i in range(size)))

    for namespace in network.red, network.green:
        assert "SctpChecksumErrors\t0\n" in re.sub(r"[ \t]+", "\t", namespace.run("cat", "/proc/net/sctp/snmp"))
    ran = [flow for flow in switch.dump_flows("-m") if "set(sctp(" in flow]
    assert len(ran) == 2 and all("dp:tcx" in flow for flow in ran), ran


def carry(source, destination, data):
    """What one end sends arrives at the other."""
    source.sendall(data)
    came = b""
    while len(came) < len(data):
        part = destination.recv(1 << 16)
        assert part, "the association ended"
        came += part
    assert came == data
