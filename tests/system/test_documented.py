# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents, as they stand there, do what the documents say."""
import os
import re
import shutil
import socket
import subprocess
import threading

import pytest

import lab
import switch as switches
import traffic

FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STOCK = switches.BUILD / "openvswitch/vswitchd/ovs-vswitchd"


@pytest.fixture(autouse=True)
def _ours():
    if switches.DATAPATH != "xdp":
        pytest.skip("the documents are about datapaths of type xdp")


def commands(page):
    """The blocks of commands of a page, in their order."""
    found = FENCE.findall((switches.TOP / "docs" / page).read_text(encoding="utf-8"))
    assert found, f"docs/{page} has no commands"
    return found


class Shell:
    """One shell in which a reader types.  Open vSwitch's tools talk to the test's switch, and the build folder is the test's."""

    def __init__(self, switch, folder):
        # Appended to: the shell and the reader share one offset.
        self.said = open(folder / "said", "a+", encoding="utf-8")
        (folder / "build").symlink_to(switches.BUILD)
        tools = {str(switches.tool(name).parent) for name in ("ovs-vsctl", "ovsdb-tool")}
        path = ":".join([*tools, os.environ["PATH"]])
        self._shell = subprocess.Popen(["bash", "-m"], stdin=subprocess.PIPE, stdout=self.said, stderr=subprocess.STDOUT, text=True,
                                       cwd=folder, env={**switch.env, "PATH": path}, start_new_session=True)
        # The daemon was started without a pid file, by which ovs-appctl would find it.
        self._write(f'ovs-appctl() {{ command ovs-appctl -t {switch.rundir}/ovs-vswitchd.ctl "$@"; }}\n')
        self._n = 0

    def type(self, text):
        """Returns what the shell said until the commands had ended; raises Failed if one of them failed."""
        self._n += 1
        mark = f"-- {self._n}:"
        start = self.said.seek(0, os.SEEK_END)
        self._write(f"trap 'failed=1' ERR; failed=0\n{text}\necho '{mark}' $failed\n")

        def answer():
            self.said.seek(start)
            return re.search(rf"(.*)^{mark} (\d)$", self.said.read(), re.MULTILINE | re.DOTALL)

        found = lab.wait_until(answer, f"an end of: {text}")
        if found[2] != "0":
            raise lab.Failed(f"{text}\nsaid: {found[1]}")
        return found[1]

    def text(self):
        self.said.seek(0)
        return self.said.read()

    def _write(self, text):
        self._shell.stdin.write(text)
        self._shell.stdin.flush()

    def close(self):
        self._shell.stdin.close()
        self._shell.wait(lab.PATIENCE)
        self.said.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def container(world, switch, name, number):
    """As in "getting started": port red0, eth0 in the namespace "red"."""
    inside = world.enter_context(lab.Namespace(name))
    lab.make_veth(f"{name}0", inside)
    lab.add_addresses(inside, "eth0", f"10.0.0.{number}/24")
    switch.add_port(f"{name}0")
    return inside


def received(device):
    return int(lab.run("cat", f"/sys/class/net/{device}/statistics/rx_packets"))


def test_service_chain(world, switch, tmp_path):
    """No frame goes round: what red sends is what functions see, also while the chain is set up and taken apart."""
    switch.add_bridge("br0")
    red, green = (container(world, switch, name, number) for number, name in enumerate(("red", "green"), 1))
    ports, rules, functions, apart = commands("how-to/service-chains.md")
    with Shell(switch, tmp_path) as shell:
        shell.type(ports)
        shell.type(rules)
        shell.type(functions)
        lab.wait_until(lambda: shell.text().count("ready") == 3, "three functions")
        traffic.wait_for_ping(red, "10.0.0.2")
        traffic.tcp(red, green, "10.0.0.2", size=1 << 20)
        mark = received("mark-in")
        assert traffic.ping(red, "10.0.0.2", count=20) == 20
        assert received("mark-in") - mark < 100
        shell.type(apart)
        lab.wait_until(lambda: shell.text().count("passed") == 3, "what the functions counted")
        assert traffic.ping(red, "10.0.0.2") == 3
    assert all(int(passed) < 20000 for passed in re.findall(r"passed (\d+)", shell_text(tmp_path)))
    assert "route" not in lab.run("ip", "netns") and "block-in" not in switch.vsctl("list-ports", "br0").split()


def shell_text(folder):
    return (folder / "said").read_text(encoding="utf-8")


