# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's own scripts that listen to probes, unmodified: what they print of traffic here.

upcall_cost.py wants openvswitch.ko's tracepoint, too, so it runs in the emulated machine:

    tests/vm/run --cpus 2 /usr/bin/python3 -m pytest tests/system/test_usdt_scripts.py
"""
import contextlib
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

import lab
import pypi
import switch as switches
import traffic
from pypi import PYTHON

COMPILES = 600                          # Seconds: clang over the kernel's headers, in an emulated machine minutes.
NEEDS = {"upcall_cost.py": ("alive-progress", "halo", "strenum", "text-histogram3")}    # Of PyPI.
PAHOLE = ("pahole", "libbpf1", "libbz2-1.0", "libc6", "libdw1t64", "libdwarves1", "libelf1t64", "liblzma5", "libzstd1", "zlib1g")
TRACEPOINT = pathlib.Path("/sys/kernel/tracing/events/openvswitch/ovs_dp_upcall")

COMPILE = "from bcc import BPF\nBPF(text='#include <linux/sched.h>\\nint f(void *ctx) { return 0; }')"
# Debian 12's bcc 0.26 takes no arrays of "unsigned char" from programs.  Newer bcc has this expression.
RUN = """
import bcc.table, re, runpy, sys, types
bcc.table.re = types.SimpleNamespace(match=re.match, compile=lambda text: re.compile(text.replace("([^ ]+) ?", "(.+?) ?")))
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def script(name):
    """The path of a script: of the sources that the tools were built from."""
    path = switches.source(f"utilities/usdt-scripts/{name}")
    if not path:
        pytest.skip(f"this release of Open vSwitch has no {name}")
    return path


def modules_of(name):
    """PYTHONPATH with what 'name' imports of PyPI."""
    return {"PYTHONPATH": str(pypi.folder("python-usdt", *NEEDS[name]))} if name in NEEDS else {}


@pytest.fixture(scope="module", autouse=True)
def environment():
    """bcc compiles and attaches here: what it needs for that."""
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["modprobe", "openvswitch"], stderr=subprocess.DEVNULL, check=False)
    variables = {"BCC_KERNEL_SOURCE": str(pypi.cached("headers_folder")), "PYTHONUNBUFFERED": "1"}
    if not pathlib.Path("/sys/bus/event_source/devices/uprobe").exists():
        pytest.skip("this kernel has no uprobes (CONFIG_UPROBE_EVENTS)")
    said = lab.run("env", *(f"{name}={value}" for name, value in variables.items()), PYTHON, "-c", COMPILE, check=False, limit=COMPILES)
    if said.strip():
        pytest.skip(f"bcc does not work here: {said.strip().splitlines()[-1]}")
    return variables


@pytest.fixture(autouse=True)
def tracing_files(world):
    """What stands below the /sys that each test has of its own."""
    assert world
    for kind, place in ("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug"):
        subprocess.run(["mount", "-t", kind, kind, place], stderr=subprocess.DEVNULL, check=False)


