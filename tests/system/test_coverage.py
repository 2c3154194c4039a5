# SPDX-License-Identifier: Apache-2.0
"""Drops among Open vSwitch's coverage counters, under the names of the stock userspace datapath, exact.

The cases are those of Open vSwitch's tests/drop-stats.at, with flows that programs run, and the engine's."""
import json
import re

import pytest

import lab
import switch as switches
import wire

RED = "02:00:00:00:00:01"
COUNT = 50



def twice(first, end):
    """Rules that each resubmit twice to the next."""
    return [f"in_port={port},actions=resubmit:{port + 1},resubmit:{port + 1},local" for port in range(first, end)]


# What is counted, rules that bring it about, whether programs run the flow: not if ofproto gave up, for then it matches
# every field there is.
ACTIONS = {
    "drop_action_of_pipeline": (["in_port=to-red,udp,actions=drop"], True),
    "drop_action_recursion_too_deep": (
        ["in_port=to-red,udp,actions=goto_table:1", "table=1,actions=goto_table:2", "table=2,actions=resubmit(,1)"], False),
    "drop_action_too_many_mpls_labels": (
        ["in_port=to-red,udp,actions=push_mpls:0x8847,resubmit:103",
         "in_port=103,actions=push_mpls:0x8847,set_field:10->mpls_label,set_field:15->mpls_label,resubmit:104",
         "in_port=104,actions=push_mpls:0x8847,set_field:11->mpls_label,resubmit:105",
         "in_port=105,actions=push_mpls:0x8847,set_field:12->mpls_label,resubmit:106",
         "in_port=106,actions=push_mpls:0x8847,set_field:13->mpls_label,output:2"], False),
    "drop_action_too_many_resubmit": (
        ["in_port=to-red,udp,actions=resubmit:102,resubmit:102,local", *twice(102, 165), "in_port=165,actions=local"], False),
    "drop_action_stack_too_deep": (
        ["in_port=to-red,udp,actions=resubmit:102,resubmit:102,local", *twice(102, 113),
         "in_port=113,actions=" + ",".join(["push:NXM_NX_REG0[]"] * 8)], False),
}

# What else there is, such as neighbour discovery, is not dropped.
OTHERS = ["priority=1,in_port=local,actions=output:to-green", "priority=0,actions=local"]


def counter(switch, name):
    return int(switch.appctl("coverage/read-counter", name))


def frames(count, port=2000):
    return [wire.udp_frame(RED, "02:00:00:00:00:02", b"drop", ports=(1000, port))] * count


def stats(switch):
    """xdp/stats of to-red."""
    return json.loads(switch.appctl("xdp/stats", "-f", "json", "to-red"))["datapaths"][0]


def program_drops(switch, fate="dropped"):
    return stats(switch)["ports"][0]["frames"][fate]


@pytest.fixture(params=["xdp", "tcx"])
def hooked(request, network):
    network.switch.vsctl("set", "open", ".", f"other_config:xdp-hook={request.param}")
    lab.wait_until(lambda: network.switch.status("to-red")["xdp-hook"] == request.param, f"to-red at {request.param}")
    return network


def grows(switch, name, before, count):
    """Waits until a counter has grown by 'count', and sees that it stays there."""
    lab.wait_until(lambda: counter(switch, name) >= before + count, f"{name}: {before} + {count}", 10)
    assert counter(switch, name) == before + count


def test_drop_actions(hooked):
    """Each packet is counted once, by the reason that its flow has: the first that the engine drops, those that programs
    drop, and those of flows that are gone."""
    switch = hooked.switch
    switch.expected += ["over max translation depth", "MPLS push action can't be performed", r"ofproto_dpif_upcall.*WARN\|Flow: ",
                        "over 4096 resubmit actions", "resubmits yielded over 64 kB of stack"]
    for name, (rules, in_program) in ACTIONS.items():
        # At once: a moment without rules drops packets.
        switch.ofctl("replace-flows", "br0", "-", text="\n".join([*rules, *OTHERS]) + "\n")
        switch.appctl("revalidator/purge")
        before, dropped = counter(switch, name), program_drops(switch)
        with wire.Wire(hooked.red) as red:
            red.send(*frames(1))
            lab.wait_until(lambda: counter(switch, name) == before + 1, f"the engine's {name}")
            lab.wait_until(lambda: any("udp" in line or "proto=17" in line for line in switch.dump_flows()), "a flow")
            red.send(*frames(COUNT))
        grows(switch, name, before, 1 + COUNT)
        if in_program:
            assert program_drops(switch) - dropped >= COUNT
        switch.appctl("revalidator/purge")
        with wire.Wire(hooked.red) as red:
            red.send(*frames(1, 2001))
        grows(switch, name, before, 2 + COUNT)


