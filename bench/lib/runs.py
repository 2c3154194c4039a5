# SPDX-License-Identifier: Apache-2.0
"""Which run each case is of: machine, time, and commit of OVS-XDP.  Results that were brought up to date are of several
runs; pages name each by a letter, beside every number."""

from bench.lib import machine

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
UNKNOWN = "not recorded"


def of(results):
    """{letter: {"machine", "started", "ended", "commits", "cases"}}, the letters in the order of cases."""
    runs = {}
    for case in results["cases"]:
        found = _of_case(results, case)
        same = next((run for run in runs.values() if _is_same(run, found)), None)
        if same:
            same["cases"].append(case)
            same["commits"] = same["commits"] or found["commits"]
            same["started"], same["ended"] = min(same["started"], found["started"]), max(same["ended"], found["ended"])
        else:
            runs[LETTERS[len(runs)]] = found
    return runs


def letter(results, case):
    return next(name for name, run in of(results).items() if case in run["cases"])


def commit_of(results, case, peer):
    """The commit that 'peer', one of ours, had in 'case'."""
    version = results["cases"][case].get("versions", {}).get(peer) or results["peers"].get(peer, {}).get("version", "")
    return version.partition("commit ")[2] or UNKNOWN


def _of_case(results, case):
    label = results["cases"][case].get("measured", results)
    peers = dict.fromkeys(s["peer"] for s in results["samples"] if s["case"] == case
                          and results["peers"][s["peer"]]["role"] in ("ours", "part"))
    return {"machine": label["machine"], "started": label["started"], "ended": label.get("ended", label["started"]),
            "commits": {peer: commit_of(results, case, peer) for peer in peers}, "cases": [case]}


def _is_same(run, other):
    """A case of which nothing of ours was measured is of any run on its machine."""
    commits = [set(one["commits"].values()) for one in (run, other)]
    return machine.is_same(run["machine"], other["machine"]) and (not all(commits) or commits[0] == commits[1])


def table(results):
    """Lines of cells."""
    lines = [["run", "machine", "measured", "OVS-XDP's commit", "cases"]]
    runs = of(results)
    most = max(runs.values(), key=lambda run: len(run["cases"]), default=None)
    for name, run in runs.items():
        commits = {}
        for peer, commit in run["commits"].items():
            commits.setdefault(commit, []).append(results["peers"][peer]["title"])
        said = next(iter(commits), UNKNOWN) if len(commits) < 2 else "; ".join(
            f"{commit} ({', '.join(titles)})" for commit, titles in commits.items())
        cases = "all others" if run is most and len(runs) > 1 else ", ".join(run["cases"])
        lines.append([name, machine.named(run["machine"]), f"{run['started']} to {run['ended']}", said, cases])
    inner = results.get("emulated", {})
    if "samples" in inner:
        lines.append(["emulated", machine.named(inner["machine"]), f"{inner['started']} to {inner['ended']}",
                      inner["peers"]["ours"].get("version", "").partition("commit ")[2] or UNKNOWN,
                      "beside the kernel module"])
    return lines
