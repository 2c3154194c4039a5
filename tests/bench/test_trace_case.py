# SPDX-License-Identifier: Apache-2.0
"""What is said of a trace's cost: pairs of measurements, as a share of the rate."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))

from bench.cases import trace  # noqa: E402
from bench.lib import world  # noqa: E402


def times(bare, *over):
    return [{"bare": bare * 1e-9, "value": value * 1e-9} for value in over]


def test_share_of_the_rate():
    found = trace.answers(times(80, 20, 22, 20), times(90, 21, 23, 21))
    assert found["off"]["value"] == pytest.approx(100e-9) and found["on"]["value"] == pytest.approx(101e-9)
    assert found["cost"]["value"] == pytest.approx(1 / 101)


def test_noise_may_make_it_negative():
    assert trace.answers(times(80, 20), times(80, 19))["cost"]["value"] < 0


class Peer:
    """Answers as the daemon does."""

    def __init__(self, *refusals):
        self._refusals = list(refusals)

    def appctl(self, *_):
        if self._refusals and (said := self._refusals.pop(0)):
            raise world.Failed(said)


@pytest.mark.parametrize("refusals, ready", [
    (['trace "1.1" was begun in another process'], False),
    (['trace "1.1" was begun in another process; here is trace 7.1', "trace 7.1 answers by itself, and programs are being loaded"],
     False),
    (['trace "1.1" was begun in another process; here is trace 7.1', ""], True)])
def test_waits_for_all_programs(refusals, ready):
    assert bool(trace.is_read(Peer(*refusals))) == ready
