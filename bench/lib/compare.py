# SPDX-License-Identifier: Apache-2.0
"""What changed between two kept results beyond noise."""

from bench.lib import field, summary

LEAST = 0.05                                # Changes below this share are never shown.
ROUNDS = 3                                  # With fewer in one of them nothing is known about noise.


def changes(before, after):
    """[(case, peer, row, factor, quartiles before, quartiles after)]; the factor is how many times as good it became,
    by the medians.  A change counts when the quartiles of both do not meet, and it is larger than both spreads."""
    found = []
    for case, about in after["cases"].items():
        for peer in after["peers"]:
            for row, row_about in about["rows"].items():
                olds, news = (list(summary.values(r, case, peer, row).values()) for r in (before, after))
                if min(len(olds), len(news)) < ROUNDS:
                    continue
                old, new = summary.quartiles(olds), summary.quartiles(news)
                if not old[1] or not new[1] or not _apart(old, new):
                    continue
                factor = new[1] / old[1]
                found.append((case, peer, row, 1 / factor if row_about["better"] == "less" else factor, old, new))
    return found


def _apart(old, new):
    distance = abs(new[1] - old[1])
    return ((old[2] < new[0] or new[2] < old[0]) and distance > LEAST * abs(old[1])
            and distance > max(old[2] - old[0], new[2] - new[0]))


def as_text(before, after):
    out = [f"from {before['started']} to {after['started']}"]
    for key in "cpu", "kernel", "cores":
        if before["machine"][key] != after["machine"][key]:
            out.append(f"careful: {key} was {before['machine'][key]}, is {after['machine'][key]}")
    few = min(before["settings"]["rounds"], after["settings"]["rounds"])
    if few < ROUNDS:
        out.append(f"nothing can be said about noise from {few} round{'s' * (few > 1)}: measure at least {ROUNDS}")
    found = changes(before, after)
    for case, about in after["cases"].items():
        mine = [change for change in found if change[0] == case]
        if not mine:
            continue
        out += ["", about["title"]]
        for _, peer, row, factor, old, new in mine:
            unit = about["rows"][row]["unit"]
            shown = " to ".join(summary.number(q[1] / field.UNITS.get(unit, 1)) for q in (old, new))
            out.append(f"  {'better' if factor > 1 else 'WORSE ':6}  x{summary.number(factor):5}  "
                       f"{after['peers'][peer]['title']:28}  {about['rows'][row]['title']:28}  {shown} {unit}")
    out += ["", f"{sum(c[3] > 1 for c in found)} better, {sum(c[3] < 1 for c in found)} worse beyond noise"]
    still = [c for c in found if after["peers"][c[1]].get("role") != "ours"]
    if still:
        out.append(f"({len(still)} of them in switches that are not ours: then the machine has changed, too)")
    return "\n".join(out)
