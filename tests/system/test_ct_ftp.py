# SPDX-License-Identifier: Apache-2.0
"""FTP through ct(alg=ftp) with source NAT: a real client and a real server, with data connections of either end.

    red (10.0.0.1, fc00::1; seen as .77, ::77) == zone 1 == green (10.0.0.2, fc00::2): the server

Rules let pass what is established, what red begins towards port 21, and what the helper expects; nothing else.
"""
import ftplib
import io
import os
import re

import pytest

import lab
import switch as switches

TIERS = {"xdp": {"xdp-hook": "xdp"}, "tcx": {"xdp-hook": "tcx"}, "engine": {"xdp-offload": "false"}}
ADDRESSES = {False: ("10.0.0.2", "10.0.0.77"), True: ("fc00::2", "fc00::77")}
SIZE = 1 << 20
SHORT = 5                               # Seconds after which a client without a data connection gives up.


def rules(helper=",alg=ftp"):
    yield "table=0,priority=2,arp,actions=normal"
    yield "table=0,priority=2,icmp6,actions=normal"
    yield "table=0,priority=0,actions=drop"
    for family, (_, seen) in zip(("tcp", "tcp6"), ADDRESSES.values()):
        yield f"table=0,priority=1,{family},actions=ct(zone=1,nat,table=1)"
        yield f"table=1,priority=1,{family},ct_state=+trk+est-inv,actions=normal"
        yield f"table=1,priority=2,{family},ct_state=+trk+new+rel-inv,actions=ct(commit,zone=1,nat),normal"
        yield (f"table=1,priority=1,in_port=to-red,{family},tp_dst=21,ct_state=+trk+new-rel-inv,"
               f"actions=ct(commit,zone=1{helper},nat(src={seen})),normal")


@pytest.fixture(name="served", params=TIERS)
def ftp_server(request, tmp_path_factory):
    """(network, the server's folder)."""
    if switches.DATAPATH != "xdp":
        pytest.skip("looks at the tiers")
    network = request.getfixturevalue("network")
    for name, value in TIERS[request.param].items():
        network.switch.vsctl("set", "open", ".", f"other_config:{name}={value}")
    for _, seen in ADDRESSES.values():
        network.green.run("ip", "neighbour", "add", seen, "lladdr", lab.mac_of(network.red), "dev", "eth0")
    patient(network.red, *(address for address, _ in ADDRESSES.values()))
    network.switch.flows("br0", *rules())
    folder = tmp_path_factory.mktemp("ftp")
    for address, _ in ADDRESSES.values():
        network.world.enter_context(network.green.start("/usr/bin/python3", "-m", "pyftpdlib", "-i", address, "-p", "21",
                                                        "-w", "-d", folder))
        lab.wait_until(lambda: address in network.green.run("ss", "-Hltn", "sport = :21"), "a server")
    return network, folder


def patient(client, *servers):
    """A command that is sent again is rewritten again, and counted twice, as in Open vSwitch: 'client' waits for a late answer."""
    client.run("sysctl", "-qw", "net.ipv4.tcp_early_retrans=0")
    for server in servers:
        client.run("ip", "route", "add", server, "dev", "eth0", "rto_min", "10s")


def session(client, v6, passive, limit):
    """Logs in."""
    with client.entered():
        ftp = ftplib.FTP(timeout=limit)
        ftp.connect(ADDRESSES[v6][0], 21)
        ftp.login()
    ftp.set_pasv(passive)
    return ftp


@pytest.mark.parametrize("v6", (False, True), ids=("IPv4", "IPv6"))
@pytest.mark.parametrize("passive", (True, False), ids=("passive", "active"))
def test_files(served, passive, v6):
    """Files go both ways; data connections belong to the helper's, and are translated as it is."""
    network, folder = served
    data, got = os.urandom(SIZE), io.BytesIO()
    with session(network.red, v6, passive, lab.PATIENCE) as ftp, network.red.entered():
        ftp.storbinary("STOR there", io.BytesIO(data))
        ftp.retrbinary("RETR there", got.write)
        assert ftp.nlst() == ["there"]
        shown = network.switch.appctl("dpctl/dump-conntrack", "zone=1")
    assert got.getvalue() == data and (folder / "there").read_bytes() == data
    (server, seen), (red, _) = ADDRESSES[v6], ("fc00::1" if v6 else "10.0.0.1", None)
    control = [line for line in shown.splitlines() if "helper=ftp" in line]
    related = [line for line in shown.splitlines() if "helper=ftp" not in line and seen in line]
    assert len(control) == 1 and len(related) == 3, shown
    first, answer = (f"src={red},dst={server}", f"src={server},dst={seen}") if passive else (f"src={server},dst={seen}",
                                                                                          f"src={red},dst={server}")
    assert all(re.search(rf"orig=\({first},.*reply=\({answer},", line) for line in related), shown


def test_without_the_helper(served):
    """The same without alg=ftp: the rules let no data connection pass."""
    network, _ = served
    network.switch.ofctl("del-flows", "br0", "table=1")
    network.switch.flows("br0", *rules(helper=""))
    with session(network.red, False, True, SHORT) as ftp, network.red.entered(), pytest.raises(TimeoutError):
        ftp.nlst()
