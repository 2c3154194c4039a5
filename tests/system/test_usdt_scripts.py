# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's own scripts that listen to probes, unmodified: what they print of traffic here.

upcall_cost.py wants openvswitch.ko's tracepoint, too, so it runs in the emulated machine:

    tests/vm/run --cpus 2 /usr/bin/python3 -m pytest tests/system/test_usdt_scripts.py
"""
import contextlib
import pathlib
import re
import signal
import subprocess
import sys

import pytest

import lab
import switch as switches
import traffic

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "vm"))

import machine  # noqa: E402

PYTHON = "/usr/bin/python3"             # As in Debian's packages of Open vSwitch and bcc.
COMPILES = 600                          # Seconds: clang over the kernel's headers, in an emulated machine minutes.
MODULES = machine.CACHE.parent / "python"
NEEDS = {"upcall_cost.py": ("alive-progress", "halo", "strenum", "text-histogram3")}    # Of PyPI.
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
    tree = switches.tool("ovs-vsctl").resolve().parent.parent
    source = re.search(r"^abs_top_srcdir = (.*)$", (tree / "Makefile").read_text(encoding="utf-8"), re.MULTILINE) \
        if (tree / "Makefile").exists() else None
    path = pathlib.Path(source[1] if source else "/nonexistent") / "utilities/usdt-scripts" / name
    if not path.exists():
        pytest.skip(f"this release of Open vSwitch has no {name}")
    return path


def modules_of(name):
    """Has what 'name' imports of PyPI."""
    for package in NEEDS.get(name, ()):
        if not (MODULES / package.replace("-", "_")).exists() and not list(MODULES.glob(f"{package.replace('-', '_')}.py")):
            done = subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--target", MODULES, package],
                                  stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{name} needs {package} of PyPI: {done.stderr.strip().splitlines()[-1:]}")


@pytest.fixture(scope="module", autouse=True)
def environment():
    """bcc compiles and attaches here: what it needs for that."""
    for kind, place in ("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug"):
        subprocess.run(["mount", "-t", kind, kind, place], stderr=subprocess.DEVNULL, check=False)
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["modprobe", "openvswitch"], stderr=subprocess.DEVNULL, check=False)
    try:
        variables = {"BCC_KERNEL_SOURCE": str(machine.headers_folder()), "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(MODULES)}
    except machine.Unusable as problem:
        pytest.skip(str(problem))
    if not pathlib.Path("/sys/bus/event_source/devices/uprobe").exists():
        pytest.skip("this kernel has no uprobes (CONFIG_UPROBE_EVENTS)")
    said = lab.run("env", *(f"{name}={value}" for name, value in variables.items()), PYTHON, "-c", COMPILE, check=False, limit=COMPILES)
    if said.strip():
        pytest.skip(f"bcc does not work here: {said.strip().splitlines()[-1]}")
    return variables


@contextlib.contextmanager
def listening(switch, said, begun, name, *options):
    """Runs script 'name' until it has printed 'begun'; ends it as a person does."""
    path = script(name)
    modules_of(name)
    with open(said, "wb") as out, \
            lab.Process(PYTHON, "-c", RUN, path, "-p", switch.process.pid, *options, stdout=out, env=switch.env) as process:
        lab.wait_until(lambda: begun in said.read_text(encoding="utf-8") or not process.running(), begun, limit=COMPILES)
        assert process.running(), said.read_text(encoding="utf-8")
        yield
        process.kill(signal.SIGINT)


def test_upcall_monitor(network, tmp_path):
    """It prints each upcall with its datapath, port and packet."""
    said = tmp_path / "said"
    network.switch.flows("br0", "priority=0,actions=normal")
    with listening(network.switch, said, "DPIF_NAME", "upcall_monitor.py", "-d", "decode"):
        assert traffic.ping(network.red, "10.0.0.2", count=2) == 2
        lab.wait_until(lambda: "echo-request" in said.read_text(encoding="utf-8"), "an upcall")
    text = said.read_text(encoding="utf-8")
    assert re.search(r"^\d+\.\d+ +\d+ +\S+ +\d+ +xdp@ovs-xdp +0 +98 +\d+", text, re.MULTILINE), text
    assert re.search(rf"dp_port {network.switch.dp_port('to-red')}, packet size 98 bytes", text), text


def test_upcall_cost(network, tmp_path):
    """It prints upcalls and the flows installed for them.  (It prices those alone that openvswitch.ko sent.)"""
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


def test_flow_reval_monitor(network, tmp_path):
    """It prints the UFID of each flow, when it was installed and why it went."""
    said, switch = tmp_path / "said", network.switch
    script("flow_reval_monitor.py")
    types = subprocess.run(["pahole", "-C", "ovs_u128", "--compile", switches.DAEMON], stdout=subprocess.PIPE, check=False)
    if b"typedef" not in types.stdout:
        pytest.skip("this pahole (before 1.25) prints no types from debugging information that a compiler takes")
    switch.flows("br0", "priority=0,actions=normal")
    switch.vsctl("set", "open", ".", "other_config:max-idle=500")
    with listening(switch, said, "EVENT/REASON", "flow_reval_monitor.py"):
        assert traffic.ping(network.red, "10.0.0.2", count=2) == 2
        put = lab.wait_until(lambda: re.search(r"^\d+ +[\d.]+ +(\S+) +Insert \(put\) flow", said.read_text(encoding="utf-8"),
                                               re.MULTILINE), "a flow installed")
        lab.wait_until(lambda: re.search(rf"{put[1]} +Idle flow timed out", said.read_text(encoding="utf-8")), "a flow that timed out")
