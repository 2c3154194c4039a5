# SPDX-License-Identifier: Apache-2.0
from bench.cases import pvp

TITLE = "PCP: through a container"
GROUP = pvp.GROUP
QUESTION = ("Frames come from the wire, go through the switch to a container, which redirects them from one veth to another "
            "in XDP, and go through the switch to the sink.")
RULE = pvp.RULE
ROWS = pvp.ROWS


def run(w, peer, settings):
    first, last = w.make_path()
    w.make_namespace("box")
    w.make_veth("sw2", "box", "c0", "02:00:00:00:00:11")
    w.make_veth("sw3", "box", "c1", "02:00:00:00:00:12")
    w.hold("forward", "--dev", "c0", "--to", "c1", namespace="box")
    w.inside("box", "ethtool", "-K", "c1", "gro", "on")
    return pvp.around(w, peer, settings, [first, "sw2", "sw3", last])
