# SPDX-License-Identifier: Apache-2.0
"""ovs-appctl xdp/trace and ovs-xdp-trace: the way of a packet, at each hook and in the engine."""
import json
import pathlib
import re
import struct
import subprocess

import pytest

import lab
import switch as switches
import wire

RED, GREEN = "02:00:00:00:00:01", "02:00:00:00:00:02"
TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/observe/ovs-xdp-trace"
NO_TRACE = r"nobody has asked for traced packets"
FIRST, SECOND, NEXT = "last-flow cache", "signature cache", "tuple space search"


def udp(port=2000, payload=b"traced packet", source=1000):
    return wire.udp_frame(RED, GREEN, payload, ports=(source, port))


@pytest.fixture(params=["xdp", "tcx"])
def hooked(request, network):
    """Ports at one hook; only what a test sends is forwarded."""
    for device in "to-red", "to-green":
        network.switch.use_hook(device, f"options:xdp-hook={request.param}")
    network.hook = "xdp" if request.param == "both" else request.param      # XDP comes first.
    network.switch.flows("br0", "in_port=to-red,udp,tp_dst=2000,actions=output:to-green",
                         "in_port=to-red,udp,tp_dst=2001,actions=drop", "priority=0,actions=drop")
    return network


class Trace:
    """xdp/trace in the background, while frames are sent from red until it answers."""

    def __init__(self, network, *words, wait=20):
        switch = network.switch
        self._process = subprocess.Popen(
            [switches.tool("ovs-appctl"), "--timeout=60", "-t", switch.rundir / "ovs-vswitchd.ctl", "xdp/trace", f"wait={wait}",
             *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=switch.env)
        self._red = network.red
        self.session = lab.wait_until(lambda: session_of(switch) or self._process.poll() is not None, "the trace")
        lab.wait_until(lambda: self._process.poll() is not None or switch.appctl(
            "xdp/trace-read", self.session, check=False).count("by itself\n"), "programs that trace")

    def answer(self, *frames):
        with wire.Wire(self._red) as red:
            def ended():
                if frames:
                    red.send(*frames)
                return self._process.poll() is not None
            lab.wait_until(ended, "the answer")
        out, err = self._process.communicate()
        assert self._process.returncode == 0, err
        return out


def session_of(switch):
    """The trace that runs, or None."""
    with pytest.raises(lab.Failed) as error:
        switch.appctl("xdp/trace-stop", "1.1")
    found = re.search(r"here is trace (\S+)", str(error.value))
    return found and found[1]


def trace(network, *words, frames=(), **how):
    found, = json.loads(Trace(network, "-f", "json", *words, **how).answer(*frames))["datapaths"]
    return found


def settle(network, *frames):
    """Sends until programs do with all of it what flows say."""
    def counts():
        found, = json.loads(network.switch.appctl("xdp/stats", "-f", "json", "to-red"))["datapaths"]
        frames = found["ports"][0]["frames"]
        return sum(frames.values()), frames["forwarded"] + frames["dropped"]

    with wire.Wire(network.red) as red:
        def settled():
            all_before, done_before = counts()
            red.send(*frames)
            all_now, done_now = lab.wait_until(lambda: (now := counts())[0] >= all_before + len(frames) and now, "the frames")
            return done_now - done_before == all_now - all_before
        lab.wait_until(settled, "flows in programs")


@pytest.mark.parametrize("hooked", ["xdp", "tcx", "both"], indirect=True)
def test_forwarded(hooked):
    """A packet that a program forwards: bytes, fields, lookup, megaflow, mask, output; as text, too."""
    frame = udp()
    settle(hooked, frame, frame)
    found = trace(hooked, "port=to-red", "udp,tp_dst=2000", "count=3", frames=[frame, frame])
    assert len(found["packets"]) == 3 and found["matched"] >= 3 and found["lost"] == 0
    for packet in found["packets"]:
        assert packet["hook"] == hooked.hook and packet["port_name"] == "to-red" and packet["length"] == len(frame)
        assert bytes.fromhex(packet["bytes"]) == bytes(frame)[:128]
        assert "udp(src=1000,dst=2000)" in packet["fields"] and "ipv4(" in packet["fields"]
        lookup, = packet["passes"]
        assert lookup["found"] in (FIRST, SECOND, NEXT) and "eth_type(0x0800)" in lookup["match"]
        assert lookup["actions"] == str(hooked.switch.dp_port("to-green")) and "eth_type" in lookup["mask"]
        assert lookup["ufid"] in "".join(hooked.switch.dump_flows("-m"))
        assert (packet["verdict"], packet["to_name"], packet["dropped"], packet["engine"]) == ("forwarded", "to-green", False, [])
    assert FIRST in {packet["passes"][0]["found"] for packet in found["packets"]}

    text = Trace(hooked, "port=to-red", "udp", "count=1").answer(frame, frame)
    port = hooked.switch.dp_port("to-green")
    assert re.search(rf"{hooked.hook}, port \d+ \(to-red\), {len(frame)} bytes, CPU \d+, packet \d+\n"
                     rf"  fields: .*\n  lookup 1: .*cache.*: ufid:.*, actions:{port}\n    mask: .*\n"
                     rf"  verdict: forwarded to port {port} \(to-green\)\n1 packets; looked at", text), text


def test_slow_path(hooked):
    """A packet without a flow: why it goes to the engine, and what that and ofproto do with it."""
    found = trace(hooked, "slow", "udp,tp_dst=2000", "count=1", frames=[udp()])
    packet, = found["packets"]
    assert packet["verdict"] == "engine" and packet["reason"] == "handed to the engine: no flow matches"
    assert packet["passes"][0]["found"] == "no flow" and "ufid" not in packet["passes"][0]
    upcall, *rest = packet["engine"]
    port = hooked.switch.dp_port("to-green")
    assert upcall == f"no flow: upcall to ofproto, which answers actions:{port}", packet
    assert rest[0] == f"sent to port {port} (to-green)" and rest[1].startswith("installed ufid:") and not packet["dropped"]


@pytest.mark.parametrize("hooked", ["both"], indirect=True)
def test_left_to_tcx(hooked):
    """At both, XDP leaves a flow that it cannot run to tcx, and a trace has the packet where it is dealt with."""
    hooked.switch.flows("br0", "in_port=to-red,udp,tp_dst=2000,actions=output:to-blue,mod_tp_dst:2002,output:to-green",
                        "priority=0,actions=drop")
    settle(hooked, udp())
    found = trace(hooked, "port=to-red", "udp,tp_dst=2000", "count=4", frames=[udp()])
    at_tcx = [packet for packet in found["packets"] if packet["hook"] == "tcx"]
    assert at_tcx and {packet["verdict"] for packet in at_tcx} == {"forwarded"}, found
    assert {packet["to_name"] for packet in at_tcx} == {"to-green"}


def test_drops(hooked):
    """Only drops: of a flow in a program, and of one in the engine; other packets do not count."""
    frames = [udp(2001), udp()]
    settle(hooked, *frames)
    found = trace(hooked, "drops", "udp", "count=2", frames=frames)
    assert {packet["reason"] for packet in found["packets"]} == {"dropped by the program, as a flow says"}
    assert {packet["passes"][0]["actions"] for packet in found["packets"]} == {"drop"}

    hooked.switch.flows("br0", "in_port=to-red,udp,actions=drop", "priority=0,actions=drop")
    found = trace(hooked, "drops", "slow", "udp", "count=1", frames=[udp(2002)])
    packet, = found["packets"]
    assert packet["dropped"] and packet["verdict"] == "engine" and "dropped: as the actions say" in packet["engine"]


def test_one_flow(hooked):
    """The packets of one megaflow, also after its actions changed; of none; of one that is not there."""
    switch = hooked.switch
    frames = [udp(), udp(2001)]
    settle(hooked, *frames)
    ufid = next(line.split(",")[0] for line in switch.dump_flows("-m") if "dst=2000" in line)
    found = trace(hooked, f"flow={ufid}", "count=3", frames=frames)
    assert {packet["passes"][0]["ufid"] for packet in found["packets"]} == {ufid} and len(found["packets"]) == 3
    assert not trace(hooked, f"flow={ufid}", "wait=1", frames=[udp(2001)])["packets"]
    with pytest.raises(lab.Failed, match="there is no such flow"):
        switch.appctl("xdp/trace", "flow=ufid:00000000-0000-0000-0000-000000000001")


def test_recirculation(network):
    """Each lookup of a packet that comes again is there."""
    switch = network.switch
    for device in "to-red", "to-green":
        network.switch.use_hook(device, "options:xdp-hook=xdp")
    switch.flows("br0", "table=0,in_port=to-red,mpls,actions=pop_mpls:0x0800,resubmit(,1)",
                 "table=1,ip,nw_ttl=64,actions=output:to-green", "priority=0,actions=drop")
    plain = bytes(udp())
    frame = plain[:12] + bytes.fromhex("8847" "00005140") + plain[14:]
    settle(network, frame)
    packet, = trace(network, "port=to-red", "mpls", "count=1", frames=[frame])["packets"]
    first, second = packet["passes"]
    assert "recirc(" in first["actions"] and re.search(r"recirc_id\(0x[0-9a-f]+\)", second["match"]), packet
    assert packet["verdict"] == "forwarded" and bytes.fromhex(packet["bytes"]) == frame[:128]


def test_without_flow_tables(network):
    """The engine traces what AF_XDP brings to it when programs have no flow tables."""
    switch = network.switch
    switch.vsctl("del-br", "br0", "--", "set", "open", ".", "other_config:xdp-offload=false", "other_config:xdp-hook=xdp")
    switch.add_bridge("br0")
    switch.add_port("to-red")
    switch.add_port("to-green")
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "priority=0,actions=drop")
    found = trace(network, "port=to-red", "udp,tp_dst=2000", "count=3", frames=[udp()])
    assert [packet["verdict"] for packet in found["packets"]] == ["engine"] * 3
    assert any(line.startswith("sent to port") for line in found["packets"][2]["engine"]), found


