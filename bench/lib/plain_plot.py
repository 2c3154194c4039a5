# SPDX-License-Identifier: Apache-2.0
"""The plot of README.md: bars as SVG, without a library, so that the same results make the same bytes everywhere."""

import html

from bench.lib import summary

SHOWN = {"ours": ("OVS-XDP", "#c2410c"), "bridge": ("Linux bridge", "#0e7490"),
         "stock-afxdp": ("stock OVS, AF_XDP ports", "#1d4ed8")}
WIDTH, LEFT, BAR, GAP = 760, 170, 14, 32
FONT = 'font-family="system-ui, sans-serif" fill="#1c1917"'


def gains(bars, reference):
    """Bars: [(what, [(peer, title, times, low, high)])]; 'reference' has 1."""
    groups = [(what, [one for one in group if one[0] in SHOWN]) for what, group in bars]
    longest = max((times for _, group in groups for _, _, times, *_ in group), default=1)
    lines, y = [], 30
    for what, group in groups:
        lines.append(_text(LEFT, y, what, 13, "bold"))
        y += 7
        for peer, _, times, *_ in sorted(group, key=lambda one: list(SHOWN).index(one[0])):
            title, colour = SHOWN[peer]
            length = max(1, round(times / longest * (WIDTH - LEFT - 60)))
            lines += [_text(LEFT - 8, y + 12, title, 12, "normal", "end"),
                      f'<rect x="{LEFT}" y="{y}" width="{length}" height="{BAR - 2}" fill="{colour}"/>',
                      _text(LEFT + length + 6, y + 12, f"{summary.times(times)}x", 12)]
            y += BAR
        y += GAP - BAR
    title = f"times as good as {reference}"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" aria-label="{title}">',
                      f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>', _text(LEFT, 14, title, 11), *lines, "</svg>"]) + "\n"


def _text(x, y, text, size, weight="normal", anchor="start"):
    return (f'<text x="{x}" y="{y}" {FONT} font-size="{size}" font-weight="{weight}" text-anchor="{anchor}">'
            f'{html.escape(text)}</text>')
