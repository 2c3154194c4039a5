# SPDX-License-Identifier: Apache-2.0
"""A peer that forwards inside the kernel and has no daemon."""

import platform


class KernelPeer:
    name = title = None
    role = "switch"                         # "ours", "switch", "part" (of ours), "baseline": no switch to choose.
    by_default = True
    only = None                             # The cases it is measured in; None: all that it can do.
    every = 1                               # It is measured in every so-many-th round.
    sockets = False                         # Whether the case has applications behind the ports; set by lib/worker.py.
    sockets_only = False
    own_core = False                        # Whether threads of a daemon have the switch's core for themselves.
    rules = frozenset()
    sink_at = ("s0", "sink")
    offloads = True

    def missing(self, _settings):
        return None

    def version(self):
        return f"Linux {platform.release()}"

    def pids(self):
        return []

    def rest(self):
        """Brings it into the state that it has when it has forwarded the same flows for a while."""

    def change_rule(self, rule):
        """Only peers that do the same whatever the rule is are asked."""

    def log_tail(self):
        return []
