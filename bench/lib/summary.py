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


def ratio(results, case, peer, row, reference=field.REFERENCE):
    """How many times the reference peer's figure it is: (low, ratio of the medians, high), or None.  low and high are the
    quartiles of the ratios within rounds, and at least as far apart as to have the ratio of the medians between them."""
    mine, theirs = values(results, case, peer, row), values(results, case, reference, row)
    if peer == reference or not mine or not theirs:
        return None
    middle, of = quartiles(list(mine.values()))[1], quartiles(list(theirs.values()))[1]
    both = [mine[r] / theirs[r] for r in mine if theirs.get(r)]
    if not of:
        return None
    low, _, high = quartiles(both) if len(both) > 1 else (middle / of,) * 3
    return min(low, middle / of), middle / of, max(high, middle / of)


def times(value):
    """A ratio: as many digits as mean something."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 1.995 else f"{value:.2f}"


def spread(ratios):
    """"4.2 [4.0 4.4]"; without brackets what was measured in one round."""
    low, middle, high = ratios
    return times(middle) if low == high else f"{times(middle)} [{times(low)} {times(high)}]"


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


def notes(results, case):
    """Why single cells are empty: [(peer's title, row's title, reason)]."""
    return [(title["title"], row["title"], results["missing"][key])
            for peer, title in results["peers"].items() for name, row in results["cases"][case]["rows"].items()
            if (key := f"{case}/{peer}/{name}") in results["missing"]]


def cpu_table(results, case):
    """Cores in use while the case ran, and for rates of packets what that is for each packet; or where CPU time was
    left, if the case asks for that.  A line is left out if nothing was measured."""
    about = results["cases"][case]
    what = ("left on the generator's core + on the other"
            if any(s["case"] == case and "left" in s for s in results["samples"])
            else "cores used: daemon / machine, CPU time per packet")
    lines = [[what] + [row["title"] for row in about["rows"].values()]]
    for peer, title in results["peers"].items():
        cells = [_cpu_cell(results, case, peer, row) or _left_cell(results, case, peer, row) for row in about["rows"]]
        if any(cells):
            lines.append([title["title"]] + [cell or "-" for cell in cells])
    return lines if len(lines) > 1 else []


def _left_cell(results, case, peer, row):
    left = list(values(results, case, peer, row, "left").values())
    return " + ".join(f"{quartiles(shares)[1]:.2f}" for shares in zip(*left))


def _cpu_cell(results, case, peer, row):
    daemon, machine, value = (values(results, case, peer, row, key) for key in ("daemon_cpu", "machine_cpu", "value"))
    if not machine:
        return ""
    text = f"{quartiles(list(daemon.values()))[1]:.2f} / {quartiles(list(machine.values()))[1]:.2f}"
    if results["cases"][case]["rows"][row]["unit"] == "Mpps":
        per_packet = [machine[r] / value[r] * 1e9 for r in machine if value.get(r)]
        cycles = results["machine"].get("mhz")
        if per_packet:
            text += f", {quartiles(per_packet)[1]:.0f} ns"
            text += f" = {quartiles(per_packet)[1] * cycles / 1000:.0f} cycles" if cycles else ""
    return text


def _cell(results, case, peer, row):
    """"0.57 [0.55 0.58] x1.00": median, quartiles, ratio to the reference; and what was lost on the way there."""
    samples = list(values(results, case, peer, row).values())
    if not samples:
        return ""
    scale = field.UNITS.get(results["cases"][case]["rows"][row]["unit"], 1)
    low, middle, high = (number(v / scale) for v in quartiles(samples))
    text = f"{middle} [{low} {high}]"
    compared = ratio(results, case, peer, row)
    if compared:
        text += f" x{times(compared[1])}"
    share = lost(results, case, peer, row)
    return f"{text} (lost {share:.0%})" if share else text


def ours_failed(results):
    """Whether ours could not be measured somewhere.  What others cannot do is a result."""
    return any(results["peers"][failure["peer"]]["role"] in ("ours", "part") for failure in results["failures"])


def lost(results, case, peer, row):
    """The share of packets that was lost where they came at a given rate, if it is worth saying, or 0."""
    samples = list(values(results, case, peer, row, "lost").values())
    share = quartiles(samples)[1] if samples else 0
    return share if share > 0.02 else 0


def conditions(results):
    """[(what, how it was)]: the settings that numbers depend on."""
    on, settings = results["machine"], results["settings"]
    yield "rounds", (f"{settings['rounds']}, fewer of slow switches; each case's page says where it is different. All switches "
                     "are measured in each round, every other round backwards")
    yield "a measurement", f"{settings['seconds']:g} s after {max(0.3, settings['seconds'] / 4):g} s of warming up"
    yield "loss allowed in rates without loss", f"{settings.get('loss', 0):.2%}"
    stolen = sorted(s["stolen"] for s in results["samples"] if "stolen" in s)
    if stolen and stolen[-1]:
        yield "CPU time that the hypervisor gave to others", (
            f"{quartiles(stolen)[1]:.1%} of what was wanted in the median measurement, {stolen[-1]:.0%} at most; above "
            f"{settings['stolen']:.0%} a measurement was made again, twice at most")
    yield "machine", (f"{on['cpu']}, {on['cores']} cores, {on['memory_mb']} MB, "
                      f"virtual: {'yes' if on['virtual'] else 'no'}")
    yield "system", f"{on['system']}, {on['kernel']}"
    yield "load before", f"{on['load_before']:.2f}"
    if settings["nice"]:
        yield "nice value of everything measured", str(settings["nice"])
    yield "frames", "60 bytes (64 with the frame check sequence, which no device here adds), UDP"
    yield "who runs where", ("the generator, in the kernel, on the first CPU; switches in the kernel and the sink run "
                             "behind it on the same one; daemons that poll are told to do so on the second")
    yield "CPU time per packet", "no hardware counters are used: /proc/stat and schedstat, in ticks and nanoseconds"


def failure(item):
    return f"{item['case']}, {item['peer']}, round {item['round'] + 1}: {item['reason']}"


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
    out += ["", "median [quartiles] of the rounds; x: ratio of the medians to that of "
            f"{results['peers'].get(field.REFERENCE, {}).get('title', field.REFERENCE)}"]
    return "\n".join(out).lstrip("\n")
