# SPDX-License-Identifier: Apache-2.0
"""ovs-appctl xdp/trace and ovs-xdp-trace: the way of a packet, at each hook and in the engine."""
import json
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import pytest
from scapy.all import Ether, IP, IPv6, TCP, UDP

import foreign
import lab
import switch as switches
import tracking
import traffic
import tunnel_world
import wire
import xdp

RED, GREEN = "02:00:00:00:00:01", "02:00:00:00:00:02"
TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/observe/ovs-xdp-trace"
NO_TRACE = r"nobody has asked for traced packets"
FIRST, SECOND, NEXT = "last-flow cache", "signature cache", "tuple space search"


def udp(port=2000, payload=b"traced packet", source=1000):
    return wire.udp_frame(RED, GREEN, payload, ports=(source, port))


@pytest.fixture(params=["xdp", "tcx"])
def hooked(request, network):
    """Ports at one hook; only what a test sends is forwarded.  A slow machine takes longer to load programs that trace than
    flows are kept for by default."""
    network.switch.vsctl("set", "open", ".", f"other_config:max-idle={1000 * lab.PATIENCE}")
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

    def predicted():
        more = trace(hooked, "port=to-red", "udp,tp_dst=2000", "count=3", frames=[frame] * 8)
        return FIRST in {packet["passes"][0]["found"] for packet in more["packets"]}
    # After frames that differ the cache rests, and it is one for each CPU.
    lab.wait_until(predicted, "a packet of the last-flow cache")

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


def test_fields(hooked):
    """Fields as ovs-ofctl takes them choose among packets as they arrive: addresses, ports, tags, flags, both families."""
    switch = hooked.switch
    ether, four, six = Ether(src=RED, dst=GREEN), IP(src="10.0.0.1", dst="10.0.0.2"), IPv6(src="fc00::1", dst="fc00::2")
    frames = {"four": udp(), "other port": udp(2001), "tagged": wire.udp_frame(RED, GREEN, b"t", tags=(5,)),
              **{name: bytes(ether / rest).ljust(60, b"\0") for name, rest in {
                  "six": six / UDP(sport=7, dport=8), "begins": four / TCP(dport=80, flags="S"), "goes on": four / TCP(dport=80, flags="A"),
              }.items()}}
    for words, wanted in ((["udp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1000,tp_dst=2000"], {"four", "tagged"}),
                          (["udp", "tp_dst=2001"], {"other port"}), (["dl_vlan=5"], {"tagged"}),
                          (["udp6,ipv6_src=fc00::1,ipv6_dst=fc00::2,tp_src=7,tp_dst=8"], {"six"}),
                          (["tcp", "tcp_flags=+syn"], {"begins"}), ([f"dl_dst={GREEN},tcp"], {"begins", "goes on"}),
                          (["ip,nw_src=10.1.0.0/16"], set())):
        session = switch.appctl("xdp/trace-start", "port=to-red", *words).strip()
        with wire.Wire(hooked.red) as red:
            red.send(*frames.values())
            seen = []

            def all_came(session=session, seen=seen, wanted=wanted):
                seen += json.loads(switch.appctl("xdp/trace-read", session))["datapaths"][0]["packets"]
                return len(seen) >= len(wanted)
            lab.wait_until(all_came, f"packets of {words}")
            counts = json.loads(switch.appctl("xdp/trace-read", session))["datapaths"][0]
        switch.appctl("xdp/trace-stop", session)
        came = [bytes.fromhex(packet["bytes"]) for packet in seen + counts["packets"]]
        assert sorted(came) == sorted(bytes(frames[name])[:128] for name in wanted), (words, came)


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


