# SPDX-License-Identifier: Apache-2.0
"""What the XDP tier was meant to reach, beside what was measured: a table for docs/benchmarks.md."""

from bench.lib import field, summary

# (case, row), ceiling's case and row, least share of the ceiling.
SHARES = [
    (("forward", "1"), ("forward", "1"), 0.97),
    (("forward", "1k"), ("forward", "1k"), 0.95),
    (("forward", "1M"), ("forward", "1M"), 0.95),
    (("megaflows", "exact"), ("forward", "1k"), 0.85),
    (("set_fields", "1"), ("set_fields", "1"), 0.90),
    (("push_vlan", "1"), ("push_vlan", "1"), 0.90),
    (("pop_vlan", "1"), ("pop_vlan", "1"), 0.90),
    (("ip6", "1"), ("ip6", "1"), 0.90),
]

# (case, row), how many times the stock datapath's figure is wanted at least; None: stated only.
MULTIPLES = [
    (("megaflows", "masks"), None),
    (("flows", "add"), 5),
    (("flows", "del"), 5),
    (("flows", "dump"), None),
    (("upcalls", "rate"), 1),
    (("latency", "first"), 1),
]

# (case, row): the engine alone must be as good as the stock datapath.
ENGINE = [("forward", "1"), ("forward", "1k"), ("forward", "1M"), ("match", "1k"), ("match", "1M")]


def tables(results):
    yield from _shares(results)
    yield from _multiples(results, "ours", MULTIPLES, "XDP tier and control", "Twice as good is 2, whether more or "
                              "less is better. Installing, deleting and dumping are asked for as text, whose parsing "
                              "and printing is most of the time; new flows are installed without.")
    yield from _multiples(results, "ours-engine", [(row, 1) for row in ENGINE], "The engine alone",
                          "The engine sleeps when idle; the stock datapath polls.")


def _shares(results):
    lines = []
    for row, of, least in SHARES:
        ours, ceiling = _by_round(results, "ours", row), _by_round(results, "ceiling", of)
        both = sorted(set(ours) & set(ceiling))
        if both:
            share = summary.quartiles([ours[r] / ceiling[r] for r in both])[1]
            overhead = summary.quartiles([1e9 / ours[r] - 1e9 / ceiling[r] for r in both])[1]
            lines.append(f"| {_name(results, row)} | {least:.2f} | {share:.2f} | {overhead:.0f} ns | "
                         f"{'yes' if share >= least else 'no'} |")
    if lines:
        yield from ("", "## Targets", "",
                    "Share of the bare `bpf_redirect_map`. The generator, the switch and the sink run one after the "
                    "other on one core, so the difference of the times per frame is what the switch costs. The targets "
                    "were set where the bare redirect did 3 Mpps because the generator waited for RCU between "
                    "batches; it no longer does, the bare redirect is about three times as fast, and the same cost "
                    "per frame is a three times larger share of it: judge by the nanoseconds.", "",
                    "| case | wanted | share | cost per frame | reached |", "|---|---|---|---|---|", *lines)


def _multiples(results, peer, wanted, title, note):
    lines = []
    for row, least in wanted:
        ours, stock = _by_round(results, peer, row), _by_round(results, field.REFERENCE, row)
        both = sorted(set(ours) & set(stock))
        if both:
            less = results["cases"][row[0]]["rows"][row[1]]["better"] == "less"
            times = summary.quartiles([stock[r] / ours[r] if less else ours[r] / stock[r] for r in both])[1]
            lines.append(f"| {_name(results, row)} | {least or '-'} | {times:.2f} | "
                         f"{'-' if not least else 'yes' if times >= least else 'no'} |")
    if lines:
        yield from ("", f"### {title}, against {results['peers'][field.REFERENCE]['title']}", "", note, "",
                    "| case | times wanted | times | reached |", "|---|---|---|---|", *lines)


def _by_round(results, peer, row):
    return summary.values(results, row[0], peer, row[1])


def _name(results, row):
    about = results["cases"][row[0]]
    return f"{about['title']}: {about['rows'][row[1]]['title']}"
