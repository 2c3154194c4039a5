# SPDX-License-Identifier: Apache-2.0
"""From samples to medians, quartiles and ratios, and to text."""

import statistics

from bench.lib import field


def quartiles(values):
    """Returns (first quartile, median, third quartile)."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def values(results, case, peer, row, key="value"):
    """The samples by round."""
    return {s["round"]: s[key] for s in results["samples"]
            if (s["case"], s["peer"], s["row"]) == (case, peer, row) and key in s}


def ratio(results, case, peer, row):
    """Quartiles of the ratio to the reference peer in the same round, or None."""
    mine, theirs = values(results, case, peer, row), values(results, case, field.REFERENCE, row)
    both = [mine[r] / theirs[r] for r in mine if theirs.get(r)]
    return quartiles(both) if both and peer != field.REFERENCE else None


def table(results, case):
    """Lines of cells: a headline, then one line per peer."""
    about = results["cases"][case]
    lines = [[""] + [f"{row['title']} ({row['unit']})" for row in about["rows"].values()]]
    for peer, title in results["peers"].items():
        reason = results["missing"].get(f"{case}/{peer}")
        cells = [_cell(results, case, peer, row) for row in about["rows"]]
        if any(cells):
            lines.append([title["title"]] + [cell or "-" for cell in cells])
        elif reason:
            lines.append([title["title"], reason])
    return lines


def cpu_table(results, case):
    """Cores in use while the case ran; a line is left out if nothing was measured."""
    about = results["cases"][case]
    lines = [["cores used: daemon / whole machine"] + [row["title"] for row in about["rows"].values()]]
    for peer, title in results["peers"].items():
        cells = []
        for row in about["rows"]:
            daemon = list(values(results, case, peer, row, "daemon_cpu").values())
            machine = list(values(results, case, peer, row, "machine_cpu").values())
            cells.append(f"{quartiles(daemon)[1]:.2f} / {quartiles(machine)[1]:.2f}" if machine else "")
        if any(cells):
            lines.append([title["title"]] + [cell or "-" for cell in cells])
    return lines if len(lines) > 1 else []


def _cell(results, case, peer, row):
    """"0.57 [0.55 0.58] x1.00": median, quartiles, ratio to the reference."""
    samples = list(values(results, case, peer, row).values())
    if not samples:
        return ""
    scale = field.UNITS.get(results["cases"][case]["rows"][row]["unit"], 1)
    low, middle, high = (number(v / scale) for v in quartiles(samples))
    text = f"{middle} [{low} {high}]"
    compared = ratio(results, case, peer, row)
    return f"{text} x{number(compared[1])}" if compared else text


def number(value):
    """Three significant digits at most, never an exponent."""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 4
    return f"{value:.{digits}f}"


def as_text(results):
    """All tables, for a terminal."""
    out = []
    for case, about in results["cases"].items():
        out += ["", about["title"], about["question"]]
        for lines in table(results, case), cpu_table(results, case):
            if not lines:
                continue
            full = [line for line in lines if len(line) == len(lines[0])]
            widths = [max(len(line[i]) for line in lines if i == 0 or line in full) for i in range(len(lines[0]))]
            out.append("")
            out += ["  " + "  ".join(cell.ljust(widths[i]) if i < len(line) - 1 else cell
                                     for i, cell in enumerate(line)) for line in lines]
    out += ["", "median [quartiles] of the rounds; x: ratio to "
            f"{results['peers'].get(field.REFERENCE, {}).get('title', field.REFERENCE)} in the same round"]
    return "\n".join(out).lstrip("\n")
