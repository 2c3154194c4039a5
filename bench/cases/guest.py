# SPDX-License-Identifier: Apache-2.0
from bench.lib import emulated_guest, iperf, world

TITLE = "Between a guest and a container"
GROUP = "Guests: virtio-net behind a tap"
QUESTION = ("A guest under plain emulation (QEMU without hardware virtualization, Debian's kernel 6.1) has the offloads that its "
            "driver has by default; behind AF_XDP ports and DPDK's, which can do nothing for such a guest, it has none. What "
            "throughput has one TCP stream between it and a container, each way, and how many UDP frames of 64 bytes come "
            "through? The guest has a core, the container the other. Emulation makes the guest slow: only ratios mean something.")
RULE = "normal"
SOCKETS = True
SAYS = ("from", "to")
ROWS = {
    "from": {"title": "TCP, guest to container", "unit": "Gb/s", "better": "more"},
    "to": {"title": "TCP, container to guest", "unit": "Gb/s", "better": "more"},
    "udp-from": {"title": "64-byte UDP, guest to container", "unit": "thousand/s", "better": "more"},
    "udp-to": {"title": "64-byte UDP, container to guest", "unit": "thousand/s", "better": "more"},
}


def run(w, peer, settings):
    w.make_veth("sw0", "gen", "g0", world.GENERATOR_MAC)
    world.command("ip", "-n", "gen", "address", "add", f"{world.GENERATOR_IP}/8", "dev", "g0")
    if not peer.offloads:
        w.inside("gen", "ethtool", "-K", "g0", "tx", "off", "gro", "on")
    seconds = max(2, round(settings["seconds"]))
    guests_cpu = world.GENERATOR_CPU if peer.own_core else world.SWITCH_CPU
    with emulated_guest.booted(peer.offloads, guests_cpu) as guest:
        peer.start(w, ["sw0", guest.tap], RULE)
        guest.wait_for_path()
        peer.rest()
        iperf.start_server(w, "gen", cpu=world.GENERATOR_CPU)
        return {"from": guest.tcp(seconds), "to": guest.tcp(seconds, back=True),
                "udp-from": guest.udp(seconds), "udp-to": guest.udp(seconds, back=True)}
