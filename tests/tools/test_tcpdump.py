# SPDX-License-Identifier: Apache-2.0
"""ovs-xdp-tcpdump: both directions of ports at XDP and tcx, and what it does with bad input."""
import contextlib
import json
import pathlib
import re
import signal
import struct
import subprocess

import pytest

import lab
import switch as switches
import wire

PROGRAM = switches.BUILD / "ovs-xdp-tcpdump"
MACS = {"red": "02:00:00:00:00:01", "green": "02:00:00:00:00:02", "blue": "02:00:00:00:00:03"}
ODD = "\N{SNOWMAN}\u6f22{x}|y$"


@contextlib.contextmanager
def world(hook, names=("red", "green", "blue"), ports=None):
    """A switch with ports to-red ... at 'hook', each the end of a namespace's eth0, and no rules."""
    with contextlib.ExitStack() as stack:
        spaces = {name: stack.enter_context(lab.Namespace(name)) for name in names}
        switch = stack.enter_context(switches.Switch())
        switch.add_bridge("br0")
        for name, space in spaces.items():
            device = (ports or {}).get(name, f"to-{name}")
            lab.run("ip", "link", "add", "new", "type", "veth", "peer", "name", "eth0", "netns", name)
            lab.run("ip", "link", "set", "dev", "new", "name", device)
            lab.run("ip", "link", "set", "dev", device, "up")
            space.run("ip", "link", "set", "eth0", "address", MACS[name], "up")
            switch.vsctl("add-port", "br0", device, "--", "set", "interface", device, f"options:xdp-hook={hook}")
        lab.wait_until(lambda: not any(switch.error((ports or {}).get(name, f"to-{name}")) for name in names), "ports")
        yield switch, spaces


class Capture:
    """A running ovs-xdp-tcpdump that writes to a file."""

    def __init__(self, path, *args, programs=True):
        self.path, self.errors = path, open(f"{path}.err", "w+b")
        self.process = subprocess.Popen([PROGRAM, "-w", path, *args], stderr=self.errors, stdout=subprocess.DEVNULL)
        lab.wait_until(lambda: self.said("listening") or self.process.poll() is not None, "listening")
        assert self.process.poll() is None, self.said()
        if programs and self.said("lets nobody look at programs"):
            self.end()
            pytest.skip(self.said().splitlines()[0])

    def said(self, wanted=""):
        text = pathlib.Path(f"{self.path}.err").read_text(encoding="utf-8")
        return text if wanted in text else ""

    def packets(self):
        """Frames in the file, as far as they are whole."""
        data = pathlib.Path(self.path).read_bytes()
        found, at = [], 24
        while at + 16 <= len(data):
            _, _, captured, _ = struct.unpack_from("=IIII", data, at)
            found.append(data[at + 16:at + 16 + captured])
            at += 16 + captured
        return found

    def count(self, text):
        return sum(text in frame for frame in self.packets())

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        status = self.process.wait(lab.PATIENCE)
        self.errors.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def places(switch):
    """Where each port's packets are dealt with, and how they are sent to it."""
    shown, = json.loads(switch.appctl("xdp/show", "-f", "json"))["datapaths"]
    return {port["name"]: [port.get(key) for key in ("hook", "mode", "open", "redirect_target", "tcx_output")] for port in shown["ports"]}


def send(spaces, source, target, text, ports=(1000, 2000), n=1):
    with wire.Wire(spaces[source]) as at:
        at.send(*[wire.udp_frame(MACS[source], MACS[target], text, ports=ports)] * n)


RULES = ("in_port=to-red,udp,tp_dst=2001,actions=output:to-green,output:to-blue",       # A group at XDP, copies at tcx.
         "in_port=to-red,udp,actions=output:to-green",
         "in_port=to-green,udp,actions=mod_dl_src:02:00:00:00:00:99,output:to-red", "priority=0,actions=drop")


