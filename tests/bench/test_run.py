# SPDX-License-Identifier: Apache-2.0
"""The program bench/run itself: what it leaves behind when it is stopped, and what it says to bad input."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP))

from bench.lib import field, ovs  # noqa: E402  pylint: disable=C0413

BUILD = pathlib.Path(os.environ.get("OXDP_BUILD", TOP / "build"))
RUN = [str(TOP / "bench/run"), "--build", str(BUILD)]
MARK = "OXDP_TEST_OF_BENCH"


def run(*args):
    ours = ("CASES", "PEERS", "ROUNDS", "SECONDS", "LOSS", "QUICK")
    return subprocess.run([*RUN, *args], capture_output=True, text=True, check=False, timeout=60,
                          env={name: value for name, value in os.environ.items() if name not in ours})


@pytest.mark.parametrize("args, said", [
    (["--cases", "forwrad"], "is none of: forward"),
    (["--peers", "ours,nobody"], "is none of: alone"),
    (["--rounds", "0"], "must be positive"),
    (["--loss", "1.5"], "a share below 1"),
    (["--stolen", "2"], "at most 1"),
])
def test_bad_input(args, said):
    done = run(*args)
    assert done.returncode == 2 and said in done.stderr


def test_rules():
    """Each daemon is asked for what each case wants, also for nothing."""
    for case in field.cases().values():
        if case.RULE is None or case.RULE in ovs.OvsPeer.rules:
            assert isinstance(ovs.rules_for(case.RULE, ["sw0", "sw1", "sw2"]), list)


def test_compare_of_no_results():
    done = subprocess.run([TOP / "bench/compare", "/nonexistent", "/nonexistent"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and "No such file" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_the_middle(tmp_path, number):
    """It is stopped when the first measurement is done and the second runs: results are kept, and nothing is left."""
    output = tmp_path / "results.json"
    bench = subprocess.Popen([*RUN, "--cases", "forward", "--peers", "ceiling", "--rounds", "99", "--seconds", "0.1",
                              "--output", str(output)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, MARK: str(tmp_path)})
    try:
        shown = ""
        while "round 2" not in shown:
            character = bench.stderr.read(1)
            assert character, f"it ended: {shown}"
            shown += character
        bench.send_signal(number)
        out, err = bench.communicate(timeout=120)
    finally:
        bench.kill()
    assert bench.returncode == 130, err
    assert "left" in shown and "not complete" in err and "bare bpf_redirect_map" in out
    kept = json.loads(output.read_text(encoding="utf-8"))
    assert kept["samples"] and not kept["failures"]
    assert "<h1>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not left_over(tmp_path)


def left_over(mark):
    """Processes that inherited our mark: what lives in their namespaces lives on with them, and only so."""
    found = []
    for environment in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in environment.read_bytes():
                found.append((environment.parent / "cmdline").read_text(encoding="utf-8", errors="replace"))
        except (OSError, ProcessLookupError):
            pass                            # It ended meanwhile.
    return found
