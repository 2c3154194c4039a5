# SPDX-License-Identifier: Apache-2.0
"""Where another switch is faster than OVS-XDP, and why.  The list and all numbers come from the results
(profiles.py), the causes from here; a place without a cause says so."""

from bench.lib import runs, story, summary

EIGHT = "two samples are too few: eight streams have 12 to 44 Gb/s, by chance, with each switch and without one"
POLLS = ("a daemon that polls forwards on a second core, which it keeps busy also without traffic; OVS-XDP forwards on the "
         "sender's core, where sending takes most of the time")

# (case, row, or None for all of them): why.
CAUSES = {
    ("latency", "first"): (
        "a bridge decides nothing per flow; Open vSwitch makes an upcall for the request and one for its answer, and each "
        "wakes a thread of the daemon"),
    ("tcp", "rate-8"): (
        EIGHT),
    ("jumbo", "rate-8"): (
        EIGHT),
    ("tunnel_tcp", None): (
        "the other host sends frames of 1,500 bytes, one by one: that takes most of the time, with every switch"),
    ("guest", "udp-from"): (
        POLLS),
    ("guest", None): (
        "the guest's emulator takes nearly all of the time, and each boot is up to a tenth faster or slower than the next: one "
        "guest that is moved between the two has 0.96 to 1.04 times the bridge's throughput (how-to/virtual-machines.md)"),
    ("udp", None): (
        POLLS),
    ("ct_hosts", "connections"): (
        "the containers' sockets take most of the time. In five quiet rounds on another machine a connection took 71 us "
        "untracked and 80 through two zones, and with br_netfilter 88 and 95: there OVS-XDP is 1.19 times as good"),
    ("tcp_rr", None): (
        "two sockets that wake each other up are nearly all of the time, with every switch"),
    ("host", None): (
        "an internal port is a veth pair: one device, queue and softirq more between the switch and the host's sockets than "
        "the bridge's own device has"),
    ("flow_api", "del"): (
        "each flow leaves the tables of the programs as well as those of the engine; then the thread "
        "interrupts every other CPU that is not idle, once for a batch, so that the last count has the packet that a "
        "program is just handling"),
    ("flow_api", "del-1"): (
        "nearly all of it is interrupting every other CPU that is not idle, here for each flow. Revalidators delete in "
        "batches"),
    ("flows", "del"): (
        "as in \"Flow operations\": two tables to leave instead of one; other CPUs are waited for once"),
    ("idle", None): (
        "both use next to nothing. Each second a thread of ours sorts masks by use, looks for what programs may leave out, "
        "and retries flows that found the tables full"),
    ("cpu_cost", None): (
        "at these rates both leave the cores nearly idle"),
    ("storm", None): (
        "128 masks run in the programs; beyond that the engine runs the flows of the others"),
}


def table(results, named=lambda _, title: title):
    """Lines of cells: a line for each case and verdict.  'named' shows a case, from its name and title."""
    lines = [["case", "best other switch, times as good as OVS-XDP", "OVS-XDP is", "why", "run"]]
    for case, found in _by_case(results):
        about = results["cases"][case]
        for verdict, rows in found.items():
            shown = [f"{_of_ours(results, case, row)}{about['rows'][row]['title']}: {results['peers'][peer]['title']} "
                     f"{summary.spread(times)}" for row, peer, times in rows]
            lines.append([named(case, about["title"]), "; ".join(shown), verdict,
                          _cause(case, rows), runs.letter(results, case)])
    return lines


def _of_ours(results, case, row):
    """Which of ours it is, if it is not the whole."""
    ours = story.ours_in(results, case, row)
    return "" if ours == "ours" else f"{results['peers'][ours]['title']}, "


def _by_case(results):
    """[(case, {verdict: [(row, peer, times)]})]: "slower" beyond noise, or "level"."""
    found = {}
    for case, row, peer, times in story.not_ahead(results):
        verdict = "slower" if times[0] > story.NOISE else "level within noise"
        found.setdefault(case, {}).setdefault(verdict, []).append((row, peer, times))
    return sorted(found.items(), key=lambda item: "slower" not in item[1])


def _cause(case, rows):
    causes = dict.fromkeys(CAUSES.get((case, row), CAUSES.get((case, None), "not looked into yet")) for row, *_ in rows)
    return "; ".join(causes)
