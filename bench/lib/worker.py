# SPDX-License-Identifier: Apache-2.0
"""One measurement in a process of its own: one case, one peer, once.

The parent (measure_apart) starts this program again inside new namespaces; the child (main) builds the
world, runs the case and writes the result as JSON.  Killing the child's 'unshare' kills everything in the
process namespace with it, and the kernel removes the rest.
"""

import json
import os
import subprocess
import sys
import traceback

from bench.lib import field, world

ISOLATE = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--net", "--mount", "--pid", "--fork",
           "--kill-child", "--mount-proc", "--"]


def measure_apart(case, peer, settings, limit=180):
    """Returns {"rows": {row: measurement}} or {"failed": sentence, "log": lines}.  The child is in a
    session of its own, so that Ctrl-C reaches only the parent, which then ends the child."""
    request = json.dumps({"case": case, "peer": peer, "settings": settings})
    child = subprocess.Popen([*ISOLATE, sys.executable, settings["program"], "--worker", request],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished within {limit} seconds", "log": []}
    finally:
        if child.poll() is None:
            child.kill()                    # --kill-child: takes the namespaces' processes along.
            child.wait()
    try:
        return json.loads(out)
    except ValueError:
        return {"failed": (err.strip() or f"ended with status {child.returncode}").splitlines()[-1], "log": []}


def main(request):
    """Runs inside the namespaces."""
    request = json.loads(request)
    settings = request["settings"]
    peer = field.peers()[request["peer"]]()
    peer.missing(settings)
    be_nice(settings["nice"])
    try:
        w = world.World(os.path.join(settings["build"], "bench", "gen", "bench-traffic"))
        if settings["profile"]:
            w.profile = f"{settings['profile']}/{request['case']}-{request['peer']}"
        result = {"rows": field.cases()[request["case"]].run(w, peer, settings)}
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
