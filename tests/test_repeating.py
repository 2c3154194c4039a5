# SPDX-License-Identifier: Apache-2.0
"""A test that must be repeated is a defect, and the output says so: tests/ovs/run and scripts/check."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import types

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent


def load(path, name):
    loader = importlib.machinery.SourceFileLoader(name, str(TOP / path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = writes
    return module


EXPECTATIONS = load("tests/ovs/expectations.py", "expectations")
CHECK = load("scripts/check", "check")


class FakeTest:
    def __init__(self, number):
        self.number, self.name = number, f"test {number}"


def result(status):
    return types.SimpleNamespace(status=status, where="here.at:1" if status != "ok" else "", log="log")


def attempts(n_tests, failing, failing_again=()):
    """(tests, attempts) of 'n_tests' tests, of which those numbered 'failing' fail at first."""
    tests = [FakeTest(number) for number in range(n_tests)]
    first = {test: result("FAILED" if test.number in failing else "ok") for test in tests}
    again = {test: result("FAILED" if test.number in failing_again else "ok") for test in tests if test.number in failing}
    return tests, [first, again] if again else [first]


def test_repeated_once():
    tests, tries = attempts(4, {1, 2}, {2})
    assert EXPECTATIONS.worth_repeating(tries[:1], {}) == [tests[1], tests[2]]
    assert EXPECTATIONS.worth_repeating(tries, {}) == []


def test_many_failures_are_not_repeated():
    _, tries = attempts(40, set(range(30)))
    assert EXPECTATIONS.worth_repeating(tries[:1], {}) == []


@pytest.mark.parametrize("failing, failing_again, status, said", [
    (set(), set(), 0, "9 passed, 0 failed, 0 skipped; all as expected\n"),
    ({1}, set(), 0, "UNSTEADY: 1: test 1: passed when repeated; before, FAILED at here.at:1"),
    ({1}, set(), 0, "; all as expected; 1 unsteady, which are defects\n"),
    ({1}, {1}, 1, "UNEXPECTED: 1: test 1: FAILED"),
    ({1, 2, 3, 4}, set(), 1, "failed: 4 unsteady tests; up to 3 are no failure of the run")])
def test_judged(failing, failing_again, status, said, capsys):
    tests, tries = attempts(9, failing, failing_again)
    assert EXPECTATIONS.judge(tests, tries, {}) == status
    assert said in capsys.readouterr().out


def test_named_in_the_table():
    """scripts/check lists what tests/ovs/run and pytest call unsteady apart from what failed."""
    lines = CHECK.IN_TROUBLE.findall("UNSTEADY: 1: a: passed when repeated; before, FAILED\n"
                                     "RERUN tests/system/test_a.py::test_b - Error\n"
                                     "UNEXPECTED: 2: c: FAILED\nRERUN tests/x.py::test_d - E\nFAILED tests/x.py::test_d - E\n")
    failed, unsteady = CHECK.in_trouble(lines)
    assert failed == ["UNEXPECTED: 2: c: FAILED", "FAILED tests/x.py::test_d - E"]
    assert unsteady == ["1: a: passed when repeated; before, FAILED", "tests/system/test_a.py::test_b - Error"]
