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
    return (f"{inner['machine']['kernel']} under QEMU's TCG, without hardware virtualization, "
            f"{inner['settings']['rounds']} rounds: how many times as good as openvswitch.ko in the same machine. Do not "
            "take these factors to a real machine: emulation makes skbs dearer than they are, about twice compared with "
            "XDP, and generator, kernel and daemon share one CPU. Where the kernel that is measured has the module, it is "
            "a peer in every case.")


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
    return (f"OVS-XDP is {summary.times(least)} ({where}) to {summary.times(most)} times ({there}) as good as "
            "openvswitch.ko in this machine.")


def not_ahead(results):
    """The same rows as sentences where the module is faster, or may be."""
    inner = results.get("emulated", {})
    return [f"{what}: {summary.spread((low, times, high))}" for what, group in bars(results)
            for peer, _, times, low, high in group if peer == "ours" and low < story.NOISE] if "samples" in inner else []


def table(results):
    """Lines of cells: a line for each row, a column for each switch."""
    found = bars(results)
    peers = dict.fromkeys((peer, title) for _, group in found for peer, title, *_ in group if peer != "kernel-module")
    lines = [["times as good as openvswitch.ko", *(title for _, title in peers)]]
    for what, group in found:
        cells = {peer: summary.spread((low, times, high)) for peer, _, times, low, high in group}
        lines.append([what, *(cells.get(peer, "-") for peer, _ in peers)])
    return lines if len(lines) > 1 else []
