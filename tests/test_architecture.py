# SPDX-License-Identifier: Apache-2.0
"""What depends on the machine: the build refuses those that nobody has tried, before it looks for anything else; programs have
DP_ORDER()'s instruction where processors reorder loads, and none where they do not."""
import pathlib
import shutil
import struct
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
CROSS = """
[binaries]
c = 'cc'
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = '{family}'
cpu = '{family}'
endian = '{endian}'
"""
CLANGS = [f"clang-{version}" for version in (19, 22, 21, 20, 18, 17, 16)] + ["clang"]
PROGRAM = """
#include "dp/table.h"
struct pair { __u64 first, second; };
__u64 table_version(void) { return DP_TABLE_VERSION; }
__u64 read_pair(struct pair *pair) { __u64 first = DP_READ_FIRST(pair->first); return first + DP_READ_ONCE(pair->second); }
"""
# A BPF instruction: opcode, registers, offset, immediate value.  Atomic operation on 64 bits: exchange (linux/bpf.h).
INSTRUCTION = struct.Struct("<BBhi")
EXCHANGE = 0xdb, 0xe1


@pytest.mark.parametrize("family, endian", [("arm", "little"), ("riscv64", "little"), ("s390x", "big"), ("aarch64", "big")])
def test_other_machines_are_refused(tmp_path, family, endian):
    cross = tmp_path / "cross"
    cross.write_text(CROSS.format(family=family, endian=endian), encoding="utf-8")
    done = subprocess.run(["meson", "setup", f"--cross-file={cross}", tmp_path / "build", TOP], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode and f"OVS-XDP runs on x86-64 and arm64, not on {family} ({endian}-endian)" in done.stdout


def sections(file):
    """Name -> bytes of each section of an ELF file of 64 bits."""
    data = file.read_bytes()
    start, = struct.unpack_from("<Q", data, 40)
    n, names = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(n)]

    def name_at(offset):
        begin = headers[names][4] + offset
        return data[begin:data.index(b"\0", begin)].decode()

    return {name_at(header[0]): data[header[4]:header[4] + header[5]] for header in headers}


@pytest.mark.parametrize("machine, exchanges, version", [
    (["-D__TARGET_ARCH_x86"], 0, None), (["-D__TARGET_ARCH_arm64"], 1, 1018), ([], 1, 1018)])
def test_programs_are_ordered(tmp_path, machine, exchanges, version):
    """A program that is not said to be for x86-64 is for all, and its version says so."""
    clang = next((name for name in CLANGS if shutil.which(name)), None)
    assert clang, "clang is needed: scripts/deps installs it"
    source, made = tmp_path / "ordered.c", tmp_path / "ordered.o"
    source.write_text(PROGRAM, encoding="utf-8")
    headers = [word for name in ("x86_64", "aarch64") for word in ("-idirafter", f"/usr/include/{name}-linux-gnu")]
    subprocess.run([clang, "-target", "bpf", "-mcpu=v3", "-O2", "-I", TOP, *headers, *machine, "-c", source, "-o", made],
                   check=True)
    code = [INSTRUCTION.unpack_from(sections(made)[".text"], at) for at in range(0, len(sections(made)[".text"]), 8)]
    assert sum((opcode, value) == EXCHANGE for opcode, _, _, value in code) == exchanges
    assert code[0][3] == version or version is None and code[0][3] < 1000
