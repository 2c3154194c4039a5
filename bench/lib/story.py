# SPDX-License-Identifier: Apache-2.0
"""What numbers say, in sentences and in the first plot: all of it follows from the results."""

from bench.lib import field, summary

OURS = ("ours", "ours-xdp")

# What a newcomer asks: (case, row, in words).
GAINS = [
    ("forward", "1k", "Small packets forwarded per second, 1,000 flows"),
    ("normal", "1k", "The same as a learning switch"),
    ("tcp", "rate", "TCP between two containers, one stream"),
    ("latency", "p50", "Round trip of a request, median (shorter is better)"),
    ("upcalls", "rate", "New flows set up per second"),
    ("rfc2544", "lossless-1", "Small packets per second without loss"),
]


def gains(results):
    """[(what, [(peer, title, times, low, high)])] for switches that one can choose; 1 is the reference."""
    found = []
    for case, row, what in GAINS:
        group = []
        for peer, about in results["peers"].items():
            if about["role"] in ("ours", "switch") and case in results["cases"]:
                times = better(results, case, peer, row)
                if times:
                    group.append((peer, about["title"], times[1], times[0], times[2]))
        if len(group) > 1:
            found.append((what, sorted(group, key=lambda item: -item[2])))
    return found


def better(results, case, peer, row, reference=field.REFERENCE):
    """Quartiles of how many times as good as the reference 'peer' was in the same round, whether more or less is
    better; None if one of them is missing."""
    if peer == reference:
        return (1, 1, 1) if summary.values(results, case, peer, row) else None
    found = summary.ratio(results, case, peer, row, reference)
    if not found or not all(found):
        return None
    less = results["cases"][case]["rows"][row]["better"] == "less"
    return tuple(1 / value for value in reversed(found)) if less else found


def gains_sentence(results):
    best = [(what, group) for what, group in gains(results) for peer, *_ in group[:1] if peer in OURS]
    every = gains(results)
    shown = [f"{summary.number(bar[2])} times in “{what[0].lower()}{what[1:]}”" for what, group in every
             for bar in group if bar[0] == "ours"]
    return (f"OVS-XDP against stock Open vSwitch with AF_XDP ports: {', '.join(shown)}. Of these {len(every)} questions "
            f"it answers {len(best)} best of all switches measured." if shown else "")


def sentence(results, case):
    """What the plot of a case means: ours, or where it was not measured its engine, against the fastest other switch
    and the ceiling; in the first row, and where rows are a series in the last."""
    for ours in "ours", "ours-engine":
        rows = [row for row in results["cases"][case]["rows"] if summary.values(results, case, ours, row)]
        if rows:
            said = [rows[0], rows[-1]] if results["cases"][case].get("plot") == "lines" else rows[:1]
            return " ".join(_about_ours(results, case, row, ours) for row in dict.fromkeys(said))
    return ""


def _about_ours(results, case, row, ours):
    about = results["cases"][case]["rows"][row]
    who = results["peers"][ours]["title"]
    parts = []
    rivals = [(times[1], peer) for peer, info in results["peers"].items() if info["role"] == "switch"
              and (times := better(results, case, ours, row, peer))]
    if rivals:
        times, peer = min(rivals)
        parts.append(f"{summary.number(times)} times as good as the best other switch "
                     f"({results['peers'][peer]['title']})")
    for peer in "ceiling", "l2-xdp", "minimal":
        share = better(results, case, ours, row, peer)
        if share:
            parts.append(f"{share[1]:.0%} of the {results['peers'][peer]['title']}")
    unit = field.UNITS.get(about["unit"], 1)
    middle = summary.quartiles(list(summary.values(results, case, ours, row).values()))[1] / unit
    said = f"{about['title']}: {who} has {summary.number(middle)} {about['unit']}"
    return f"{said}, {'; '.join(parts)}." if parts else f"{said}."


def behind(results):
    """Where a switch that one can choose is faster than ours beyond noise:
    [(case, row, the peer that is fastest, quartiles of how many times as good it is)]."""
    found = []
    for case, about in results["cases"].items():
        for row in about["rows"]:
            rivals = [(times[1], peer, times) for peer, info in results["peers"].items() if info["role"] == "switch"
                      and (times := _against_ours(results, case, row, peer)) and times[0] > 1.02]
            if rivals:
                _, peer, times = max(rivals)
                found.append((case, row, peer, times))
    return found


def _against_ours(results, case, row, peer):
    """How many times as good as ours 'peer' is, with the better one of our hooks for sockets; None if it lost packets
    where they were to be carried at a given rate."""
    lost = list(summary.values(results, case, peer, row, "lost").values())
    if lost and summary.quartiles(lost)[1] > 0.01:
        return None
    found = [times for ours in OURS if ours in results["peers"]
             and (times := better(results, case, peer, row, ours))]
    return min(found, key=lambda times: times[1]) if found else None