def test_meter(hooked):
    """What programs drop above the rate of a meter is Open vSwitch's datapath_drop_meter."""
    switch = hooked.switch
    switch.ofctl("add-meter", "br0", "meter=1,pktps,burst,band=type=drop,rate=1,burst_size=5")
    switch.flows("br0", "in_port=to-red,udp,actions=meter:1,output:to-green", "priority=0,actions=drop")
    before = counter(switch, "datapath_drop_meter")
    with wire.Wire(hooked.red) as red, wire.Wire(hooked.green) as green:
        red.send(*frames(1))
        assert green.receive(lambda frame: b"drop" in frame)
        red.send(*frames(COUNT))
    metered = lab.wait_until(lambda: program_drops(switch, "metered"), "drops of the meter")
    engine = stats(switch)["engine"]["drops"]["meter"]
    programs = json.loads(switch.appctl("xdp/stats", "-f", "json"))["datapaths"][0]["programs"]
    assert metered <= programs["hits_without_masks"] + programs["mask_hits"] <= 10 * COUNT      # Each had a flow.
    assert metered >= COUNT - 10
    grows(switch, "datapath_drop_meter", before, metered + engine)


def test_counters_never_go_back(network):
    """Neither when ports go nor when flows do, nor when the datapath does."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp,actions=drop", "priority=0,actions=drop")
    before = counter(switch, "drop_action_of_pipeline")
    with wire.Wire(network.red) as red:
        red.send(*frames(1))
        lab.wait_until(lambda: counter(switch, "drop_action_of_pipeline") > before, "a drop")
        red.send(*frames(COUNT))
    lab.wait_until(lambda: program_drops(switch) >= COUNT, "drops in the program")
    switch.vsctl("del-br", "br0")       # At once: what was not counted yet is not lost.
    lab.wait_until(lambda: "ovs-xdp" not in switch.appctl("xdp/show"), "the end of the datapath")
    assert counter(switch, "drop_action_of_pipeline") >= before + 1 + COUNT


# Open vSwitch counts these itself: the actions run in its odp_execute_actions(); or they are of hardware, which this datapath has not.
ITS_OWN = {"datapath_drop_sample_error", "datapath_drop_nsh_decap_error", "datapath_drop_hw_miss_recover",
           "datapath_drop_hw_post_process", "datapath_drop_hw_post_process_consumed"}


def test_every_name_of_the_stock_datapath(network):
    """Each drop that the linked release's userspace datapath counts can be read here, and ours are added to it."""
    listed = [switches.source(name) for name in ("lib/dpif-netdev.c", "lib/odp-execute.c")]
    if not all(listed):
        pytest.skip("the sources of Open vSwitch that the tools were built from are not here")
    names = {name for path in listed for name in re.findall(r"^COVERAGE_DEFINE\(((?:datapath_drop|drop_action)_\w+)\);",
                                                            path.read_text(encoding="utf-8"), re.MULTILINE)}
    ours = "".join((switches.TOP / name).read_text(encoding="utf-8") for name in ("ovs/provider/drop_coverage.c", "ovs/base/compat.h"))
    assert len(names) > 20 and names - set(re.findall(r"\bX\((\w+)[),]", ours)) <= ITS_OWN
    for name in names - ITS_OWN:
        assert counter(network.switch, name) >= 0


def test_shown(network):
    """coverage/show, which exporters read, has them with Open vSwitch's own."""
    switch = network.switch
    switch.flows("br0", "in_port=to-red,udp,actions=drop", "priority=0,actions=drop")
    with wire.Wire(network.red) as red:
        red.send(*frames(1))
    shown = lab.wait_until(lambda: re.search(r"^drop_action_of_pipeline .* total: (\d+)$", switch.appctl("coverage/show"),
                                             re.MULTILINE), "drop_action_of_pipeline in coverage/show", 10)
    assert int(shown[1]) >= 1
