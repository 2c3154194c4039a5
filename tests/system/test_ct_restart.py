# SPDX-License-Identifier: Apache-2.0
"""Connections outlive the daemon: its tables are pinned, and the next daemon adopts them.

    red (10.0.0.1, seen as 10.0.0.77) == three zones == green

TCP at full speed goes on over each kind of end; in a zone that forgot the connection it would be +new or +inv.
"""
import contextlib
import pathlib
import re
import select
import socket
import statistics
import threading
import time

import pytest

import lab
import switch as switches
import traffic

FOLDER = pathlib.Path("/sys/fs/bpf/ovs-xdp")
ZONES = (1, 2, 3)
SEEN = "10.0.0.77"


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("stock Open vSwitch's userspace datapath forgets its connections")


def rules():
    """red's packets pass zone after zone and are translated in the last; answers come back the same way.  What else is in a
    zone is dropped."""
    yield "table=0,priority=10,arp,actions=normal"
    yield "table=0,priority=2,ip,in_port=to-red,actions=ct(zone=1,table=1)"
    yield "table=0,priority=1,ip,actions=ct(zone=3,nat,table=13)"
    for zone in ZONES:
        there = {1: "ct(zone=2,table=2)", 2: "ct(zone=3,nat,table=3)", 3: "normal"}[zone]
        back = {3: "ct(zone=2,table=12)", 2: "ct(zone=1,table=11)", 1: "normal"}[zone]
        nat = f",nat(src={SEEN})" if zone == 3 else ""
        for table, then in (zone, there), (zone + 10, back):
            yield f"table={table},priority=3,ct_state=+trk+inv,actions=drop"
            yield f"table={table},priority=2,ip,ct_state=+trk+est,actions={then}"
            yield f"table={table},priority=1,actions=drop"
        yield (f"table={zone},priority=2,tcp,ct_state=+trk+new,"
               f"actions=ct(commit,zone={zone},exec(load:{zone}->NXM_NX_CT_MARK[]){nat}),{there}")


def connections(switch):
    """The connections to port 5011 without what changes: tuples, zones, marks."""
    return sorted(re.sub(r",protoinfo=.*", "", line) for line in switch.appctl("dpctl/dump-conntrack").splitlines()
                  if "dport=5011" in line)


def astray(switch):
    """Rules that met a packet of the connection as one of none: +inv, or +new, which TCP in the middle of a connection may be."""
    return [line for line in switch.ofctl("dump-flows", "br0").splitlines()
            if ("actions=drop" in line or "+new" in line) and "n_packets=0," not in line]


def end(switch, how):
    switch.expected += ["left allocated when ofproto"]  # Flows that stay have recirculation ids; Open vSwitch complains.
    if how == "kill":
        switch.crash()
    else:
        switch.stop()


@pytest.fixture(name="translated")
def translated_network(request, network):
    for hook in [request.getfixturevalue("hook")] if "hook" in request.fixturenames else []:
        network.switch.vsctl("set", "open", ".", f"other_config:xdp-hook={hook}")
    network.green.run("ip", "neighbour", "add", SEEN, "lladdr", lab.mac_of(network.red), "dev", "eth0")
    network.switch.flows("br0", *rules())
    return network


def programs_track(switch):
    """Waits until programs do, so that the connections change in them while no daemon runs."""
    lab.wait_until(lambda: "programs-track:yes" in switch.appctl("xdp/ct-show"), "programs that track")


def restart(switch, how, flows=None):
    switch.vsctl("set", "open", ".", "other_config:flow-restore-wait=true")
    end(switch, how)
    switch.start()
    lab.wait_until(lambda: "to-blue" in switch.appctl("dpctl/show", check=False), "the ports")
    switch.flows("br0", *(flows or rules()))
    switch.vsctl("remove", "open", ".", "other_config", "flow-restore-wait")


@contextlib.contextmanager
def idle(client, server, address, port=5013):
    """A connection on which nothing is sent."""
    with server.entered():
        listener = socket.create_server((address, port))
    with client.entered():
        end = socket.create_connection((address, port), lab.PATIENCE)
    with listener, end, listener.accept()[0]:
        yield port


def timeouts(switch, port):
    """When they were read, and the seconds that connections to this port have left, by zone."""
    now = time.monotonic()
    lines = [line for line in switch.appctl("dpctl/dump-conntrack", "-s").splitlines() if f"dport={port}" in line]
    return now, {re.search(r"zone=(\d+)", line)[1]: int(re.search(r"timeout=(\d+)", line)[1]) for line in lines}


@pytest.mark.parametrize("hook", ("xdp", "tcx"))
@pytest.mark.parametrize("how", ("kill", "exit"))
def test_tcp_with_nat_goes_on(translated, hook, how):
    """Also one that is idle, whose timeouts go on."""
    switch = translated.switch
    ends = translated.red, translated.green, "10.0.0.2"
    with idle(*ends) as port, traffic.Connection(*ends) as connection:
        connection.goes_on()
        programs_track(switch)
        before = connections(switch)
        assert len(before) == len(ZONES) and sum(SEEN in line for line in before) == 1
        then, left = timeouts(switch, port)
        assert len(left) == len(ZONES)
        for _ in range(2):
            restart(switch, how)
            connection.goes_on()
            assert connections(switch) == before
            assert not astray(switch)
            assert "6 connections of the previous instance go on" in "\n".join(switch.log())
            now, still_left = timeouts(switch, port)
            assert still_left.keys() == left.keys()
            assert all(abs(left[zone] - still_left[zone] - (now - then)) < 2 for zone in left), (left, still_left, now - then)
        assert connection.same()
    assert re.search(r"kept over the last restart:6\b", switch.appctl("xdp/ct-show"))


