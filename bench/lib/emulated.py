# SPDX-License-Identifier: Apache-2.0
"""The kernel module's turn, where this kernel has none: ours and it in the emulated machine of `make check-vm`.

Emulation changes what things cost, and XDP's lead grows by it: only ratios are shown, and the report says so.
"""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

from bench.lib import story, summary

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = "forward,normal,latency,upcalls,tcp"
PEERS = "ceiling,ours,kernel-module,bridge"
ROUNDS = 3
LIMIT = 1200                                # Seconds for all of it.
USUAL = 360                                 # What it takes on two cores.


def measure(results, args):
    """Adds what the machine measured to 'results', or why it did not; what it has so far if it is stopped."""
    with tempfile.TemporaryDirectory(prefix="ovs-xdp-bench-") as folder:
        inside = (f"modprobe openvswitch; exec bench/run --cases {CASES} --peers {PEERS} --rounds {ROUNDS} "
                  f"--seconds 0.5 --no-emulated --build {shlex.quote(str(args.build))} "
                  "--output /results/results.json 2>&1")
        machine = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", TOP / "tests/vm/run",
                                    "--timeout", str(LIMIT), "--results", folder, "sh", "-c", inside],
                                   cwd=TOP, text=True, errors="replace", stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = "it said nothing"
        try:
            for line in machine.stdout:
                said = line.strip() or said
                if line.startswith("["):    # Its progress.
                    print(f"in the emulated machine: {line}", end="", file=sys.stderr, flush=True)
            machine.wait()
        finally:
            machine.kill()                  # Its emulator ends with it.
            machine.wait()
            results["emulated"] = _kept(folder) or {"failed": said}


def _kept(folder):
    kept = pathlib.Path(folder, "results.json")
    return json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None


def about(results):
    inner = results["emulated"]
    return (f"{inner['machine']['kernel']} without hardware virtualization, "
            f"{inner['settings']['rounds']} rounds: how many times as good as openvswitch.ko in the same "
            "machine. Emulation makes skbs dearer than they are, about twice compared with XDP; where this machine's "
            "own kernel has the module, it is in the tables below. It has one CPU, which the generator, the kernel and "
            "the daemon share.")


def bars(results):
    """[(what, [(peer, title, times, low, high)])], the kernel module being 1; empty without results."""
    inner = results.get("emulated", {})
    if "samples" not in inner:
        return []
    found = []
    for case, about_case in inner["cases"].items():
        for row, about_row in about_case["rows"].items():
            group = [(peer, info["title"], times[1], times[0], times[2]) for peer, info in inner["peers"].items()
                     if (times := story.better(inner, case, peer, row, "kernel-module"))]
            if len(group) > 1:
                found.append((f"{about_case['title']}: {about_row['title']}", group))
    return found


def sentence(results):
    """What the plot says."""
    found = [(times, what) for what, group in bars(results) for peer, _, times, *_ in group if peer == "ours"]
    if not found:
        return ""
    (least, where), (most, there) = min(found), max(found)
    return (f"OVS-XDP is {summary.number(least)} ({where}) to {summary.number(most)} times ({there}) as good as "
            "openvswitch.ko in this machine.")


def table(results):
    """Lines of cells: the same as numbers."""
    lines = [["times as good as openvswitch.ko", "switch", "times"]]
    for what, group in bars(results):
        for i, (_, title, times, low, high) in enumerate(group):
            spread = f"{summary.number(times)} [{summary.number(low)} {summary.number(high)}]"
            lines.append(["" if i else what, title, spread])
    return lines if len(lines) > 1 else []
