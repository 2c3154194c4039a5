# SPDX-License-Identifier: Apache-2.0
"""Where time goes in the cases in which another switch is faster than ours: both are measured once more, under perf(1).

Clock ticks are sampled on all CPUs, so that it works without hardware counters, and sees what interrupts do."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from bench.lib import story, worker

N_SHOWN = 10
OUR_PROGRAMS = ("oxdp_xdp", "oxdp_tcx")                  # Shown also if they are not among these.
LINE = re.compile(r"^\s*([0-9.]+)%\s*;\s*(?:\[[.kgH]\]\s*)?([^;\n]+?)\s*(?:;.*)?$", re.MULTILINE)
IDLE = re.compile(r"halt|idle|mwait|bench_generate")     # Nobody's work, and the generator's.


def measure(results, settings):
    """Adds {"case": {"peer": {"recording": [[function, share], ...]}}} as results["profiles"]."""
    results["profiles"] = {}
    if not shutil.which("perf"):
        print("no profiles: perf is not installed (apt-get install linux-perf)", file=sys.stderr)
        return
    for case, peers in _wanted(results).items():
        for peer in peers:
            print(f"profile  {case} / {peer}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="ovs-xdp-bench-") as folder:
                worker.measure_apart(case, peer, settings | {"profile": folder})
                found = {path.stem.removeprefix(f"{case}-{peer}-"): functions(path)
                         for path in sorted(pathlib.Path(folder).glob("*.data"))}
            results["profiles"].setdefault(case, {})[peer] = {name: top for name, top in found.items() if top}


def _wanted(results):
    """The cases where ours is behind, with the better one of our hooks and the fastest other switch."""
    wanted = {}
    for case, row, peer, _ in story.behind(results):
        wanted.setdefault(case, {})
        wanted[case] |= {story.best_of_ours(results, case, row): None, peer: None}
    return wanted


def functions(recording):
    """What 'perf report' says, read by summed()."""
    shown = subprocess.run(["perf", "report", "--input", recording, "--stdio", "--no-children", "--call-graph", "none",
                            "--fields", "overhead,symbol", "--field-separator", ";"], capture_output=True, text=True,
                           errors="replace", check=False).stdout
    return summed(shown)


def summed(shown):
    """[[function, share of the CPU time that was not idle]] from lines "12.3%;[k] function", the largest first."""
    shares = {}
    for overhead, symbol in LINE.findall(shown):
        if not IDLE.search(symbol):
            name = re.sub(r"\.(isra|constprop|part|cold).*|^bpf_prog_[0-9a-f]+_", "", symbol)
            name = "(unknown)" if name.startswith("0x") else name
            shares[name] = shares.get(name, 0) + float(overhead)
    whole = sum(shares.values())
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    return [[name, round(share / whole, 4)] for i, (name, share) in enumerate(ranked)
            if i < N_SHOWN or name in OUR_PROGRAMS]


def table(results, only=None):
    """Lines of cells: who spends how much of its time where; of all cases, or of one."""
    lines = [["case", "measured", "switch", "of the CPU time that was used"]]
    for case, peers in results.get("profiles", {}).items():
        if only not in (None, case):
            continue
        for name in dict.fromkeys(name for found in peers.values() for name in found):
            for peer, found in peers.items():
                if name in found:
                    lines.append([results["cases"][case]["title"], name, results["peers"][peer]["title"],
                                  ", ".join(f"{function} {share:.1%}" for function, share in found[name])])
    return lines