def test_room_changes(translated):
    """Tables of another size: the connections are copied."""
    switch = translated.switch
    with traffic.Connection(translated.red, translated.green, "10.0.0.2") as connection:
        connection.goes_on()
        programs_track(switch)
        before = connections(switch)
        switch.vsctl("set", "open", ".", "other_config:xdp-ct-max=5000")
        restart(switch, "kill")
        connection.goes_on()
        assert connections(switch) == before and not astray(switch)
        assert "room:5000 " in switch.appctl("xdp/ct-show")
        assert connection.same()


def rename_tables(switch):
    """As if the tables' members were elsewhere: names of tables contain a hash of them."""
    tables = [table for table in FOLDER.glob("*/ovs-xdp/state-ct_*-*") if "ct_layout" not in table.name]
    assert len(tables) == 9
    for table in tables:
        table.rename(table.with_name(table.name[:-16] + table.name[-16:][::-1]))


def test_tables_that_nobody_can_read(translated):
    """Tracking begins anew, with a warning."""
    switch = translated.switch
    traffic.tcp(translated.red, translated.green, "10.0.0.2", size=1000)
    assert connections(switch) or switch.appctl("dpctl/dump-conntrack").strip()
    end(switch, "kill")
    rename_tables(switch)
    switch.expected.append("in tables that this version cannot read: tracking begins anew")
    switch.start()
    lab.wait_until(lambda: "tracking begins anew" in "\n".join(switch.log()), "a warning")
    traffic.tcp(translated.red, translated.green, "10.0.0.2", size=1000)


def test_cleanup_forgets(translated):
    switch = translated.switch
    traffic.tcp(translated.red, translated.green, "10.0.0.2", size=1000)
    assert switch.appctl("dpctl/dump-conntrack").strip()
    assert list(FOLDER.glob("*/ovs-xdp/state-ct_keys-*"))
    switch.stop(cleanup=True)
    assert not list(FOLDER.glob("*/ovs-xdp/state-ct_*"))
    switch.start()
    assert not switch.appctl("dpctl/dump-conntrack").strip()
    assert "no flow had ct() yet" in switch.appctl("xdp/ct-show")


def test_limits_go_on(translated):
    """What was set goes on, too, and counts are those of the connections."""
    switch = translated.switch
    switch.appctl("dpctl/ct-set-limits", "default=9", "zone=1,limit=5")
    switch.appctl("dpctl/ct-set-maxconns", "1234")
    traffic.tcp(translated.red, translated.green, "10.0.0.2", size=1000)
    restart(switch, "kill")
    assert "zone=1,limit=5,count=1" in switch.appctl("dpctl/ct-get-limits", "zone=1")
    assert switch.appctl("dpctl/ct-get-maxconns").strip() == "1234"


class Beginners:
    """Datagrams, each from a socket of its own, so that each begins a connection, one every 'interval' seconds; a host that
    sends them back; and when those were sent that came back."""

    def __init__(self, client, server, address, port=5012, interval=0.005):
        self.answered = []
        self._client, self._target, self._interval = client, (address, port), interval
        self._stop = threading.Event()
        with server.entered():
            self._echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._echo.bind(self._target)
        self._echo.settimeout(0.1)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._begin, self._send_back)]
        for thread in self._threads:
            thread.start()

    def _begin(self):
        waiting = {}                        # Descriptor: socket, when it sent.
        with self._client.entered(), select.epoll() as events:
            while not self._stop.wait(self._interval):
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                waiting[sock.fileno()] = sock, time.monotonic()
                events.register(sock, select.EPOLLIN)
                with contextlib.suppress(OSError):
                    sock.sendto(b"new", self._target)
                for descriptor, _ in events.poll(0):
                    sock, sent = waiting.pop(descriptor)
                    sock.close()
                    self.answered.append(sent)
                while len(waiting) > 200:
                    waiting.pop(next(iter(waiting)))[0].close()
            for sock, _ in waiting.values():
                sock.close()

    def _send_back(self):
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                self._echo.sendto(*self._echo.recvfrom(100))

    def longest_silence(self, since):
        times = sorted(sent for sent in self.answered if sent >= since)
        return max(after - before for before, after in zip(times, times[1:]))

    def __enter__(self):
        lab.wait_until(lambda: len(self.answered) > 20, "answers to new connections")
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(lab.PATIENCE)
        self._echo.close()


def test_new_connections_are_answered(translated):
    """How long nobody answers a new connection while the daemon is killed and starts anew: 300 ms at most at the median."""
    switch, silences = translated.switch, []
    flows = [rule.replace(",tcp,", ",ip,") for rule in rules()]
    switch.flows("br0", *flows)
    with Beginners(translated.red, translated.green, "10.0.0.2") as beginners:
        programs_track(switch)
        for _ in range(5):
            time.sleep(0.5)
            since = time.monotonic()
            restart(switch, "kill", flows)
            time.sleep(0.5)
            n = len(beginners.answered)
            lab.wait_until(lambda: len(beginners.answered) > n + 20, "answers after the restart")
            silences.append(beginners.longest_silence(since))
    print("seconds without an answer:", " ".join(f"{silence:.3f}" for silence in silences))
    assert statistics.median(silences) < 0.3 * max(1, lab.PATIENCE / 60), silences