class Host:
    """This host is reached over eth1 from "outside", which is also its gateway; a TCP connection is open."""

    ADDRESS, GATEWAY, FAR = "192.0.2.10", "192.0.2.1", "198.51.100.1"

    def __init__(self, world, hook):
        self.outside = world.enter_context(lab.Namespace("outside"))
        lab.make_veth("eth1", self.outside)
        lab.add_addresses(lab.Namespace(), "eth1", f"{self.ADDRESS}/24", "2001:db8::10/64")
        lab.add_addresses(self.outside, "eth0", f"{self.GATEWAY}/24", "2001:db8::1/64", f"{self.FAR}/32")
        lab.run("ip", "route", "add", "default", "via", self.GATEWAY)
        lab.run("ip", "-6", "route", "add", "default", "via", "2001:db8::1")
        self.hook = hook

    def connect(self):
        """(the outside's end, the host's end) of a TCP connection over eth1, through the gateway."""
        with socket.create_server((self.ADDRESS, 22)) as server:
            with self.outside.entered():
                client = socket.create_connection((self.ADDRESS, 22), lab.PATIENCE, source_address=(self.FAR, 0))
            return client, server.accept()[0]


class Session:
    """A user who types all the time: the host answers what it gets."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.answered, self._stop, self.error = 0, threading.Event(), None
        for end in client, server:
            end.settimeout(lab.PATIENCE)
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._echo, self._type)]
        for thread in self._threads:
            thread.start()

    def _echo(self):
        while data := self.server.recv(4096):
            self.server.sendall(data)

    def _type(self):
        try:
            while not self._stop.wait(0.005):
                word = b"%08d" % self.answered
                self.client.sendall(word)
                if self.client.recv(8, socket.MSG_WAITALL) != word:
                    raise OSError("another answer than was sent")
                self.answered += 1
        except OSError as error:
            self.error = error

    def goes_on(self):
        before = self.answered
        lab.wait_until(lambda: self.answered > before + 20 or self.error, "answers over TCP")
        assert not self.error, self.error

    def close(self):
        self._stop.set()
        self._threads[1].join(lab.PATIENCE)
        self.client.close()
        self._threads[0].join(lab.PATIENCE)
        self.server.close()


def routes(device):
    return {line.split(" metric")[0].strip() for version in ("-4", "-6") for line in
            lab.run("ip", version, "route", "show", "dev", device).splitlines() if "via" in line}


@pytest.fixture
def mover(switch, tmp_path):
    """move-device.sh in a shell, with the line that starts it."""
    switch.expected += ["has addresses", "addresses"]
    script, line = commands("how-to/move-a-device.md")
    (tmp_path / "move-device.sh").write_text(script, encoding="utf-8")
    with Shell(switch, tmp_path) as shell:
        yield shell, line


@pytest.mark.parametrize("hook", ["xdp", "tcx"])
def test_move_a_device(world, switch, tmp_path, mover, hook):
    """As a NIC's (xdp) or a virtual machine's veth (tcx): the connection over which one types survives."""
    shell, line = mover
    switch.vsctl("set", "open", ".", f"other_config:xdp-hook={hook}")
    host = Host(world, hook)
    session = Session(*host.connect())
    session.goes_on()
    shell.type(line)
    lab.wait_until(lambda: host.ADDRESS in lab.run("ip", "address", "show", "br0", check=False), "the address on br0")
    session.goes_on()
    lab.wait_until(lambda: not running("move-device.sh"), "the script's end")
    session.goes_on()
    assert (tmp_path / "move-device.log").read_text() == ""
    assert switch.status("eth1")["xdp-hook"] == hook and not switch.error("eth1")
    assert host.ADDRESS not in lab.run("ip", "address", "show", "eth1")
    assert routes("br0") == {f"default via {host.GATEWAY}", "default via 2001:db8::1"}
    assert lab.mac_of(lab.Namespace(), "br0") == lab.mac_of(lab.Namespace(), "eth1")
    traffic.wait_for_ping(host.outside, "2001:db8::10")
    session.close()


def test_move_a_device_by_one_command(world, switch, tmp_path):
    """That of "getting started"; the connection over which one types survives."""
    switch.expected += ["has addresses"]
    command, = commands("start/getting-started.md")
    host = Host(world, "auto")
    session = Session(*host.connect())
    session.goes_on()
    with Shell(switch, tmp_path) as shell:
        shell.type(command)
        lab.wait_until(lambda: f"default via {host.GATEWAY}" in lab.run("ip", "route", "show", "dev", "br0", check=False), "the route")
        session.goes_on()
    assert (tmp_path / "move.log").read_text() == ""
    assert host.ADDRESS in lab.run("ip", "address", "show", "br0") and host.ADDRESS not in lab.run("ip", "address", "show", "eth1")
    assert switch.ofport("eth1") > 0 and not switch.error("eth1")
    session.close()


def test_move_goes_back(world, switch, tmp_path, mover):
    """The peer does not answer: everything is as it was, and the connection goes on."""
    shell, line = mover
    host = Host(world, "auto")
    before = lab.run("ip", "-o", "address", "show", "dev", "eth1", "scope", "global"), routes("eth1")
    session = Session(*host.connect())
    session.goes_on()
    shell.type(line.replace(host.GATEWAY, "192.0.2.77"))
    log = tmp_path / "move-device.log"
    lab.wait_until(lambda: "does not answer" in log.read_text(), "the way back")
    lab.wait_until(lambda: not running("move-device.sh"), "the script's end")
    session.goes_on()
    assert (lab.run("ip", "-o", "address", "show", "dev", "eth1", "scope", "global"), routes("eth1")) == before
    assert not switch.vsctl("list-br").strip()
    session.close()


def running(name):
    """Whether a shell of this test's host runs the script."""
    home = os.readlink("/proc/self/ns/net")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if f"sh\0{name}\0".encode() in file.read() and os.readlink(f"/proc/{pid}/ns/net") == home:
                    return True
        except OSError:
            pass                        # It has ended.
    return False


