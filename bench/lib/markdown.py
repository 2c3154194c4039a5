# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md and a page for each case from a kept results.json: no number in them is typed by hand."""

from bench.lib import causes, emulated, field, fold, plain_plot, profiles, runs, story, summary, targets

# What a reader may miss, and the case that measures it, if there is one.
MISSED = (
    ("a physical NIC and zero-copy AF_XDP", None), ("traffic from another machine", None),
    ("OVS-DPDK on NICs of its own (here it runs on AF_XDP and AF_PACKET, as nobody would deploy it)", None),
    ("connection tracking and NAT", "ct"), ("VXLAN and Geneve", "tunnel"), ("OVN", "ovn"), ("mixes of frame sizes", None),
    ("frames larger than 1,500 bytes", "jumbo"), ("latency under load", None))


def not_measured(results):
    """A case that failed for all of ours counts as not measured."""
    measured = {s["case"] for s in results["samples"] if results["peers"][s["peer"]]["role"] in ("ours", "part")}
    cores = max(run["machine"]["cores"] for run in runs.of(results).values())
    missed = "; ".join(what for what, case in MISSED if case not in measured)
    said = f"{missed}; more than {cores} core{'s' if cores > 1 else ''}"
    if not any(s["peer"] == "kernel-module" for s in results["samples"]):
        where = "was measured in an emulated machine only" if emulated.table(results) else "was not measured"
        said += f". openvswitch.ko {where}, because the kernel that was measured does not have it"
    return said


def pages(results, source):
    """{file name under docs/: text}.  'source' names the results' file in the repository."""
    twice, results = fold.noise(results), fold.folded(results)
    found = {"benchmarks.md": _page(_head(results, source, twice), _gains(results), _not_ahead(results),
                                    _emulated(results), _cases(results), _conditions(results)),
             "benchmarks/aims.md": _page(_aims(results)),
             "benchmarks/gain.svg": plain_plot.gains(_plotted(results), results["peers"][field.REFERENCE]["title"])}
    for case in results["cases"]:
        found[f"benchmarks/{case}.md"] = _page(_case(results, case))
    return found


def _plotted(results):
    """What README.md has room for."""
    wanted = [what for case, _, what, _ in story.GAINS if case in ("forward", "upcalls", "tcp", "latency")]
    return [(what, group) for what, group in story.gains(results) if what in wanted]


def _page(*parts):
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(results, source, twice):
    title = results["peers"][field.REFERENCE]["title"]
    yield "# Benchmarks"
    yield ""
    yield (f"OVS-XDP beside stock Open vSwitch, OVS-DPDK and the Linux bridge, between veth devices of one machine. **Not "
           f"measured:** {not_measured(results)}. `make bench` measures all of this on your machine; "
           "[bench/README.md](../bench/README.md) says how it works.")
    yield ""
    yield (f"`bench/report --docs {source}` makes this page, a [page for each case](#all-cases) and the "
           "[aims](benchmarks/aims.md); nobody edits them by hand. "
           + ("**These results are of several runs**, on different machines or of different commits, all older than the tree "
              "that you read. Numbers of one run compare with each other; numbers of different runs do not. Each table "
              "names the run of each row:" if len(runs.of(results)) > 1 else "All results are of one run:"))
    yield from ("", *targets.markdown_table(runs.table(results)), "")
    yield (f"A cell is the median of the rounds, [quartiles], and x, the ratio of the medians to that of {title}. \"Times as "
           "good\" is always the ratio of the medians; in brackets are the quartiles of the ratios within rounds, which "
           "say how far rounds agree. Two digits are all that these machines give" + (":" if twice else "."))
    if twice:
        case, row, most = max(twice, key=lambda item: item[2])
        yield (f"one configuration was measured twice in each round, and its medians differ by "
               f"{sorted(share for *_, share in twice)[len(twice) // 2]:.0%} in the middle, by {most:.0%} at most "
               f"({results['cases'][case]['title']}: {results['cases'][case]['rows'][row]['title']}). Where that is so, the "
               "mean of both counts.")
    yield ""
    yield ("Where a switch forwards in the kernel, generator, switch and sink share one core; a daemon that polls has the other "
           "core for itself. Each case's page says who used how much CPU time.")


