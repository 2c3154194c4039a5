# SPDX-License-Identifier: Apache-2.0
"""Where another switch is faster than OVS-XDP, and why: what profiles showed.  The list comes from the results, the
causes from here; a place without a cause says so."""

from bench.lib import story, summary

# (case, row): why.
CAUSES = {}


def table(results):
    lines = [["case", "fastest", "times as good as OVS-XDP", "why"]]
    for case, row, peer, (low, middle, high) in story.behind(results):
        about = results["cases"][case]
        lines.append([f"{about['title']}: {about['rows'][row]['title']}", results["peers"][peer]["title"],
                      f"{summary.number(middle)} [{summary.number(low)} {summary.number(high)}]",
                      CAUSES.get((case, row), CAUSES.get((case, None), "not looked into yet"))])
    return lines
