# SPDX-License-Identifier: Apache-2.0
"""The search for the greatest rate without loss, with a switch that is made up."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))

from bench.lib import measure  # noqa: E402


class Switch:
    """Carries 'capacity' packets per second and loses what is more, or lets it wait; and loses the share 'leak'."""

    def __init__(self, capacity, leak=0.0, waits=False):
        self.capacity, self.leak, self.waits, self.packets, self.trials = capacity, leak, waits, 0, []

    def generate(self, seconds, flows, rate):
        assert flows == 7
        sent = round(seconds * (min(rate, self.capacity) if self.waits else rate))
        self.trials.append(rate)
        self.packets += round(min(sent, seconds * self.capacity) * (1 - self.leak))
        return Finished({"sent": sent, "seconds": seconds})

    def read(self):
        return {"packets": self.packets}


class Finished:
    returncode = 0

    def __init__(self, answer):
        self._answer = answer

    def communicate(self, timeout):
        assert timeout
        return json.dumps(self._answer), ""


@pytest.fixture(name="quick", autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(measure, "DRAIN", 0)


@pytest.mark.parametrize("received, capacity, leak, loss, wanted", [
    (1e6, 1e6, 0, 0.001, 1e6),              # What can be received at most is without loss, too.
    (1e6, 4e5, 0, 0.001, 4e5),              # Overload receives more than can be carried without loss.
    (1e6, 1e6, 0.01, 0.001, 0),             # Every hundredth is lost at any rate: more than the threshold ...
    (1e6, 1e6, 0.01, 0.02, 1e6),            # ... or less.
])
def test_limited_rate(monkeypatch, received, capacity, leak, loss, wanted):
    switch = Switch(capacity, leak)
    monkeypatch.setattr(measure, "received_rate", lambda *_args, **_more: {"value": received})
    most, found = measure.limited_rate(switch, None, switch, {"seconds": 0.5, "loss": loss}, 7)
    assert most["value"] == received
    assert wanted - found["step"] <= found["value"] <= wanted * (1 + loss) + 1
    assert found["step"] <= 0.01 * received and len(switch.trials) == measure.SEARCH_STEPS


def test_rate_that_was_not_sent_does_not_count(monkeypatch):
    """A switch on the generator's own core lets it wait: nothing is lost at any rate that is asked for."""
    switch = Switch(9e5, waits=True)
    monkeypatch.setattr(measure, "received_rate", lambda *_args, **_more: {"value": 1e6})
    _, found = measure.limited_rate(switch, None, switch, {"seconds": 0.5, "loss": 0.001}, 7)
    assert found["value"] == pytest.approx(9e5, rel=0.01)
