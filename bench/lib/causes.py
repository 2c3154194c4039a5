# SPDX-License-Identifier: Apache-2.0
"""Where another switch is faster than OVS-XDP, and why.  The list comes from the results, the
causes from here; a place without a cause says so."""

from bench.lib import story, summary

# (case, row, or None for all of them): why.
CAUSES = {
    ("latency", "first"): "a bridge decides nothing for each flow; Open vSwitch asks its OpenFlow tables, in a thread "
                          "of the daemon that has to be woken",
    ("tcp", None): "segments stay whole at tcx, too; what a bridge saves beyond that has not been profiled yet",
    ("flows", "del"): "each flow leaves the tables of XDP as well as those of the engine; the engine alone deletes "
                      "faster than the stock daemon",
    ("gre", None): "tunnels run in the engine only, with the same code of Open vSwitch that the stock daemon runs, so "
                   "that both are about even",
}


def table(results):
    lines = [["case", "fastest", "times as good as OVS-XDP", "why"]]
    for case, row, peer, (low, middle, high) in story.behind(results):
        about = results["cases"][case]
        lines.append([f"{about['title']}: {about['rows'][row]['title']}", results["peers"][peer]["title"],
                      f"{summary.number(middle)} [{summary.number(low)} {summary.number(high)}]",
                      CAUSES.get((case, row), CAUSES.get((case, None), "not looked into yet"))])
    return lines
