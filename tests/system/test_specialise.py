# SPDX-License-Identifier: Apache-2.0
"""The program leaves out what no flow needs, and gets it back before a flow needs it, while traffic runs."""
import re
import socket
import threading
import time

import pytest

import jumbo
import lab
import traffic
import wire
import xdp

HOOK = "xdp"
RED = "02:00:00:00:00:01"


def shown(switch, what):
    return re.search(rf"^ +{what}: (.*)$", switch.appctl("xdp/show"), re.MULTILINE)[1]


def specialise(switch):
    lab.wait_until(lambda: switch.appctl("xdp/specialise").strip().endswith("done"), "flows need nothing new meanwhile")
    return shown(switch, "omits")


def size(switch):
    return int(re.search(r"(\d+) of machine code", switch.appctl("xdp/show"))[1])


def test_omits_what_no_flow_needs(network):
    switch, green = network.switch, lab.mac_of(network.green)
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "actions=drop")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as seen:
        frame = wire.udp_frame(RED, green, b"here I am")
        red.send(*[frame] * 10)
        assert len(seen.receive(lambda got: b"here I am" in got, 10)) == 10
        omitted = specialise(switch)
        assert "MPLS" in omitted and "push VLAN" in omitted and "IPv4 and its transport" not in omitted
        assert size(switch) < 22000     # Of 37,000.
        red.send(*[frame] * 10)
        assert len(seen.receive(lambda got: b"here I am" in got, 10)) == 10


def test_flows_that_need_more(network):
    """A rule with more, under a program without it: frames are right from the first, and run in XDP at once."""
    switch, green = network.switch, lab.mac_of(network.green)
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "actions=drop")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as seen:
        red.send(wire.udp_frame(RED, green, b"plain"))
        assert seen.receive(lambda got: b"plain" in got, 1)
        assert "set Ethernet" in specialise(switch)
        switch.flows("br0", "in_port=to-red,udp,tp_src=7,actions=mod_dl_src:02:00:00:00:00:77,output:to-green",
                     "in_port=to-red,udp,actions=output:to-green", "actions=drop")
        for _ in range(3):
            red.send(*[wire.udp_frame(RED, green, b"other", ports=(7, 2000))] * 20)
            frames = seen.receive(lambda got: b"other" in got, 20)
            assert {got[6:12].hex() for got in frames} == {"020000000077"} and len(frames) == 20
        assert "set Ethernet" not in shown(switch, "omits")
        assert any("set(eth(" in flow and "dp:xdp" in flow for flow in switch.dump_flows("-m"))


@pytest.mark.usefixtures("nothing_vanishes")
@pytest.mark.skipif(not jumbo.MULTI_BUFFER, reason="this kernel has no frames in several buffers (Linux 6.6)")
def test_several_buffers(network):
    """Programs look for frames in several buffers only while a port's MTU is larger than one buffer."""
    several = "frames in several buffers"
    traffic.wait_for_ping(network.red, "10.0.0.2")
    assert several in specialise(network.switch)
    lab.run("ip", "link", "set", "to-red", "mtu", "9000")
    lab.wait_until(lambda: several not in shown(network.switch, "omits"), "the complete program")
    assert several not in specialise(network.switch)
    lab.run("ip", "link", "set", "to-red", "mtu", "1500")
    lab.wait_until(lambda: several in specialise(network.switch), "the program without")


def test_replaced_under_traffic(network):
    """The programs are exchanged while datagrams flow: none is lost."""
    switch = network.switch
    port = switch.dp_port("to-red")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    with network.green.entered():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with network.red.entered():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.setsockopt(socket.SOL_SOCKET, wire.SO_RCVBUFFORCE, 64 << 20)
        receiver.settimeout(5)
        receiver.bind(("10.0.0.2", 5003))
        done = threading.Event()
        sent = []

        def send():
            while not done.is_set():
                sender.sendto(len(sent).to_bytes(4, "big"), ("10.0.0.2", 5003))
                sent.append(time.monotonic())
                time.sleep(0.0002)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        programs = []
        received = 0
        switch.appctl("revalidator/pause")      # It would delete flows that it did not make.
        try:
            for turn in range(10):
                specialise(switch)
                programs.append(xdp.attached("to-red"))
                # Another protocol needs more again.
                flow = f"in_port({port}),eth(),eth_type(0x8847),mpls(label={100 + turn},tc=0,ttl=0,bos=1)"
                switch.appctl("dpctl/add-flow", flow, "drop")
                programs.append(xdp.attached("to-red"))
                switch.appctl("dpctl/del-flow", flow)
                received += take(receiver, len(sent) - received)
        finally:
            done.set()
            thread.join()
            switch.appctl("revalidator/resume")
        assert received + take(receiver, len(sent) - received) == len(sent) > 100
    assert all(one != other for one, other in zip(programs, programs[1:]))


def take(receiver, count):
    """Receives 'count' datagrams; fewer if they do not come."""
    for number in range(count):
        try:
            receiver.recv(2048)
        except socket.timeout:
            return number
    return count
