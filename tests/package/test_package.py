# SPDX-License-Identifier: Apache-2.0
"""The packages, installed beside stock Open vSwitch: what they bring, what they change, what they leave."""
import contextlib
import os
import pathlib
import re
import shutil

import pytest

import lab
import system as systems
import traffic

# Tags of lintian that are no defects, with the reason.
ACCEPTED = {
    "initial-upload-closes-no-bugs": "nobody asked Debian for the package",
    "unknown-field": "Static-Built-Using, which dpkg knows and this lintian does not",
}
LOG = "/var/log/openvswitch/ovs-vswitchd.log"
# Of a start, in seconds: a daemon is in a session of its own, and so gets a small part of a busy machine.  Beside 30 runnable
# threads on 2 CPUs its programs took 100 s to load.
LONG = 4 * lab.PATIENCE
ADDRESSES = {"red": "10.0.0.1", "green": "10.0.0.2"}


class Network:
    """The containers "red" and "green", and a bridge with their devices."""

    def __init__(self, world, system, kind="xdp"):
        self.system = system
        system.start_database()
        self.start()
        system.vsctl("add-br", "br0", "--", "set", "bridge", "br0", f"datapath_type={kind}")
        for name, address in ADDRESSES.items():
            container = world.enter_context(lab.Namespace(name))
            lab.make_veth(f"to-{name}", container)
            lab.add_addresses(container, "eth0", f"{address}/24")
            system.vsctl("add-port", "br0", f"to-{name}")
            setattr(self, name, container)
        for here, there in ("red", "green"), ("green", "red"):
            traffic.introduce(getattr(self, here), getattr(self, there), ADDRESSES[there])
        self.forwards()

    def start(self):
        self.system.start_daemon()

    def forwards(self):
        traffic.wait_for_ping(self.red, ADDRESSES["green"])

    def programs_forward(self):
        """Waits until they do."""
        lab.wait_until(lambda: traffic.ping(self.red, ADDRESSES["green"])
                       and re.search(r"forwarded by the program: [1-9]", self.system.appctl("xdp/stats", "--sum")),
                       "packets that programs forward")

    def restart(self):
        self.system.stop_daemon()
        self.start()

    def taken_over(self):
        """Waits until the daemon has taken over what the previous instance left."""
        lab.wait_until(lambda: re.search(r"took over [1-9]\d* device", self.system.text(LOG)), "the take-over", LONG)

    def forget_log(self):
        """For taken_over() of the next daemon."""
        self.system.run("truncate", "--size=0", LOG)

    @contextlib.contextmanager
    def loses_nothing(self):
        with traffic.Stream(self.red, self.green, ADDRESSES["green"]) as stream:
            stream.flowing()
            lab.wait_until(lambda: "dp:tcx" in self.system.appctl("dpctl/dump-flows", "-m"), "flows in programs")
            yield stream
            stream.flowing()
            assert stream.lost() == 0


@pytest.fixture
def network(world, installed):
    installed.choose(systems.OURS)
    return Network(world, installed)


def test_lintian():
    """No errors, and of warnings none that is not accepted with a reason."""
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed: apt-get install lintian")
    changes, = systems.PACKAGES.glob("*.changes")
    said = lab.run("lintian", "--allow-root", "--fail-on", "none", "--tag-display-limit", "0", changes,
                   limit=10 * lab.PATIENCE)
    found = [line for line in said.splitlines() if re.match(r"[EW]: ", line)]
    assert not [line for line in found if line.split(": ")[2].split()[0] not in ACCEPTED], "\n".join(found)


def test_programs_and_pages(installed):
    """Each program starts, and has a page that man finds."""
    assert installed.version().endswith("-1")
    programs = [line for name in systems.NAMES for line in installed.run("dpkg", "-L", name).splitlines()
                if re.match(r"/usr/s?bin/.", line)]
    assert len(programs) >= 7
    for program in programs:
        assert installed.run(program, "--help").strip()
        assert installed.run("man", "-w", pathlib.Path(program).name).strip().endswith(".gz")
    assert "OVS-XDP" in installed.run(systems.OURS, "--version")
    for page in "ovs-vswitchd-xdp", "ovs-xdp.conf.db":
        assert installed.run("man", "-w", page).strip().endswith(".gz")
    for name in systems.NAMES:
        assert not installed.run("dpkg", "--verify", name)


def test_a_user_builds_a_program(installed):
    """What ovs-xdp-obj(1) reads is there: it lists keys and actions."""
    assert "ip4" in installed.run("ovs-xdp-obj", "--list")


