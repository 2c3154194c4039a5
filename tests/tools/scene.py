# SPDX-License-Identifier: Apache-2.0
"""What the tools that observe a switch look at."""
import contextlib

import lab
import switch as switches


@contextlib.contextmanager
def with_odd_port(name):
    """A switch, its host at 10.0.0.100, the container "red" at 10.0.0.1, and a port of that name."""
    with lab.Namespace("red") as red, switches.Switch() as switch:
        switch.add_bridge("br0")
        lab.make_veth("to-red", red)
        switch.add_port("to-red")
        lab.run("ip", "link", "add", "plain", "type", "veth", "peer", "name", "far")
        lab.run("ip", "link", "set", "dev", "plain", "name", name)
        switch.vsctl("--", "add-port", "br0", name)
        lab.run("ip", "link", "set", "br0", "up")
        lab.add_addresses(lab.Namespace(), "br0", "10.0.0.100/24")
        lab.add_addresses(red, "eth0", "10.0.0.1/24")
        yield switch, red


def target(switch):
    """The argument of -t."""
    return str(switch.rundir / "ovs-vswitchd.ctl")
