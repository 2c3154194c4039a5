# SPDX-License-Identifier: Apache-2.0
"""What numbers say, in sentences and in the first plot: all of it follows from the results."""

from bench.lib import field, summary

OURS = ("ours", "ours-xdp", "ours-tcx")
NOISE = 1.02                                # Ratios nearer to 1 are 1.
# Rows in which only who carries at least half as much as ours can be better: (case, row): the row that says how much.
AT_LIKE_RATES = {("tcp", "retransmits"): "rate"}

# What a newcomer asks: (case, row, above the bars, in a sentence after "N times").
GAINS = [
    ("forward", "1k", "64-byte packets forwarded per second, 1,000 flows", "the 64-byte packets per second"),
    ("rfc2544", "lossless-1", "64-byte packets forwarded per second without loss", "the 64-byte packets without loss"),
    ("normal", "1k", "64-byte packets forwarded per second as a learning switch", "the packets as a learning switch"),
    ("upcalls", "rate", "new flows set up per second", "the new flows per second"),
    ("tcp", "rate", "TCP between two containers, one stream", "the TCP throughput between containers"),
    ("latency", "p50", "UDP requests answered one after the other", "the requests answered one after the other"),
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
    """How many times as good as the reference 'peer' was, whether more or less is better: (low, ratio of the medians,
    high) as summary.ratio() has them; None if one of them is missing."""
    if peer == reference:
        return (1, 1, 1) if summary.values(results, case, peer, row) else None
    less = results["cases"][case]["rows"][row]["better"] == "less"
    found = summary.ratio(results, case, *((reference, row, peer) if less else (peer, row, reference)))
    return found if found and found[1] else None


def gains_sentence(results):
    """The same in words."""
    groups = dict(gains(results))
    shown = [f"{summary.times(times)} times {words}" for _, _, what, words in GAINS if what in groups
             for peer, _, times, *_ in groups[what] if peer == "ours"]
    if not shown:
        return ""
    best = sum(group[0][0] in OURS for group in groups.values())
    return (f"Beside stock Open vSwitch with AF_XDP ports OVS-XDP has {', '.join(shown)}. It is the fastest of the "
            f"switches measured in {best} of these {len(groups)}.")


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
        parts.append(f"{summary.times(times)} times as good as the best other switch "
                     f"({results['peers'][peer]['title']}: {_middle(results, case, peer, row)})")
    for peer in "ceiling", "l2-xdp", "minimal", "direct":
        share = better(results, case, ours, row, peer)
        if share and about["better"] == "more":
            parts.append(f"{share[1]:.0%} of the {results['peers'][peer]['title']}")
        elif share:
            parts.append(f"{summary.times(share[1])} times as good as the {results['peers'][peer]['title']}")
    if any(summary.lost(results, case, peer, row) for peer in results["peers"]) and not rivals:
        parts.insert(0, "every other switch loses packets")
    said = f"{about['title']}: {who} has {_middle(results, case, ours, row)}"
    return f"{said}, {'; '.join(parts)}." if parts else f"{said}."


def _middle(results, case, peer, row):
    """A median with its unit."""
    unit = results["cases"][case]["rows"][row]["unit"]
    middle = summary.quartiles(list(summary.values(results, case, peer, row).values()))[1]
    return f"{summary.number(middle / field.UNITS.get(unit, 1))} {unit}"


def behind(results):
    """Where a switch that one can choose is faster than ours beyond noise:
    [(case, row, the peer that is fastest, how many times as good it is)]."""
    return [found for found in not_ahead(results) if found[3][0] > NOISE]


def not_ahead(results):
    """The same, and where nobody can tell which of both is faster: the ratio may be 1."""
    found = []
    for case, about in results["cases"].items():
        for row in about["rows"]:
            rivals = [(times[1], peer, times) for peer, info in results["peers"].items() if info["role"] == "switch"
                      and (times := _against_ours(results, case, row, peer)) and times[2] >= 1 / NOISE]
            if rivals:
                _, peer, times = max(rivals)
                found.append((case, row, peer, times))
    return found


def _against_ours(results, case, row, peer):
    """How many times as good as ours, as it is without settings, 'peer' is; None if it lost packets where they were to be
    carried at a given rate."""
    if summary.lost(results, case, peer, row):
        return None
    rate = AT_LIKE_RATES.get((case, row))
    carried = rate and better(results, case, peer, rate, "ours")
    if rate and not (carried and carried[1] > 0.5):
        return None
    ours = ours_in(results, case, row)
    return better(results, case, peer, row, ours) if ours else None


def ours_in(results, case, row):
    """Whom a case is about, or which of ours was measured; None if none was."""
    wanted = results["cases"][case].get("about", "ours"), "ours"
    return next((peer for peer in wanted if summary.values(results, case, peer, row)), best_of_ours(results, case, row))


def best_of_ours(results, case, row):
    """Which of our hooks is best, by the medians; None if none was measured."""
    sign = 1 if results["cases"][case]["rows"][row]["better"] == "more" else -1
    found = {ours: sign * summary.quartiles(list(values.values()))[1] for ours in OURS if ours in results["peers"]
             and (values := summary.values(results, case, ours, row))}
    return max(found, key=found.get) if found else None
