# SPDX-License-Identifier: Apache-2.0
"""docs/how-to/troubleshoot.md: each symptom is provoked, and its commands say what the page says, except numbers."""
import re
import shlex

import lab
import switch as switches
import traffic

PAGE = switches.TOP / "docs/how-to/troubleshoot.md"


def blocks():
    """{symptom: [(command, lines that it prints)]}."""
    found = {}
    text = PAGE.read_text(encoding="utf-8")
    for section in re.split(r"^### ", text[text.index("## By symptom"):text.index("## A port does not come up")], flags=re.MULTILINE)[1:]:
        symptom, *lines = section.splitlines()
        found[symptom] = []
        for line in (line[4:] for line in lines if line.startswith("    ")):
            if line.startswith("$ "):
                found[symptom].append((shlex.split(line[2:]), []))
            else:
                found[symptom][-1][1].append(line)
    return found


def plain(line):
    """Without what differs from time to time."""
    line = re.sub(r"used:(\S+s|never)", "used:N", line)
    return re.sub(r"\d+", "N", " ".join(line.split()))


def follow(switch, symptom):
    """Runs the page's commands, each until it prints what the page says."""
    for (program, *args), lines in blocks()[symptom]:
        call = {"ovs-appctl": switch.appctl, "ovs-vsctl": switch.vsctl,
                "ovs-ofctl": lambda *a: switch.ofctl(a[0], *a[1:])}[program]
        if not lines:
            call(*args)
            continue
        wanted = {plain(line) for line in lines}

        def says(call=call, args=args, wanted=wanted):
            said = {plain(line) for line in call(*args).splitlines()}
            return all(any(line in other for other in said) for line in wanted)
        lab.wait_until(says, f"{symptom}: {program} {' '.join(args)} says {lines}")


def ping(network, count=2):
    network.red.run("ping", "-q", "-c", count, "-i", "0.05", "-W", "1", "10.0.0.2", check=False)


def test_symptoms(network):
    switch = network.switch
    switch.flows("br0", "priority=0,actions=normal")
    assert traffic.ping(network.red, "10.0.0.2", count=2) == 2

    switch.vsctl("set", "interface", "to-green", "options:xdp-hook=xdp")
    follow(switch, "TCP is slow")

    switch.flows("br0", "priority=5,icmp,nw_dst=10.0.0.2,actions=drop", "priority=0,actions=normal")
    with network.red.start("ping", "-q", "-i", "0.05", "10.0.0.2"):
        follow(switch, "Packets vanish")

    switch.flows("br0", "priority=5,icmp,in_port=to-red,actions=output(port=to-green,max_len=100)", "priority=0,actions=normal")
    ping(network)
    follow(switch, "CPU is high")

    switch.flows("br0", *(f"priority=5,udp,udp_dst={port},actions=output:to-green" for port in range(1, 60)), "priority=0,actions=normal")
    for port in range(70, 90):
        network.red.run("bash", "-c", f"echo x > /dev/udp/10.0.0.2/{port}")
    follow(switch, "First packets are late")

    switch.vsctl("set-fail-mode", "br0", "secure")
    switch.ofctl("del-flows", "br0")
    switch.appctl("fdb/flush", "br0")
    network.red.run("ip", "neigh", "flush", "all")
    ping(network)
    follow(switch, "Nothing is learned")
    assert len(switch.appctl("fdb/show", "br0").splitlines()) == 1 and switch.ofctl("dump-flows", "br0").count("\n") == 1
