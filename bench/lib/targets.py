# SPDX-License-Identifier: Apache-2.0
"""What OVS-XDP is meant to reach, beside what was measured."""

from bench.lib import field, story, summary

TUNNELS = ("vxlan", "geneve", "gre", "vxlan-many", "vxlan-32", "vxlan-1k", "vxlan-1M")

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
    *((("tunnel", row), ("tunnel", row), 0.80)
      for row in (f"{way}-{kind}" for way in ("push", "pop") for kind in TUNNELS)),
    *((("ct", row), ("ct", row), 0.80) for row in ("1", "1k", "nat-1", "nat-1k")),
    (("ct", "zones-1k"), ("ct", "zones-1k"), 0.75),
    (("ct", "zones-16k"), ("ct", "zones-16k"), 0.60),
]

# (case, row), how many times the stock datapath's figure is wanted at least; None: stated only.
MULTIPLES = [
    (("megaflows", "masks"), None),
    (("flow_api", "add"), 5),
    (("flow_api", "del"), 5),
    (("flow_api", "dump"), None),
    (("flows", "add"), None),
    (("flows", "del"), None),
    (("flows", "dump"), None),
    (("storm", "storm-1k"), None),
    (("storm", "storm-1M"), None),
    (("upcalls", "rate"), 1),
    (("latency", "first"), 1),
    *((("tunnel", row), 5) for row in ("push-vxlan", "pop-vxlan", "push-geneve", "pop-geneve", "push-gre", "pop-gre")),
    *((("ct", row), 5) for row in ("1", "1k", "nat-1", "nat-1k")),
    *((("ct", row), None) for row in ("zones-1k", "zones-16k", "zones-100k")),
    (("cps", "udp"), None),
    (("cps", "udp-nat"), None),
    (("cps_tcp", "rate"), 5),
]

# The same of the Linux bridge's figure, and of the stock datapath's, between sockets.
CONTAINERS = [
    (("tcp", "rate"), 1.1),
    (("tcp", "rate-8"), 1.1),
    (("host", "in"), 1),
    (("host", "out"), 1),
    (("udp", "rate"), 1.2),
    (("tcp_rr", "p50"), 1),
    (("tcp_rr", "p99"), 1),
    (("tcp_rr", "connections"), 1),
    (("jumbo", "rate"), 1),
    (("jumbo", "rate-8"), 1),
    (("guest", "from"), 1),
    (("guest", "to"), 1),
    *((("tunnel_tcp", row), 1.1) for row in ("out", "in", "in-8", "csum-out")),
]
CONTAINERS_STOCK = [
    (("tcp", "rate"), 5),
    (("tcp", "rate-8"), 5),
    *((("tunnel_tcp", row), 10) for row in ("out", "in", "in-8")),
    (("ct_hosts", "connections"), 5),
]

# What OVN's paths are to be, of the stock datapath with sockets of AF_PACKET.
OVN = [(("ovn", f"{path}-{kind}"), 5) for path in ("host", "hosts", "lb", "snat") for kind in ("tcp", "udp", "p50", "first")]

# The same of the Linux bridge whose packets the kernel tracks.
TRACKED = [(("ct_hosts", row), 1.3) for row in ("rate", "p50", "connections")]

# (case, row): the engine alone must be as good as the stock datapath.
ENGINE = [("forward", "1"), ("forward", "1k"), ("forward", "1M"), ("match", "1k"), ("match", "1M")]


ABOUT_SHARES = (
    "What OVS-XDP reaches of the bare bpf_redirect_map, which looks at nothing. Generator, switch and sink run one "
    "after the other on one core, so the difference of the times per frame is what the switch costs. A faster machine "
    "or generator makes the same nanoseconds a larger share; so three shares stand here: that of the bare redirect in this "
    "run; what the nanoseconds leave of 3 Mpps, which is what the bare redirect does with a generator that waits for RCU "
    "between its batches (computed); and the share measured with such a generator, which differs more from round to round "
    "than it differs from 1. The last is the share of the bare XDP L2 forwarder, the least that looks anything up: one hash "
    "table by VLAN and address, without protocols, masks, statistics or actions.")
SHARES_HEAD = ["case", "aim", "share", "nanoseconds over the bare redirect", "share of 3 Mpps with these",
               "share with a plain generator", "share of the bare XDP L2 forwarder"]


