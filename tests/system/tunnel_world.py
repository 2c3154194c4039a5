# SPDX-License-Identifier: Apache-2.0
"""A tunnel between the switch and the kernel's tunnel device in a namespace:

    red (10.0.0.1) -- br0 -- tun0  ...  br-phy (172.16.0.1) -- to-far ===== eth0 (172.16.0.2), tun0 (10.0.0.9): far
"""
import pytest

import lab
import switch as switches
import traffic

# Of the kernel's device: "here" is its remote address.
KINDS = {"vxlan": ("vxlan", "id", "42", "dstport", "4789", "remote", "here", "local", "there"),
         "geneve": ("geneve", "id", "42", "remote", "here"),
         "gre": ("gretap", "key", "42", "remote", "here", "local", "there")}

# The ends outside: here and there, by whether they are of IPv6.
HERE = {False: "172.16.0.1", True: "fd00::1"}
THERE = {False: "172.16.0.2", True: "fd00::2"}

# What the switch says when the kernel's end speaks (IPv6 neighbour discovery) before and after its own exists.
EARLY = ["receive tunnel port not found", "xlate_key failed"]


def how(kind, here="172.16.0.1", there="172.16.0.2"):
    return [{"here": here, "there": there}.get(word, word) for word in KINDS[kind]]


def need(kind):
    """Skips where this kernel has no such device."""
    try:
        lab.run("ip", "link", "add", "probe", "type", *how(kind))
    except lab.Failed as problem:
        pytest.skip(f"this kernel has no {kind} device: {problem}")
    lab.run("ip", "link", "del", "probe")


def add_device(far, kind, csum, *ends, gre_csum="csum"):
    """The kernel's end.  A gretap device takes packets with a checksum only if it is to have one ("icsum"), and only those; with
    "csum" it sends one, too.  The others send one with "udpcsum"."""
    checksum = [(gre_csum if kind == "gre" else "udp6zerocsumrx" if ":" in "".join(ends) else "udpcsum")] if csum else []
    far.run("ip", "link", "add", "tun0", "mtu", "1400", "type", *how(kind, *ends), *checksum)
    far.run("ip", "link", "set", "tun0", "up")
    lab.add_addresses(far, "tun0", "10.0.0.9/24", "fc00::9/64")


def make(world, switch, host, kind, hook=None, csum=False, ip6=False):
    """Namespaces red and far, and all between them.  'hook' is that of to-far; 'ip6' is whether the tunnel is in IPv6.  Skips where
    this kernel has no such device.  Returns red and far."""
    need(kind)
    red, far = (world.enter_context(lab.Namespace(name)) for name in ("red", "far"))
    lab.make_veth("to-red", red, mtu=1400)
    lab.make_veth("to-far", far)
    lab.add_addresses(red, "eth0", "10.0.0.1/24", "fc00::1/64")
    lab.add_addresses(far, "eth0", "172.16.0.2/24", *(["fd00::2/64"] if ip6 else []))
    switch.add_bridge("br-phy")
    switch.add_port("to-far", bridge="br-phy",
                    interface=(f"options:xdp-hook={hook}",) if hook and switches.DATAPATH == "xdp" else ())
    lab.run("ip", "link", "set", "br-phy", "up")
    lab.add_addresses(host, "br-phy", "172.16.0.1/24", *(["fd00::1/64"] if ip6 else []))
    switch.add_bridge("br0")
    switch.add_port("to-red")
    add_tunnel(switch, kind, csum, ip6)
    # Last, when its packets have somewhere to go: for each that had not, within 30 s the kernel's GRE device reports one that it
    # does send as unreachable (err_count in net/ipv4/ip_tunnel.c), which resets a connection if that is its SYN's answer.
    traffic.wait_for_ping(far, HERE[ip6])
    add_device(far, kind, csum, *((HERE[ip6], THERE[ip6]) if ip6 else ()))
    switch.expected += EARLY
    return red, far


def add_tunnel(switch, kind, csum=False, ip6=False):
    """The switch's end of it."""
    switch.add_port("tun0", interface=(f"type={kind}", f"options:remote_ip=\"{THERE[ip6]}\"", "options:key=42",
                                       *(("options:csum=true",) if csum else ())))


def received(namespace, device="eth0"):
    """Packets and bytes that a device of a namespace has got."""
    return [int(namespace.run("cat", f"/sys/class/net/{device}/statistics/rx_{what}")) for what in ("packets", "bytes")]


def check_killed(switch, red, far, tunnel, device, devices):
    """A connection through 'device', which the switch has made for its tunnel, goes on while the daemon is killed and started
    again; the next daemon goes on with the device if the tunnel "stays", and removes it if it "goes" meanwhile.  devices()
    has the names of all devices of that kind."""
    index = lab.run("cat", f"/sys/class/net/{device}/ifindex")
    with traffic.Connection(far, red, "10.0.0.1") as connection:
        for _ in range(5):
            connection.goes_on()
        switch.crash()
        assert devices() == [device]
        connection.goes_on()
        if tunnel == "goes":
            switch.vsctl("--no-wait", "del-port", "tun0")
        switch.start()
        if tunnel == "goes":
            lab.wait_until(lambda: not devices(), "the end of the device")
            return
        lab.wait_until(lambda: any("took over" in line for line in switch.log()), "the next daemon")
        connection.goes_on()
        assert connection.same()
    assert lab.run("cat", f"/sys/class/net/{device}/ifindex") == index


def nest(world, switch, host, far):
    """Adds a tunnel whose packets go through the first, and sends along it: blue (10.1.0.1), on br1, and far (10.1.0.9), whose
    own tun1 is on its tun0."""
    blue = world.enter_context(lab.Namespace("blue"))
    lab.make_veth("to-blue", blue, mtu=1300)
    lab.add_addresses(blue, "eth0", "10.1.0.1/24")
    lab.run("ip", "link", "set", "br0", "up")
    lab.add_addresses(host, "br0", "10.0.0.100/24")
    switch.add_bridge("br1")
    switch.add_port("to-blue", bridge="br1")
    switch.add_port("tun1", bridge="br1", interface=("type=vxlan", "options:remote_ip=10.0.0.9", "options:key=43"))
    far.run("ip", "link", "add", "tun1", "mtu", "1300", "type", "vxlan", "id", "43", "dstport", "4789", "remote", "10.0.0.100",
            "local", "10.0.0.9")
    far.run("ip", "link", "set", "tun1", "up")
    lab.add_addresses(far, "tun1", "10.1.0.9/24")
    traffic.wait_for_ping(blue, "10.1.0.9")
    assert traffic.ping(blue, "10.1.0.9", count=20) == 20
    traffic.tcp(blue, far, "10.1.0.9", size=1 << 20)
    traffic.tcp(far, blue, "10.1.0.1", size=1 << 20)
    assert traffic.udp(blue, far, "10.1.0.9") == 100


def deleted_under_traffic(switch, red, far, add):
    """Traffic both ways stops while the tunnel's port is deleted, and goes on when 'add' has added it again."""
    traffic.wait_for_ping(red, "10.0.0.9")
    with traffic.Stream(far, red, "10.0.0.1", interval=0.001) as stream, \
            traffic.Stream(red, far, "10.0.0.9", port=5005, interval=0.001) as back:
        for _ in range(3):
            stream.flowing()
            back.flowing()
            switch.vsctl("del-port", "tun0")
            stream.silent()
            back.silent()
            add()
    assert traffic.ping(red, "10.0.0.9") == 3
