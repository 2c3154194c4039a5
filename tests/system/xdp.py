# SPDX-License-Identifier: Apache-2.0
"""XDP and BPF as the kernel shows them: what is attached to a device, what a process holds."""
import ctypes
import json
import os
import pathlib
import re
import struct

import lab

BPF_PROG_LOAD, BPF_OBJ_PIN, BPF_PROG_QUERY, BPF_PROG_TYPE_SCHED_CLS, BPF_PROG_TYPE_XDP = 5, 6, 16, 3, 6
TCX_INGRESS, TCX_EGRESS = 46, 47          # BPF_TCX_INGRESS, BPF_TCX_EGRESS.
SYS_BPF = {"x86_64": 321, "aarch64": 280}

_libc = ctypes.CDLL(None, use_errno=True)


def attached(device):
    """(mode, program id) of the XDP program on 'device': mode is "native" or "generic"; None without a program."""
    link = json.loads(lab.run("ip", "-j", "-d", "link", "show", "dev", device))[0]
    found = link.get("xdp")
    return ({1: "native", 2: "generic"}.get(found["mode"], found["mode"]), found["prog"]["id"]) if found else None


def objects(pid):
    """The BPF objects that a process holds open: {("prog", id), ("map", id), ("link", id)}."""
    found = set()
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        for kind, number in re.findall(r"^(prog|map|link)_id:\s*(\d+)$", _text(info), re.MULTILINE):
            found.add((kind, int(number)))
    return found


def in_the_kernel():
    """All programs, maps and links, as objects() has them."""
    return {(kind, item["id"]) for kind in ("prog", "map", "link") for item in json.loads(lab.run("bpftool", "-j", kind, "show"))}


def groups(pid):
    """How many maps of the type DEVMAP_HASH (core/programs/group.c) a process holds open."""
    return sum("map_type:\t25\n" in _text(info) for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir())


def member(file, struct, name):
    """(offset, length) in bytes of a member of a struct, as the type information of a BPF object says."""
    types = json.loads(lab.run("bpftool", "-j", "btf", "dump", "file", file))["types"]
    by_id = {entry["id"]: entry for entry in types}

    def length(entry):
        if entry["kind"] == "ARRAY":
            return entry["nr_elems"] * length(by_id[entry["type_id"]])
        return entry["size"] if "size" in entry else length(by_id[entry["type_id"]])

    (found,) = (entry for entry in types if entry["kind"] == "STRUCT" and entry["name"] == struct)
    (wanted,) = (entry for entry in found["members"] if entry["name"] == name)
    return wanted["bits_offset"] // 8, length(by_id[wanted["type_id"]])


def _text(path):
    try:
        return path.read_text()
    except OSError:
        return ""                       # Closed meanwhile.


def exists(kind, number):
    """Whether the kernel still has a BPF object."""
    return '"error"' not in lab.run("bpftool", "-j", kind, "show", "id", str(number), check=False)


def waits(kind, number):
    """Whether an object is a program of core/kernel/grace.c, which a daemon that ever deleted a flow keeps until it ends."""
    return kind == "prog" and '"type":"raw_tracepoint"' in lab.run("bpftool", "-j", "prog", "show", "id", str(number),
                                                                   check=False)


def is_adopted(kind, number):
    """Whether the next instance takes over the map itself (core/programs/state.h)."""
    shown = lab.run("bpftool", "-j", kind, "show", "id", str(number), check=False)
    return kind == "map" and any(f'"name":"dp_{name}"' in shown for name in ("meters", "sequence"))


def pin_foreign_program(path, kind=BPF_PROG_TYPE_XDP):
    """Loads a foreign program, "return 2" (XDP_PASS), and pins it at 'path'."""
    code = struct.pack("<BBhi", 0xb7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0)
    instructions, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    program = bpf(BPF_PROG_LOAD, struct.pack("=IIQQ", kind, 2, ctypes.addressof(instructions),
                                              ctypes.addressof(licence)))
    name = ctypes.create_string_buffer(os.fsencode(path))
    bpf(BPF_OBJ_PIN, struct.pack("=QI", ctypes.addressof(name), program))
    os.close(program)


def _query(device, where):
    """Numbers of the programs and of the links at tcx of a device, first to last."""
    programs, links = (ctypes.c_uint32 * 64)(), (ctypes.c_uint32 * 64)()
    with open(f"/sys/class/net/{device}/ifindex", encoding="ascii") as file:
        attributes = struct.pack("=IIIIQIIQQ", int(file.read()), where, 0, 0, ctypes.addressof(programs), len(programs), 0, 0,
                                 ctypes.addressof(links))
    bpf(BPF_PROG_QUERY, attributes)
    return [number for number in programs if number], [number for number in links if number]


def tcx_ids(device, where=TCX_INGRESS):
    """The programs there."""
    return _query(device, where)[0]


def tcx_links(device, where=TCX_INGRESS):
    """The links there."""
    return _query(device, where)[1]


def at_tcx(device, where=TCX_INGRESS):
    """Their names."""
    return [json.loads(lab.run("bpftool", "-j", "prog", "show", "id", number)).get("name")
            for number in tcx_ids(device, where)]


def at_ingress(device):
    """The programs that packets arriving at 'device' meet, in their order: those at tcx, then those of clsact filters."""
    try:
        links = tcx_ids(device)
    except lab.Failed:
        links = []                      # Before Linux 6.6.
    filters = json.loads(lab.run("tc", "-j", "filter", "show", "dev", device, "ingress"))
    return links + [item["options"]["prog"]["id"] for item in filters if "prog" in item.get("options", {})]


def bpf(command, attributes):
    """The system call bpf(): returns its result."""
    buffer = ctypes.create_string_buffer(attributes.ljust(120, b"\0"))
    result = _libc.syscall(SYS_BPF[os.uname().machine], command, buffer, 120)
    if result < 0:
        raise lab.Failed(f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return result