def test_nothing_changes_before_it_is_chosen(system):
    assert "nothing has changed yet" in system.install()
    assert system.chosen() == systems.STOCK
    system.start_database()
    system.start_daemon()
    assert system.runs() == systems.STOCK


def test_over_and_back(world, installed):
    """A bridge of a type that both daemons know goes over to ours and back, with its ports and their numbers."""
    network = Network(world, installed, kind="netdev")
    assert installed.runs() == systems.STOCK
    installed.vsctl("set", "interface", "to-red", "ofport_request=7")

    installed.choose(systems.OURS)
    installed.vsctl("--no-wait", "set", "open", ".", "other_config:xdp-datapath-types=netdev")
    network.restart()
    assert installed.runs() == systems.OURS
    network.forwards()
    assert installed.status("to-red")["xdp-hook"] == "tcx"
    assert installed.vsctl("get", "interface", "to-red", "ofport").strip() == "7"

    installed.appctl("exit", "--cleanup")
    lab.wait_until(lambda: not installed.processes("ovs-vswitchd"), "the end of our daemon")
    installed.run("update-alternatives", "--auto", "ovs-vswitchd")
    network.start()
    assert installed.runs() == systems.STOCK
    network.forwards()
    assert "xdp-hook" not in installed.status("to-red")
    assert installed.vsctl("get", "interface", "to-red", "ofport").strip() == "7"


def test_upgrade_and_downgrade_under_traffic(network, installed):
    """Installing changes nothing that runs; the restart afterwards takes over, and loses nothing."""
    for folder, version in ("/packages/next", "-2"), ("/packages", "-1"):
        pid = installed.pid()
        with network.loses_nothing():
            said = installed.install(folder)
            assert installed.version().endswith(version)
            assert f"the daemon of before still runs (pid {pid})" in said and installed.pid() == pid
            network.restart()
            assert installed.pid() != pid and installed.runs() == systems.OURS
            network.taken_over()


def is_replaced(system):
    return system.runs() != systems.OURS


