# SPDX-License-Identifier: Apache-2.0
"""Python packages of PyPI that Debian has not, in the cache folder."""
import pathlib
import subprocess
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "vm"))

import machine  # noqa: E402

PYTHON = "/usr/bin/python3"             # As in Debian's packages of Open vSwitch and bcc.


def folder(name, *packages):
    """The folder 'name' of the cache with 'packages' and what they need, for PYTHONPATH.  Skips where they cannot be had."""
    place = machine.CACHE.parent / name
    complete = place / f".{'-'.join(packages).translate(dict.fromkeys(map(ord, '[]<>=.'), '_'))}"
    if not complete.exists():
        done = subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--upgrade", "--target", place,
                               *packages], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{', '.join(packages)} of PyPI cannot be had: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}")
        complete.touch()
    return place
