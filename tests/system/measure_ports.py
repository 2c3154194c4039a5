#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what ports cost: the table in docs/explanation/performance.md.

    tests/system/measure_ports.py [COUNT...]        as root; default: 32 200 1000

For each hook and count, in a network namespace of its own: that many veth pairs, made ports in one transaction, then
removed in one.  Printed are the seconds of both (until xdp/show has the last port, or none), the daemon's resident
memory more than with an empty bridge, and its CPU time while nothing happens.
"""
import re
import sys
import time

import lab
import switch as switches

FRAMES_OF_A_PORT, FRAMES = 32, 8192     # Ports at tcx need none of their own.
PATIENCE = 600


def main():
    lab.enter()
    columns = "hook", "ports", "`xdp-umem-frames`", "adding them", "memory", "all deleted", "CPU when idle"
    print("|", " | ".join(columns), "|\n" + "|---" * len(columns) + "|")
    for hook in "xdp", "tcx":
        switches.Switch.hook = hook
        for count in map(int, sys.argv[1:] or ("32", "200", "1000")):
            lab.new_host()
            print("| {} | {} | {} | {:.1f} s | {:.0f} MiB | {:.1f} s | {:.1%} of a core |".format(
                hook, count, *measure(count)), flush=True)


def measure(count):
    frames = FRAMES if switches.Switch.hook == "tcx" else max(FRAMES, FRAMES_OF_A_PORT * count)
    batch = "".join(f"link add p{n} up type veth peer name q{n}\nlink set q{n} up\n" for n in range(count))
    lab.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1", check=False)
    lab.run("ip", "-batch", "-", text=batch, limit=PATIENCE)
    with switches.Switch() as switch:
        switch.expected += [r"blocked .* waiting for", "netlink receive buffer overflowed"]
        switch.vsctl("set", "open", ".", f"other_config:xdp-umem-frames={frames}")
        switch.add_bridge("br0")
        shown = rf": p\d+ \(xdp\) xdp-mode=\S+ xdp-hook={switch.hook} "
        base = lab.memory_mib(switch.process.pid)
        add = timed(switch, (word for n in range(count) for word in ("--", "add-port", "br0", f"p{n}")),
                    lambda: len(re.findall(shown, switch.appctl("xdp/show"))) == count)
        memory = lab.memory_mib(switch.process.pid) - base
        idle = idle_share(switch.process.pid)
        delete = timed(switch, (word for n in range(count) for word in ("--", "del-port", "br0", f"p{n}")),
                       lambda: not re.search(r": p\d+ ", switch.appctl("xdp/show")))
    return frames, add, memory, delete, idle


def timed(switch, words, done):
    begin = time.monotonic()
    switch.vsctl(f"--timeout={PATIENCE}", *words, limit=PATIENCE)
    lab.wait_until(done, "the ports", limit=PATIENCE)
    return time.monotonic() - begin


def idle_share(pid, seconds=5):
    """The smallest of three shares of a core: what else happens only adds to it."""
    shares = []
    for _ in range(3):
        begin, used = time.monotonic(), lab.cpu_seconds(pid)
        time.sleep(seconds)
        shares.append((lab.cpu_seconds(pid) - used) / (time.monotonic() - begin))
    return min(shares)


if __name__ == "__main__":
    sys.exit(main())