def test_programs_begin_to_track(network):
    """A trace at tcx goes on when programs are exchanged for those that track connections."""
    switch = network.switch
    for device in "to-red", "to-green":
        switch.use_hook(device, "options:xdp-hook=tcx")
    session = switch.appctl("xdp/trace-start", "port=to-red", "udp").strip()
    switch.flows("br0", "in_port=to-red,udp,actions=ct(commit),output:to-green", "priority=0,actions=drop")
    with wire.Wire(network.red) as red:
        def traced():
            red.send(udp())
            found, = json.loads(switch.appctl("xdp/trace-read", session))["datapaths"]
            return [packet for packet in found["packets"] if packet["hook"] == "tcx" and packet["verdict"] == "forwarded"
                    and any("ct(" in one.get("actions", "") for one in packet["passes"])]
        lab.wait_until(traced, "a packet that a program tracks")
    assert any("programs track connections now" in line for line in switch.log())
    switch.appctl("xdp/trace-stop", session)


def test_one_in_n(hooked):
    """Programs look at one packet in N, and say how many they looked at."""
    frame = udp()
    settle(hooked, frame)
    found = trace(hooked, "every=100", "count=2", "port=to-red", frames=[frame] * 50)
    assert len(found["packets"]) == 2 and 2 <= found["looked_at"] < 100