@pytest.mark.parametrize("hook", ["xdp", "tcx"])
def test_connections(network, hook):
    """What each ct() of a packet found, in the engine and in programs: a new connection, and one that is established."""
    switch = network.switch
    for device in "to-red", "to-green":
        switch.use_hook(device, f"options:xdp-hook={hook}")
    switch.flows("br0", "table=0,udp,actions=ct(zone=5,table=1)",
                 "table=1,in_port=to-red,udp,ct_state=+trk+new,actions=ct(commit,zone=5),output:to-green",
                 "table=1,in_port=to-red,udp,ct_state=+trk+est,actions=output:to-green",
                 "table=1,in_port=to-green,udp,ct_state=+trk,actions=output:to-red", "priority=0,actions=drop")
    session = switch.appctl("xdp/trace-start", "udp").strip()
    answer = wire.udp_frame(GREEN, RED, b"answer", ports=(2000, 1000), addresses=("10.0.0.2", "10.0.0.1"))
    seen = []

    def traced(frame, who, found):
        def come():
            with wire.Wire(getattr(network, who)) as at:
                at.send(frame)
            seen.extend(json.loads(switch.appctl("xdp/trace-read", session))["datapaths"][0]["packets"])
            return next((packet for packet in seen if found(packet)), None)
        return lab.wait_until(come, "a packet")

    def states(packet):
        return [(ct["zone"], set(ct["state"].split("|"))) for one in packet["passes"] for ct in one.get("ct", ())]

    # One that is read while the engine has it is not complete.
    traced(udp(), "red", lambda packet: packet["verdict"] == "engine"
           and packet["engine"].count("ct(zone=5) found: new|trk") == 2)
    tracking.tracks(switch)
    packet = traced(udp(), "red", lambda packet: packet["verdict"] == "forwarded" and packet["port_name"] == "to-red")
    assert states(packet) == [(5, {"new", "trk"})] * 2 and packet["hook"] == hook, packet
    assert "    ct(zone=5) found: new|trk\n" in packet["text"] and "ct_state(" in packet["passes"][1]["match"]
    packet = traced(answer, "green", lambda packet: packet["verdict"] == "forwarded" and packet["port_name"] == "to-green")
    assert states(packet) == [(5, {"est", "rpl", "trk"})], packet
    switch.appctl("xdp/trace-stop", session)


@pytest.mark.parametrize("hook", ["xdp", "tcx"])
def test_tunnel(world, switch, host, hook):
    """A tunnel's header that is pushed or popped is in the way of the packet, by the engine and by programs."""
    red, _ = tunnel_world.make(world, switch, host, "vxlan", hook)
    switch.use_hook("to-red", f"options:xdp-hook={hook}")
    session = switch.appctl("xdp/trace-start").strip()
    seen = []

    def traced(found, anew=False):
        def come():
            if anew:
                switch.appctl("revalidator/purge")
            red.run("ping", "-c", "1", "-W", "1", "10.0.0.9", check=False)
            seen.extend(json.loads(switch.appctl("xdp/trace-read", session))["datapaths"][0]["packets"])
            return next((packet for packet in seen if found(packet)), None)
        return lab.wait_until(come, "a packet")

    traffic.wait_for_ping(red, "10.0.0.9")

    def engine(packet):
        return "\n".join(packet["engine"])

    port = switch.dp_port("vxlan_sys_4789")
    for done in "pops", "pushes":
        traced(lambda packet, done=done: f"{done} the header of tunnel port {port} (vxlan_sys_4789)" in engine(packet), anew=True)
    packet = traced(lambda packet: packet["verdict"] == "forwarded" and "tnl_pop" in packet["passes"][0].get("actions", ""))
    inner = packet["passes"][1]
    assert packet["port_name"] == "to-far" and "tunnel(tun_id=0x2a" in inner["match"] and packet["to_name"] == "to-red", packet
    packet = traced(lambda packet: packet["verdict"] == "forwarded" and "tnl_push" in packet["passes"][0].get("actions", ""))
    assert packet["port_name"] == "to-red" and packet["to_name"] == "to-far" and "vxlan" in packet["passes"][0]["actions"], packet
    switch.appctl("xdp/trace-stop", session)


