# SPDX-License-Identifier: Apache-2.0
import re

from bench.lib import world

TITLE = "Flow operations as ofproto asks for them"
GROUP = "Control"
QUESTION = ("What does a flow cost when Open vSwitch itself installs, changes, deletes and dumps 60,000 of them "
            "(exact 5-tuples, 20 masks), without text: the CPU time of the calling thread, and where another thread "
            "frees memory for it, of the whole process? Deleting returns the last "
            "counts; revalidators delete up to 50 at once, and dump without keys and actions. (The stock datapath "
            "keeps one table, ours two, the engine's and the programs'.)")
RULE = "flow-api"
N_FLOWS = 60000
LINES = {"add": ("put", "cpu"), "add-process": ("put", "process"), "change": ("modify", "cpu"),
         "del": ("delete", "cpu"), "del-process": ("delete", "process"), "del-1": ("delete-single", "cpu"),
         "dump": ("dump-terse", "cpu"), "dump-all": ("dump-full", "cpu")}
SAYS = ("add", "del")
ROWS = {row: {"title": title, "unit": "us", "better": "less"}
        for row, title in (("add", "install"), ("add-process", "install: whole process"), ("change", "change the actions"),
                           ("del", "delete, 50 at once"), ("del-process", "delete, 50 at once: whole process"),
                           ("del-1", "delete, one at a time"), ("dump", "dump, as revalidators do"),
                           ("dump-all", "dump with everything"))}


def run(w, peer, settings):
    ports = w.make_path()
    shown = world.command(*w.recorder("all"), f"{settings['build']}/tests/unit/bench_flows", peer.datapath_type,
                          str(N_FLOWS), *ports, limit=60)
    return {row: {"value": cpu_time(shown, *where)} for row, where in LINES.items()}


def cpu_time(shown, line, column):
    """Seconds for each flow, in the last line of that name."""
    flows, seconds = re.findall(rf"^{line} flows=(\d+) .*\b{column}=([0-9.]+)", shown, re.MULTILINE)[-1]
    return float(seconds) / int(flows)