def test_bad_words(network):
    switch = network.switch
    for words, sentence in (
            (["port=nowhere"], "there is no port \"nowhere\""),
            (["datapath=none"], "there is no datapath \"none\""),
            (["every=0"], "every: expected a number from 1 to"),
            (["count=x"], "count: expected a number from 1 to"),
            (["wait=99999"], "wait: expected a number from 1 to 3600, not \"99999\""),
            (["bytes=5000"], "bytes: expected a number from 1 to 1600"),
            (["flow=7"], "expected ufid:..."),
            (["bogus"], "is neither an option nor fields"),
            (["tp_dst=80"], "write that before it, such as tcp,tp_dst=80"),
            (["in_port=1"], "write port=NAME"),
            (["reg0=1"], "has a field that packets do not have"),
            (["-f", "xml"], "expected text or json")):
        with pytest.raises(lab.Failed, match=sentence):
            switch.appctl("xdp/trace", *words)
    with pytest.raises(lab.Failed, match="was begun in another process"):
        switch.appctl("xdp/trace-read", "1.1")


def test_names(network):
    """A port's name may contain what separates words and fields elsewhere."""
    name = "a=b,c{\N{SNOWMAN}"
    lab.run("ip", "link", "set", "dev", "to-red", "down")
    network.switch.vsctl("del-port", "to-red")
    lab.run("ip", "link", "set", "dev", "to-red", "name", name)
    lab.run("ip", "link", "set", "dev", name, "up")
    network.switch.vsctl("add-port", "br0", name)
    packet, = trace(network, f"port={name}", "udp", "count=1", frames=[udp()])["packets"]
    assert packet["port_name"] == name and f"({name})" in packet["text"]


def test_two_traces(hooked):
    """The second gets a sentence, the first goes on; stopping it returns what came; one that is not read ends."""
    switch = hooked.switch
    frame = udp()
    settle(hooked, frame)
    session = switch.appctl("xdp/trace-start", "port=to-red").strip()
    with pytest.raises(lab.Failed, match=rf"packets of ovs-xdp are traced already \(\"port=to-red\"\), by session {session}: "
                                         rf"\"ovs-appctl xdp/trace-stop {session}\" ends that"):
        switch.appctl("xdp/trace")
    with wire.Wire(hooked.red) as red:
        def some():
            red.send(frame)
            found, = json.loads(switch.appctl("xdp/trace-read", session))["datapaths"]
            return found["packets"]
        lab.wait_until(some, "packets")
    switch.appctl("xdp/trace-stop", session)
    with pytest.raises(lab.Failed, match="there is no trace"):
        switch.appctl("xdp/trace-read", session)

    other = Trace(hooked, "port=to-green", "udp", wait=60)
    switch.appctl("xdp/trace-stop", other.session)
    assert "0 packets;" in other.answer()


