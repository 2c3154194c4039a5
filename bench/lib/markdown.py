# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md from a kept results.json: no number in it is typed by hand."""

from bench.lib import field, summary, targets


def page(results, source):
    """The whole page, as one string.  'source' names the results' file in the repository."""
    return "\n".join([*_head(results, source), *targets.tables(results),
                      *(line for case in results["cases"] for line in _case(results, case)),
                      *_failures(results)]) + "\n"


def _head(results, source):
    on, settings = results["machine"], results["settings"]
    yield "# Benchmarks"
    yield ""
    yield (f"Made by `bench/report --markdown {source}`, which nobody edits by hand. `make bench` measures the "
           "same on your machine.")
    yield ""
    yield (f"Measured {results['started']} on {on['cpu']}, {on['cores']} cores"
           f"{' of a virtual machine' if on['virtual'] else ''}, {on['system']}, {on['kernel']}; "
           f"{settings['rounds']} rounds, {settings['seconds']:g} s each, interleaved. A cell is the median, the "
           "quartiles, and the ratio to "
           f"{results['peers'].get(field.REFERENCE, {}).get('title', field.REFERENCE)} in the same round. The "
           "generator, in the kernel, has a core of its own; daemons that poll have another.")
    yield ""
    yield "| switch | version |"
    yield "|---|---|"
    for peer in results["peers"].values():
        if "version" in peer:
            yield f"| {peer['title']} | {peer['version']} |"


def _case(results, case):
    about = results["cases"][case]
    yield ""
    yield f"## {about['title']}"
    yield ""
    yield about["question"]
    for lines in summary.table(results, case), summary.cpu_table(results, case):
        if len(lines) < 2:
            continue
        width = len(lines[0])
        yield ""
        yield "| " + " | ".join(lines[0]) + " |"
        yield "|" + "---|" * width
        for line in lines[1:]:
            yield "| " + " | ".join(line + [""] * (width - len(line))) + " |"


def _failures(results):
    if results["failures"]:
        yield ""
        yield "## What could not be measured"
        yield ""
        for failure in results["failures"]:
            yield f"* {failure['case']}, {failure['peer']}, round {failure['round'] + 1}: {failure['reason']}"