def shares(results):
    """Lines of cells, without the head."""
    for row, of, least in SHARES:
        share, cost = _share(results, row, of), _over(results, row, of)
        if share:
            plain = _share(results, ("plain", row[1]), ("plain", row[1])) if row[0] == "forward" else None
            least_of_all = _share(results, row, of, "l2-xdp")
            yield [_name(results, row), f"{least:.2f}", _spread(share, 2), _spread(cost, 0),
                   _spread([1 / (1 + 3e6 * nanoseconds / 1e9) for nanoseconds in reversed(cost)], 3),
                   _spread(plain, 2) if plain else "-", _spread(least_of_all, 2) if least_of_all else "-"]


def tables(results):
    """The same and more as lines of Markdown."""
    for title, note, lines in all_tables(results):
        yield from ("", f"## {title}", "", note, "", *markdown_table(lines))


def all_tables(results):
    """(title, note, lines of cells): what was to be reached, and what was."""
    lines = list(shares(results))
    if lines:
        yield "How far from the ceiling?", ABOUT_SHARES, [SHARES_HEAD, *lines]
    for peer, of, wanted, what, note in (
            ("ours", field.REFERENCE, MULTIPLES, "XDP and control",
             "Twice as good is 2, whether more or less is better. Where flows are installed, "
             "deleted and dumped as text, parsing and printing it is most of the time."),
            ("ours", "bridge", CONTAINERS, "containers",
             "Sockets on both sides, tcx in front of them. Without a switch: one veth pair between the two containers, the "
             "most that any switch can reach."),
            ("ours", field.REFERENCE, CONTAINERS_STOCK, "containers", "Sockets on both sides, tcx in front of them."),
            ("ours", "stock-packet", OVN, "OVN", "Three hosts on one machine."),
            ("ours", "bridge-ct", TRACKED, "tracked containers", "Sockets on both sides, two zones between them."),
            ("ours-engine", field.REFERENCE, [(row, 1) for row in ENGINE], "userspace",
             "The engine sleeps when idle; the stock datapath polls.")):
        lines = list(_multiples(results, peer, of, wanted))
        head = ["case", "aim", "times as good", "reached", "without a switch"]
        if all(line[-1] == "-" for line in lines):
            head, lines = head[:-1], [line[:-1] for line in lines]
        if lines:
            yield (f"{results['peers'][peer]['title']} against {results['peers'][of]['title']}: {what}", note,
                   [head, *lines])


def markdown_table(lines):
    width = len(lines[0])
    for i, line in enumerate(lines):
        yield "| " + " | ".join([*map(str, line), *[""] * (width - len(line))]) + " |"
        if i == 0:
            yield "|" + "---|" * width


def _share(results, row, of, peer="ours"):
    pairs = _pairs(results, row, of, peer)
    return summary.quartiles([mine / ceiling for mine, ceiling in pairs]) if pairs else None


def _over(results, row, of):
    pairs = _pairs(results, row, of)
    return summary.quartiles([1e9 / mine - 1e9 / ceiling for mine, ceiling in pairs]) if pairs else None


def _pairs(results, row, of, peer="ours"):
    ours, ceiling = _by_round(results, peer, row), _by_round(results, "ceiling", of)
    return [(ours[r], ceiling[r]) for r in sorted(set(ours) & set(ceiling)) if ours[r] and ceiling[r]]


def _spread(quartiles, digits):
    low, middle, high = (f"{value:.{digits}f}" for value in quartiles)
    return f"{middle} [{low} {high}]"


def _multiples(results, peer, of, wanted):
    for row, least in wanted:
        times = story.better(results, row[0], peer, row[1], of) if row[0] in results["cases"] else None
        if times:
            bare = story.better(results, row[0], "direct", row[1], of)
            yield [_name(results, row), str(least or "-"), summary.spread(times),
                   "-" if not least else "yes" if times[1] >= least else "no", summary.spread(bare) if bare else "-"]


def _by_round(results, peer, row):
    return summary.values(results, row[0], peer, row[1])


def _name(results, row):
    about = results["cases"][row[0]]
    return f"{about['title']}: {about['rows'][row[1]]['title']}"
