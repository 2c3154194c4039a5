# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, by matplotlib.  Letters become outlines, so that a page looks the same wherever it is read."""

import io
import re

from bench.lib import field, summary

# One colour and mark per switch, told apart also without colours.
STYLES = {
    "ours": ("#c2410c", "o"), "ours-xdp": ("#f59e0b", "D"), "ours-tcx": ("#e11d48", "d"),
    "ours-engine": ("#fdba74", "s"),
    "ours-engine-free": ("#fed7aa", "s"), "stock-afxdp": ("#1d4ed8", "^"), "stock-packet": ("#93c5fd", "v"),
    "dpdk-afxdp": ("#15803d", "P"), "dpdk-packet": ("#86efac", "p"), "kernel-module": ("#7e22ce", "X"),
    "bridge": ("#0e7490", "h"), "bridge-ct": ("#67e8f9", "H"), "ceiling": ("#a3a3a3", "*"), "l2-xdp": ("#737373", "<"),
    "minimal": ("#737373", ">"),
    "alone": ("#d4d4d4", "."), "direct": ("#a3a3a3", "."),
}
OTHER = ("#525252", "o")


class Unavailable(Exception):
    """There is no matplotlib; the text says how to get it."""


def plot(results, case):
    """The plot of a case, as SVG; None if nothing was measured."""
    about = results["cases"][case]
    peers = [peer for peer in results["peers"]
             if any(summary.values(results, case, peer, row) for row in about["rows"])]
    if not peers:
        return None
    return {"lines": _lines, "rows": _rows}.get(about.get("plot"), _bars)(results, case, peers)


def gains(bars, reference):
    """Times as good as the 'reference', a title: [(what, [(peer, title, times, low, high)])]."""
    plt = _matplotlib()
    height = sum(len(group) for _, group in bars) * 0.24 + len(bars) * 0.42 + 0.5
    figure, axes = plt.subplots(figsize=(9.2, height))
    y, ticks, labels = 0.0, [], []
    for what, group in bars:
        axes.text(0, y + 0.1, what, fontsize=9.5, fontweight="bold", va="bottom", transform=axes.get_yaxis_transform())
        y -= 0.55
        for peer, title, times, low, high in group:
            _bar(axes, y, peer, times, low, high, f"{summary.number(times)}x")
            ticks.append(y)
            labels.append(title)
            y -= 1
        y -= 0.9
    axes.axvline(1, color="#1d4ed8", linewidth=1, linestyle=":")
    _finish_bars(axes, ticks, labels, f"times as good as {reference}")
    axes.set_ylim(y + 0.6, 1.2)
    return _svg(figure)


