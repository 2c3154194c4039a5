# SPDX-License-Identifier: Apache-2.0
"""The documents of "ovs-appctl xdp/...": JSON and text of the same facts, arguments, errors."""
import json
import re

import pytest

import lab
import switch as switches

HOOK = "xdp"
COMMANDS = ("xdp/show", "xdp/stats", "xdp/why", "xdp/dump-masks", "xdp/bond-show", "xdp/ct-show", "xdp/specialise")


def document(switch, command, *args):
    """What 'command' says about the only datapath."""
    reply = json.loads(switch.appctl(command, "--format=json", *args))
    assert reply["version"] == re.search(r"OVS-XDP\) (\S+)", lab.run(switch.daemon, "--version"))[1]
    found, = reply["datapaths"]
    assert (found["type"], found["name"]) == ("xdp", "ovs-xdp")
    return found


def refused(switch, *args):
    with pytest.raises(lab.Failed) as failed:
        switch.appctl(*args)
    return str(failed.value)


def ping(network):
    network.red.run("ping", "-c", "3", "-i", "0.01", "10.0.0.2")


def test_documents(network):
    """What is in the documents is what text says, and what is true."""
    switch = network.switch

    def same_length(command):
        return switch.appctl(command, "--format", "text", "ovs-xdp").count("\n") == switch.appctl(command).count("\n")

    def both():
        """The document and the text, if flows and programs were the same meanwhile."""
        shown, text = document(switch, "xdp/show"), switch.appctl("xdp/show")
        return (f"{shown['fast_path']['flows']} of {shown['fast_path']['max_flows']} flows" in text
                and f"program: {shown['programs'][0]['name']} id {shown['programs'][0]['id']}" in text
                and sum(reason["flows"] for reason in shown["fast_path"]["flows_by_reason"]) >= 1 and (shown, text))

    with network.red.start("ping", "-q", "-i", "0.2", "10.0.0.2"):      # Flows come, and one of them stays.
        for command in COMMANDS:
            assert switch.appctl(command, "-f", "json", "--pretty").count("\n") > 2
            lab.wait_until(lambda command=command: same_length(command), f"as many lines of {command}")
        shown, text = lab.wait_until(both, "the same in the document and in the text")
    assert [port["name"] for port in shown["ports"]] == re.findall(r"^  port \d+: (\S+) ", text, re.MULTILINE)
    red, = (port for port in shown["ports"] if port["name"] == "to-red")
    assert (red["hook"], red["mode"], red["open"], red["redirect_target"]) == ("xdp", "native", True, True)
    assert red["ifindex"] == int(lab.run("cat", "/sys/class/net/to-red/ifindex"))
    assert red["queues"][0]["received"] > 0
    assert "IPv6 and its transport headers" in shown["programs"][0]["parses"]
    assert {reason["reason"] for reason in shown["fast_path"]["flows_by_reason"]} >= {"ok", "action", "port", "full"}
    assert all(thread["cpu_ms"] >= 0 for thread in shown["threads"]) and shown["threads"]


def every_command(switch):
    return re.findall(r"^ +(xdp/\S+)", switch.appctl("list-commands"), re.MULTILINE)


def test_every_command_answers_in_json(network):
    """Also those that begin and end a trace, and those of later versions."""
    switch = network.switch
    commands = every_command(switch)
    traces = {"xdp/trace", "xdp/trace-start", "xdp/trace-read", "xdp/trace-stop"}
    assert set(COMMANDS) | traces <= set(commands)

    def answers(command, *args):
        found = document(switch, command, *args)
        assert len(found) > 2, found
        return found
    for command in sorted(set(commands) - traces):
        answers(command)
    wanted = {"type": "xdp", "name": "ovs-xdp", "result": "done"}       # Not while the daemon loads programs by itself.
    lab.wait_until(lambda: document(switch, "xdp/specialise") == wanted, "specialised programs")
    session = answers("xdp/trace-start", "every=7")["session"]      # It ends when nobody reads for ten seconds.
    for command in "xdp/trace-read", "xdp/trace-stop":
        assert answers(command, session)["session"] == session
    answers("xdp/trace", "count=1", "wait=1")
    assert "no trace" in refused(switch, "xdp/trace-read", session)
    assert "expected a session" in refused(switch, "xdp/trace-stop", "-f", "json")
    session = switch.appctl("xdp/trace-start").strip()
    assert re.search(r"^\d+ packets; looked at \d+ \(1 in 1\)", switch.appctl("xdp/trace-read", "-f", "text", session), re.MULTILINE)
    assert "is too much" in refused(switch, "xdp/trace-stop", session, session)
    assert switch.appctl("xdp/trace-stop", session).strip() == "stopped"


def test_format_of_ovs_appctl(network):
    """Newer Open vSwitch's own "ovs-appctl --format json", which asks the daemon for a JSON value."""
    switch = network.switch
    tool = switches.tool("ovs-appctl")
    if "--format" not in lab.run(tool, "--help"):
        pytest.skip("this ovs-appctl (before 3.4) has no --format")
    for command in COMMANDS:
        given = lab.run(tool, "--format", "json", "--pretty", "-t", switch.rundir / "ovs-vswitchd.ctl", command, env=switch.env)
        found, = json.loads(given)["datapaths"]
        assert found["name"] == "ovs-xdp" and found.keys() == document(switch, command).keys()
    given = lab.run(tool, "--format", "json", "-t", switch.rundir / "ovs-vswitchd.ctl", "xdp/trace", "wait=1", env=switch.env)
    assert "packets" in json.loads(given)["datapaths"][0]


