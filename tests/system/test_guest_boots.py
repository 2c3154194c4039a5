# SPDX-License-Identifier: Apache-2.0
"""A guest that boots from the network, and again: its tap's reader takes and sends packets with offloads while Linux runs, and
none while the PXE loader does.  No option is set.

    red (dnsmasq: DHCP, TFTP) --- to-red --[ br0 ]-- tap-virtio --- QEMU: SeaBIOS, iPXE, Linux, and from the start
"""
import shutil

import pytest

import guest as guests
import lab
import switch as switches

SCRIPT = """#!ipxe
kernel tftp://10.0.0.1/kernel {}
initrd tftp://10.0.0.1/initramfs
boot
"""
BYTES = 10_000_000


@pytest.fixture(name="red")
def server(world, switch):
    """A container that has what guests boot."""
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has hooks")
    red = world.enter_context(lab.Namespace("red"))
    lab.make_veth("to-red", red)
    lab.add_addresses(red, "eth0", "10.0.0.1/24")
    switch.add_bridge("br0")
    switch.add_port("to-red")
    folder = switch.rundir / "tftp"
    folder.mkdir(mode=0o755)
    switch.rundir.chmod(0o755)
    try:
        for name, path in zip(("kernel", "initramfs"), guests.files_to_boot()):
            shutil.copy(path, folder / name)
    except guests.Unusable as problem:
        pytest.skip(str(problem))
    (folder / "boot").write_text(SCRIPT.format(guests.KERNEL_LINE))
    red.start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", "--bind-interfaces",
              "--interface=eth0", "--dhcp-range=10.0.0.50,10.0.0.60", f"--dhcp-leasefile={folder}/leases", "--dhcp-boot=boot",
              "--enable-tftp", f"--tftp-root={folder}", f"--log-facility={folder}/log", "--log-dhcp")
    lab.wait_until(lambda: "TFTP root" in (folder / "log").read_text() if (folder / "log").exists() else "", "dnsmasq")
    red.start("iperf3", "-s")
    return red


@pytest.mark.usefixtures("nothing_vanishes")
def test_guest_boots_from_the_network(world, switch, red):
    """Each loader gets its files by XDP, each Linux sends segments at tcx."""
    card = guests.Card("virtio", "virtio-net-pci")
    card.make_tap()
    switch.add_port(card.tap)
    log = switch.rundir / "tftp/log"

    def asked():
        return log.read_text().count("DHCPACK")

    def hook_is(wanted):
        return lab.wait_until(lambda: switch.status(card.tap)["xdp-hook"] == wanted, f"the tap on {wanted}")

    guest = world.enter_context(guests.Guest(card, cpus=1, from_network=True))
    for boot in (1, 2):
        lab.wait_until(lambda: asked() == boot, "the loader to ask for an address")
        hook_is("both")
        assert "initramfs" not in log.read_text().rpartition("DHCPACK")[2], "that was noticed when Linux had been loaded"
        guest.wait_for_boot()
        hook_is("tcx")
        card.run("ip", "address", "add", "10.0.0.11/24", "dev", "eth0")
        card.run("iperf3", "-c", "10.0.0.1", "-n", BYTES)
        card.run("iperf3", "-c", "10.0.0.1", "-n", BYTES, "-R")
        guest.reboot()
    hook_is("both")
