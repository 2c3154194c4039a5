# SPDX-License-Identifier: Apache-2.0
"""What numbers say, in sentences and in the first plot: all of it follows from the results."""

from bench.lib import field, summary

OURS = ("ours", "ours-xdp", "ours-tcx")

# What a newcomer asks: (case, row, above the bars, in a sentence after "N times").
GAINS = [
    ("forward", "1k", "Small packets forwarded per second, 1,000 flows", "the small packets per second"),
    ("rfc2544", "lossless-1", "Small packets forwarded per second without loss", "the small packets without loss"),
    ("normal", "1k", "Small packets forwarded per second as a learning switch", "the packets as a learning switch"),
    ("upcalls", "rate", "New flows set up per second", "the new flows per second"),
    ("tcp", "rate", "TCP between two containers, one stream", "the TCP throughput between containers"),
    ("latency", "p50", "Shortness of a request's round trip, median", "the speed of answers"),
]


def gains(results):
    """[(what, [(peer, title, times, low, high)])] for switches that one can choose; 1 is the reference."""
    found = []
    for case, row, what, _ in GAINS:
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
    """The same in words."""
    groups = dict(gains(results))
    shown = [f"{summary.number(times)} times {words}" for _, _, what, words in GAINS if what in groups
             for peer, _, times, *_ in groups[what] if peer == "ours"]
    if not shown:
        return ""
    best = sum(group[0][0] in OURS for group in groups.values())
    return (f"OVS-XDP has, of what stock Open vSwitch has with AF_XDP ports, {', '.join(shown)}. It is the best of "
            f"the switches measured in {best} of these {len(groups)}.")


def sentence(results, case):
    """What the plot of a case means: ours (or its engine, where the case is about that or ours was not measured)
    against the fastest other switch and the ceiling; in the rows that the case names, or the first, and where rows are
    a series in the last."""
    for ours in dict.fromkeys([results["cases"][case].get("about", "ours"), "ours", "ours-engine"]):
        rows = [row for row in results["cases"][case]["rows"] if summary.values(results, case, ours, row)]
        if rows:
            if results["cases"][case].get("plot") == "rows":
                return _from_least_to_most(results, case, rows, ours)
            said = ([row for row in results["cases"][case].get("says", ()) if row in rows]
                    or ([rows[0], rows[-1]] if results["cases"][case].get("plot") == "lines" else rows[:1]))
            return " ".join(_about_ours(results, case, row, ours) for row in dict.fromkeys(said))
    return ""


def _from_least_to_most(results, case, rows, peer):
    about = results["cases"][case]["rows"]
    middles = {row: summary.quartiles(list(summary.values(results, case, peer, row).values()))[1] for row in rows}
    ends = [f"{summary.number(middles[row] / field.UNITS.get(about[row]['unit'], 1))} {about[row]['unit']} "
            f"({about[row]['title']})" for row in (min(rows, key=middles.get), max(rows, key=middles.get))]
    return f"Between {' and '.join(ends)}."


def _about_ours(results, case, row, ours):
    about = results["cases"][case]["rows"][row]
    who = results["peers"][ours]["title"]
    parts = []
    rivals = [(times[1], peer) for peer, info in results["peers"].items() if info["role"] == "switch"
              and not summary.lost(results, case, peer, row) and (times := better(results, case, ours, row, peer))]
    if rivals:
        times, peer = min(rivals)
        parts.append(f"{summary.number(times)} times as good as the best other switch "
                     f"({results['peers'][peer]['title']})")
    for peer in "ceiling", "l2-xdp", "minimal", "direct":
        share = better(results, case, ours, row, peer)
        if share and about["better"] == "more":
            parts.append(f"{share[1]:.0%} of the {results['peers'][peer]['title']}")
        elif share:
            parts.append(f"{summary.number(share[1])} times as good as the {results['peers'][peer]['title']}")
    if any(summary.lost(results, case, peer, row) for peer in results["peers"]) and not rivals:
        parts.insert(0, "every other switch loses packets")
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
    if summary.lost(results, case, peer, row):
        return None
    ours = best_of_ours(results, case, row)
    return better(results, case, peer, row, ours) if ours else None


def best_of_ours(results, case, row):
    """Which of our hooks is best, by the medians; None if none was measured."""
    sign = 1 if results["cases"][case]["rows"][row]["better"] == "more" else -1
    found = {ours: sign * summary.quartiles(list(values.values()))[1] for ours in OURS if ours in results["peers"]
             and (values := summary.values(results, case, ours, row))}
    return max(found, key=found.get) if found else None