# Whether openvswitch.ko can be loaded, and what other bridges there are besides those of type xdp: served by ours.
WAYS_BACK = {(True, None): {"br0": "system"}, (True, "system"): {"br0": "system", "br1": "system"},
             (True, "netdev"): {"br0": "system", "br1": "netdev"}, (False, None): {"br0": "netdev"},
             (False, "system"): {"br0": "netdev", "br1": "netdev"}, (False, "netdev"): {"br0": "netdev", "br1": "netdev"}}


@pytest.fixture(params=WAYS_BACK, ids=lambda way: f"{'' if way[0] else 'no '}module-{way[1] or 'xdp'}")
def way_back(request, world, switch, tmp_path):
    """(loadable, bridges with their types after it, a shell, the container "red"), with a bridge of type xdp, and one that is served."""
    loadable, served = request.param
    switch.add_bridge("br0")
    if served:
        switch.vsctl("set", "open", ".", f"other_config:xdp-datapath-types={served}")
        switch.vsctl("add-br", "br1", "--", "set", "bridge", "br1", f"datapath_type={served}")
    red, _ = (container(world, switch, name, number) for number, name in enumerate(("red", "green"), 1))
    traffic.wait_for_ping(red, "10.0.0.2")
    with Shell(switch, tmp_path) as shell:
        shell.type(f'modprobe() {{ [ "$*" = openvswitch ] && {str(loadable).lower()}; }}')
        yield loadable, WAYS_BACK[request.param], shell, red


def has_devices():
    return re.search(r"ovs-xdp|OVS-XDP|br[01]-xdp|gre-host", lab.run("ip", "-o", "link"))


def types(switch, bridges):
    return {bridge: switch.vsctl("--no-wait", "get", "bridge", bridge, "datapath_type").strip() for bridge in bridges}


def stock_serves(switch, tmp_path, bridges, red):
    switch.expected.append("")          # What the stock daemon warns of is not our matter.
    shutil.move(switch.log_path, tmp_path / "ours.log")
    switch.daemon = STOCK
    switch.start()
    traffic.wait_for_ping(red, "10.0.0.2")
    shown = switch.appctl("dpif/show")
    assert all(f" {bridge}:" in shown for bridge in bridges), shown
    log = switch.log_path.read_text()
    assert "unknown" not in log and "creating tap device" not in log


def test_back_to_the_stock_daemon(switch, tmp_path, way_back):
    """The bridges get a type that the stock daemon serves, and ours leaves nothing behind."""
    if not STOCK.exists():
        pytest.skip(f"{STOCK} is not built")
    loadable, bridges, shell, red = way_back
    shell.type(commands("start/existing-open-vswitch.md")[0])
    assert switch.process.wait() == 0
    assert not has_devices()
    assert not os.path.exists("/sys/fs/bpf/ovs-xdp") or not os.listdir("/sys/fs/bpf/ovs-xdp")
    assert not switch.problems() and types(switch, bridges) == bridges
    if loadable:                        # Said to be: the stock daemon would look for it.
        switch.vsctl("--no-wait", *(word for bridge in bridges for word in ("--", "set", "bridge", bridge, "datapath_type=netdev")))
    stock_serves(switch, tmp_path, bridges, red)


def test_what_a_killed_daemon_left_is_removed_by_hand(switch, tmp_path, way_back):
    """Also the devices for tunnels: no device, pin or type of a bridge stays, and the stock daemon serves them."""
    loadable, bridges, shell, red = way_back
    switch.vsctl("add-port", "br0", "tun0", "--", "set", "interface", "tun0", "type=gre", "options:remote_ip=192.0.2.1")
    before = lab.run("ip", "-o", "link")
    assert "OVS-XDP: " in before and "ovs-xdp-up" in before
    switch.crash()
    shell.type(commands("start/existing-open-vswitch.md")[1])
    assert not has_devices() and "br0" not in lab.run("ip", "-o", "link")
    assert not os.path.exists("/sys/fs/bpf/ovs-xdp")
    assert types(switch, bridges) == bridges
    if STOCK.exists() and not loadable:
        switch.vsctl("--no-wait", "del-port", "tun0")
        stock_serves(switch, tmp_path, bridges, red)
    else:
        switch.vsctl("--no-wait", "set", "bridge", "br0", "datapath_type=xdp", "--", "--if-exists", "del-port", "tun0")
        switch.start()
        traffic.wait_for_ping(red, "10.0.0.2")
