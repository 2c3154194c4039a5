# SPDX-License-Identifier: Apache-2.0
from bench.lib import measure

TITLE = "An idle switch"
GROUP = "Control"
QUESTION = "How much of a core does the daemon use with 32 ports on which nothing happens?"
RULE = None
QUICK = True
DAEMONS_ONLY = True
N_PORTS = 32
ROWS = {"cpu": {"title": "32 idle ports", "unit": "cores", "better": "less"}}


def run(w, peer, settings):
    ports = [f"sw{i}" for i in range(N_PORTS)]
    for i, port in enumerate(ports):
        w.make_veth(port, "gen", f"g{i}", f"02:00:00:00:01:{i:02x}")
    peer.start(w, ports, RULE)
    # Starting leaves work behind (revalidators, statistics); a quiet second ends it.
    measure.idle_cpu(peer, 1)
    return {"cpu": measure.idle_cpu(peer, max(2, settings["seconds"]))}
