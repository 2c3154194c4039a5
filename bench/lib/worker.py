# SPDX-License-Identifier: Apache-2.0
"""One measurement in a process of its own: one case, one peer, once.

The parent (measure_apart) starts this program again inside new namespaces; the child (main) builds the
world, runs the case and writes the result as JSON.  Killing the child's 'unshare' kills everything in the
process namespace with it, and the kernel removes the rest.
"""

import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
import traceback

from bench.lib import cpu, field, world

TRIES = 3               # Of one measurement, if the hypervisor takes too much meanwhile.
ISOLATE = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--net", "--mount", "--pid", "--fork",
           "--kill-child", "--mount-proc", "--"]


class Stop:
    """Ends the program on Ctrl-C and on a polite kill alike, by KeyboardInterrupt, also where a shell started it with
    SIGINT ignored; but not while a child is being made or ended, which must not be done by halves."""

    held = asked = False

    @classmethod
    def on_signals(cls):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            signal.signal(number, cls._handle)

    @classmethod
    def _handle(cls, _signal, _frame):
        cls.asked = True
        cls.check()

    @classmethod
    def check(cls):
        if cls.asked and not cls.held:
            cls.asked = False
            raise KeyboardInterrupt


def measure_undisturbed(case, peer, settings):
    """A measurement, and the share of the CPU time that the hypervisor took meanwhile.  One that lost too much is no
    measurement of the peer: it is made again, and of several the least disturbed counts.  A case that has seen to that
    itself says of each row what was stolen."""
    tries = []
    while len(tries) < TRIES and (not tries or tries[-1][1] > settings["stolen"]):
        theft = cpu.Theft()
        answer = measure_apart(case, peer, settings)
        own = [row["stolen"] for row in answer.get("rows", {}).values() if "stolen" in row]
        if own:
            return answer, max(own)
        tries.append((answer, round(theft.share(), 4)))
    return min(tries, key=lambda one: ("failed" in one[0], one[1]))


def measure_apart(case, peer, settings, limit=180):
    """Returns {"rows": {row: measurement}} or {"failed": sentence, "log": lines}.  The child is in a
    session of its own, so that Ctrl-C reaches only the parent, which then ends the child."""
    request = json.dumps({"case": case, "peer": peer, "settings": settings})
    Stop.held = True
    child = subprocess.Popen([*ISOLATE, sys.executable, settings["program"], "--worker", request],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, start_new_session=True)
    try:
        Stop.held = False
        Stop.check()
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished within {limit} seconds", "log": []}
    finally:
        Stop.held = True
        if child.poll() is None:
            end(child)
        Stop.held = False
    Stop.check()
    try:
        return json.loads(out)
    except ValueError:
        return {"failed": (err.strip() or f"ended with status {child.returncode}").splitlines()[-1], "log": []}


def end(child):
    """Ends 'unshare' and all processes of its namespaces: the first one is killed, and with it the others, for which
    it waits.  So nothing is left when this returns, also if 'unshare' had only just been started."""
    first = None
    give_up = time.monotonic() + 5
    while first is None and child.poll() is None and time.monotonic() < give_up:
        first = first_process(child.pid)
    if first is not None:
        signal.pidfd_send_signal(first, signal.SIGKILL)
        select.select([first], [], [], 10)
        os.close(first)
    child.kill()
    child.wait()


def first_process(parent):
    """A file descriptor for the only child of a process; None if it has none."""
    try:
        children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
        return os.pidfd_open(int(children[0])) if children else None
    except OSError:                         # One of them has ended.
        return None


def main(request):
    """Runs inside the namespaces."""
    request = json.loads(request)
    settings = request["settings"]
    peer = field.peers()[request["peer"]]()
    case = field.cases()[request["case"]]
    peer.missing(settings)
    peer.sockets = getattr(case, "SOCKETS", False)
    be_nice(settings["nice"])
    try:
        w = world.World(os.path.join(settings["build"], "bench", "gen", "bench-traffic"))
        if settings["profile"]:
            w.profile = f"{settings['profile']}/{request['case']}-{request['peer']}"
        result = {"rows": case.run(w, peer, settings)}
        w.finish_recordings()
    except world.Failed as failure:
        result = {"failed": str(failure), "log": peer.log_tail()}
    except Exception:                       # pylint: disable=broad-except; the parent must get an answer.
        result = {"failed": traceback.format_exc().splitlines()[-1],
                  "log": traceback.format_exc().splitlines() + peer.log_tail()}
    json.dump(result, sys.stdout)
    sys.stdout.flush()
    os._exit(0)                             # The namespaces' first process: the kernel ends the others.


def be_nice(value):
    """Sets the nice value of this process, its children, and (as the kernel groups processes by session,
    sched(7)) of the session."""
    os.setpriority(os.PRIO_PROCESS, 0, value)
    if os.path.exists("/proc/self/autogroup"):
        with open("/proc/self/autogroup", "w", encoding="ascii") as f:
            f.write(str(value))
