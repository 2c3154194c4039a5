# SPDX-License-Identifier: Apache-2.0
import re

from bench.lib import world

TITLE = "The program by itself"
GROUP = "The program"
QUESTION = ("How long does the XDP program take for a frame, without any device: BPF_PROG_TEST_RUN, the same "
            "frame 300,000 times, all of it in the cache? \"nothing\" is a program that does nothing; a specialised "
            "one leaves out what the flow does not need, as it does about two seconds after flows have changed.")
RULE = "program"
PLOT = "rows"
LINES = {
    "nothing": "nothing",
    "parse": "miss, no masks",
    "output": "output",
    "output-special": "specialised: output",
    "set": "set Ethernet, set IPv4, decrement TTL, output",
    "vlan": "push VLAN, pop VLAN, output",
    "ip6": "IPv6, 5-tuple, output",
    "ip6-special": "specialised: IPv6, 5-tuple, output",
    "masks": "miss after 16 masks",
}
ROWS = {row: {"title": line, "unit": "ns", "better": "less"} for row, line in LINES.items()}


def run(_w, _peer, settings):
    folder = f"{settings['build']}/tests/bpf_pipeline"
    shown = world.command(f"{folder}/bench_pipeline", f"{folder}/pipeline.bpf.o")
    return {row: {"value": int(re.search(rf"^{line} +(\d+) ns", shown, re.MULTILINE).group(1)) / 1e9}
            for row, line in LINES.items()}
