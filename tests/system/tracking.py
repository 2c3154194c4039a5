# SPDX-License-Identifier: Apache-2.0
"""What tests of ct() in programs have in common: a switch with silent hosts, programs that track, and results to compare."""
import contextlib

import lab
import switch as switches
import tiers


@contextlib.contextmanager
def served(config):
    """A switch with two silent hosts: (switch, their wires)."""
    lab.new_host()
    with contextlib.ExitStack() as world, switches.Switch() as switch:
        for name, value in config.items():
            switch.vsctl("set", "open", ".", f"other_config:{name}={value}")
        yield switch, tiers.lay_wires(world, switch)
        switch.expected.append("left allocated when ofproto")


def tracks(switch):
    return lab.wait_until(lambda: "programs track connections now" in "\n".join(switch.log()), "programs that track")


def results_of(hook, prepare, observe):
    """What 'observe(switch, wires)' returns of the engine alone, and of programs at 'hook'.  Before each
    'prepare(switch, wires, whether programs are to track)' makes a new switch ready."""
    for programs, config in (False, {"xdp-offload": "false"}), (True, {"xdp-hook": hook}):
        with served(config) as (switch, wires):
            prepare(switch, wires, programs)
            yield observe(switch, wires)


def differences(wanted, got):
    """What of two results, dictionaries of lists, is not equal, in lines to read."""
    for key in wanted:
        if wanted[key] != got[key]:
            yield f"{key}:\n" + "\n".join(f"    {a}\n    {b}" for a, b in zip(wanted[key], got[key]) if a != b)
            yield f"    {len(wanted[key])} and {len(got[key])}"
