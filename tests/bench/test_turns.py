# SPDX-License-Identifier: Apache-2.0
"""What is said of test runs by turns: the median of their differences, once all frames have arrived."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))

from bench.lib import measure, world  # noqa: E402


class Sink:
    """Has received other frames before."""

    def __init__(self, arrive):
        self.counts = [5, 5 + arrive]

    def read(self):
        return {"packets": self.counts.pop(0)}


class World:
    def take_turns(self, device, other, seconds, flows):
        assert (device, other) == ("g0", "g1")
        return {"frames": 1000, "ns": [[900, 100]] * 2 + [[110, 100], [112, 101], [130, 100], [90, 95], [112, 101],
                                                          [500, 100], [111, 100], [108, 99]]}


def over_bare(*arrive):
    return measure.over_bare(World(), [Sink(frames) for frames in arrive], 1, 1)


def test_median_after_warming_up():
    assert over_bare(10000, 10000) == {"value": pytest.approx(11e-9), "bare": pytest.approx(100e-9)}


@pytest.mark.parametrize("arrive", [(10000, 9900), (9900, 10000)])
def test_loss_is_no_speed(arrive):
    with pytest.raises(world.Failed, match="100 of 10000 frames did not arrive"):
        over_bare(*arrive)
