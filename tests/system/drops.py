# SPDX-License-Identifier: Apache-2.0
"""What the kernel drops, as its tracepoints tell (drops.c)."""
import bisect
import collections
import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile

import lab
import switch as switches

PACKET, REDIRECT, TRANSMIT, EXCEPTION, AGAIN = KINDS = ("packet", "redirected frame", "frame for a device", "frame at XDP",
                                                        "packet, right after a redirected frame")
ACTIONS = "XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"

# Of 'kind' above, because of 'reason' (of a packet: enum skb_drop_reason without its prefix; of a frame
# at XDP: the action that could not be done; else an errno's name), in function 'place', on 'device'.
Drop = collections.namedtuple("Drop", "kind reason place device")


class Unusable(Exception):
    """This kernel does not tell; the text says why."""


class Watch:
    """From now on."""

    def __init__(self):
        program = switches.BUILD / "tests/system/drops"
        if not program.exists():
            raise lab.Failed(f"{program} does not exist: run make")
        self._program = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         stderr=subprocess.DEVNULL)
        said = self._program.stdout.readline().strip()
        if said != "ready":
            self.close()
            raise Unusable(said)
        self._reasons, self._symbols = _reasons(), _symbols()

    def take(self):
        """What was dropped in this thread's network namespace since the last call: a collections.Counter of Drop."""
        here = os.stat("/proc/thread-self/ns/net").st_ino
        self._program.stdin.write("\n")
        self._program.stdin.flush()
        found = collections.Counter()
        while words := self._program.stdout.readline().split():
            count, kind, namespace, reason, location, device = words
            if int(namespace) == here:
                found[Drop(KINDS[int(kind)], self._reason(int(kind), int(reason)), self._place(int(location, 16)),
                           device)] += int(count)
        return found

    def _reason(self, kind, number):
        if KINDS[kind] == EXCEPTION:
            return ACTIONS[number] if number < len(ACTIONS) else str(number)
        return self._reasons.get(number, str(number)) if KINDS[kind] in (PACKET, AGAIN) else os.strerror(number)

    def _place(self, address):
        index = bisect.bisect_right(self._symbols, (address, "~")) - 1
        return self._symbols[index][1] if address and index >= 0 else "-"

    def close(self):
        self._program.stdin.close()
        self._program.wait(lab.PATIENCE)
        self._program.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# When the kernel gives a device a NAPI it tries to make a packet, and drops that.
NO_PACKET = re.compile("netif_napi_add|napi_get_frags")
# Names that the programs' verdicts have as drops of the kernel.
BY_PROGRAM = re.compile("veth_xdp_rcv|do_xdp_generic|netif_receive_generic_xdp")
GENERIC = re.compile("do_xdp_generic")
# A switch that starts, or stops, on a device leaves its packets to the host's network stack.
BY_STACK = re.compile("ip_|ip6_|ipv6_|arp_|ndisc_|icmp|igmp|ping_|tcp_|udp")
# While a device has no carrier, its qdisc is noop.  Only since Linux 6.11 what that drops counts, as the device's
# (noop_enqueue() of net/sched/sch_generic.c).
NOOP_COUNTS = lab.kernel() >= (6, 11)
# A packet that the kernel has merged takes its parts along.  Before Linux 6.2 each of them is called a drop, also where the packet
# has arrived (skb_release_data() of net/core/skbuff.c).
WITH_ITS_PACKET = "skb_release_data"
PASSED_ON = re.compile("forwarded|unknown_port|up_")     # What "frames" of xdp/stats has besides drops.


