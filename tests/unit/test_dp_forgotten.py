#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is added to a list of dp/ and forgotten elsewhere does not compile.  test_dp_forgotten.py COMPILER SOURCE"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAM = """
#include "dp/seam_native.h"
#include "dp/pipeline.h"
int main(void) { return 0; }
"""
# (file, row, the same with another before it, what the compiler says, or None where it must be content)
ADDED = (
    ("dp/op.h", "    X(METER, ", "    X(METER, ", None),
    ("dp/op.h", "    X(METER, ", '    X(FORGOTTEN, 0, "an operation that no case executes") \\\n    X(METER, ', "DP_OP_FORGOTTEN"),
)


def main():
    compiler, source = sys.argv[1], pathlib.Path(sys.argv[2])
    failed = 0
    for file, before, after, wanted in ADDED:
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            shutil.copytree(source / "dp", tree / "dp")
            text = (tree / file).read_text()
            if before not in text:
                sys.exit(f"{file} has no row {before!r}: change this test")
            (tree / file).write_text(text.replace(before, after))
            (tree / "program.c").write_text(PROGRAM)
            run = subprocess.run([compiler, "-fsyntax-only", "-std=gnu11", "-I.", "program.c"], cwd=tree, text=True,
                                 capture_output=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
            good = run.returncode == 0 if wanted is None else run.returncode != 0 and wanted in run.stderr
            print(f"{file}: {wanted or 'unchanged'}: {'as it should be' if good else 'WRONG: ' + run.stderr}")
            failed |= not good
    return failed


if __name__ == "__main__":
    sys.exit(main())
