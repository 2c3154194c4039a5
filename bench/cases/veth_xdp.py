# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure, world

TITLE = "XDP in a container behind the switch"
GROUP = "Veth XDP"
QUESTION = ("The switch forwards to a veth, in whose container an XDP program drops the frames, sends them back "
            "(through the switch, to the generator's namespace), or redirects them to another veth: native and "
            "generic XDP there, one flow and a hundred. How many frames per second get to their end?")
RULE = "output"
ROWS = {f"{verdict}{mode}-{flows}": {
            "title": f"{verdict}{mode.replace('-', ', ')}, {flows} flow{'s' * (flows > 1)}",
            "unit": "Mpps", "better": "more"}
        for flows in (1, 100) for mode in ("", "-generic") for verdict in ("drop", "tx", "redirect")}


def run(w, peer, settings):
    ports = w.make_path()
    w.make_pair("sink", "x0", "x1")
    for device in "s0", "x0":               # Frames can be redirected into them, also without native XDP.
        w.inside("sink", "ethtool", "-K", device, "gro", "on")
    peer.start(w, ports, RULE)
    seconds = max(0.25, settings["seconds"] / 2)
    answers = {}
    for mode in "", "-generic":
        for verdict in CONTAINER:
            answers |= through(w, peer, verdict, mode, seconds)
    return answers


def through(w, peer, verdict, mode, seconds):
    """The rows of one verdict; a path that does not work fails its own rows only."""
    command, more, sink_at = CONTAINER[verdict]
    held = [w.counting(command, "--dev", "s0", *more, *(["--generic"] if mode else []), namespace="sink")]
    if sink_at:
        held.append(w.sink(*sink_at))
    sink = held[-1]
    rows = {f"{verdict}{mode}-{flows}": flows for flows in (1, 100)}
    try:
        w.wait_for_path(sink, limit=3)
        return {row: measure.received_rate(w, peer, sink, seconds, flows) for row, flows in rows.items()}
    except world.Failed as failure:
        why = "; XDP_TX on a veth needs an XDP program on its peer, too" if verdict == "tx" else ""
        return {row: {"failed": f"{failure}{why}"} for row in rows}
    finally:
        for counts in held:
            w.release(counts.child)


# What the container does: command, its options, and where frames are counted if not by itself.
CONTAINER = {
    "drop": ("sink", [], None),
    "tx": ("return", [], ("g0", "gen")),
    "redirect": ("forward", ["--to", "x0"], ("x1", "sink")),
}