def test_detour(world, switch, host):
    """A packet that gets its outer checksum from a device of the kernel, on a detour, is traced from beginning to end."""
    red, _ = tunnel_world.make(world, switch, host, "vxlan", "tcx", csum=True)
    traffic.wait_for_ping(red, "10.0.0.9")
    session = switch.appctl("xdp/trace-start", "port=to-red", "udp,tp_dst=9999").strip()
    seen = []

    def forwarded():
        red.run("bash", "-c", "echo x > /dev/udp/10.0.0.9/9999")
        seen.extend(json.loads(switch.appctl("xdp/trace-read", session))["datapaths"][0]["packets"])
        return next((packet for packet in seen if packet["verdict"] == "forwarded"), None)
    packet = lab.wait_until(forwarded, "a packet that a program forwards")
    assert packet["hook"] == "tcx" and packet["to_name"] == "to-far" and "tnl_push" in packet["passes"][0]["actions"], packet


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


def odd_name(network):
    """Gives to-red a name with what separates words and fields elsewhere."""
    name = "a=b,c{\N{SNOWMAN}"
    lab.run("ip", "link", "set", "dev", "to-red", "down")
    network.switch.vsctl("del-port", "to-red")
    lab.run("ip", "link", "set", "dev", "to-red", "name", name)
    lab.run("ip", "link", "set", "dev", name, "up")
    network.switch.vsctl("add-port", "br0", name)
    return name


def test_names(network):
    """A port's name may contain what separates words and fields elsewhere."""
    name = odd_name(network)
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
    assert "are traced already" in lab.run(TOOL, "-t", switch.rundir / "ovs-vswitchd.ctl", env=switch.env, check=False)
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


def test_programs_of_wireshark(network, tmp_path):
    """capinfos and tshark take the file, with interfaces of any name, and tshark finds the verdict in the comment."""
    for program in "capinfos", "tshark":
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: apt-get install tshark")
    file = tmp_path / "trace.pcapng"
    name = odd_name(network)
    network.switch.flows("br0", "udp,actions=output:to-green", "priority=0,actions=drop")
    process = follower(network.switch, "-w", file, "-c", "5", f"port={name}", "udp")
    with wire.Wire(network.red) as red:
        def ended():
            red.send(udp())
            return process.poll() is not None
        lab.wait_until(ended, "five packets")
    process.communicate()
    assert re.search(r"Number of packets: +5\n", lab.run("capinfos", file)) and f"Name = {name} (" in lab.run("capinfos", file)
    fields = ("frame.interface_name", "udp.dstport", "frame.comment")
    lines = lab.run("tshark", "-nr", file, "-Y", 'frame.comment contains "verdict: forwarded to port"', "-T", "fields",
                    *(word for field in fields for word in ("-e", field)), "-E", "separator=|").splitlines()
    assert any(line.startswith(f"{name} (") and "|2000|" in line for line in lines), lines


@pytest.mark.parametrize("hooked", ["xdp"], indirect=True)
def test_stopped_follower(hooked):
    """A follower that is stopped loses its trace after ten seconds, says so when it goes on, and holds nothing up."""
    frame = udp()
    settle(hooked, frame)
    process = follower(hooked.switch, "port=to-red", "udp")
    session = lab.wait_until(lambda: session_of(hooked.switch), "the trace")
    process.send_signal(signal.SIGSTOP)
    with wire.Wire(hooked.red) as red, wire.Wire(hooked.green) as green:
        red.send(*[frame] * 200)
        assert len(green.receive(lambda seen: b"traced packet" in seen, 200)) == 200
    lab.wait_until(lambda: any(re.search(NO_TRACE, line) for line in hooked.switch.log()), "the end of the trace")
    process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=lab.PATIENCE)
    assert process.returncode == 1 and f'there is no trace "{session}" any more' in said.decode(), said


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


def test_off_is_the_same_program_at_tcx(network):
    """During a trace another program is at tcx; after it the one that was there before."""
    if not foreign.has_tcx():
        pytest.skip("this kernel has no tcx (before Linux 6.6)")
    switch = network.switch
    switch.use_hook("to-red", "options:xdp-hook=tcx")
    before = xdp.tcx_ids("to-red")
    session = switch.appctl("xdp/trace-start", "port=to-red").strip()
    assert before and xdp.tcx_ids("to-red") != before
    switch.appctl("xdp/trace-stop", session)
    lab.wait_until(lambda: xdp.tcx_ids("to-red") == before, "the program of before")
