# SPDX-License-Identifier: Apache-2.0
"""Options of an Interface that are wrong: the port works on, and "error" or status:xdp-warning says what was given, what is
allowed, and what is used."""
import pytest

import lab
import switch as switches
import traffic


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("these are options of type xdp")


def set_options(switch, device, **options):
    switch.vsctl("clear", "interface", device, "options", "--", "set", "interface", device,
                 *(f'options:{key.replace("__", "-")}="{value}"' for key, value in options.items()))


def error(switch, device):
    """What stands in "error" and, the same, in status:xdp-error."""
    said = switch.error(device)
    return said if said == switch.status(device).get("xdp-error") else None


def test_wrong_values_leave_a_port_as_it_is(network):
    """The old values stay in use: hook, mode, OpenFlow number, and no packet is lost."""
    switch = network.switch
    switch.expected += ["unsupported value"]
    set_options(switch, "to-green", xdp__hook="xdp", xdp__mode="generic")
    lab.wait_until(lambda: switch.status("to-green").get("xdp-mode") == "generic", "the mode asked for")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    def openings():
        return [line for line in switch.log() if "opening again" in line]
    number, before = switch.ofport("to-green"), openings()
    wrong = {
        "xdp__mode": ("Native", "expected best-effort, native-with-zerocopy, native or generic; generic is used"),
        "xdp__hook": ("tc", "expected auto, xdp, tcx or both; xdp is used"),
        "xdp__peer": ("maybe", "expected true or false; true is used"),
        "xdp__obj": ("program.o", "expected the absolute path of a BPF object, or builtin; builtin is used"),
    }
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        for key, (value, sentence) in wrong.items():
            set_options(switch, "to-green", **{"xdp__hook": "xdp", "xdp__mode": "generic", key: value})
            given = f"options:{key.replace('__', '-')}={value}: unsupported value, "
            lab.wait_until(lambda: given + sentence in (error(switch, "to-green") or ""), given)
            stream.flowing()
    assert switch.ofport("to-green") == number
    assert switch.status("to-green")["xdp-hook"] == "xdp" and switch.status("to-green")["xdp-mode"] == "generic"
    assert openings() == before

    set_options(switch, "to-green", xdp__hook="xdp", xdp__mode="generic")
    lab.wait_until(lambda: not switch.error("to-green"), "no more error")
    assert "xdp-error" not in switch.status("to-green")


def test_wrong_values_of_a_new_port(network):
    """It works with the defaults."""
    switch = network.switch
    switch.expected += ["unsupported value"]
    extra = network.plug("extra")
    lab.add_addresses(extra, "eth0", "10.0.0.9/24")
    switch.vsctl("add-port", "br0", "to-extra", "--", "set", "interface", "to-extra", "options:xdp-mode=bogus",
                 "options:xdp-hook=bogus")
    lab.wait_until(lambda: "best-effort is used" in (error(switch, "to-extra") or ""), "an error")
    assert "auto is used" in switch.error("to-extra")
    traffic.wait_for_ping(network.red, "10.0.0.9")


def test_unknown_keys(network):
    """One warning each, in the log once and in the status as long as they stand there."""
    switch = network.switch
    switch.expected += ["unknown option"]
    set_options(switch, "to-green", xdp_hook="xdp", xdp__hok="tcx", xdp__nonsense="1", bogus="1")

    def warning():
        return switch.status("to-green").get("xdp-warning", "")
    lab.wait_until(warning, "a warning")
    assert "options:xdp_hook=xdp: unknown option, ignored: did you mean xdp-hook?" in warning()
    assert "options:xdp-hok=tcx: unknown option, ignored: did you mean xdp-hook?" in warning()
    assert "options:xdp-nonsense=1: unknown option, ignored" in warning()
    assert "options:bogus=1: unknown option, ignored" in warning()
    switch.vsctl("set", "interface", "to-red", "external_ids:x=1")         # Has the daemon read all options again.
    assert len([line for line in switch.log() if "xdp_hook" in line]) == 1
    set_options(switch, "to-green", xdp__peer="true", use__need__wakeup="true")
    lab.wait_until(lambda: not warning(), "no more warning")
