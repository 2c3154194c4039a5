# SPDX-License-Identifier: Apache-2.0
"""ovs-xdp-top: what it says once, and the live view in a terminal of 80x24."""
import contextlib
import fcntl
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest

import lab
import scene

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = TOP / "tools/observe/ovs-xdp-top"
NASTY = "\N{SNOWMAN}\u6f22{x}|y"


def load():
    loader = importlib.machinery.SourceFileLoader("ovs_xdp_top", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("ovs_xdp_top", loader))
    loader.exec_module(module)
    return module


top = load()


@contextlib.contextmanager
def busy_switch():
    """A switch through which a ping goes all the time, and whose drops grow."""
    with scene.with_odd_port(NASTY) as (switch, red):
        switch.flows("br0", "priority=1,icmp,nw_dst=10.0.0.77,actions=drop", "priority=0,actions=normal")
        red.run("ip", "neigh", "add", "10.0.0.77", "lladdr", "02:00:00:00:00:77", "dev", "eth0")
        with red.start("ping", "-q", "-i", "0.01", "10.0.0.100"), red.start("ping", "-q", "-i", "0.02", "10.0.0.77"):
            yield switch


def test_once():
    """The rates of an interval: packets by port and tier, drops by reason, flows, masks, threads, tables."""
    with busy_switch() as switch:
        def rates():
            found, = json.loads(lab.run(PROGRAM, "--once", "--json", "--flows", "-i", "0.5", "-t", scene.target(switch)))["datapaths"]
            red, = (port for port in found["ports"] if port["name"] == "to-red")
            return found if (red["rx_packets"] or 0) > 20 and (red["drops"] or 0) > 5 else None
        found = lab.wait_until(rates, "rates")
        red, = (port for port in found["ports"] if port["name"] == "to-red")
        assert red["rx_packets"] < 500 and red["tx_packets"] > 20 and red["program_share"] > 0.5
        assert red["program_share"] + red["engine_share"] == pytest.approx(1)
        shares = found["total"]["shares"]
        assert set(shares) == {"tcx", "engine"} and sum(shares.values()) == pytest.approx(1) and shares["tcx"] > 0.5
        drop, = (drop for drop in found["drops"] if (drop["where"], drop["reason"]) == ("to-red", "dropped"))
        assert 5 < drop["rate"] < 200
        assert any(flow["tier"] in ("xdp", "tcx") and (flow["pps"] or 0) > 5 and flow["actions"] == "drop"
                   for flow in found["top_flows"])
        assert "eth_type(0x0800)" in found["top_flows"][0]["match"] and not re.search(r"/0[,)]|0\.0\.0\.0", found["top_flows"][0]["match"])
        assert found["tables"]["masks"]["size"] == 128 and found["masks"]
        assert found["engine_cpu"] < 2 and found["softirq"] is not None and found["threads"]

        text = lab.run(PROGRAM, "--once", "-i", "0.5", "-t", scene.target(switch))
        assert re.search(r"^to-red +tcx +\d+", text, re.MULTILINE) and NASTY in text and "ip4_dst" in text
        text = lab.run(PROGRAM, "--once", "-i", "0.5", "-d", "gone", "-t", scene.target(switch), check=False)
        assert "there is no datapath 'gone'" in text


