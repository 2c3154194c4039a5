# SPDX-License-Identifier: Apache-2.0
"""CPU time: of processes in nanoseconds (schedstat), of the whole machine in clock ticks (/proc/stat)."""

import os
import pathlib

TICKS = os.sysconf("SC_CLK_TCK")


def of_processes(pids):
    """Seconds that all threads of 'pids' ran.  Softirqs that ran in their context are included."""
    total = 0
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                pass                        # The thread ended.
    return total / 1e9


def of_main_threads(pids):
    """Seconds that the first threads of 'pids' ran."""
    return sum(int(pathlib.Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()[0])
               for pid in pids) / 1e9


def of_machine():
    """Seconds that the CPUs were busy, with any process."""
    return _busy_and_stolen()[0]


def _busy_and_stolen():
    """The same, and seconds that they would have been, had the hypervisor not given them to others."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _idle, _iowait, irq, softirq, stolen, *_ = map(int, f.readline().split()[1:])
    return (user + nice + system + irq + softirq) / TICKS, stolen / TICKS


class Theft:
    """What the hypervisor gave to others of the CPU time that this machine wanted, since its creation."""

    def __init__(self):
        self._before = _busy_and_stolen()

    def share(self):
        """From 0 to 1; 0 on a machine that nobody else has."""
        busy, stolen = (now - then for now, then in zip(_busy_and_stolen(), self._before))
        return stolen / (stolen + busy) if stolen else 0


class Meter:
    """CPU use between its creation and stop(), in cores (CPU seconds per second)."""

    def __init__(self, pids, now):
        self._pids, self._start = pids, now
        self._processes, self._machine = of_processes(pids), of_machine()

    def stop(self, now):
        seconds = now - self._start
        return {"daemon_cpu": (of_processes(self._pids) - self._processes) / seconds,
                "machine_cpu": (of_machine() - self._machine) / seconds}
