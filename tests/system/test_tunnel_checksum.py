# SPDX-License-Identifier: Apache-2.0
"""Tunnel headers before what sockets send: whole packets, checksums yet to be computed (sockets.py).  Most have a checksum.

On the wire each frame must be as the engine makes it, whatever computes its checksums: the program, or the kernel, which a
detour has told to do so for each segment (bpf/detour.h).
"""
import contextlib
import re
from dataclasses import dataclass
from typing import Callable

import pytest

import lab
import offload
import sockets
import tiers
import traffic
import tunnel_table
import tunnel_world

HOOK = "tcx"
DEVICE, BACK = "ovs-xdp-csum0", "ovs-xdp-back0"
EXACT = bytes(i * 5 & 0xff for i in range(3 * sockets.GSO_SIZE))
ODD = sockets.BIG[:2 * sockets.GSO_SIZE + 33]


@dataclass(frozen=True)
class Outer:
    name: str
    actions: str
    wrap: Callable              # Makes of a frame what is on the wire.


def outer(name, **how):
    kind, _, options = name.partition(" with ")
    options = {"an option": tunnel_table.OPTION, "64 bytes of options": tunnel_table.OPTIONS}.get(options)
    if options:
        how["options"] = options
    make, wrap = getattr(tunnel_table, kind), getattr(tunnel_table, f"outer_{kind}")

    def wrapped(frame, port, other):
        return wrap(frame, other=other, **how, **({} if kind == "gre" else {"port": port}))

    return Outer(f"{name}{' in IPv6' if 'ip6' in how else ''}{', checksum' if 'csum' in how else ''}", make(**how), wrapped)


OUTERS = [outer("vxlan", csum=True), outer("vxlan", ip6=True), outer("geneve", csum=True),
          outer("geneve with an option", csum=True), outer("geneve with an option", ip6=True),
          outer("geneve with 64 bytes of options", csum=True), outer("geneve with 64 bytes of options", ip6=True),
          outer("vxlan"), outer("geneve with an option"), outer("gre", key=True), outer("gre", key=True, ip6=True),
          outer("gre", key=True, csum=True), outer("gre", csum=True, ip6=True)]
TAG = "push_vlan(vid=9,pcp=0)", bytes.fromhex("81000009")


@dataclass(frozen=True)
class Row:
    name: str
    kind: str                   # Of sockets.KEYS.
    payload: bytes
    outer: Outer
    before: str = ""            # Actions before the header is pushed, and what they change.
    change: tuple = ()
    tag: bool = False           # The outer packet gets TAG.
    inside: bool = False        # The packet inside gets it.
    twice: bool = False         # To another end, too, by way of blue.

    @property
    def fits(self):
        """Whether programs push it: no packet in a tunnel already, and none into GRE whose segments have several checksums."""
        several = sockets.gso_size(self.kind) and not (self.kind.startswith("tcp") and self.payload == EXACT)
        return self.kind != "udptunnel4" and not (several and self.outer.name.startswith("gre") and "checksum" in self.outer.name)


def rows():
    """All kinds of packets with each header, and with one header all lengths and what else happens to a packet."""
    found = [Row(f"{kind}, {head.name}", kind, sockets.BIG if sockets.gso_size(kind) else sockets.SMALL, head)
             for head in OUTERS for kind in ("tcp4", "tcp6", "udp4", "udp6", "udpsegments4", "udpsegments6")]
    head = OUTERS[3]
    found += [Row(f"{kind}, {name}", kind, payload, head) for kind in ("tcp4", "udpsegments6")
              for name, payload in (("exactly three segments", EXACT), ("an odd length", ODD), ("one segment", EXACT[:1300]))]
    found += [Row(f"{kind}, an odd length", kind, sockets.SMALL[:333], head) for kind in ("udp4", "udp6")]
    for kind, (_, edit, fields) in (("tcp4", sockets.EDITS4[0]), ("udp4", sockets.EDITS4[0]), ("tcp6", sockets.EDITS6[0])):
        payload = sockets.BIG if sockets.gso_size(kind) else sockets.SMALL
        found.append(Row(f"{kind}, routed before", kind, payload, head, f"{edit},", tuple(fields.items())))
    found += [Row(f"{kind}, a tag for the outer packet", kind, sockets.BIG, head, tag=True) for kind in ("tcp4", "tcp6")]
    found += [Row(f"{kind}, {head.name}, a tag inside", kind, sockets.BIG if sockets.gso_size(kind) else sockets.SMALL, head,
                  inside=True) for head in OUTERS for kind in ("tcp4", "tcp6", "udp4", "udpsegments4")]
    found += [Row(f"tcp4, {head.name}, exactly three segments, a tag inside, to two ends", "tcp4", EXACT, head, inside=True,
                  twice=True) for head in OUTERS]
    found.append(Row("tcp4, tags inside and outside", "tcp4", sockets.BIG, head, tag=True, inside=True))
    found += [Row(f"{kind}, {head.name}, exactly three segments{', to two ends' * twice}", kind, EXACT, head, twice=twice)
              for head in OUTERS for kind in ("tcp4", "tcp6") for twice in (False, True)]
    found += [Row(f"{kind}, {head.name}, to two ends", kind, sockets.BIG if sockets.gso_size(kind) else ODD[:333], head, twice=True)
              for head in OUTERS for kind in ("tcp4", "tcp6", "udp4", "udpsegments4")]
    return found + [Row("in a tunnel already", "udptunnel4", sockets.SMALL, head)]


