# SPDX-License-Identifier: Apache-2.0
"""The results as one page with its plots inside, which needs no network."""

import html

from bench.lib import causes, draw, emulated, field, machine, markdown, profiles, runs, story, summary, targets

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1917; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 2px solid #c2410c; padding-bottom: .2rem; }
h3 { margin-top: 2.2rem; } p { max-width: 50rem; } .says { font-weight: 600; }
svg { max-width: 100%; height: auto; } nav a { margin-right: 1rem; }
table { border-collapse: collapse; font-size: 13px; margin: .6rem 0; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .2rem .7rem .2rem 0; border-bottom: 1px solid #e7e5e4; vertical-align: top;
         font-variant-numeric: tabular-nums; white-space: nowrap; }
td.quiet, .why td { white-space: normal; }
th { border-bottom: 1px solid #78716c; } .quiet, details { color: #57534e; font-size: 13px; }
tr.ours td { background: #fff7ed; }
"""


def page(results):
    groups = {}
    for case, about in results["cases"].items():
        groups.setdefault(about.get("group", "Cases"), []).append(case)
    body = [*_head(results, groups), *_gains(results), *_emulated(results), *_behind(results), *_targets(results)]
    for group, cases in groups.items():
        body.append(_heading(group))
        for case in cases:
            body += _case(results, case)
    body += [*_failures(results), *_conditions(results)]
    return ("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
            f"content=\"width=device-width\"><title>OVS-XDP, measured</title><style>{STYLE}</style></head>\n<body>\n"
            + "\n".join(body) + "\n</body></html>\n")


def _head(results, groups):
    yield "<h1>OVS-XDP and what could be used instead</h1>"
    yield (f"<p>Measured {html.escape(machine.shown(results['machine'], results['started'], results['ended']))}. Absolute "
           "numbers are this machine's; compare ratios. In tables a cell is the median of the rounds, [quartiles], and x, "
           f"the ratio of the medians to that of {results['peers'].get(field.REFERENCE, {}).get('title', field.REFERENCE)}.</p>")
    yield f"<p>Not measured: {html.escape(markdown.not_measured(results))}.</p>"
    yield _table(runs.table(results))
    first = ["What do I gain?", "Where OVS-XDP is not the fastest", *(title for title, *_ in targets.all_tables(results))]
    yield "<nav>" + "".join(f'<a href="#{_anchor(title)}">{html.escape(title)}</a>' for title in [*first, *groups]) + "</nav>"


def _gains(results):
    bars = story.gains(results)
    if bars:
        yield _heading("What do I gain?")
        yield f'<p class="says">{html.escape(story.gains_sentence(results))}</p>'
        yield _drawn(lambda: draw.gains(bars, "stock Open vSwitch with AF_XDP ports"))


def _targets(results):
    for title, note, lines in targets.all_tables(results):
        yield _heading(title)
        yield f"<p>{html.escape(note)}</p>"
        yield _table(lines)


def _case(results, case):
    about = results["cases"][case]
    yield f'<h3 id="{case}">{html.escape(about["title"])}</h3>'
    yield f"<p>{html.escape(about['question'])}</p>"
    says = story.sentence(results, case)
    if says:
        yield f'<p class="says">{html.escape(says)}</p>'
    yield _drawn(lambda: draw.plot(results, case))
    yield _table(summary.table(results, case), _our_titles(results))
    for peer, row, reason in summary.notes(results, case):
        yield f'<p class="quiet">{html.escape(f"{peer}, {row}: {reason}")}</p>'
    more = summary.cpu_table(results, case)
    if more:
        yield f"<details><summary>CPU time</summary>{_table(more, _our_titles(results))}</details>"


def _emulated(results):
    if "emulated" not in results:
        return
    yield "<h2>Beside the kernel module, in an emulated machine</h2>"
    lines = emulated.table(results)
    if not lines:
        yield f"<p>Could not be measured: {html.escape(results['emulated'].get('failed', 'no results'))}</p>"
        return
    yield f"<p>{html.escape(emulated.about(results))}</p>"
    yield f'<p class="says">{html.escape(emulated.sentence(results))}</p>'
    yield _drawn(lambda: draw.gains(emulated.bars(results), "openvswitch.ko"))
    yield f"<details><summary>Numbers</summary>{_table(lines)}</details>"


def _behind(results):
    lines = causes.table(results)
    yield _heading("Where OVS-XDP is not the fastest")
    yield f'<div class="why">{_table(lines)}</div>' if len(lines) > 1 else "<p>Nowhere beyond noise.</p>"
    more = profiles.table(results)
    if len(more) > 1:
        yield ('<details><summary>Profiles of both, taken once more under perf</summary>'
               f'<div class="why">{_table(more)}</div></details>')


def _failures(results):
    if results["failures"]:
        yield "<h2>What could not be measured</h2>"
        yield "<ul>" + "".join(f"<li>{html.escape(summary.failure(f))}</li>" for f in results["failures"]) + "</ul>"


def _conditions(results):
    yield "<h2>Under what conditions</h2>"
    yield _table([["", ""], *([html.escape(k), v] for k, v in summary.conditions(results))])
    yield _table([["switch", "version"]] + [[about["title"], about["version"]] for about in results["peers"].values()
                                            if "version" in about])


def _drawn(make):
    try:
        return make() or ""
    except draw.Unavailable as reason:
        return f'<p class="quiet">{html.escape(str(reason))}</p>'


def _table(lines, marked=()):
    """A table whose first line is its head; a line that is too short ends in a reason."""
    if len(lines) < 2:
        return ""
    width = len(lines[0])
    out = ['<div class="wide"><table><tr>' + "".join(f"<th>{html.escape(cell)}</th>" for cell in lines[0]) + "</tr>"]
    for line in lines[1:]:
        cells = [f"<td>{html.escape(str(cell))}</td>" for cell in line]
        if len(line) < width:
            cells[-1] = f'<td colspan="{width - len(line) + 1}" class="quiet">{html.escape(line[-1])}</td>'
        out.append(f'<tr{" class=ours" if line[0] in marked else ""}>' + "".join(cells) + "</tr>")
    return "\n".join(out) + "</table></div>"


def _our_titles(results):
    return {about["title"] for about in results["peers"].values() if about.get("role") == "ours"}


def _heading(title):
    return f'<h2 id="{_anchor(title)}">{html.escape(title)}</h2>'


def _anchor(text):
    return "".join(c if c.isalnum() else "-" for c in text.lower())