def pahole():
    """A pahole that prints types which a compiler takes (1.25), and says that it did (not 1.30): this machine's, or Debian 14's."""
    def compiles(program):
        done = subprocess.run([program, "-C", "ovs_u128", "--compile", switches.DAEMON], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
        return not done.returncode and b"typedef" in done.stdout
    if shutil.which("pahole") and compiles("pahole"):
        return "pahole"
    newer = pypi.cached("program_of", "forky", "pahole", *PAHOLE)
    if not compiles(newer):
        pytest.skip("the daemon has no debugging information that pahole reads")
    return newer


@contextlib.contextmanager
def listening(switch, said, begun, name, *options):
    """Runs script 'name' until it has printed 'begun'; ends it as a person does."""
    path, variables = script(name), {**switch.env, **modules_of(name)}
    # ovs-appctl without -t, which scripts call, finds a daemon by its pid file; the test's has none.
    (said.parent / "ovs-appctl").write_text(f'#!/bin/sh\nexec {switches.tool("ovs-appctl")} -t {switch.rundir}/ovs-vswitchd.ctl "$@"\n',
                                            encoding="ascii")
    (said.parent / "ovs-appctl").chmod(0o755)
    variables["PATH"] = f"{said.parent}:{variables['PATH']}"
    with open(said, "wb") as out, lab.Process(PYTHON, "-c", RUN, path, "-p", switch.process.pid, *options, stdout=out,
                                              env=variables) as process:
        lab.wait_until(lambda: begun in said.read_text(encoding="utf-8") or not process.running(), begun, limit=COMPILES)
        assert process.running(), said.read_text(encoding="utf-8")
        yield
        assert process.kill(signal.SIGINT) == 0, said.read_text(encoding="utf-8")


def test_upcall_monitor(network, tmp_path):
    """It prints each upcall with its datapath, port and packet."""
    said = tmp_path / "said"
    network.switch.flows("br0", "priority=0,actions=normal")
    with listening(network.switch, said, "PKT_LEN", "upcall_monitor.py", "-d", "decode"):
        assert traffic.ping(network.red, "10.0.0.2", count=2) == 2
        lab.wait_until(lambda: "echo-request" in said.read_text(encoding="utf-8"), "an upcall")
    text = said.read_text(encoding="utf-8")
    assert re.search(r"^\d+\.\d+ +\d+ +\S+ +\d+ +(?:xdp@ovs-xdp|\d+ \(xdp@ovs-xdp\)) +0 +98 +\d+", text, re.MULTILINE), text
    assert re.search(rf"dp_port {network.switch.dp_port('to-red')}, packet size 98 bytes", text), text


def test_upcall_cost(network, tmp_path):
    """It prints upcalls and the flows installed for them.  (It prices those alone that openvswitch.ko sent.)"""
    modules_of("upcall_cost.py")        # Also for the emulated machine, which has no network.
    if not TRACEPOINT.exists():
        pytest.skip("this kernel has no openvswitch.ko, whose tracepoint the script listens to, too")
    said = tmp_path / "said"
    network.switch.flows("br0", "priority=0,actions=normal")
    with listening(network.switch, said, "EVENT DATA", "upcall_cost.py"):
        assert traffic.ping(network.red, "10.0.0.2", count=2) == 2
        lab.wait_until(lambda: "op_flow_put" in said.read_text(encoding="utf-8"), "a flow installed")
    text = said.read_text(encoding="utf-8")
    received = re.findall(r"^  dpif_recv__recv_upcall +: +(\d+)/ +(\d+)", text, re.MULTILINE)
    assert re.search(r"^\[dpif_recv__recv_upcall *\].* xdp@ovs-xdp ", text, re.MULTILINE) and received, text
    assert int(received[0][1]) >= 2 and re.search(r"op_flow_put +: +[1-9]", text), text
    assert "No upcall data sets" in text, text


def test_flow_reval_monitor(network, tmp_path):
    """It prints the UFID of each flow, when it was installed and why it went."""
    said, switch = tmp_path / "said", network.switch
    script("flow_reval_monitor.py")
    switch.flows("br0", "priority=0,actions=normal")
    switch.vsctl("set", "open", ".", "other_config:max-idle=500")
    with listening(switch, said, "EVENT/REASON", "flow_reval_monitor.py", "-P", pahole()):
        assert traffic.ping(network.red, "10.0.0.2", count=2) == 2
        put = lab.wait_until(lambda: re.search(r"^\d+ +[\d.]+ +(\S+) +Insert \(put\) flow", said.read_text(encoding="utf-8"),
                                               re.MULTILINE), "a flow installed")
        lab.wait_until(lambda: re.search(rf"{put[1]} +Flow idle timeout", said.read_text(encoding="utf-8")), "a flow that timed out")
