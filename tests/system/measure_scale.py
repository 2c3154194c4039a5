#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what a large host costs the daemon: the table "A large host" in docs/explanation/performance.md.

    tests/system/measure_scale.py       as root, about seven minutes: Open vSwitch raises the limit of flows by 1,000 twice a second

In a network namespace of its own: 1,000 ports, 10,000 addresses and 100,000 routes of the host; then 200,000 flows, each of
which meets a packet every other second.  Printed are the CPU time of the daemon and of its revalidators, and the resident
memory.
"""
import pathlib
import re
import sys
import time

import lab
import switch as switches

PORTS, ADDRESSES, ROUTES, FLOWS = 1000, 10_000, 100_000, 200_000
RATE = 100_000                          # Packets per second.
PATIENCE = 600
SECONDS = 10
TRAFFIC = switches.BUILD / "bench/gen/bench-traffic"


def main():
    lab.enter()
    lab.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1", check=False)
    lab.run("ip", "-batch", "-", text="".join(host()), limit=PATIENCE)
    print("| with | daemon | revalidators | resident memory |\n|---|---|---|---|")
    with switches.Switch() as switch:
        switch.expected += [r"blocked .* waiting for", "netlink receive buffer overflowed", "datapath reached the dynamic limit"]
        switch.vsctl("set", "open", ".", f"other_config:flow-limit={2 * FLOWS}", f"other_config:xdp-flows={2 * FLOWS}")
        switch.add_bridge("br0")
        print(f"Open vSwitch reads the routes: {settled(switch):.0f} s of CPU time", file=sys.stderr)
        show(switch, f"{ADDRESSES:,} addresses, {ROUTES:,} routes")
        add_ports(switch)
        show(switch, f"{PORTS:,} ports more")
        switch.ofctl("add-flow", "br0", f"in_port={switch.ofport('p0')},udp,"
                     f"actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],"
                     f"output:{switch.ofport('p1')}")
        with lab.Process(TRAFFIC, "generate", "--dev", "q0", "--cpu", "0", "--seconds", "300", "--flows", str(FLOWS),
                         "--rate", str(RATE), "--size", "60", "--hold", "lo"):
            lab.wait_until(lambda: flows(switch) >= FLOWS, "the flows", limit=PATIENCE)
            time.sleep(SECONDS)
            show(switch, f"{flows(switch):,} flows more, {RATE:,} packets/s")
            switch.vsctl("set", "open", ".", "other_config:max-revalidator=2000")
            show(switch, "the same, other_config:max-revalidator=2000")


def host():
    """Lines for ip(8): devices, addresses and routes."""
    yield "link add lan type veth peer name lan-peer\nlink set lan up\nlink set lan-peer up\n"
    for n in range(PORTS):
        yield f"link add p{n} type veth peer name q{n}\nlink set p{n} up\nlink set q{n} up\n"
    for n in range(ADDRESSES):
        yield f"address add 10.{100 + (n >> 16)}.{n >> 8 & 255}.{n & 255}/32 dev lan\n"
    for n in range(ROUTES):
        yield f"route add 20.{n >> 16}.{n >> 8 & 255}.{n & 255}/32 dev lan\n"


def add_ports(switch):
    lab.run("ethtool", "-K", "p0", "gro", "on")
    switch.vsctl(f"--timeout={PATIENCE}", *(word for n in range(PORTS) for word in ("--", "add-port", "br0", f"p{n}")),
                 limit=PATIENCE)
    lab.wait_until(lambda: len(re.findall(r": p\d+ \(xdp\) xdp-mode", switch.appctl("xdp/show"))) == PORTS, "the ports",
                   limit=PATIENCE)


def flows(switch):
    return int(re.search(r"flows *: \(current (\d+)\)", switch.appctl("upcall/show"))[1])


def settled(switch):
    """Waits until the daemon rests; the CPU time that it has used by then, in seconds."""
    while True:
        before = lab.cpu_seconds(switch.process.pid)
        time.sleep(2)
        if lab.cpu_seconds(switch.process.pid) - before < 0.1:
            return before


def show(switch, what):
    """Prints the CPU time of the next seconds, after two in which the daemon does what is left of before."""
    pid = switch.process.pid
    time.sleep(2)
    begin, daemon, revalidators = time.monotonic(), lab.cpu_seconds(pid), revalidator_seconds(pid)
    time.sleep(SECONDS)
    took = time.monotonic() - begin
    print(f"| {what} | {(lab.cpu_seconds(pid) - daemon) / took:.1%} of a core | "
          f"{(revalidator_seconds(pid) - revalidators) / took:.1%} | {lab.memory_mib(pid):.0f} MiB |", flush=True)


def revalidator_seconds(pid):
    """CPU seconds of the threads that are named so, from /proc/PID/task/TID/schedstat, which has nanoseconds."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
               if (task / "comm").read_text().startswith("revalidator")) / 1e9


if __name__ == "__main__":
    sys.exit(main())