def _gains(results):
    bars = story.gains(results)
    if not bars:
        return
    yield from ("", "## What do I gain?", "", story.gains_sentence(results), "", "![times as good as stock Open vSwitch, AF_XDP "
                "ports](benchmarks/gain.svg)", "")
    peers = dict.fromkeys((peer, title) for _, group in bars for peer, title, *_ in group
                          if peer not in (field.REFERENCE, "ours-xdp", "ours-tcx"))
    lines = [[f"times as good as {results['peers'][field.REFERENCE]['title']}", *(title for _, title in peers), "run"]]
    for (case, *_), (what, group) in zip((gain for gain in story.GAINS if gain[2] in dict(bars)), bars):
        cells = {peer: summary.spread((low, times, high)) for peer, _, times, low, high in group}
        lines.append([f"[{what}](benchmarks/{case}.md)", *(cells.get(peer, "-") for peer, _ in peers),
                      runs.letter(results, case)])
    yield from targets.markdown_table(lines)


def _not_ahead(results):
    lines = causes.table(results, lambda case, title: f"[{title}](benchmarks/{case}.md)")
    yield from ("", "## Where OVS-XDP is not the fastest", "")
    yield from targets.markdown_table(lines) if len(lines) > 1 else ["Nowhere beyond noise."]
    module = emulated.not_ahead(results)
    if module:
        yield from ("", "In the emulated machine OVS-XDP is slower than openvswitch.ko, or level with it, in (times as good as the "
                    f"module): {'; '.join(module)}. Why was not looked into.")


def _emulated(results):
    lines = emulated.table(results)
    if lines:
        yield from ("", "## Beside the kernel module, in an emulated machine", "", emulated.about(results), "",
                    *targets.markdown_table(lines))


def _cases(results):
    yield from ("", "## All cases", "")
    lines = [["case", "result", "run"]]
    for case, about in results["cases"].items():
        lines.append([f"[{about['title']}](benchmarks/{case}.md)", story.sentence(results, case) or "-",
                      runs.letter(results, case)])
    yield from targets.markdown_table(lines)
    yield from ("", "[What was aimed at, and what is reached](benchmarks/aims.md).")


def _aims(results):
    yield from ("# Aims", "", "What OVS-XDP is meant to reach, and what it reaches in the results of "
                "[benchmarks.md](../benchmarks.md). An aim of 1 is \"as good as the other\"; twice as good is 2, whether more or "
                "less is better.")
    yield from targets.tables(results)


def _case(results, case):
    about = results["cases"][case]
    letter = runs.letter(results, case)
    run = runs.of(results)[letter]
    commits = ", ".join(dict.fromkeys(run["commits"].values()))
    yield from (f"# {about['title']}", "", about["question"], "")
    said = story.sentence(results, case)
    if said:
        yield from (f"*{said}*", "")
    yield (f"Run {letter} of [benchmarks.md](../benchmarks.md): {run['machine']['cpu']}, {run['machine']['kernel']}"
           f"{f', OVS-XDP at commit {commits}' if commits else ''}. {_rounds(results, case)}")
    for lines in summary.table(results, case), summary.cpu_table(results, case):
        if len(lines) > 1:
            yield from ("", *targets.markdown_table(lines))
    notes = summary.notes(results, case)
    if notes:
        yield from ("", *(f"* {peer}, {row}: {reason}" for peer, row, reason in notes))
    failures = [failure for failure in results["failures"] if failure["case"] == case]
    if failures:
        yield from ("", "## What could not be measured", "",
                    *(f"* {summary.failure(failure)}" for failure in failures))
    lines = profiles.table(results, case)
    if len(lines) > 1:
        yield from ("", "## Where the time goes", "", "Both were measured once more under perf:", "",
                    *targets.markdown_table(lines))


def _rounds(results, case):
    """How often each was measured."""
    counts = {}
    for peer, about in results["peers"].items():
        n = len({s["round"] for s in results["samples"] if (s["case"], s["peer"]) == (case, peer)})
        if n:
            counts.setdefault(n, []).append(about["title"])
    if len(counts) == 1:
        n = next(iter(counts))
        return f"{n} round{'s' if n > 1 else ''}."
    return "Rounds: " + "; ".join(f"{n} ({', '.join(titles)})" for n, titles in sorted(counts.items(), reverse=True)) + "."


def _conditions(results):
    conditions = targets.markdown_table([["condition", ""], *summary.conditions(results)])
    yield from ("", "## Under what conditions", "", *conditions, "")
    others = [["other software", "version"]] + [[about["title"], about["version"]] for about in results["peers"].values()
                                          if "version" in about and about["role"] == "switch"]
    yield from targets.markdown_table(others)
