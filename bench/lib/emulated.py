# SPDX-License-Identifier: Apache-2.0
"""The kernel module's turn, where this kernel has none: ours and it in the emulated machine of `make check-vm`.

Emulation changes what things cost, and XDP's lead grows by it: only ratios are shown, and the report says so.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from bench.lib import summary

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = "forward,normal,set_fields"
PEERS = "ceiling,ours,kernel-module,bridge"
LIMIT = 900                                 # Seconds for all of it.


def measure(results, args):
    """Adds what the machine measured to 'results', or why it did not."""
    print("in the emulated machine: ", end="", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="ovs-xdp-bench-") as folder:
        inside = (f"modprobe openvswitch; exec bench/run --cases {CASES} --peers {PEERS} --rounds {args.rounds} "
                  f"--seconds 1 --no-emulated --build {args.build} --output /results/results.json")
        done = subprocess.run([TOP / "tests/vm/run", "--timeout", str(LIMIT), "--results", folder, "sh", "-c", inside],
                              cwd=TOP, capture_output=True, text=True, check=False)
        kept = pathlib.Path(folder, "results.json")
        if kept.exists():
            results["emulated"] = json.loads(kept.read_text(encoding="utf-8"))
            print(f"{len(results['emulated']['samples'])} measurements", file=sys.stderr)
        else:
            said = (done.stderr or done.stdout).strip().splitlines() or [f"ended with status {done.returncode}"]
            results["emulated"] = {"failed": said[-1]}
            print(said[-1], file=sys.stderr)


def about(results):
    inner = results["emulated"]
    return (f"{inner['machine']['kernel']} without hardware virtualization, {inner['settings']['rounds']} rounds: "
            "multiples of what openvswitch.ko does in the same machine. Emulation makes skbs dearer than they are, "
            "about twice compared with XDP; where this machine's own kernel has the module, it is in the tables above.")


def table(results):
    """Lines of cells: each switch's rate as a multiple of the kernel module's, by case; empty without results."""
    inner = results.get("emulated", {})
    if "samples" not in inner:
        return []
    rows = [(case, row) for case, about in inner["cases"].items() for row in about["rows"]]
    titles = inner["cases"]
    lines = [["times openvswitch.ko"] + [f"{titles[case]['title']}: {titles[case]['rows'][row]['title']}"
                                         for case, row in rows]]
    for peer, about in inner["peers"].items():
        cells = [summary.ratio(inner, case, peer, row, "kernel-module") for case, row in rows]
        if any(cells):
            lines.append([about["title"]] + [f"{summary.number(cell[1])} [{summary.number(cell[0])} "
                                             f"{summary.number(cell[2])}]" if cell else "-" for cell in cells])
    return lines
