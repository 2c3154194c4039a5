# SPDX-License-Identifier: Apache-2.0
"""ovs-appctl xdp/why: the reason, and what would have to change."""
import json
import re

import lab
import switch as switches
import wire

RED = "02:00:00:00:00:01"


def why(switch, *args):
    found, = json.loads(switch.appctl("xdp/why", "-f", "json", *args))["datapaths"]
    return found


def port(switch, name):
    found, = why(switch, name)["ports"]
    return found


def test_hooks(network):
    """Each way to a hook has its sentence, and the hook that it names is the one in use."""
    switch = network.switch
    found = port(switch, "to-red")
    assert found["hook"] == "tcx" and "CHECKSUM_PARTIAL" in found["why"] and "xdp-hook=xdp" in found["change"]
    assert "internal port" in port(switch, "br0")["why"] and port(switch, "br0")["hook"] == "tcx"

    cases = (("interface", "to-red", "options:xdp-hook=xdp", "xdp", "options:xdp-hook of the Interface says so"),
             ("open", ".", "other_config:xdp-hook=both", "both", "other_config:xdp-hook of Open_vSwitch says so"),
             ("interface", "to-red", "options:xdp-mode=native", "xdp", "asks for a mode of XDP"))
    for table, record, setting, hook, sentence in cases:
        switch.vsctl("set", table, record, setting)
        lab.wait_until(lambda hook=hook: switch.status("to-red").get("xdp-hook") == hook, f"to-red at {hook}")
        found = port(switch, "to-red")
        assert found["hook"] == hook and sentence in found["why"], found
        switch.vsctl("remove", table, record, *setting.split("=")[0].split(":"))
    assert f"port {found['port']}: to-red: hook " in switch.appctl("xdp/why")
    assert "no Linux device" in switch.appctl("xdp/why", "xdp@ovs-xdp", "ovs-xdp")


def named(header, macro):
    """The names of an X-macro list."""
    return re.findall(r"\bX\((\w+),", re.search(rf"#define {macro}\(X\)((?:.*\\\n)*.*\n)",
                                                (switches.TOP / header).read_text(encoding="utf-8"))[1])


def test_every_reason_has_sentences(network):
    """Why the engine runs a flow, and what would have to change: of each reason in the tables, provoked or not."""
    names = (named("ovs/fastpath/compile.h", "DPIF_XDP_COMPILE_REASONS")
             + named("ovs/fastpath/fastpath_private.h", "DPIF_XDP_FASTPATH_REASONS"))
    said = {reason["reason"]: reason for reason in why(network.switch)["fast_path"]["flows_by_reason"]}
    assert set(said) == {name.lower() for name in names} and len(said) > 15
    for name, reason in said.items():
        assert reason["text"] and (name == "ok") == (reason["tier"] != "engine"), reason
        assert name == "ok" or reason["change"], reason


def flow_of(network, *rules, count=3):
    """Sends packets that these rules are for, and returns the line of their flow."""
    switch = network.switch
    switch.flows("br0", *rules, "priority=0,actions=drop")
    with wire.Wire(network.red) as red:
        def found():
            red.send(*[wire.udp_frame(RED, "02:00:00:00:00:02", b"why", ports=(1000, 2000))] * count)
            return [line for line in switch.dump_flows("-m") if "udp" in line or "proto=17" in line]
        return lab.wait_until(found, "a flow")[0]


def test_flow(network):
    """A flow of the programs, one of the engine, by its ufid and by what dump-flows prints; and none."""
    switch = network.switch
    line = flow_of(network, "udp,in_port=to-red,actions=output:to-green")
    ufid = line.split(",")[0]
    found = why(switch, ufid)["flow"]
    assert (found["found"], found["tier"], found["reason"], found["ufid"]) == (True, "tcx", "ok", ufid)
    assert "runs in a program, at tcx" in switch.appctl("xdp/why", ufid)
    fields = next(line for line in switch.dump_flows() if "proto=17" in line).split(", packets:")[0]
    assert why(switch, "ovs-xdp", fields)["flow"].get("ufid") == ufid, (fields, switch.dump_flows("-m"))

    ufid = flow_of(network, "udp,in_port=to-red,actions=push_mpls:0x8847,output:to-green").split(",")[0]
    found = lab.wait_until(lambda: (lambda flow: flow if flow.get("tier") == "engine" else None)(why(switch, ufid)["flow"]),
                           "a flow of the engine")
    assert found["reason"] in ("action", "program") and "action" in found["why"] and found["change"]
    text = switch.appctl("xdp/why", ufid)
    assert f"runs in the engine, because it {found['why']}. To change that: {found['change']}." in text
    assert "flows run in the engine, because each" in switch.appctl("xdp/why")

    assert why(switch, "ufid:00000000-0000-0000-0000-000000000001")["flow"]["found"] is False
    assert "there is no such flow" in switch.appctl("xdp/why", "in_port(77),eth_type(0x1234)")
    assert "it is no flow as dpctl/dump-flows prints them" in switch.appctl("xdp/why", "nonsense(1)")


def test_auto_takes_tcx_before_generic_xdp(network):
    """It is faster.  That is no error, and xdp/why says it."""
    lab.run("ip", "link", "add", "linuxbr", "type", "bridge")
    lab.run("ip", "link", "set", "linuxbr", "up")
    network.switch.add_port("linuxbr")
    assert network.switch.status("linuxbr")["xdp-hook"] == "tcx"
    assert not network.switch.error("linuxbr") and "xdp-warning" not in network.switch.status("linuxbr")
    assert "its driver has no native XDP as the device is set up now" in network.switch.appctl("xdp/why", "linuxbr")
    network.switch.vsctl("set", "interface", "linuxbr", "options:xdp-hook=xdp")
    network.switch.expected += ["linuxbr: .*generic XDP"]
    lab.wait_until(lambda: network.switch.in_use("linuxbr") == ("xdp", "generic"), "generic XDP")
    network.switch.vsctl("remove", "interface", "linuxbr", "options", "xdp-hook")
    lab.wait_until(lambda: network.switch.in_use("linuxbr") == ("tcx", "none"), "tcx")
