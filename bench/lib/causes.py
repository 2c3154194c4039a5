# SPDX-License-Identifier: Apache-2.0
"""Where another switch is faster than OVS-XDP, and why.  The list and all numbers come from the results
(profiles.py), the causes from here; a place without a cause says so."""

from bench.lib import story, summary

# (case, row, or None for all of them): why.
CAUSES = {
    ("latency", "first"): (
        "a bridge decides nothing for each flow; Open vSwitch asks its OpenFlow tables, in a thread of the "
        "daemon that has to be woken, twice for a request and its answer"),
    ("tcp", None): (
        "segments stay whole at tcx, too, and copying and waking up, the same with both, is nearly all of the "
        "time; the program's own share stands below as oxdp_tcx"),
    ("udp", None): (
        "a daemon that polls forwards on a second core, which it keeps busy also without traffic; ours forwards "
        "on the sender's core, where sending is most of the time. Its own share stands below as oxdp_tcx"),
    ("tcp_rr", None): (
        "two sockets that wake each other up are nearly all of the time, with every switch"),
    ("host", None): (
        "an internal port is a veth pair: one more device, with a queue and a softirq of its own, between the "
        "switch and the host's sockets than the bridge's own device has"),
    ("flow_api", "del"): (
        "each flow leaves the tables of the programs as well as those of the engine; then the thread "
        "interrupts every other CPU that is not idle, once for a batch, so that the last count has the packet that a "
        "program is just handling"),
    ("flow_api", "del-1"): (
        "nearly all of it is interrupting every other CPU that is not idle, here for each flow. Revalidators delete in "
        "batches"),
    ("flows", "del"): (
        "as in \"Flow operations\": two tables to leave instead of one; other CPUs are waited for once"),
    ("gre", None): (
        "tunnels run in the engine only, with the same code of Open vSwitch that the stock daemon runs, so "
        "that both are about even"),
    ("idle", None): (
        "next to nothing with both: each second a thread of ours looks at how often masks are used, what programs may "
        "leave out, and whether flows that found the tables full have room"),
    ("storm", None): (
        "128 masks run in the programs; beyond that the engine runs the flows of the others"),
}


def table(results):
    lines = [["case", "fastest", "times as good as OVS-XDP", "why"]]
    for case, row, peer, (low, middle, high) in story.behind(results):
        about = results["cases"][case]
        lines.append([f"{about['title']}: {about['rows'][row]['title']}", results["peers"][peer]["title"],
                      f"{summary.number(middle)} [{summary.number(low)} {summary.number(high)}]",
                      CAUSES.get((case, row), CAUSES.get((case, None), "not looked into yet"))])
    return lines