def _bars(results, case, peers):
    """A panel for each row: they may have different units and scales."""
    plt = _matplotlib()
    rows = results["cases"][case]["rows"]
    columns = 2 if len(rows) == 4 else min(3, len(rows))
    lines = -(-len(rows) // columns)
    figure, grid = plt.subplots(lines, columns, squeeze=False, sharey=True,
                                figsize=(2.4 + 2.9 * columns, lines * (0.7 + 0.27 * len(peers))))
    for place, (row, about) in enumerate(rows.items()):
        axes, unit = grid[place // columns][place % columns], field.UNITS.get(about["unit"], 1)
        for y, peer in enumerate(reversed(peers)):
            samples = [value / unit for value in summary.values(results, case, peer, row).values()]
            if samples:
                low, middle, high = summary.quartiles(samples)
                _bar(axes, y, peer, middle, low, high, summary.number(middle))
            elif f"{case}/{peer}/{row}" in results["missing"]:
                axes.text(0, y, " could not run", fontsize=7, va="center", color="#737373")
        _finish_bars(axes, range(len(peers)), [results["peers"][peer]["title"] for peer in reversed(peers)],
                     f"{about['unit']}, {about['better']} is better")
        axes.set_title(about["title"], fontsize=9, loc="left")
    for place in range(len(rows), lines * columns):
        grid[place // columns][place % columns].axis("off")
    return _svg(figure)


def _rows(results, case, peers):
    """One panel with a bar for each row, for a single peer whose rows have one unit."""
    plt = _matplotlib()
    rows = results["cases"][case]["rows"]
    unit = next(iter(rows.values()))["unit"]
    figure, axes = plt.subplots(figsize=(8, 0.7 + 0.3 * len(rows)))
    for y, row in enumerate(reversed(rows)):
        samples = list(summary.values(results, case, peers[0], row).values())
        if samples:
            low, middle, high = (value / field.UNITS.get(unit, 1) for value in summary.quartiles(samples))
            _bar(axes, y, peers[0], middle, low, high, summary.number(middle))
    _finish_bars(axes, range(len(rows)), [about["title"] for about in reversed(rows.values())],
                 f"{unit}, {next(iter(rows.values()))['better']} is better")
    return _svg(figure)


def _bar(axes, y, peer, value, low, high, label):
    axes.barh(y, value, color=STYLES.get(peer, OTHER)[0], height=0.72)
    axes.errorbar(value, y, xerr=[[max(0, value - low)], [max(0, high - value)]], color="#171717", linewidth=0.8,
                  capsize=2)
    axes.annotate(label, (max(value, high), y), xytext=(4, 0), textcoords="offset points", fontsize=7.5, va="center")


def _finish_bars(axes, ticks, labels, unit):
    axes.set_yticks(list(ticks))
    axes.set_yticklabels(labels, fontsize=8)
    axes.set_xlabel(unit, fontsize=8)
    axes.tick_params(axis="x", labelsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.16)
    axes.set_xlim(left=0)
    for side in "top", "right", "left":
        axes.spines[side].set_visible(False)


def _lines(results, case, peers):
    """One panel for each series of rows: rows whose names differ before the last "-" only."""
    plt = _matplotlib()
    rows = results["cases"][case]["rows"]
    series = {}
    for row in rows:
        series.setdefault(row.partition("-")[2], []).append(row)
    figure, grid = plt.subplots(1, len(series), squeeze=False, sharey=True, figsize=(1.5 + 4.4 * len(series), 3.5))
    for axes, names in zip(grid[0], series.values()):
        about = rows[names[0]]
        unit = field.UNITS.get(about["unit"], 1)
        for peer in peers:
            points = []
            for x, row in enumerate(names):
                samples = [value / unit for value in summary.values(results, case, peer, row).values()]
                if samples:
                    points.append((x, *summary.quartiles(samples)))
            if points:
                colour, mark = STYLES.get(peer, OTHER)
                x, low, middle, high = zip(*points)
                axes.plot(x, middle, color=colour, marker=mark, markersize=5, linewidth=1.6,
                          label=results["peers"][peer]["title"])
                hollow = [(i, value) for i, _, value, _ in points if summary.lost(results, case, peer, names[i])]
                axes.plot(*(zip(*hollow) if hollow else ((), ())), color=colour, marker=mark, markersize=5, linewidth=0,
                          markerfacecolor="white")
                axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set_xticks(range(len(names)))
        axes.set_xticklabels([rows[row]["title"] for row in names], fontsize=7.5,
                             rotation=20 if max(len(rows[row]["title"]) for row in names) > 8 else 0)
        axes.set_xlabel(results["cases"][case].get("axis", ""), fontsize=8)
        axes.tick_params(axis="y", labelsize=7.5)
        axes.grid(axis="y", color="#e5e5e5", linewidth=0.6)
        for side in "top", "right":
            axes.spines[side].set_visible(False)
    grid[0][0].set_ylim(0, 1.06 * max(axes.dataLim.y1 for axes in grid[0]))    # Shared by all.
    grid[0][0].set_ylabel(f"{rows[next(iter(rows))]['unit']}, {rows[next(iter(rows))]['better']} is better", fontsize=8)
    grid[0][-1].legend(fontsize=7.5, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return _svg(figure)


def _matplotlib():
    try:
        import matplotlib                   # pylint: disable=import-outside-toplevel; a page can do without.
    except ImportError:
        raise Unavailable("plots need matplotlib: apt-get install python3-matplotlib") from None
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "ovs-xdp", "font.family": "DejaVu Sans"})
    import matplotlib.pyplot                # pylint: disable=import-outside-toplevel
    return matplotlib.pyplot


def _svg(figure):
    """The figure without what only a file of its own needs.  Names in it are made unique to the page."""
    out = io.StringIO()
    figure.tight_layout()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    _matplotlib().close(figure)
    text = out.getvalue()
    text = text[text.index("<svg"):]
    _svg.number = getattr(_svg, "number", 0) + 1
    return re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>f{_svg.number}-", text)