def wanted(row, mac, tier, other=False):
    """The frames on the wire; to the 'other' tunnel of two.  The kernel numbers those of one packet, by DF without meaning; the
    engine does not."""
    fields = {name: dict(value) for name, value in row.change}
    fields["eth"] = {**fields.get("eth", {}), "src": mac}
    first = sockets.build(row.kind, row.payload, eth={"src": mac})
    port = tunnel_table.source_port(first)
    frames = [row.outer.wrap(tagged(frame, row.inside), port=port, other=other)
              for frame in sockets.segments(row.kind, row.payload, **fields)]
    if tier != "engine":
        frames = [tunnel_table.numbered(frame, number) for number, frame in enumerate(frames)]
    return [tagged(frame, row.tag) for frame in frames]


def tagged(frame, with_tag):
    return frame[:12] + TAG[1] + frame[12:] if with_tag else frame


def lay(world, switch, tier):
    """Wires whose devices compute nothing; tunnels."""
    switch.vsctl("set", "open", ".", "other_config:xdp-hook=tcx", f"other_config:xdp-offload={str(tier != 'engine').lower()}")
    ends = tiers.lay_wires(world, switch, offload.Wire, mtu=2000)
    for name, end in ends.items():
        end.namespace.run("ethtool", "-K", "eth0", "gro", "off")
        lab.run("ethtool", "-K", f"to-{name}", *sockets.PLAIN_OFFLOADS)
    for kind in tunnel_table.KINDS:
        switch.vsctl("add-port", "br0", f"{kind}0", "--", "set", "interface", f"{kind}0", f"type={kind}",
                     "options:remote_ip=flow", "options:local_ip=flow", "options:key=flow")
    return ends, {**{name: switch.dp_port(f"to-{name}") for name in tiers.PORTS},
                  **{kind: tunnel_table.port(switch, kind) for kind in tunnel_table.KINDS}}


@contextlib.contextmanager
def flows_stay(switch):
    """Revalidators would delete flows that no rule asks for; while they pause, the daemon does not end."""
    switch.appctl("revalidator/pause")
    try:
        yield
    finally:
        switch.appctl("dpctl/del-flows")
        switch.appctl("revalidator/resume")


def flow_of(row, mac, numbers):
    tag = f",{TAG[0]}" if row.tag else ""
    actions = f"{row.before}{f'{TAG[0]},' if row.inside else ''}clone({row.outer.actions}{tag},{{green}})"
    if row.twice:
        actions += f",clone({tunnel_table.to_another(row.outer.actions)},{{blue}})"
    return f"in_port({numbers['red']}),eth(src={mac}),{sockets.KEYS[row.kind]}", actions.format(**numbers)


def send(end, row, mac):
    """Returns whether the packet socket takes it: those of older kernels take no segments of UDP."""
    frame = sockets.build(row.kind, row.payload, eth={"src": mac})
    gso_size = sockets.gso_size(row.kind)
    if gso_size >= len(row.payload):
        gso_size = 0
    try:
        end.send_whole(offload.unfinished(frame, gso_size, sockets.inner_frame(row.kind, frame)))
    except OSError as error:
        assert "segments" in row.kind and lab.kernel() < (6, 2), error
        return False
    return True


def to_engine(switch):
    """How many packets of red programs gave to the engine because of what is to be done to them."""
    shown = switch.appctl("xdp/stats").partition("to-red")[2].partition("port ")[0]
    found = re.search(r"the flow's actions need it: (\d+)", shown)
    return int(found[1]) if found else 0


