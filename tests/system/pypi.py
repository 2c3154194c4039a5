# SPDX-License-Identifier: Apache-2.0
"""What tests get from elsewhere, in the cache folder.  A test's own host has no network: commands run where pytest was started."""
import hashlib
import os
import pathlib
import shutil
import subprocess

import pytest

PYTHON = "/usr/bin/python3"             # As in Debian's packages of Open vSwitch and bcc.
VM = pathlib.Path(__file__).resolve().parent.parent / "vm"
OUTSIDE = "nsenter", "-t", str(os.getppid()), "-m", "-n", "--"


def _run(what, *command):
    """What a command prints; skips if it fails."""
    done = subprocess.run([*OUTSIDE, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{what} cannot be had: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}")
    return done.stdout.strip()


def cached(function, *arguments):
    """The path that a function of tests/vm/machine.py returns, which gets and keeps what is there."""
    return pathlib.Path(_run(f"{function}{arguments}", PYTHON, "-c",
                             f"import sys; sys.path.append({str(VM)!r}); import machine; print(machine.{function}{arguments!r})"))


def folder(name, *packages):
    """The folder 'name' of the cache with 'packages' of PyPI and what they need, for PYTHONPATH."""
    place = cached("CACHE.joinpath", f"../{name}").resolve()
    complete = place / f".{'-'.join(packages).translate(dict.fromkeys(map(ord, '[]<>=.'), '_'))}"
    if not complete.exists():
        _run(", ".join(packages), PYTHON, "-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--upgrade", "--target",
             str(place), *packages)
        complete.touch()
    return place


def locked(name, file):
    """The same with the packages that 'file' lists, one with its version in a line, and nothing else."""
    place = cached("CACHE.joinpath", f"../{name}").resolve()
    complete = place / ("." + hashlib.sha256(file.read_bytes()).hexdigest()[:12])
    if not complete.exists():
        shutil.rmtree(place, ignore_errors=True)
        _run(f"what {file.name} lists", PYTHON, "-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--no-deps", "--no-compile",
             "--target", str(place), "--requirement", str(file))
        complete.touch()
    return place
