# SPDX-License-Identifier: Apache-2.0
"""The build refuses machines whose CPUs order loads weakly, before it looks for anything else."""
import pathlib
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


@pytest.mark.parametrize("family, endian", [("aarch64", "little"), ("riscv64", "little"), ("s390x", "big")])
def test_other_machines_are_refused(tmp_path, family, endian):
    cross = tmp_path / "cross"
    cross.write_text(CROSS.format(family=family, endian=endian), encoding="utf-8")
    done = subprocess.run(["meson", "setup", f"--cross-file={cross}", tmp_path / "build", TOP], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode and f"OVS-XDP runs on x86-64 only, not on {family}" in done.stdout