def test_nobody_reads(hooked):
    """Everything is traced and nobody reads: the ring is full, which is counted; packets go on; then the trace ends by itself."""
    switch = hooked.switch
    frame = udp()
    settle(hooked, frame)
    session = switch.appctl("xdp/trace-start", "bytes=1600").strip()
    with wire.Wire(hooked.red) as red, wire.Wire(hooked.green) as green:
        for _ in range(40):
            red.send(*[frame] * 200)
            assert len(green.receive(lambda seen: b"traced packet" in seen, 200)) == 200
    found, = json.loads(switch.appctl("xdp/trace-read", session))["datapaths"]
    assert found["matched"] >= 8000 and found["lost"] > 0
    assert len(found["packets"]) + found["lost"] <= found["matched"]
    lab.wait_until(lambda: any(re.search(NO_TRACE, line) for line in switch.log()), "the end of a trace that nobody reads")
    with pytest.raises(lab.Failed, match="there is no trace"):
        switch.appctl("xdp/trace-read", session)


def blocks(data):
    """The blocks of a pcap-ng file: (type, body)."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length >= 12 and data[at + length - 4:at + length] == struct.pack("<I", length)
        yield kind, data[at + 8:at + length - 4]
        at += length


def follower(switch, *args):
    return subprocess.Popen([TOOL, "-t", switch.rundir / "ovs-vswitchd.ctl", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=switch.env)


def test_pcapng(hooked, tmp_path):
    """A file that tcpdump reads: the packets, each with its way in a comment."""
    frame = udp()
    settle(hooked, frame)
    file = tmp_path / "trace.pcapng"
    process = follower(hooked.switch, "-w", file, "-c", "5", "port=to-red", "udp")
    with wire.Wire(hooked.red) as red:
        def ended():
            red.send(frame)
            return process.poll() is not None
        lab.wait_until(ended, "five packets")
    _, err = process.communicate()
    assert process.returncode == 0 and b"5 packets; looked at" in err, err
    section, interface, *packets = list(blocks(file.read_bytes()))
    assert section[0] == 0x0A0D0D0A and interface[0] == 1 and [kind for kind, _ in packets] == [6] * 5
    assert f"to-red ({hooked.hook})".encode() in interface[1]
    for _, body in packets:
        captured, length = struct.unpack_from("<II", body, 12)
        assert body[20:20 + captured] == bytes(frame)[:captured] and length == len(frame)
        assert b"verdict: forwarded to port" in body
    assert lab.run("tcpdump", "-nr", file).count("10.0.0.1.1000 > 10.0.0.2.2000: UDP") == 5


def test_restart(network):
    """The daemon is killed and started again: ovs-xdp-trace says so, and goes on."""
    switch = network.switch
    switch.flows("br0", "actions=normal")
    process = follower(switch, "port=to-red")
    with network.red.start("ping", "-q", "-i", "0.02", "10.0.0.2"):
        assert b"port" in process.stdout.readline()
        switch.crash()
        switch.start()
        lines = []
        while not lines or b"goes on" not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        assert any(b"waiting for the daemon" in line for line in lines), lines
        while process.stdout.readline().count(b"verdict") == 0:
            continue
    process.terminate()
    process.communicate()
    assert process.returncode == 0


def test_off_costs_nothing(network):
    """Without a trace no program has a part of it: after one the programs are what they were before."""
    switch = network.switch
    for device in "to-red", "to-green":
        network.switch.use_hook(device, "options:xdp-hook=xdp")
    switch.flows("br0", "in_port=to-red,udp,actions=output:to-green", "priority=0,actions=drop")
    settle(network, udp())

    def size():
        lab.wait_until(lambda: switch.appctl("xdp/specialise").strip().endswith("done"), "a specialised program")
        return int(re.search(r"(\d+) of machine code", switch.appctl("xdp/show"))[1])
    before = size()
    session = switch.appctl("xdp/trace-start", "port=to-red").strip()
    during = size()
    switch.appctl("xdp/trace-stop", session)
    assert before < during and size() == before
