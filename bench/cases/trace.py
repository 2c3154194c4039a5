# SPDX-License-Identifier: Apache-2.0
import contextlib
import pathlib
import re
import statistics

from bench.cases import turns
from bench.lib import measure, world

TITLE = "A trace of one packet in 1,000"
GROUP = "Forwarding"
QUESTION = ("How much longer does a frame take from the generator through the switch to the sink, all of which runs on one core, "
            "while ovs-xdp-trace follows one packet in 1,000? Turns with and without a trace follow each other; each is compared "
            "with a bare redirect as in the case \"by turns\", and the switch runs the program that is specialised to its flow, "
            "which contains tracing only during a trace.")
RULE = "trace"
ALSO = ("ours-tcx",)
PAIRS = 4
ROWS = {"off": {"title": "a frame without a trace", "unit": "ns", "better": "less"},
        "on": {"title": "a frame during a trace", "unit": "ns", "better": "less"},
        "cost": {"title": "what the trace costs of the rate", "unit": "%", "better": "less"}}
SAYS = ("cost",)
TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/observe/ovs-xdp-trace"


def run(w, peer, settings):
    sinks = turns.make_paths(w, peer)
    seconds = max(1, settings["seconds"])
    off, on = [], []
    for _ in range(PAIRS):
        off.append(measure.over_bare(w, sinks, seconds, 1))
        with traced(w, peer):
            on.append(measure.over_bare(w, sinks, seconds, 1))
    return answers(off, on)


def answers(off, on):
    """Of pairs of measurements without and with a trace."""
    without = statistics.median(one["bare"] + one["value"] for one in off)
    more = statistics.median(b["value"] - a["value"] for a, b in zip(off, on))
    return {"off": {"value": without}, "on": {"value": without + more}, "cost": {"value": more / (without + more)}}


@contextlib.contextmanager
def traced(w, peer):
    """Meanwhile one packet in 1,000 is traced, and read."""
    follower = w.start(str(TOOL), "-t", str(peer.run / "vswitchd.ctl"), "-w", "/dev/null", "every=1000")
    world.wait_for(lambda: follower.poll() is not None or is_read(peer), "a trace")
    peer.rest()
    yield
    follower.terminate()
    _, said = follower.communicate(timeout=30)
    found = re.search(r"looked at (\d+) ", said)
    if follower.returncode or not found or not int(found[1]):
        raise world.Failed(f"nothing was traced: {said.strip()}")
    peer.rest()


def is_read(peer):
    """Whether all programs trace."""
    session = re.search(r"here is trace (\S+)", refusal(peer, "xdp/trace-stop", "1.1"))
    return session and not refusal(peer, "xdp/trace-read", session[1])


def refusal(peer, *command):
    """What the daemon says against a command, or nothing."""
    try:
        peer.appctl(*command)
    except world.Failed as problem:
        return str(problem)
    return ""
