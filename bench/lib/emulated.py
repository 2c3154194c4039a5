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

from bench.lib import summary

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = "forward,normal,set_fields"
PEERS = "ceiling,ours,kernel-module,bridge"
ROUNDS = 3
LIMIT = 1200                                # Seconds for all of it.
USUAL = 480                                 # What it takes on two cores.


def measure(results, args):
    """Adds what the machine measured to 'results', or why it did not; what it has so far if it is stopped."""
    with tempfile.TemporaryDirectory(prefix="ovs-xdp-bench-") as folder:
        inside = (f"modprobe openvswitch; exec bench/run --cases {CASES} --peers {PEERS} --rounds {ROUNDS} "
                  f"--seconds 1 --no-emulated --build {shlex.quote(str(args.build))} --output /results/results.json 2>&1")
        machine = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", TOP / "tests/vm/run", "--timeout", str(LIMIT),
                                    "--results", folder, "sh", "-c", inside], cwd=TOP, text=True, errors="replace",
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
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
