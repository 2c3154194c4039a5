# SPDX-License-Identifier: Apache-2.0
"""Foreign programs: what a user has on a device beside the switch."""
import ctypes
import os
import struct

import pytest

import lab
import switch as switches
import xdp

BPF_PROG_LOAD, BPF_LINK_CREATE, BPF_OBJ_PIN = 5, 28, 6
TYPES = {"tc": 3, "xdp": 6}
TCX_INGRESS, TCX_EGRESS = 46, 47
TCX_NEXT, TCX_PASS, TCX_DROP = -1, 0, 2
XDP_PASS = 2
FUNCTION = switches.BUILD / "examples/xdp-function"


def load(kind, code):
    """The descriptor of a foreign program."""
    instructions, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    return xdp.bpf(BPF_PROG_LOAD, struct.pack("=IIQQ", TYPES[kind], len(code) // 8, ctypes.addressof(instructions),
                                              ctypes.addressof(licence)))


def program(kind, verdict):
    """One that is "return verdict"."""
    return load(kind, struct.pack("<BBhi", 0xb7, 0, 0, verdict) + struct.pack("<BBhi", 0x95, 0, 0, 0))


def pinned(kind, verdict, name):
    return pin(program(kind, verdict), name)


def pin(descriptor, name):
    """The path of a program that is held by that alone now."""
    path = f"/sys/fs/bpf/{name}"
    buffer = ctypes.create_string_buffer(os.fsencode(path))
    xdp.bpf(BPF_OBJ_PIN, struct.pack("=QI", ctypes.addressof(buffer), descriptor))
    os.close(descriptor)
    return path


class Link:
    """A foreign program at tcx of a device, as long as this is open."""

    def __init__(self, device, verdict, where=TCX_INGRESS):
        loaded = program("tc", verdict)
        try:
            self._link = xdp.bpf(BPF_LINK_CREATE, struct.pack("=IIII", loaded, index_of(device), where, 0))
        except lab.Failed as failed:
            pytest.skip(f"no tcx in this kernel: {failed}")
        finally:
            os.close(loaded)

    def close(self):
        os.close(self._link)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def index_of(device):
    with open(f"/sys/class/net/{device}/ifindex", encoding="ascii") as file:
        return int(file.read())


def has_tcx():
    try:
        loaded = program("tc", TCX_NEXT)
        os.close(xdp.bpf(BPF_LINK_CREATE, struct.pack("=IIII", loaded, index_of("lo"), TCX_INGRESS, 0)))
        return True
    except lab.Failed:
        return False
    finally:
        os.close(loaded)


def start_function(world, switch, namespace, *arguments):
    """Runs a function of a service chain, and returns when packets can pass."""
    log = switch.rundir / f"{namespace.name}.out"
    with open(log, "wb") as output:
        function = world.enter_context(namespace.start(FUNCTION, *arguments, stdout=output))
    lab.wait_until(lambda: "ready" in log.read_text() or not function.running(), "the function")
    assert function.running(), log.read_text()
    return function, log
