# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md from a kept results.json: no number in it is typed by hand."""

from bench.lib import causes, emulated, field, machine, profiles, story, summary, targets


def page(results, source):
    """The whole page, as one string.  'source' names the results' file in the repository."""
    groups = dict.fromkeys(about["group"] for about in results["cases"].values())
    return "\n".join([*_head(results, source), *_gains(results), *_emulated(results), *_behind(results),
                      *targets.tables(results), *(line for group in groups for line in _group(results, group)),
                      *_failures(results), *_conditions(results)]) + "\n"


def _head(results, source):
    yield "# Benchmarks"
    yield ""
    yield (f"Made by `bench/report --markdown {source}`; nobody edits it by hand. `make bench` measures the same on "
           "your machine and draws it.")
    yield ""
    yield (f"Measured {machine.shown(results['machine'], results['started'], results['ended'])}. A cell is the median "
           f"of the rounds, [quartiles], and x, the ratio to "
           f"{results['peers'].get(field.REFERENCE, {}).get('title', field.REFERENCE)} in the same round. Absolute "
           "numbers are this machine's; compare ratios.")
    for sentence in machine.elsewhere(results):
        yield from ("", sentence)


def _gains(results):
    bars = story.gains(results)
    if bars:
        yield from ("", "## What do I gain?", "", story.gains_sentence(results), "")
        yield from targets.markdown_table(
            [[f"times as good as {results['peers'][field.REFERENCE]['title']}", "switch", "times"]]
            + [["" if i else what, title, f"{summary.number(times)} [{summary.number(low)} {summary.number(high)}]"]
               for what, group in bars for i, (_, title, times, low, high) in enumerate(group)])


def _behind(results):
    lines = causes.table(results)
    yield from ("", "## Where OVS-XDP is not the fastest", "")
    yield from targets.markdown_table(lines) if len(lines) > 1 else ["Nowhere beyond noise."]
    more = profiles.table(results)
    if len(more) > 1:
        yield from ("", "Both were measured once more under perf:", "", *targets.markdown_table(more))


def _group(results, group):
    yield from ("", f"## {group}")
    for case, about in results["cases"].items():
        if about["group"] != group:
            continue
        yield from ("", f"### {about['title']}", "", about["question"])
        says = story.sentence(results, case)
        if says:
            yield from ("", f"*{says}*")
        for lines in summary.table(results, case), summary.cpu_table(results, case):
            if len(lines) > 1:
                yield from ("", *targets.markdown_table(lines))
        notes = summary.notes(results, case)
        if notes:
            yield from ("", *(f"* {peer}, {row}: {reason}" for peer, row, reason in notes))


def _emulated(results):
    lines = emulated.table(results)
    if lines:
        yield from ("", "## Beside the kernel module, in an emulated machine", "", emulated.about(results), "",
                    f"*{emulated.sentence(results)}*", "",
                    *targets.markdown_table(lines))


def _failures(results):
    if results["failures"]:
        yield from ("", "## What could not be measured", "", *(f"* {summary.failure(f)}" for f in results["failures"]))


def _conditions(results):
    conditions = targets.markdown_table([["", ""], *summary.conditions(results)])
    yield from ("", "## Under what conditions", "", *conditions, "")
    yield from targets.markdown_table([["switch", "version"]] + [[about["title"], about["version"]]
                                                                 for about in results["peers"].values()
                                                                 if "version" in about])
