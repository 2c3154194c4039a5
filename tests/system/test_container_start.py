# SPDX-License-Identifier: Apache-2.0
"""examples/container/start, the first process of a container, and the probes of the manifest.  tests/package runs it with the
image's files, capabilities and root."""
import os
import pathlib
import re
import shutil
import signal

import pytest

import lab
import switch as switches

EXAMPLE = switches.TOP / "examples/container"
RUN = pathlib.Path("/run/openvswitch")


class Container:
    """The script as process 1 of its own, with the daemon and the schema of this build."""

    def __init__(self, **environment):
        tools = ":".join(str(switches.tool(name).parent) for name in ("ovs-vsctl", "ovsdb-server"))
        self.environment = {**os.environ, **environment, "PATH": f"{tools}:{os.environ['PATH']}"}
        self.script, self.log = RUN / "start", RUN / "said"
        text = (EXAMPLE / "start").read_text(encoding="utf-8")
        for installed, built in (("/usr/lib/openvswitch-switch-xdp/ovs-vswitchd-xdp", f"{switches.DAEMON} --disable-system"),
                                 ("/usr/share/openvswitch/vswitch.ovsschema", str(switches.schema()))):
            assert installed in text
            text = text.replace(installed, built)
        self.script.write_text(text, encoding="utf-8")
        self.script.chmod(0o755)
        self.process = lab.Process("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", self.script,
                                   env=self.environment, stdout=open(self.log, "ab"))

    def first(self):
        child, = children(self.process.pid)
        return child

    def pid(self, name):
        """The number of the process 'name' in it, as this namespace counts."""
        found, = (pid for pid in children(self.first())
                  if name in pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")[0])
        return found

    def answers(self):
        """Whether the manifest's probe succeeds, within the time that it has there."""
        probes = re.findall(r"Probe:\n +exec:\n +command: \[/usr/local/sbin/answers\]\n +periodSeconds: \d+\n +timeoutSeconds: (\d+)\n",
                            (EXAMPLE / "kubernetes.yaml").read_text(encoding="utf-8"))
        assert len(probes) == 2
        seconds = min(probes, key=int)
        return "FAILED" not in lab.run("sh", "-c", f"timeout {seconds} {EXAMPLE}/answers || echo FAILED", env=self.environment)

    def said(self):
        return self.log.read_text(encoding="utf-8")

    def close(self):
        self.process.kill()


@pytest.fixture(autouse=True)
def _empty_folder(world):
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir()


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]


@pytest.fixture(name="container")
def fixture_container(world):
    container = Container()
    world.callback(container.close)
    lab.wait_until(lambda: container.answers() or not container.process.running(), "the container")
    assert container.process.running(), container.said()
    return container


PROCESSES = ("ovsdb-server", "ovs-vswitchd")


@pytest.mark.parametrize("name", PROCESSES)
def test_process_that_dies(container, name):
    """It ends the container, which says which one, and not with success: an orchestrator starts the next."""
    assert container.answers()
    os.kill(container.pid(name), signal.SIGKILL)
    assert container.process.wait() == 128 + signal.SIGKILL
    assert ("start: ovsdb-server ended with exit status 137" in container.said()) == (name == "ovsdb-server")
    assert not container.answers()


def test_server_that_ends(container):
    """Its success is none of the container's."""
    lab.run(switches.tool("ovs-appctl"), "-t", RUN / "ovsdb-server.ctl", "exit")
    assert container.process.wait() == 1


@pytest.mark.parametrize("name", PROCESSES)
def test_process_that_hangs(container, name):
    """The probe fails until it answers again; the container stays."""
    pid = container.pid(name)
    os.kill(pid, signal.SIGSTOP)
    assert not container.answers()
    os.kill(pid, signal.SIGCONT)
    lab.wait_until(container.answers, "an answer")
    assert container.process.running()


def test_signal(container):
    """Told to end, it ends the daemon, and as that ends."""
    os.kill(container.first(), signal.SIGTERM)
    assert container.process.wait() in (0, 128 + signal.SIGTERM)
    assert "terminating with signal 15" in container.said() and "ovsdb-server ended" not in container.said()


def test_server_that_cannot_start(world):
    """It ends the container at once."""
    (RUN / "conf.db").write_text("no database", encoding="utf-8")
    container = Container()
    world.callback(container.close)
    assert container.process.wait(20) == 1 and "ovsdb-server: ovsdb error: " in container.said(), container.said()
    assert not (RUN / "ovs-vswitchd.pid").exists()


def test_daemon_that_cannot_start(world):
    """So does it."""
    container = Container(OVS_OPTIONS="--no-such-option")
    world.callback(container.close)
    assert container.process.wait(20) == 1 and "unrecognized option '--no-such-option'" in container.said(), container.said()
