# SPDX-License-Identifier: Apache-2.0
"""Tunnels of Open vSwitch: br0 has those who use them, br-wire the wire and the address of this end.

    sw0 -- br0 -- [ tunnels ] -- br-wire -- sw1         and back:  sw2 -- br-wire -- [ tunnels ] -- br0 -- sw3
"""
import time

from bench.lib import world

KINDS = ("vxlan", "geneve", "gre")
LENGTHS = {"vxlan": 50, "geneve": 58, "gre": 38}        # Of their headers over IPv4, Geneve with an option.
ENDPOINTS = 32
SETTLE_SECONDS = 3                      # Flows follow the option; programs get what they need.
HERE, NETWORK = "172.31.0.1", 24                        # This end; as bench/gen/frame.h.
HERE_MAC = "02:00:00:00:00:63"
OPTION = "{class=0x102,type=0x80,len=4}->tun_metadata0"


def there(number=0):
    """Address of the 'number'-th other end."""
    return f"172.31.0.{2 + number}"


def _push(kind, match, number=0):
    option = "set_field:1->tun_metadata0," if kind == "geneve" else ""
    return f"in_port=sw0{match},actions={option}set_field:{there(number)}->tun_dst,output:{kind}0"


_POP = [f"in_port={kind}0,actions=output:sw3" for kind in KINDS]
RULES = {f"push-{kind}": [_push(kind, ""), *_POP] for kind in KINDS}
RULES["push-vxlan-many"] = [_push("vxlan", f",dl_dst={world.sink_mac(i)}", i) for i in range(ENDPOINTS)] + _POP


def _make_wire(peer, ports, n_ends):
    peer.add_bridge("br-wire", ports)
    peer.vsctl("set", "bridge", "br-wire", f"other-config:hwaddr={HERE_MAC}")
    peer.set_flows("br-wire", [f"in_port=LOCAL,actions=output:{ports[0]}",
                               *(f"in_port={port},actions=LOCAL" for port in ports)])
    world.command("ip", "address", "add", f"{HERE}/{NETWORK}", "dev", "br-wire")
    world.command("ip", "link", "set", "br-wire", "up")
    for number in range(n_ends):
        world.command("ip", "neighbour", "replace", there(number), "lladdr", world.SINK_MAC, "dev", "br-wire")
        if peer.datapath_type != "system":
            peer.appctl("tnl/arp/set", "br-wire", there(number), world.SINK_MAC)


def start(peer, ports):
    """Tunnels of all kinds to and from any end, which change_rule() makes use of."""
    _make_wire(peer, ports[1:3], ENDPOINTS)
    peer.add_bridge("br0", [ports[0], ports[3]])
    world.command("ovs-ofctl", "add-tlv-map", str(peer.run / "br0.mgmt"), OPTION)
    for kind in KINDS:
        peer.vsctl("add-port", "br0", f"{kind}0", "--", "set", "interface", f"{kind}0", f"type={kind}",
                   "options:remote_ip=flow")
    peer.set_flows("br0", RULES["push-vxlan"])


def start_tcp(peer, ports):
    """One VXLAN tunnel."""
    _make_wire(peer, ports[1:], 1)
    peer.add_bridge("br0", ports[:1])
    peer.vsctl("add-port", "br0", "vxlan0", "--", "set", "interface", "vxlan0", "type=vxlan",
               f"options:remote_ip={there()}")


def ask_for_checksums(w, peer):
    """From now on start_tcp()'s tunnel puts them into the outer UDP header.  The kernel's vxlan device always does, unless it
    is told not to."""
    if hasattr(peer, "vsctl"):
        peer.vsctl("set", "interface", "vxlan0", "options:csum=true")
        w.wait_for_answers()
        time.sleep(SETTLE_SECONDS)
