# SPDX-License-Identifier: Apache-2.0
"""Probes for tracers: the notes in the daemon say where they are, and a tracer that attaches gets them."""
import contextlib
import ctypes
import os
import pathlib
import re
import struct

import pytest

import lab
import switch as switches
import wire

RED = "02:00:00:00:00:01"
ARGUMENTS = {                           # Provider and name: how many arguments.
    ("main", "run_start"): 0,
    ("main", "poll_block"): 0,
    ("dpif_recv", "recv_upcall"): 6,
    ("dpif_netlink_operate__", "op_flow_put"): 4,
    ("dpif_netlink_operate__", "op_flow_del"): 4,
    ("dpif_netlink_operate__", "op_flow_get"): 4,
    ("dpif_netlink_operate__", "op_flow_execute"): 5,
    ("ovs_xdp", "slow_path"): 4,
    ("ovs_xdp", "flow_moved"): 4,
    ("ovs_xdp", "program_exchanged"): 2,
}
# Those of newer releases of Open vSwitch, which flow_reval_monitor.py and reval_monitor.py listen to.
REVALIDATORS = {
    ("udpif_revalidator", "start_dump"): 2,
    ("udpif_revalidator", "sweep_done"): 3,
    ("revalidate_ukey__", "entry"): 6,
    ("revalidate_ukey__", "exit"): 3,
    ("revalidate", "flow_result"): 4,
    ("revalidator_sweep__", "flow_sweep_result"): 4,
}
UPROBES = pathlib.Path("/sys/bus/event_source/devices/uprobe/type")
SYS_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}


def notes():
    """The probes of the daemon: {(provider, name): (address, address of the semaphore, arguments)}."""
    text = lab.run("readelf", "-n", switches.DAEMON)
    found = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: (0x\w+), Base: 0x\w+, Semaphore: (0x\w+)\s+Arguments:([^\n]*)", text)
    if not found:
        pytest.skip("the daemon was built without sys/sdt.h: apt-get install systemtap-sdt-dev")
    return {(provider, name): (int(place, 16), int(semaphore, 16), arguments.split())
            for provider, name, place, semaphore, arguments in found}


def file_offset(address):
    """Where in the file the byte is that is loaded at 'address'."""
    for offset, start, size in re.findall(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+)", lab.run("readelf", "-lW", switches.DAEMON)):
        if int(start, 16) <= address < int(start, 16) + int(size, 16):
            return address - int(start, 16) + int(offset, 16)
    raise lab.Failed(f"{address:#x} is in no segment of {switches.DAEMON}")


def test_notes():
    found = notes()
    assert {key: len(found[key][2]) for key in ARGUMENTS if key in found} == ARGUMENTS
    for provider, name in ARGUMENTS:
        # What costs something to prepare is prepared for listeners alone.
        assert bool(found[provider, name][1]) == (name not in ("program_exchanged", "run_start", "poll_block"))


def test_notes_of_revalidators():
    """What the release has is there without its own --enable-usdt-probes, each once."""
    release = re.search(r"Open vSwitch\) (\d+)\.(\d+)", lab.run(switches.DAEMON, "--version"))
    wanted = {key: n for key, n in REVALIDATORS.items()
              if tuple(map(int, release.groups())) >= ((3, 5) if key[1].startswith("flow_") else (3, 3))}
    found = notes()
    assert {key: len(found[key][2]) for key in REVALIDATORS if key in found} == wanted


@contextlib.contextmanager
def listener(key, pid):
    """Counts how often a probe is hit: yields a function."""
    place, semaphore, _ = notes()[key]
    path = ctypes.create_string_buffer(os.fsencode(switches.DAEMON.resolve()))
    attr = struct.pack("=IIQQQQQIIQQ", int(UPROBES.read_text(encoding="ascii")), 112,
                       (file_offset(semaphore) if semaphore else 0) << 32, 0, 0, 0, 0, 0, 0,
                       ctypes.addressof(path), file_offset(place)).ljust(112, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(SYS_PERF_EVENT_OPEN[os.uname().machine], attr, pid, -1, -1, 8)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        yield lambda: struct.unpack("=Q", os.read(fd, 8))[0]
    finally:
        os.close(fd)


def listeners(key, pid):
    """Counts a probe in all threads of a process."""
    stack = contextlib.ExitStack()
    counts = [stack.enter_context(listener(key, int(task))) for task in os.listdir(f"/proc/{pid}/task")]
    return stack, lambda: sum(count() for count in counts)


def test_listening(network):
    """Each probe is heard: upcalls, operations of flows, the slow path, tiers, exchanged programs; and the traffic goes on."""
    if not UPROBES.exists():
        pytest.skip("this kernel has no uprobes (CONFIG_UPROBE_EVENTS)")
    switch = network.switch
    at_last = ("dpif_netlink_operate__", "op_flow_del")
    with contextlib.ExitStack() as stack:
        counts = {}
        for key in ARGUMENTS:
            try:
                held, counts[key] = listeners(key, switch.process.pid)
            except OSError as error:
                pytest.skip(f"this machine lets nobody attach a uprobe: {error.strerror}")
            stack.enter_context(held)
        switch.flows("br0", "udp,in_port=to-red,actions=output:to-green", "priority=0,actions=drop")
        with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
            red.send(wire.udp_frame(RED, lab.mac_of(network.green), b"heard", ports=(1, 2)))
            assert green.receive(lambda frame: b"heard" in frame)
        switch.ofctl("packet-out", "br0", "in_port=controller,packet=" + "ff" * 12 + "88b5" + "00" * 46 + ",actions=output:to-green")
        ufid = next(line.split(",")[0] for line in switch.dump_flows("-m") if "udp" in line or "proto=17" in line)
        switch.appctl("dpctl/get-flow", "xdp@ovs-xdp", ufid)
        switch.appctl("xdp/specialise")
        for key in ARGUMENTS:
            if key != at_last:
                lab.wait_until(counts[key], f"{key} heard")
        switch.appctl("revalidator/purge")
        lab.wait_until(counts[at_last], "op_flow_del heard")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green:
        red.send(wire.udp_frame(RED, lab.mac_of(network.green), b"after", ports=(1, 3)))
        assert green.receive(lambda frame: b"after" in frame)