def test_stats_of_a_port(network):
    """The counters of one port, whole, without zeros, and all ports together."""
    switch = network.switch
    ping(network)
    every, one = document(switch, "xdp/stats"), document(switch, "xdp/stats", "ovs-xdp", "to-red")
    assert {"to-red", "to-green", "to-blue"} <= {port["name"] for port in every["ports"]}
    port, = one["ports"]
    assert port["name"] == "to-red" and port["hook"] == "xdp"
    assert port["rx_packets"] >= sum(port["frames"].values()) >= 4
    number = str(port["port"])
    assert [found["name"] for found in document(switch, "xdp/stats", number)["ports"]] == ["to-red"]

    nonzero, = document(switch, "xdp/stats", "--nonzero", "to-red")["ports"]
    assert nonzero["frames"] == {key: value for key, value in nonzero["frames"].items() if value}
    assert "forwarded" in nonzero["frames"] and "no_socket" in port["frames"] and "no_socket" not in nonzero["frames"]
    assert not re.search(r": 0$", switch.appctl("xdp/stats", "--nonzero"), re.MULTILINE)
    assert re.search(r": 0$", switch.appctl("xdp/stats"), re.MULTILINE)

    for _ in range(10):                 # Packets may come between the two.
        every, summed = document(switch, "xdp/stats"), document(switch, "xdp/stats", "--sum")
        added = {name: sum(port.get("frames", {}).get(name, 0) for port in every["ports"]) for name in summed["sum"]["frames"]}
        if added == summed["sum"]["frames"]:
            break
    assert added == summed["sum"]["frames"] and "ports" not in summed
    assert summed["sum"]["ports"] == len(every["ports"])
    assert f"  all {len(every['ports'])} ports:\n" in switch.appctl("xdp/stats", "--sum")


def test_interface_statistics(network):
    """What programs did with a port's packets is in the Interface's statistics, and the veth's peer in its status."""
    switch = network.switch
    switch.vsctl("set", "open", ".", "other_config:stats-update-interval=1000")
    ping(network)

    def numbers():
        frames = document(switch, "xdp/stats", "to-red")["ports"][0]["frames"]
        statistics = switch.get("interface", "to-red", "statistics")
        return frames["forwarded"] >= 2 and {key: statistics.get(f"ovs_rx_{key}") for key in frames} == frames
    lab.wait_until(numbers, "the same in the statistics", 20)
    assert "ovs_rx_rx_bytes" not in switch.get("interface", "to-red", "statistics")
    assert switch.status("to-red")["peer_ifindex"] == network.red.run("cat", "/sys/class/net/eth0/ifindex").strip()


def test_ports_by_number(network):
    """Ports come in the order of their numbers, not of a hash."""
    for number in range(40):
        lab.run("ip", "link", "add", f"p{number}", "type", "veth", "peer", "name", f"q{number}")
    network.switch.vsctl(*(word for number in range(40) for word in ("--", "add-port", "br0", f"p{number}")))
    for command in "xdp/show", "xdp/stats":
        numbers = [port["port"] for port in document(network.switch, command)["ports"]]
        assert len(numbers) >= 44 and numbers == sorted(numbers)
        assert [int(n) for n in re.findall(r"^  port (\d+): ", network.switch.appctl(command), re.MULTILINE)] == numbers


def test_wrong_arguments(network):
    """What was given, what is allowed."""
    switch = network.switch
    assert 'format "xml": expected text or json' in refused(switch, "xdp/show", "-f", "xml")
    assert 'format "": expected text or json' in refused(switch, "xdp/show", "--format")
    assert 'xdp/show has no option "--sum"' in refused(switch, "xdp/show", "--sum")
    assert 'write "--" before a name' in refused(switch, "xdp/stats", "-x")
    assert '"gone" is neither a datapath of type xdp nor a port of one' in refused(switch, "xdp/stats", "gone")
    assert 'there is no datapath "gone" of type xdp' in refused(switch, "xdp/stats", "gone", "to-red")
    assert 'there is no datapath "to-red"' in refused(switch, "xdp/dump-masks", "to-red")
    assert 'datapath xdp@ovs-xdp has no port "gone"' in refused(switch, "xdp/show", "xdp@ovs-xdp", "gone")
    assert '"three" is too much' in refused(switch, "xdp/show", "one", "two", "three")
    assert '"-x" is neither' in refused(switch, "xdp/show", "--", "-x")
    assert "xdp@ovs-xdp" in switch.appctl("xdp/show", "xdp@ovs-xdp") == switch.appctl("xdp/show", "ovs-xdp")


NAMES = ("-q", 'a"b', "a\\b", "a'b", "ünïcode", "a*b|c", "{x}", "a,b=c", "$(id)", "\N{SNOWMAN}")


def test_names(world, switch):
    """An interface may be called almost anything: documents stay documents."""
    switch.add_bridge("br0")
    for number, name in enumerate(NAMES):
        lab.run("ip", "link", "add", f"in{number}", "type", "veth", "peer", "name", f"out{number}")
        lab.run("ip", "link", "set", "dev", f"in{number}", "name", name)
        switch.vsctl("--", "add-port", "br0", name)
    names = {port["name"] for port in document(switch, "xdp/show")["ports"]}
    assert set(NAMES) <= names
    for name in NAMES:
        for command in "xdp/stats", "xdp/why":
            port, = document(switch, command, "--", name)["ports"]
            assert port["name"] == name


def test_empty():
    """Without a datapath there is an empty document, and no text."""
    with switches.Switch() as switch:
        for command in COMMANDS:
            assert json.loads(switch.appctl(command, "-f", "json"))["datapaths"] == []
            assert not switch.appctl(command).strip()
