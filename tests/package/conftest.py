# SPDX-License-Identifier: Apache-2.0
"""Tests of the packages: each on a host of its own (tests/system/lab.py), in a fresh copy of a system with stock Open
vSwitch.

tests/package/run builds the packages and makes that system; started by hand, pytest finds what it left."""
import contextlib
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))

import lab     # noqa: E402
import system as systems     # noqa: E402


def pytest_sessionstart():
    if os.geteuid() != 0:
        pytest.exit("the tests of the packages make network namespaces and load BPF programs: run as root", 2)
    if not systems.PACKAGES.is_dir():
        pytest.exit(f"there are no packages in {systems.PACKAGES}: run tests/package/run, which builds them", 2)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    os.environ["LC_ALL"] = "C.UTF-8"
    lab.enter()


@pytest.fixture(autouse=True)
def world():
    """What a test opens through this stack is closed after it."""
    lab.new_host()
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def system(world):
    """A system with stock Open vSwitch, without our packages."""
    return world.enter_context(systems.System())


@pytest.fixture
def installed(system):
    """The same with them."""
    system.install()
    return system
