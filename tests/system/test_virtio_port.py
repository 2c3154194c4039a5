# SPDX-License-Identifier: Apache-2.0
"""virtio_net as a port: the switch runs in a guest (virtio_port.py), whose network cards are on taps of this host.

    guest                                        host
    [ switch ]--- "wide", 4 pairs of queues ===== wide ---\\
    [ switch ]--- "narrow", 1 pair         ===== narrow ---- Linux bridge
    [ switch ]--- "fewer", 3 pairs         ===== fewer ----/
    [ switch ]--- "fixed", its offloads too ==== fixed ---/
                  "far", whom they talk to ===== far ----/
"""
import os
import pathlib
import sys

import pytest

import lab
import switch as switches
import virtio_port

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "vm"))

import machine  # noqa: E402

LIMIT, PATIENCE = 900, 300          # Seconds: of the machine, and of a wait in it.  Emulated CPUs are slow, busy ones more so.
LONG = os.environ.get("OXDP_GUESTS")        # As in test_guests.py.


def plug(name, card):
    """QEMU's arguments for a card, whose tap is made here."""
    several = ["multi_queue"] if card.queues > 1 else []
    lab.run("ip", "tuntap", "add", name, "mode", "tap", "vnet_hdr", *several)
    lab.run("ip", "link", "set", name, "master", "wire", "up")
    queues = f",queues={card.queues}" if several else ""
    return ["-netdev", f"tap,id={name},ifname={name},script=no,downscript=no{queues}", "-device",
            f"virtio-net-pci,netdev={name},mac={card.mac},romfile={',mq=on,vectors=10' if several else ''}{card.options}"]


def test_virtio_net_as_a_port(tmp_path):
    """What happens in the guest is in virtio_port.py."""
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has hooks")
    lab.run("ip", "link", "add", "wire", "type", "bridge")
    lab.run("ip", "link", "set", "wire", "up")
    devices = [word for name, card in virtio_port.CARDS.items() for word in plug(name, card)]
    command = ["env", f"OXDP_BUILD={switches.BUILD.resolve()}", f"OXDP_PATIENCE={PATIENCE}", sys.executable, "-m", "pytest", "-q",
               "-p", "no:cacheprovider", "-x", HERE / "virtio_port.py"]
    try:
        with machine.started(command, tmp_path, LIMIT, 1536, "2", capture=True, devices=devices,
                             series=LONG or "6.1") as guest:
            said = "".join(guest.lines())
            status = guest.wait()
    except (machine.Unusable, FileNotFoundError) as problem:
        pytest.skip(str(problem))
    print(said)
    assert not status and " passed" in said
