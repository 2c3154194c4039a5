# SPDX-License-Identifier: Apache-2.0
"""The daemon's life: clean end, death, restart; nothing left behind; little used when idle."""
import os
import pathlib
import time

import pytest

import lab
import switch as switches
import traffic
import wire
import xdp

HOOK = "xdp"


@pytest.fixture
def only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("about XDP, which the datapath under test does not use")


def gone(objects):
    return not [item for item in objects if xdp.exists(*item)]


def test_cleanup_leaves_nothing(network, only_xdp):
    traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
    held = xdp.objects(network.switch.process.pid)
    attached = xdp.attached("to-red")
    assert attached and ("prog", attached[1]) in held and {kind for kind, _ in held} >= {"prog", "map", "link"}
    network.switch.stop(cleanup=True)
    for name in "red", "green", "blue":
        assert xdp.attached(f"to-{name}") is None
    lab.wait_until(lambda: gone(held), "the kernel frees programs, maps and links")
    links = lab.run("ip", "-o", "link")
    assert "br0" not in links and "ovs-xdp" not in links
    assert not list(pathlib.Path("/sys/fs/bpf").glob("ovs-xdp*"))
    network.switch.start()


def test_deleting_the_bridge_leaves_nothing(network, only_xdp):
    held = {item for item in xdp.objects(network.switch.process.pid) if not xdp.waits(*item)}
    network.switch.vsctl("del-br", "br0")
    for name in "red", "green", "blue":
        assert xdp.attached(f"to-{name}") is None
    lab.wait_until(lambda: gone(held), "the kernel frees programs, maps and links")
    assert "ovs-xdp" not in lab.run("ip", "-o", "link")


@pytest.mark.parametrize("how", ("exit", "cleanup", "kill"))
def test_restart(network, how):
    """After an orderly end as after a crash the next start finds everything free and forwards."""
    traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
    for _ in range(2):
        held = {item for item in xdp.objects(network.switch.process.pid)
                if item[0] != "link" and (how == "cleanup" or not xdp.is_adopted(*item))}
        if how == "kill":
            network.switch.crash()
        else:
            network.switch.stop(cleanup=how == "cleanup")
            assert (xdp.attached("to-red") is None) == (how == "cleanup")
        network.switch.start()
        lab.wait_until(lambda: gone(held), "the kernel frees programs and maps")
        traffic.wait_for_ping(network.red, "10.0.0.2")
        assert network.switch.error("to-red") is None
    lab.run("ip", "link", "set", "br0", "up")
    lab.run("ip", "address", "replace", "10.0.0.100/24", "dev", "br0")
    traffic.tcp(network.red, network.host, "10.0.0.100", size=1 << 20)


def test_offloads_of_containers_are_given_back(network, only_xdp):
    """What the switch turned off in a container it turns on again when the port goes."""
    def offloads(container):
        return container.run("ethtool", "-k", "eth0").splitlines()
    other = network.plug("other")
    before = offloads(other)
    network.switch.add_port("to-other")
    assert offloads(other) != before
    network.switch.vsctl("del-port", "br0", "to-other")
    assert offloads(other) == before


