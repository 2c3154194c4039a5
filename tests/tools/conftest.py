# SPDX-License-Identifier: Apache-2.0
"""The tools for people who run the switch, each test on a host of its own (tests/system/lab.py)."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))

import lab  # noqa: E402


def pytest_sessionstart():
    if os.geteuid() != 0:
        pytest.exit("the tests of the tools make network namespaces and load BPF programs: run as root", 2)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    lab.enter()


@pytest.fixture(autouse=True)
def world():
    lab.new_host()