MOMENTS = {
    "the new file is there": lambda system: os.path.exists(f"{system.root}{systems.OURS}.dpkg-new") or is_replaced(system),
    "the old file is gone": is_replaced,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_daemon_is_killed_during_an_upgrade(network, installed, moment):
    """Flows go on, and the daemon of the next start takes them over."""
    debs = [f"/packages/next/{path.name}" for path in (installed.root / "packages/next").glob("*.deb")]
    with network.loses_nothing():
        with installed.start("dpkg", "-i", *debs) as upgrade:
            lab.wait_until(lambda: MOMENTS[moment](installed), moment)
            pid = installed.pid()
            os.kill(pid, 9)
            assert upgrade.wait() == 0
        # The kernel closes what it had, and the machine's first process notices: until then ovs-ctl says that it runs.
        lab.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the daemon")
        assert installed.version().endswith("-2")
        network.start()
        network.taken_over()


def test_purge_leaves_nothing(system):
    before = system.files()
    system.install()
    assert len(system.files()) > len(before)
    system.choose(systems.OURS)
    system.run("dpkg", "--purge", *systems.NAMES)
    after = system.files()
    assert after == before, {path: (before.get(path), after.get(path)) for path in {*before, *after}
                             if before.get(path) != after.get(path)}
    assert system.chosen() == systems.STOCK


@pytest.mark.parametrize("kind", ("xdp", "system", "netdev"))
def test_removed_while_it_runs(network, installed, kind):
    """It forwards until it is stopped, and says what to type: with that, nothing of ours is left, and the stock daemon serves."""
    if kind != "xdp":
        installed.vsctl("set", "open", ".", f"other_config:xdp-datapath-types={kind}")
        installed.vsctl("set", "bridge", "br0", f"datapath_type={kind}")
    said = installed.run("dpkg", "--remove", *systems.NAMES)
    assert f"the daemon still runs (pid {installed.pid()})" in said
    network.forwards()
    *commands, last = re.findall(r"^ {4}(\S.*)$", said, re.MULTILINE)
    assert last == "systemctl restart openvswitch-switch"
    for command in commands:
        installed.run(*command.split())
    lab.wait_until(lambda: not installed.processes("ovs-vswitchd"), "the end of the daemon")
    assert not os.path.exists("/sys/fs/bpf/ovs-xdp") and not re.search("ovs-xdp|OVS-XDP", lab.run("ip", "-o", "link"))
    assert "xdp-datapath-types" not in installed.vsctl("--no-wait", "get", "open", ".", "other_config")
    network.start()
    assert installed.runs() == systems.STOCK
    network.forwards()
    assert "xdp-hook" not in installed.status("to-red")


def test_bpf_filesystem_is_made(world, installed):
    """Not mounted: the daemon mounts it, so that programs outlive it."""
    lab.run("umount", "-R", "-l", installed.root / "sys/fs/bpf")
    installed.choose(systems.OURS)
    Network(world, installed)
    assert "programs go on, pinned in" in installed.appctl("xdp/show")


def test_bpf_filesystem_is_not_allowed(world, installed):
    """Read-only, mounted by another: the daemon forwards, and says that programs end with it."""
    lab.run("mount", "-t", "bpf", "-o", "ro", "bpf", installed.root / "sys/fs/bpf")
    installed.choose(systems.OURS)
    Network(world, installed)
    assert "programs end" in installed.appctl("xdp/show")


def test_drop_in_is_the_unit_with_another_folder(installed):
    """The lines of Debian's unit as it is now; a newer one may have others."""
    for key in "ExecStart", "ExecReload":
        ours = installed.command_of_unit("ovs-vswitchd.service", key)
        (installed.root / systems.UNITS / systems.DROP_IN).rename(installed.root / "tmp/drop-in")
        theirs = installed.command_of_unit("ovs-vswitchd.service", key)
        (installed.root / "tmp/drop-in").rename(installed.root / systems.UNITS / systems.DROP_IN)
        assert ours == [theirs[0].replace("/usr/share/openvswitch", "/usr/lib/openvswitch-switch-xdp"), *theirs[1:]]


def without_module(system):
    """openvswitch.ko cannot be loaded, also on a kernel without any modules, where Open vSwitch's script does not try."""
    script = system.root / "usr/share/openvswitch/scripts/ovs-kmod-ctl"
    text = script.read_text(encoding="utf-8").replace("/proc/modules", "/proc/self/maps")
    # It would remove the module "bridge" from this machine.
    script.write_text(text.replace("/sys/module/bridge", "/nowhere"), encoding="utf-8")
    (system.root / "etc/modprobe.d/none.conf").write_text("install openvswitch /bin/false\n", encoding="utf-8")


def test_without_the_kernel_module(world, installed):
    """Stock's unit does not start then.  Ours starts our daemon, and the stock daemon as little as ever."""
    if os.path.exists("/sys/module/openvswitch"):
        pytest.skip("openvswitch.ko is loaded: rmmod openvswitch")
    without_module(installed)
    installed.start_database()
    with pytest.raises(lab.Failed, match="Inserting openvswitch module"):
        installed.start_daemon()
    assert not installed.processes("ovs-vswitchd")
    installed.choose(systems.OURS)
    network = Network(world, installed)
    assert "openvswitch.ko is not there: ovs-vswitchd-xdp does not need it" in installed.start_daemon()
    network.forwards()


SAID_WITHOUT = {"/tmp": "ovsdb-server: failed to create temporary file", "/var/lib/openvswitch": "conf.db: failed to lock lockfile",
                "/var/log/openvswitch": "Starting ovsdb-server ... failed!"}


def test_read_only_root(world, installed):
    """With the file systems that the page names the daemons start, restart without loss, and keep the system's identifier."""
    installed.choose(systems.OURS)
    (installed.root / "etc/openvswitch/system-id.conf").write_text("such-a-host\n", encoding="utf-8")
    installed.make_read_only(*systems.FSTAB)
    assert "Read-only file system" in installed.run("touch", "/etc/openvswitch/x", "/var/lib/x", "/var/log/x", check=False)
    network = Network(world, installed)
    assert installed.vsctl("get", "open", ".", "external_ids:system-id").strip() == "such-a-host"
    with network.loses_nothing():
        network.forget_log()
        network.restart()
        network.taken_over()


@pytest.mark.parametrize("missing", SAID_WITHOUT)
def test_read_only_root_without(installed, missing):
    """Each of them is needed."""
    installed.choose(systems.OURS)
    installed.make_read_only(*(line for line in systems.FSTAB if line.split()[1] != missing))
    with pytest.raises(lab.Failed) as failed:
        installed.start_database()
    assert SAID_WITHOUT[missing] in str(failed.value)


def test_autopkgtest(installed):
    """debian/tests/smoke, as autopkgtest runs it in the installed system."""
    shutil.copy(systems.PACKAGES / "ovs-xdp/debian/tests/smoke", installed.root / "tmp/smoke")
    installed.start_database()
    installed.start_daemon()
    said = installed.run("/tmp/smoke", limit=5 * lab.PATIENCE)
    assert said.rstrip().endswith("smoke: passed")
    assert installed.runs() == systems.STOCK and not installed.vsctl("list-br").strip()
