# SPDX-License-Identifier: Apache-2.0
"""VLANs: access ports, trunks, tags in tags.  Frames are written tag by tag, so the kernel needs no VLAN module."""
import pytest

import lab
import traffic
import wire

RED, BLUE = "02:00:00:00:00:01", "02:00:00:00:00:03"


@pytest.fixture
def wires(network):
    """Ends of the wires of red, green (access ports of VLAN 10) and blue (a trunk of 10 and 20)."""
    network.switch.expected.append("not configured for trunking VLAN")
    network.switch.vsctl("set", "port", "to-red", "tag=10", "--", "set", "port", "to-green", "tag=10",
                         "--", "set", "port", "to-blue", "trunks=10,20")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green, wire.Wire(network.blue) as blue:
        yield red, green, blue


def text(words):
    """Long enough that no frame needs padding, whose length would depend on the tags."""
    return words.encode().ljust(40)


def payload(words):
    return lambda frame: words in frame


def test_access_ports_talk(network, wires):
    assert traffic.ping(network.red, "10.0.0.2") == 3
    traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
    assert traffic.ping(network.red, "10.0.0.3", count=1, limit=1) == 0     # blue's stack speaks untagged
    assert traffic.ping(network.red, "10.0.0.100", count=1, limit=1) == 0   # and so does the host


def test_trunk_carries_the_tag(network, wires):
    red, green, blue = wires
    red.send(wire.udp_frame(RED, "ff:ff:ff:ff:ff:ff", text("from the access port")))
    assert blue.receive(payload(b"from the access port"))[0] == wire.udp_frame(
        RED, "ff:ff:ff:ff:ff:ff", text("from the access port"), tags=[10])
    assert green.receive(payload(b"from the access port"))[0] == wire.udp_frame(
        RED, "ff:ff:ff:ff:ff:ff", text("from the access port"))

    blue.send(wire.udp_frame(BLUE, RED, text("from the trunk"), tags=[10]))
    assert red.receive(payload(b"from the trunk"))[0] == wire.udp_frame(BLUE, RED, text("from the trunk"))


@pytest.mark.parametrize("tags", ([], [20], [30], [0xfff]))
def test_other_vlans_stay_out(network, wires, tags):
    red, green, blue = wires
    blue.send(wire.udp_frame(BLUE, "ff:ff:ff:ff:ff:ff", text("elsewhere"), tags=tags),
              wire.udp_frame(BLUE, "ff:ff:ff:ff:ff:ff", text("the end"), tags=[10]))
    for end in red, green:
        assert [b"the end" in frame for frame in
                end.receive(lambda frame: b"elsewhere" in frame or b"the end" in frame)] == [True]


def test_tag_in_tag(network):
    """dot1q-tunnel: the customer's tag stays, the provider's is put before it."""
    network.switch.vsctl("set", "open", ".", "other_config:vlan-limit=2",
                         "--", "set", "port", "to-red", "vlan_mode=dot1q-tunnel", "tag=100",
                         "other_config:qinq-ethtype=802.1q")
    with wire.Wire(network.red) as red, wire.Wire(network.blue) as blue:
        def arrives():
            red.send(wire.udp_frame(RED, BLUE, text("double"), tags=[7]))
            return [frame for frame in blue.receive(payload(b"double"), limit=0.5)
                    if frame == wire.udp_frame(RED, BLUE, text("double"), tags=[100, 7])]
        lab.wait_until(arrives, "a frame with both tags")
        blue.send(wire.udp_frame(BLUE, RED, text("back"), tags=[100, 7]))
        assert red.receive(payload(b"back"))[0] == wire.udp_frame(BLUE, RED, text("back"), tags=[7])