class Terminal:
    """The program in a terminal of 80 columns and 24 lines; what it wrote, without the terminal's commands."""

    def __init__(self, *args):
        self._fd, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen([PROGRAM, "-i", "0.5", *args], stdin=inside, stdout=inside, stderr=inside,
                                        start_new_session=True, env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        os.close(inside)

    def shows(self, pattern):
        """Waits until the screen has 'pattern'.  Ctrl-L has all of it written anew: else only changes are."""
        seen, end = "", time.monotonic() + lab.PATIENCE
        while time.monotonic() < end:
            self.key("\x0c")
            while select.select([self._fd], [], [], 0.3)[0]:
                seen += os.read(self._fd, 65536).decode(errors="replace")
            seen = seen[max(0, seen.rfind("\x1b[2J")):]
            screen = re.sub(r"\x1b(?:[()].|\[[0-9;?]*[A-Za-z])", " ", seen)
            if re.search(pattern, screen):
                return
        raise lab.Failed(f"{pattern}: not seen in {screen!r}")

    def key(self, keys):
        os.write(self._fd, keys.encode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(lab.PATIENCE)
        os.close(self._fd)


def test_live():
    """Every view comes with its key; the view outlives the daemon; q ends it."""
    with busy_switch() as switch, Terminal("-t", scene.target(switch)) as terminal:
        terminal.shows(r"PORT +HOOK")
        terminal.shows(r"rx +\d")
        for key, title in ("d", r"WHERE +REASON"), ("m", r"# +FLOWS"), ("f", r"P/S\*? +B/S"), ("t", "THREAD"), ("p", r"PORT +HOOK"):
            terminal.key(key)
            terminal.shows(title)
        terminal.key("h")
        terminal.shows("sort by the next column")
        terminal.key("hsrzz+-PPD ")
        switch.stop()
        terminal.shows(r"no +answer:")
        assert terminal.process.poll() is None
        switch.start()
        terminal.shows(r"rx +\d")
        terminal.key("q")
        assert terminal.process.wait(lab.PATIENCE) == 0


def fake(n_ports=300):
    """What a daemon with many ports, all kinds of names and full tables would say, twice."""
    def port(number, factor):
        return {"port": number, "name": ("\N{SNOWMAN}\x1b[2J\n%s" if number == 3 else "a" * 15 if number % 2 else f"p{number}"),
                "hook": "tcx", "frames": {"forwarded": 10**7 * number * factor, "dropped": 5 * factor, "up_miss": 10 * factor,
                                          "unknown_port": 0},
                "rx_packets": 10**9 * number * factor, "rx_bytes": 10**12 * factor, "tx_packets": 0, "tx_bytes": 0}
    samples = []
    for when, factor in (10.0, 1), (12.0, 2):
        sample = object.__new__(top.Sample)
        sample.time, sample.version, sample.cpu = when, "1", (factor * 10, factor * 100)
        sample.shown = {"d": {"name": "d", "flows": 10**6, "umem": {"frames": 100, "free": 1},
                              "fast_path": {"flows": 200000, "max_flows": 200000, "masks": 128, "max_masks": 128, "groups": 0,
                                            "max_groups": 64,
                                            "flows_by_reason": [{"reason": "full", "tier": "engine", "text": "x" * 200,
                                                                 "flows": 9}]},
                              "threads": [{"thread": 0, "queues": 1, "cpu_ms": 1000 * factor}],
                              "ports": [{"port": 2, "name": "p2", "error": "e" * 200, "queues": []}]}}
        sample.tracked = {"d": {"used": True, "connections": 95, "room": 100, "max_connections": 120}}
        sample.stats = {"d": {"programs": {"mask_hits": factor, "masks_walked": factor},
                              "engine": {"misses": factor, "masks_walked": factor, "upcalls_lost": 100 * factor,
                                         "drops": {"no_frame": factor}},
                              "ports": [port(number, factor) for number in range(n_ports)]}}
        sample.masks = {"d": {"masks": [{"position": n, "flows": 1, "hits": n * factor, "fields": "f" * 300}
                                        for n in range(128)]}}
        sample.flows = {"d": {n: {"match": "m" * 500, "packets": n * factor, "bytes": n, "tier": "xdp", "actions": "2"}
                              for n in range(500)}}
        samples.append(sample)
    return samples


ABOUT = {"interval": 2.0, "when": "12:34:56", "trouble": None, "paused": False}


@pytest.mark.parametrize("name", ["ports", "drops", "masks", "flows", "threads"])
@pytest.mark.parametrize("width, height", [(79, 24), (200, 60), (20, 5), (1, 1)])
def test_fits(name, width, height):
    """No line is wider than the terminal, none is too many, and no name reaches the terminal as a command."""
    old, new = fake()
    found, view = top.report(new, old, "d"), top.View()
    view.name = name
    for view.top in 0, 10, 10**6:
        lines = top.screen(view, found, width, height, **ABOUT)
        assert len(lines) <= height
        assert all(sum(map(top.width_of, text)) <= width and text.isprintable() for text, _ in lines)


def test_order_and_rates():
    """The busiest port first; the next column with s; the rates are those between the two answers."""
    old, new = fake(10)
    found, view = top.report(new, old, "d"), top.View()
    lines = [text for text, _ in top.screen(view, found, 79, 24, **ABOUT)]
    ports = lines[next(n for n, line in enumerate(lines) if line.startswith("PORT")) + 1:]
    assert len(ports) == 10 and re.match(r"a{9}.* tcx +4\.5G +4\.0T", ports[0]) and ports[-1].startswith("p0")
    assert found["ports"][1]["rx_packets"] == 5e8 and found["total"]["upcalls_lost"] == 50
    assert found["engine_cpu"] == 0.5 and found["softirq"] == pytest.approx(0.1 * os.cpu_count())
    assert any("128 of 128 masks" in sentence for sentence in found["advice"])
    assert any("200000 of 200000 flows" in sentence for sentence in found["advice"])
    assert any(sentence.startswith("p2: eee") for sentence in found["advice"])
    view.reverse = True
    assert view.rows(found)[0]["name"] == "p0"


def test_shares_of_hooks():
    """Frames of all ports by who had them: the programs of each hook, or the engine."""
    old, new = fake(2)
    for sample in old, new:
        sample.stats["d"]["ports"][0]["hook"] = "xdp"
    found = top.report(new, old, "d")
    whole = 10**7 + 2 * 15
    assert found["total"]["shares"] == pytest.approx({"xdp": 5 / whole, "tcx": (10**7 + 5) / whole, "engine": 20 / whole})
    assert re.search(r"b/s  xdp 0\.0%  tcx 99\.9%  engine 0\.0%", " ".join(text for text, _ in top.header(found, **ABOUT)))


def test_restarted_daemon_has_no_rates():
    """Counters that begin anew are no rates, and nothing is negative."""
    new, old = fake(3)
    new.time, old.time = old.time, new.time
    found = top.report(new, old, "d")
    assert found["seconds"] is None and found["total"]["rx_packets"] is None
    assert "-p/s" in " ".join(text for text, _ in top.header(found, **ABOUT))


@pytest.mark.parametrize("args, sentence", [(["-i", "0"], "expected 0.5 to 3600 seconds"), (["--json"], "go with --once"),
                                            (["--once", "-t", "/nonexistent"], "/nonexistent: No such file or directory")])
def test_wrong_options(args, sentence):
    with pytest.raises(lab.Failed, match=re.escape(sentence)):
        lab.run(PROGRAM, *args)


@pytest.mark.parametrize("match, short", [
    ("recirc_id(0),skb_priority(0/0),in_port(2),eth(src=02:00:00:00:00:01/00:00:00:00:00:00,dst=02:00:00:00:00:02),eth_type(0x0800),"
     "ipv4(src=10.0.0.1/0.0.0.0,dst=10.0.0.2/255.255.255.0,proto=17/0,tos=0/0,frag=no),udp(src=1/0,dst=2/0x0)",
     "recirc_id(0),in_port(2),eth(dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(dst=10.0.0.2/255.255.255.0,frag=no)"),
    ("in_port(1),ipv6(src=fc00::1/::,dst=fc00::2/64,label=0/0)", "in_port(1),ipv6(dst=fc00::2/64)"), ("eth()", "eth()")])
def test_short_match(match, short):
    assert top.report.__globals__["_short_match"](match) == short


@pytest.mark.parametrize("value, text", [(None, "-"), (0, "0"), (999, "999"), (1000, "1.0k"), (99949, "99.9k"), (99950, "100k"),
                                         (999499, "999k"), (999999, "1.0M"), (1.5e9, "1.5G"), (2**64, "18E")])
def test_numbers(value, text):
    assert top.number(value) == text
