# SPDX-License-Identifier: Apache-2.0
"""What a datapath of the default sizes takes: the kernel's maps and programs, and the process."""
import json
import pathlib
import re

import pytest

import lab
import switch as switches
import xdp

LIMIT = 128_000_000


def process_bytes(pid):
    """Resident memory that only this process has, without the pages of BPF maps: those count as the kernel's."""
    total, is_map = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="ascii", errors="replace").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_map = "bpf-map" in line
        elif found := re.match(r"Private_(?:Clean|Dirty): +(\d+) kB", line):
            total += 0 if is_map else 1024 * int(found[1])
    return total


def kernel_bytes(pid):
    """What the process's maps and programs are charged, by name."""
    found = {}
    for kind, number in xdp.objects(pid):
        if kind != "link":
            info = json.loads(lab.run("bpftool", "-j", kind, "show", "id", str(number)))
            name = f"{kind} {info['name']}"
            found[name] = found.get(name, 0) + int(info["bytes_memlock"])
    return found


def test_default_sizes(network):
    """Three ports, default sizes, in use: all buffers are resident, all tables allocated."""
    if switches.DATAPATH != "xdp":
        pytest.skip("the limit is our datapath's")
    pid = network.switch.process.pid
    network.switch.flows("br0", "actions=normal")
    own, kernel = process_bytes(pid), kernel_bytes(pid)
    for name, size in sorted(kernel.items(), key=lambda item: -item[1])[:6]:
        print(f"{size / 1e6:7.1f} MB  {name}")
    print(f"{own / 1e6:7.1f} MB  the process, {own + sum(kernel.values()):,} bytes in all")
    assert 200_000 * 192 < sum(kernel.values()) and own + sum(kernel.values()) < LIMIT