def open_detour(switch, ends, numbers):
    """Sends what needs it until its device is there."""
    row = rows()[0]
    tiers.install(switch, [flow_of(row, sockets.MAC, numbers)])
    send(ends["red"], row, sockets.MAC)
    lab.wait_until(lambda: f"{DEVICE}:" in lab.run("ip", "link", "show", "up"), "the device")
    assert sockets.fault_of(ends["green"], wanted(row, sockets.MAC, "engine"), False, True) is None
    switch.appctl("dpctl/del-flows")


@pytest.mark.usefixtures("nothing_vanishes")
@pytest.mark.parametrize("tier", ("tcx", "engine"))
def test_frames(world, switch, tier):
    ends, numbers = lay(world, switch, tier)
    with flows_stay(switch):
        if tier == "tcx":
            open_detour(switch, ends, numbers)
        wrong = wrong_frames(switch, ends, numbers, tier)
    assert not wrong, "\n".join(wrong)


def wrong_frames(switch, ends, numbers, tier):
    table, sent, wrong, before = rows(), [], [], to_engine(switch)
    macs = [f"02:00:00:77:{number >> 8:02x}:{number & 255:02x}" for number in range(len(table))]
    tiers.install(switch, [flow_of(row, mac, numbers) for row, mac in zip(table, macs)])
    for row, mac in zip(table, macs):
        if len(wrong) > 3:
            break                           # Waiting for what does not come takes long.
        if not send(ends["red"], row, mac):
            continue
        sent.append((row, mac))
        for end in ("green", "blue") if row.twice else ("green",):
            frames = wanted(row, mac, tier if row.fits else "engine", end == "blue")
            if fault := sockets.fault_of(ends[end], frames, False, True):
                wrong.append(f"{row.name}: {end}: {fault}")
    if tier == "tcx" and not wrong:
        wrong = wrong_counts(switch, sent)
        if (handed := to_engine(switch) - before) != sum(not row.fits for row, _ in sent):
            wrong.append(f"programs gave the engine {handed} packets")
    return wrong


def wrong_counts(switch, sent):
    """Flows of programs that have not counted one packet, as it came."""
    wrong, dumped = [], switch.dump_flows("-m")
    for row, mac in sent:
        (flow,) = (flow for flow in dumped if f"src={mac}" in flow)
        length = len(sockets.build(row.kind, row.payload))
        if row.fits and f"packets:1, bytes:{length}," not in flow:
            wrong.append(f"{row.name}: not counted as one of {length}: {flow}")
    return wrong


def connect(world, switch, host):
    """A tunnel to the kernel's VXLAN device, along which packets have passed, and the detour."""
    red, far = tunnel_world.make(world, switch, host, "vxlan", "tcx", csum=True)
    traffic.wait_for_ping(red, "10.0.0.9")
    assert traffic.ping(red, "10.0.0.9") == 3
    lab.wait_until(lambda: has_detour(DEVICE), "the device")
    return red, far


def has_detour(device):
    return f"{device}:" in lab.run("ip", "link", "show", "up")


def is_whole(red, far):
    """Whether the wire gets the packets of red's sockets, not segments, while 1 MB is sent."""
    before = tunnel_world.received(far)
    traffic.tcp(red, far, "10.0.0.9", size=1 << 20)
    packets, count = (after - value for after, value in zip(tunnel_world.received(far), before))
    return count / packets > 3000


def test_segments_of_one_length(world, switch, host):
    """All have one outer checksum: the kernel copies it, and only packets with a shorter last segment take the detour."""
    def on_detour():
        return int(lab.run("cat", f"/sys/class/net/{DEVICE}/statistics/tx_packets"))
    red, far = connect(world, switch, host)
    assert is_whole(red, far)
    detours, packets = on_detour(), tunnel_world.received(far)[0]
    traffic.tcp(red, far, "10.0.0.9", size=8 << 20)
    detours, packets = on_detour() - detours, tunnel_world.received(far)[0] - packets
    assert detours < packets / 2 and packets > 100, (detours, packets)


def lost(switch):
    return sum(map(int, re.findall(r"dropped it in the device that makes outer checksums: (\d+)", switch.appctl("xdp/stats"))))