@pytest.mark.parametrize("hook", ("xdp", "tcx"))
def test_each_packet_is_seen_once_in_each_direction(hook, tmp_path):
    """By programs, groups, redirect_peer and the engine alike; and plain tcpdump does not see those of XDP."""
    with world(hook) as (switch, spaces):
        switch.flows("br0", *RULES)
        before = places(switch)
        with Capture(tmp_path / "both", "to-green") as both, Capture(tmp_path / "in", "-Q", "in", "to-green") as only_in, \
                Capture(tmp_path / "other", "to-blue") as other, wire.Wire(spaces["green"]) as green:
            # The first goes through the engine, the second through the program.
            for text in b"first", b"second":
                send(spaces, "red", "green", text)
                assert green.receive(lambda frame: text in frame)
            for text in b"copied", b"grouped":
                send(spaces, "red", "blue", text, ports=(1000, 2001))
                assert green.receive(lambda frame: text in frame)
            for text in b"back", b"again":
                send(spaces, "green", "red", text)
            for text in b"first", b"second", b"copied", b"grouped", b"back", b"again":
                lab.wait_until(lambda: both.count(text), f"{text} captured")
            lab.wait_until(lambda: only_in.count(b"again") and other.count(b"grouped"), "captured")
            assert places(switch) == before
            both.end(), only_in.end(), other.end()
            for text in b"first", b"second", b"copied", b"grouped", b"back", b"again":
                assert both.count(text) == 1, text
                assert only_in.count(text) == (text in (b"back", b"again")), text
                assert other.count(text) == (text in (b"copied", b"grouped")), text
        # As it came in, not as it went out.
        assert all(frame[6:12] == wire.mac(MACS["green"]) for frame in only_in.packets() if b"again" in frame)
        assert re.search(r"^\d+ packets captured$", both.said(), re.MULTILINE)


def test_filters(tmp_path):
    """What libpcap can say is looked at in the kernel; what it cannot is said."""
    with world("xdp") as (switch, spaces):
        switch.flows("br0", *RULES)
        filters = {"udp port 53": (True, False), "udp[4:2] > 20 and not port 53": (False, True), "less 70": (True, False),
                   "ether[6] = 2 and ip[2:2] - 4*(ip[0] & 15) = 8 + 5": (True, False), "vlan 5": (False, False),
                   "ip6 or (ip and dst host 10.0.0.2 and ip[8] = 64)": (True, True)}
        with contextlib.ExitStack() as stack:
            running = {text: stack.enter_context(Capture(tmp_path / str(n), "-Q", "in", "to-red", *text.split()))
                       for n, text in enumerate(filters)}
            send(spaces, "red", "green", b"small", ports=(1000, 53))
            send(spaces, "red", "green", b"much" * 40, ports=(1000, 2000))
            lab.wait_until(lambda: all(capture.count(b"small") == wanted[0] and capture.count(b"much") == wanted[1]
                                       for capture, wanted in zip(running.values(), filters.values())), "captured")
            for capture in running.values():
                capture.end()
            assert [(bool(c.count(b"small")), bool(c.count(b"much"))) for c in running.values()] == list(filters.values())
        assert "syntax error" in lab.run(PROGRAM, "to-red", "foo", "bar", check=False)
        assert "first 256 bytes" in lab.run(PROGRAM, "to-red", "ether[300] = 1", check=False)


def test_what_packet_sockets_see(tmp_path):
    """Each packet of a port at tcx is seen once, also where nobody may look at programs."""
    with world("tcx") as (switch, spaces):
        for name in spaces:
            switch.vsctl("set", "interface", f"to-{name}", "options:xdp-peer=false")
        lab.wait_until(lambda: "tcx-output=peer" not in switch.appctl("xdp/show"), "ways through the devices")
        switch.flows("br0", *RULES)
        with wire.Wire(spaces["green"]) as green:
            send(spaces, "red", "green", b"first")          # Through the engine.
            assert green.receive(lambda frame: b"first" in frame)
            with Capture(tmp_path / "red", "to-red", "udp", programs=False) as red, \
                    Capture(tmp_path / "green", "-Q", "out", "to-green", "port", "2000", programs=False) as out:
                for text in b"second", b"third":
                    send(spaces, "red", "green", text)
                    assert green.receive(lambda frame: text in frame)
                lab.wait_until(lambda: red.count(b"third") and out.count(b"third"), "captured")
                red.end(), out.end()
                assert [capture.count(text) for capture in (red, out) for text in (b"second", b"third")] == [1] * 4


