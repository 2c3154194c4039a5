# SPDX-License-Identifier: Apache-2.0
"""Each mutant of connection tracking can be made: its text stands once in the present code, and it changes it.

That the tests see each is what `make check-all` asks, in a quarter of an hour: tests/parity/ct_mutants.py."""
import collections
import importlib.util
import pathlib

TOP = pathlib.Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("ct_mutants", TOP / "tests/parity/ct_mutants.py")
CT_MUTANTS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(CT_MUTANTS)
ALL = CT_MUTANTS.MUTANTS + CT_MUTANTS.TABLE_MUTANTS


def test_each_can_be_made():
    wrong = []
    for name, file, old, new in ALL:
        n = (TOP / "dp" / file).read_text(encoding="utf-8").count(old)
        if n != 1 or old == new:
            wrong.append(f"{name}: stands {n} times in dp/{file}: {old}" if n != 1 else f"{name}: changes nothing")
    assert not wrong, "\n".join(wrong)


def test_each_has_a_name_of_its_own():
    assert not [name for name, n in collections.Counter(mutant[0] for mutant in ALL).items() if n > 1]
