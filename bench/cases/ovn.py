# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import sys
import time

from bench.lib import measure, world

TITLE = "OVN on three hosts"
GROUP = "Containers: sockets on both sides"
QUESTION = ("OVN drives three hosts on this machine, and their switches carry Geneve between them (examples/ovn/three-hosts): "
            "containers with stateful ACLs on one host; on two hosts; behind a router and a load balancer with backends on two "
            "hosts; and a server outside, by the SNAT of a third host. What throughput has one TCP stream; how many "
            "datagrams in frames of 64 bytes arrive of all that a socket can send; how long does an application wait for the "
            "answer to a small TCP request, and to a UDP request that is the first packet of a connection?")
RULE = "ovn"
SOCKETS = True
EXAMPLE = pathlib.Path(__file__).resolve().parent.parent.parent / "examples/ovn/three-hosts"
STATE = pathlib.Path("/run/ovn-bench")
CLIENT, VIP = "a", "10.3.0.100"
# Path: (title, address, port of iperf3, {server: its address}).
PATHS = {
    "host": ("one host", "10.1.0.12", "5201", {"b": "10.1.0.12"}),
    "hosts": ("two hosts", "10.1.0.13", "5201", {"c": "10.1.0.13"}),
    "lb": ("router and load balancer", VIP, "80", {"d": "10.2.0.14", "e": "10.2.0.15"}),
    "snat": ("out, with SNAT", "192.0.2.1", "5201", {"outside": "192.0.2.1"}),
}
KINDS = {"tcp": ("TCP", "Gb/s", "more"), "udp": ("64-byte UDP", "Mpps", "more"),
         "p50": ("TCP request, median", "us", "less"), "first": ("first packet, median", "us", "less")}
SAYS = ("host-tcp", "hosts-tcp", "lb-tcp", "snat-tcp")
ROWS = {f"{path}-{kind}": {"title": f"{title}: {what}", "unit": unit, "better": better}
        for path, (title, *_) in PATHS.items() for kind, (what, unit, better) in KINDS.items()}
PORTS = {"udp": (7, 9), "tcp": (7,)}            # Of bench-traffic's servers: echo and discard.


def run(w, peer, settings):
    network = Network(w, peer)
    try:
        network.up()
        answers = {}
        for path in PATHS:
            try:
                found = network.measure(path, settings["seconds"])
            except world.Failed as failure:
                found = {kind: {"failed": str(failure)} for kind in KINDS}
            answers |= {f"{path}-{kind}": answer for kind, answer in found.items()}
        return answers
    finally:
        network.down()


class Network:
    """The example, with what a measurement needs besides."""

    def __init__(self, w, peer):
        self._w = w
        self._words = [sys.executable, str(EXAMPLE), "--state", str(STATE), "--daemon", peer.daemon,
                       "--datapath-type", peer.datapath_type]

    def up(self):
        world.command(*self._words, "up", limit=120)
        nbctl = ["ovn-nbctl", "--no-leader-only", f"--db=unix:{STATE}/host1/nb.sock"]
        for proto, ports in PORTS.items():
            numbers = ", ".join(str(port) for port in ports)
            world.command(*nbctl, "acl-add", "containers", "to-lport", "1000",
                          f"outport == @containers && ip4 && {proto}.dst == {{{numbers}}}", "allow-related")
            name = f"bench-{proto}"
            for port in ports:
                backends = ",".join(f"{address}:{port}" for address in PATHS["lb"][3].values())
                world.command(*nbctl, "--may-exist", "lb-add", name, f"{VIP}:{port}", backends, proto)
            world.command(*nbctl, "ls-lb-add", "sw0", name, "--", "lr-lb-add", "lr0", name)
        world.command(*nbctl, "--wait=hv", "--timeout=60", "sync", limit=70)

    def down(self):
        world.command(*self._words, "down", limit=60)

    def measure(self, path, seconds):
        _, address, port, servers = PATHS[path]
        held = [self._hold(server, *command, "--address", own) for server, own in servers.items()
                for command in (["echo"], ["serve"])]
        drains = [world.Counts(self._hold(server, "drain", "--address", own)) for server, own in servers.items()]
        try:
            world.wait_for(lambda: self._ping(address, 0.05)["answers"], f"an answer of {address}")
            return {"tcp": self._tcp(address, port, seconds), "udp": self._udp(address, drains, seconds),
                    "p50": {"value": self._ping(address, seconds, "--tcp")["p50"] / 1e9},
                    "first": {"value": self._ping(address, seconds, "--new-flows")["p50"] / 1e9}}
        finally:
            for child in *held, *(drain.child for drain in drains):
                self._w.release(child)

    def _tcp(self, address, port, seconds):
        answer = json.loads(self._inside(CLIENT, "timeout", "30", "iperf3", "--client", address, "--port", port, "--json",
                                         "--omit", "1", "--time", str(max(2, round(seconds)))))
        return {"value": answer["end"]["sum_received"]["bits_per_second"]}

    def _udp(self, address, drains, seconds):
        def received():
            return sum(drain.read()["packets"] for drain in drains)

        def send(how_long):
            return self._start(CLIENT, self._w.traffic, "flood", "--address", address, "--seconds", str(how_long))

        warm_up = max(0.3, seconds / 4)
        sender = send(warm_up + seconds + measure.TAIL)
        time.sleep(warm_up)
        before, start = received(), time.monotonic()
        time.sleep(seconds)
        rate = (received() - before) / (time.monotonic() - start)
        world.generated(sender)
        return {"value": rate}

    def _ping(self, address, seconds, *how):
        found = json.loads(self._inside(CLIENT, self._w.traffic, "ping", "--address", address, "--seconds", str(seconds), *how))
        if seconds > 0.1 and not found["answers"]:
            raise world.Failed(f"none of {found['lost']} requests was answered")
        return found

    def _inside(self, where, *command):
        return world.command(*self._words, "exec", where, *command, limit=60)

    def _start(self, where, *command):
        return self._w.start(*self._words, "exec", where, *command)

    def _hold(self, where, *command):
        child = self._start(where, self._w.traffic, *command)
        if not child.stdout.readline():
            raise world.Failed(child.stderr.read().strip() or f"{command[0]} ended at once")
        return child
