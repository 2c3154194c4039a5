# SPDX-License-Identifier: Apache-2.0
"""A guest with virtio-net on a tap of the switch's namespace: that of tests/system/guest.py."""

import contextlib
import json
import pathlib
import sys

from bench.lib import world

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/system"))

import guest as guests  # noqa: E402  pylint: disable=wrong-import-position
import lab  # noqa: E402  pylint: disable=wrong-import-position

ADDRESS = world.SINK_IP
WITHOUT_OFFLOADS = ",csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off"
SLACK = 15                                  # Seconds that iperf3 may take longer than asked for.
FRAME_PAYLOAD = 18                          # Of a frame of 64 bytes with its frame check sequence.


class Guest:
    def __init__(self, card):
        self._card = card
        self.tap = card.tap
        card.run("ip", "address", "add", f"{ADDRESS}/8", "dev", "eth0")

    def wait_for_path(self):
        world.wait_for(lambda: " 0% packet loss" in self._card.run("ping", "-c", "1", "-W", "1", world.GENERATOR_IP, check=False),
                       "an answer from the container to the guest", 30)

    def tcp(self, seconds, back=False):
        """A measurement: goodput in bits per second; 'back': to the guest."""
        return measurement(lambda: self._iperf(seconds, back)["sum_received"]["bits_per_second"])

    def udp(self, seconds, back=False):
        """The same: received frames per second of a sender that sends all it can."""
        def rate():
            said = self._iperf(seconds, back, "--udp", "--bitrate", "0", "--length", str(FRAME_PAYLOAD))["sum"]
            return (said["packets"] - said["lost_packets"]) / said["seconds"]

        return measurement(rate)

    def _iperf(self, seconds, back, *options):
        said = self._card.run("iperf3", "--client", world.GENERATOR_IP, "--json", "--omit", "1", "--time", str(seconds),
                              "--connect-timeout", "5000", *["--reverse"] * back, *options, check=False, limit=seconds + SLACK)
        answer = json.loads(said[said.index("{"):]) if "{" in said else {"error": f"no answer within {SLACK} s"}
        if "error" in answer:
            raise world.Failed(f"iperf3: {answer['error'].strip()}")
        return answer["end"]


def measurement(measure):
    """Its value, or why there is none: other rows may have one."""
    try:
        return {"value": measure()}
    except (world.Failed, lab.Failed) as problem:
        return {"failed": str(problem)}


@contextlib.contextmanager
def booted(offloads, cpu):
    """A Guest, whose tap is up and nobody's port yet, with virtio-net's default 'offloads' or without.  All of it runs on
    'cpu': where the scheduler puts an emulator's threads decides otherwise how fast a guest is."""
    card = guests.Card("guest", "virtio-net-pci" + ("" if offloads else WITHOUT_OFFLOADS))
    try:
        with guests.Guest(card, cpus=1, cpu=cpu):
            yield Guest(card)
    except (guests.Unusable, lab.Failed) as problem:
        raise world.Failed(str(problem)) from problem