def test_small_umem_under_a_flood(world, host):
    """Too few frames: packets are lost and counted, nothing else happens, and afterwards all is well."""
    if switches.DATAPATH != "xdp":
        pytest.skip("only our datapath has a UMEM")
    with switches.Switch() as switch:
        switch.vsctl("set", "open", ".", "other_config:xdp-umem-frames=256")
        switch.add_bridge("br0")
        containers = []
        for number in range(8):
            container = world.enter_context(lab.Namespace(f"c{number}"))
            lab.make_veth(f"to-c{number}", container)
            lab.add_addresses(container, "eth0", f"10.0.0.{number + 1}/24")
            switch.add_port(f"to-c{number}")
            containers.append(container)
        assert "256 frames" in switch.appctl("xdp/show")
        frames = [wire.udp_frame("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", os.urandom(1000))] * 100
        wires = [world.enter_context(wire.Wire(container)) for container in containers]
        for _ in range(20):
            for end in wires:
                end.send(*frames)
        for number in range(1, 8):
            traffic.wait_for_ping(containers[0], f"10.0.0.{number + 1}")
        traffic.tcp(containers[0], containers[7], "10.0.0.8", size=1 << 20)

        def free_frames():
            return int(switch.appctl("xdp/show").split(" frames of ")[1].split("bytes, ")[1].split()[0])
        # Of the quarter that is not lent (core/xsk/sock.c), sockets without any frame may hold a few.
        lab.wait_until(lambda: free_frames() >= 256 // 8, "frames come back")


def test_frames_do_not_leak(network, only_xdp):
    """Packets that are dropped, copied, sent to closed ports or reassembled give their frames back."""
    def free_frames():
        return int(network.switch.appctl("xdp/show").split("bytes, ")[1].split()[0])
    network.switch.flows("br0", "in_port=to-red,udp,actions=to-green,to-blue,local,in_port",
                         "ip,actions=ct(commit),normal", "actions=normal")
    network.blue.run("ip", "link", "set", "eth0", "down")

    def load():
        with wire.Wire(network.red) as red:
            for _ in range(50):
                red.send(*[wire.udp_frame("02:00:00:00:00:01", "02:00:00:00:00:77", bytes(800))] * 100)
        for size in 56, 8000:
            traffic.ping(network.red, "10.0.0.2", size=size)
        return free_frames()
    before = min(load() for _ in range(2))
    for _ in range(5):
        load()
    # Sockets keep some frames at hand, more or fewer according to load; 25,000 packets went by, most of them copied.
    lab.wait_until(lambda: free_frames() >= before - 400, f"{before} frames free again")


def test_idle_costs_nothing(world, host):
    """32 ports, no traffic: less than 1 % of a core."""
    def quiet(seconds=1.0):
        begin, used = time.monotonic(), lab.cpu_seconds(os.getpid())
        time.sleep(seconds)
        return time.monotonic() - begin < 1.5 * seconds and lab.cpu_seconds(os.getpid()) - used < 0.2 * seconds
    with switches.Switch() as switch:
        switch.add_bridge("br0")
        for number in range(32):
            lab.make_veth(f"p{number}", host, inside=f"q{number}")
            for end in "p", "q":
                pathlib.Path(f"/proc/sys/net/ipv6/conf/{end}{number}/disable_ipv6").write_text("1")
        switch.vsctl(*(word for number in range(32) for word in ("--", "add-port", "br0", f"p{number}")))
        best = 1.0
        for _ in range(12):
            if not quiet():
                continue
            begin, used = time.monotonic(), lab.cpu_seconds(switch.process.pid)
            time.sleep(3)
            best = min(best, (lab.cpu_seconds(switch.process.pid) - used) / (time.monotonic() - begin))
            if best < 0.01:
                break
        assert best < 0.01, f"{best:.1%} of a core"


def test_affinity_from_outside(network):
    """CPUs that an operator chooses hold for all threads, also for those that start later, while flows come and go."""
    pid, chosen = network.switch.process.pid, {min(os.sched_getaffinity(0))}
    lab.run("taskset", "--all-tasks", "--pid", "--cpu-list", *chosen, pid)
    before = os.listdir(f"/proc/{pid}/task")
    network.switch.vsctl("set", "open", ".", "other_config:n-revalidator-threads=4")
    for _ in range(2):
        traffic.tcp(network.red, network.green, "10.0.0.2", size=1 << 20)
        network.switch.appctl("revalidator/purge")
    threads = os.listdir(f"/proc/{pid}/task")
    assert len(threads) > len(before)
    assert all(os.sched_getaffinity(int(thread)) == chosen for thread in threads)


@pytest.mark.parametrize("count", (200,))
def test_many_ports(world, host, count):
    """Ports in hundreds: how long it takes and what it costs is printed (pytest -s), and bounded."""
    with switches.Switch() as switch:
        switch.expected += ["blocked .* waiting for"]
        switch.add_bridge("br0")
        base = lab.memory_mib(switch.process.pid)
        red, green = (world.enter_context(lab.Namespace(name)) for name in ("red", "green"))
        batch = "".join(f"link add p{n} type veth peer name q{n}\nlink set p{n} up\nlink set q{n} up\n"
                        for n in range(count))
        lab.run("ip", "-batch", "-", text=batch, limit=120)
        for number, container in (0, red), (count - 1, green):
            lab.run("ip", "link", "set", f"q{number}", "netns", container.name)
            container.run("ip", "link", "set", f"q{number}", "up")
            lab.add_addresses(container, f"q{number}", f"10.0.0.{number % 250 + 1}/24")
        begin = time.monotonic()
        switch.vsctl("--timeout=120", *(word for n in range(count) for word in ("--", "add-port", "br0", f"p{n}")),
                     limit=130)
        seconds = time.monotonic() - begin
        memory = lab.memory_mib(switch.process.pid) - base
        print(f"{count} ports: {seconds:.1f} s, {memory:.0f} MiB")
        traffic.wait_for_ping(red, f"10.0.0.{(count - 1) % 250 + 1}")
        assert seconds < 0.25 * count and memory < 1.5 * count + 100
        switch.vsctl("--timeout=60", "del-br", "br0", limit=70)
        assert xdp.attached("p0") is None