def test_the_host_drops(world, switch, host):
    """A firewall that lets nothing out: the packet that finds that out is counted, the others take the engine."""
    switch.expected += ["the host dropped"]
    red, far = connect(world, switch, host)
    assert is_whole(red, far) and not lost(switch)
    lab.run("iptables", "-A", "OUTPUT", "-d", "192.0.0.8", "-j", "DROP")
    with traffic.Connection(red, far, "10.0.0.9") as connection:
        traffic.tcp(red, far, "10.0.0.9", size=1 << 20)
        connection.goes_on()
        lab.wait_until(lambda: lost(switch), "the counter")
        lab.wait_until(lambda: any("does a rule of netfilter drop" in line for line in switch.log()), "the log")
        assert not is_whole(red, far)
        lab.run("iptables", "-D", "OUTPUT", "-d", "192.0.0.8", "-j", "DROP")
        lab.wait_until(lambda: is_whole(red, far), "whole packets again")
        connection.goes_on()
        assert connection.same()


@pytest.mark.parametrize("change", (("del", DEVICE), ("del", BACK), ("set", DEVICE, "down"), ("set", BACK, "down")), ids=" ".join)
def test_the_device_goes(world, switch, host, change):
    switch.expected += ["making it anew", "the host dropped"]
    red, far = connect(world, switch, host)
    assert is_whole(red, far)
    with traffic.Connection(red, far, "10.0.0.9") as connection:
        connection.goes_on()
        lab.run("ip", "link", *change)
        lab.wait_until(lambda: is_whole(red, far), "whole packets again")
        connection.goes_on()
        assert connection.same()
    # Set down, a device of the pair is made anew when the daemon has noticed, whatever went through it meanwhile.
    lab.wait_until(lambda: sum("csum" in line for line in lab.run("ip", "-br", "link").splitlines()) == 1, "one device")


@pytest.mark.parametrize("end", ("killed", "ended", "waits"))
def test_another_daemon(world, switch, host, end):
    """The devices go on without the daemon; the next one, which may wait for its rules, makes others at once, and removes these."""
    red, far = connect(world, switch, host)
    with traffic.Connection(red, far, "10.0.0.9") as connection:
        connection.goes_on()
        if end == "waits":
            switch.vsctl("set", "open", ".", "other_config:flow-restore-wait=true")
        if end == "ended":
            switch.stop()
        else:
            switch.crash()
        assert has_detour(DEVICE) and is_whole(red, far)
        connection.goes_on()
        switch.start()
        if end == "waits":
            assert is_whole(red, far)
            switch.vsctl("--no-wait", "remove", "open", ".", "other_config", "flow-restore-wait")
        lab.wait_until(lambda: any("removed 2 devices" in line for line in switch.log()), "the end of the last daemon's devices")
        assert len(re.findall(r"^ovs-xdp-(?:csum|back)\d", lab.run("ip", "-br", "link"), re.MULTILINE)) == 2
        assert is_whole(red, far)
        connection.goes_on()
        assert connection.same()
    assert not lost(switch)


def test_ended_for_good(world, switch, host):
    connect(world, switch, host)
    switch.stop(cleanup=True)
    assert not re.search("csum|back|void", lab.run("ip", "-br", "link"))
    switch.start()


def test_nothing_for_the_host(world, switch, host):
    """What comes to the VXLAN device's UDP port does not come out of the device."""
    red, far = connect(world, switch, host)
    shown = lab.run("ip", "-d", "link", "show", DEVICE)
    port, mac = re.search(r"dstport (\d+)", shown)[1], re.search(r"link/ether (\S+)", shown)[1]
    other = world.enter_context(lab.Namespace("other"))
    lab.make_veth("side", other)
    lab.add_addresses(host, "side", "192.168.9.1/24")
    lab.add_addresses(other, "eth0", "192.168.9.2/24")
    lab.run("ip", "route", "add", "10.9.0.0/24", "via", "192.168.9.2")
    lab.run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0")
    other.run("ip", "link", "add", "tun0", "type", "vxlan", "id", "0", "dstport", port, "remote", "192.168.9.1")
    other.run("ip", "link", "set", "tun0", "up")
    lab.add_addresses(other, "tun0", "10.9.0.2/32")
    other.run("ip", "route", "add", "192.168.9.99", "dev", "tun0")
    lab.add_addresses(host, "side", "192.168.9.99/32")
    other.run("ip", "neighbour", "add", "192.168.9.99", "lladdr", mac, "dev", "tun0")
    assert traffic.ping(other, "192.168.9.1", count=3) == 3
    before = lab.kernel_counts(host, DEVICE, "rx_packets")[0]
    assert traffic.ping(other, "192.168.9.99", count=3, limit=1) == 0
    assert lab.kernel_counts(host, DEVICE, "rx_packets")[0] > before, "the packets did not come as far as to the device"
