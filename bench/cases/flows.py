# SPDX-License-Identifier: Apache-2.0
from bench.lib import datapath

TITLE = "Installing, dumping and deleting flows"
GROUP = "Control"
QUESTION = ("How many flows per second does the datapath install and delete, and what CPU time does one dump of "
            "them all take? Asked for through ovs-appctl dpctl, so that parsing and printing text is included, "
            "which costs every datapath the same; 50,000 flows, because the stock datapath holds at most "
            "65,536.")
RULE = "output"
DAEMONS_ONLY = True
N_FLOWS = 50000
ROWS = {
    "add": {"title": "installed", "unit": "thousand/s", "better": "more"},
    "dump": {"title": "CPU time of a dump", "unit": "ms", "better": "less"},
    "del": {"title": "deleted", "unit": "thousand/s", "better": "more"},
}


def run(w, peer, _settings):
    ports = w.make_path()
    peer.start(w, ports, RULE)
    return datapath.handle_flows(w, peer, N_FLOWS)