class Ledger:
    """Compares what the kernel drops on the ports of a switch with what the switch and the devices have counted.  Without a
    watch, and of other datapaths, it knows nothing."""

    def __init__(self, watch, switch):
        self._watch, self._switch = watch if switches.DATAPATH == "xdp" else None, switch
        self.start()

    def start(self):
        """What was dropped before is of no account."""
        self._found = collections.Counter()
        if self._watch:
            self._before = self._counted()
            self._watch.take()

    def check(self):
        """Fails if the kernel dropped, since start(), anything that no counter of the switch or of a device knows.  With a
        port its counters go: call this before it is taken away, or the switch ends."""
        unknown = self._unknown() if self._watch else None
        assert not unknown, f"the kernel dropped what no counter knows: {unknown}"

    def allow(self, place):
        """Takes what was dropped in a function of the kernel since start() for known; returns how much that is."""
        self._found.update(self._watch.take() if self._watch else {})
        allowed = [drop for drop in self._found if drop.place == place]
        return sum(self._found.pop(drop) for drop in allowed)

    def compare(self):
        """What there was since start(): {(device, PROGRAM or DEVICE): (collections.Counter of Drop, how many are known)}."""
        self._found.update(self._watch.take())              # First: what is dropped now is counted at once, and found later.
        now = self._counted()
        kinds = collections.defaultdict(collections.Counter)
        for drop, count in self._found.items():
            if drop.device in self._served and (kind := _kind_of(drop)):
                kinds[drop.device, kind][drop] += count
        return {at: (kinds[at], now[at] - self._before[at]) for at in {*kinds, *now}}

    def _unknown(self):
        """A collections.Counter of Drop: of each port that has more drops than counts, all of a kind."""
        return sum((drops for drops, known in self.compare().values() if drops.total() > known), collections.Counter())

    def _counted(self):
        """{(device, kind): number that is known}; and notes the devices that the switch serves."""
        counts, self._served = collections.Counter(), set()
        for report, shown in zip(*(json.loads(self._switch.appctl(command, "-f", "json"))["datapaths"]
                                   for command in ("xdp/stats", "xdp/show"))):
            pair = f"{report['name']}-in"
            # Without what it dropped of what it received, which is added below.
            counts[pair, DEVICE] += report["engine"]["drops"]["tcx_overrun"] - _dropped_by(pair)[0]
            self._served.add(pair)
            for port, about in zip(report["ports"], shown["ports"]):
                self._add_port(counts, port, about)
        for device in self._served:
            received, sent = _dropped_by(device)
            counts[device, PROGRAM] += received
            counts[device, DEVICE] += received + sent
        for device, dropped in _dropped_by_peers():
            counts[device, DEVICE] += dropped
        return counts

    def _add_port(self, counts, port, about):
        device = port["name"] + ("-xdp" if about["type"] == "xdp-internal" else "")
        self._served.add(device)
        counts[device, PROGRAM] += sum(number for reason, number in port.get("frames", {}).items() if not PASSED_ON.match(reason))
        counts[device, PROGRAM] += port.get("lost_copies", 0) + port.get("long_copies", 0)
        # "no_frames" says why, of some of the others.
        by_sockets = sum(queue.get(drop, 0) for queue in about["queues"] for drop in ("ring_full", "other_drops"))
        if about.get("mode") == "native":                     # The driver has them among its received packets that it dropped.
            counts[device, PROGRAM] -= by_sockets
        else:
            counts[device, DEVICE] += by_sockets


def _dropped_by(device):
    """(received, sent) packets that the device counts as dropped; none of one that is gone."""
    try:
        return [int(pathlib.Path(f"/sys/class/net/{device}/statistics/{way}_dropped").read_text()) for way in ("rx", "tx")]
    except FileNotFoundError:
        return [0, 0]


def _dropped_by_peers():
    """(veth, number) of each whose peer is in another namespace: what it has no room for at XDP counts as dropped by that
    (veth_xmit() of drivers/net/veth.c), and has its own name in the tracepoint."""
    here = {(link["ifindex"], link.get("link_index")): link["ifname"] for link in _veths()}
    for namespace in os.listdir("/run/netns"):
        for link in _veths("-n", namespace):
            if device := here.get((link.get("link_index"), link["ifindex"])):
                yield device, link["stats64"]["tx"]["dropped"]


def _veths(*where):
    return json.loads(lab.run("ip", *where, "-j", "-s", "link", "show", "type", "veth") or "[]")


PROGRAM, DEVICE = "by a program", "by a device or for want of room"


def _kind_of(drop):
    """One of these, or None: the drop is not the switch's, or is known by another name."""
    if NO_PACKET.match(drop.place) or BY_STACK.match(drop.place) or drop.place == WITH_ITS_PACKET \
            or not NOOP_COUNTS and _by_noop(drop):
        return None
    if drop.kind == AGAIN and GENERIC.match(drop.place):
        return None                     # Both are one frame.
    program = drop.kind in (PACKET, AGAIN) and (drop.reason in ("TC_INGRESS", "XDP") or BY_PROGRAM.match(drop.place))
    return PROGRAM if program else DEVICE


def _by_noop(drop):
    """Whether the qdisc noop dropped it: that of a device without a queue, which has noqueue else, and that drops nothing."""
    link = lab.run("ip", "link", "show", "dev", drop.device, check=False) if drop.reason == "QDISC_DROP" else ""
    return re.search(r" qdisc no(queue|op) ", link)


def _reasons():
    """Number -> name."""
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        lab.run("mount", "-t", "tracefs", "tracefs", folder, check=False)
        try:
            text = pathlib.Path(folder, "events/skb/kfree_skb/format").read_text(encoding="ascii")
        except OSError as error:
            raise Unusable(f"the kernel has no tracefs with skb:kfree_skb: {error}") from error
        finally:
            lab.run("umount", folder, check=False)
    return {int(number): name for number, name in re.findall(r'\{ (\d+), "(\w+)" \}', text)}


def _symbols():
    """Address and name of the kernel's functions, by address."""
    lines = pathlib.Path("/proc/kallsyms").read_text(encoding="ascii").splitlines()
    symbols = sorted((int(words[0], 16), words[2]) for words in map(str.split, lines) if words[1] in "tT")
    if not symbols or not symbols[-1][0]:
        raise Unusable("/proc/kallsyms hides addresses (kernel.kptr_restrict)")
    return symbols