def test_it_prints_and_ends(tmp_path):
    """As tcpdump does: text, -c, a device that goes; and wrong use is said."""
    with world("tcx", ports={"red": ODD, "green": "to-green", "blue": "to-blue"}) as (switch, spaces):
        switch.flows("br0", "priority=0,actions=drop")
        said = tmp_path / "said"
        with open(said, "wb") as out, lab.Process(PROGRAM, "-n", "-e", "-c", "2", ODD, "udp", stdout=out) as process:
            lab.wait_until(lambda: b"listening" in said.read_bytes(), "listening")
            send(spaces, "red", "green", b"some text", n=2)
            assert process.wait() == 0
        text = said.read_text(encoding="utf-8")
        assert len(re.findall(r"02:00:00:00:00:01 > 02:00:00:00:00:02.*10\.0\.0\.1\.1000 > 10\.0\.0\.2\.2000: UDP, length 9", text)) == 2
        assert "2 packets captured" in text
        with Capture(tmp_path / "gone", "to-blue", programs=False) as gone:
            lab.run("ip", "link", "delete", "to-blue")
            assert gone.process.wait(lab.PATIENCE) == 1
            assert "the device has gone" in gone.said()
        switch.expected.append("to-blue")
    for arguments, sentence in (("nowhere",), "no such device"), (("-Q", "up", "lo"), "in, out or inout"), ((), "usage"), \
            (("-s", "0", "lo"), "no number"), (("-c", "x", "lo"), "no number"):
        assert sentence in lab.run(PROGRAM, *arguments, check=False)


def test_rate(tmp_path):
    """No more packets than --rate are copied in a second on each CPU; the others are counted, and all are forwarded."""
    with world("xdp") as (switch, spaces):
        switch.flows("br0", *RULES)
        with Capture(tmp_path / "few", "-Q", "in", "--rate", "5", "to-red", "udp") as few, wire.Wire(spaces["green"]) as green:
            send(spaces, "red", "green", b"settle")
            assert green.receive(lambda frame: b"settle" in frame)
            send(spaces, "red", "green", b"many", n=100)
            assert len(green.receive(lambda frame: b"many" in frame, 100)) == 100
            lab.wait_until(lambda: few.count(b"many"), "some")
            few.end()
        beyond = re.search(r"^(\d+) packets more matched in XDP and tcx: (\d+) above --rate 5", few.said(), re.MULTILINE)
        assert beyond and int(beyond[2]) >= 80 and int(beyond[2]) + few.count(b"many") <= 101, few.said()


def test_stopped_reader(tmp_path):
    """A capture that stops reading loses packets, which it counts; the switch loses none."""
    with world("xdp") as (switch, spaces):
        switch.flows("br0", *RULES)
        with Capture(tmp_path / "slow", "-Q", "in", "--rate", "1000000", "to-red", "udp") as slow, wire.Wire(spaces["green"]) as green:
            slow.process.send_signal(signal.SIGSTOP)
            for _ in range(50):
                send(spaces, "red", "green", b"x" * 1400, n=100)
                assert len(green.receive(lambda frame: b"xxxx" in frame, 100)) == 100
            slow.process.send_signal(signal.SIGCONT)
            lab.wait_until(lambda: slow.count(b"xxxx"), "what was not lost")

            # The kernel says how many were lost with the next that is not.
            def last():
                send(spaces, "red", "green", b"last")
                return slow.count(b"last")
            lab.wait_until(last, "a packet after those that were lost")
            slow.end()
        lost = re.search(r"(\d+) while the buffer was full$", slow.said(), re.MULTILINE)
        assert lost and int(lost[1]) > 0 and slow.count(b"xxxx") < 5000, slow.said()


def test_daemon_restarts(tmp_path):
    """The programs are exchanged under a capture: it goes on with the new ones."""
    with world("xdp") as (switch, spaces):
        switch.flows("br0", *RULES)
        with Capture(tmp_path / "on", "-Q", "in", "to-red", "udp") as capture:
            send(spaces, "red", "green", b"before")
            lab.wait_until(lambda: capture.count(b"before"), "the first")
            switch.crash()
            switch.start()

            def seen():
                send(spaces, "red", "green", b"after")
                return capture.count(b"after")
            lab.wait_until(seen, "a packet of the new daemon's program")
            assert capture.process.poll() is None
