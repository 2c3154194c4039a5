# SPDX-License-Identifier: Apache-2.0
"""One line per measurement, with the time left."""

import sys
import time


class Progress:
    def __init__(self, jobs, took, more=0):
        """'took': {"case/peer": seconds of a measurement}, from an earlier run, corrected as this one goes on; 'more':
        seconds of what follows."""
        self._todo = list(jobs)
        self._n = len(jobs)
        self._took = took
        self._more = more
        self._start = 0

    def announce(self):
        print(f"{self._n} measurements, about {self._estimate() / 60:.0f} minutes" if self._took or self._more else
              f"{self._n} measurements", file=sys.stderr, flush=True)

    def begin(self, job):
        self._start = time.monotonic()
        case, peer, turn = job
        print(f"[{self._n - len(self._todo) + 1:{len(str(self._n))}}/{self._n}] round {turn + 1}  "
              f"{case + ' / ' + peer:24}  ", end="", file=sys.stderr, flush=True)

    def end(self, job, text):
        self._todo.remove(job)
        self._took["/".join(job[:2])] = round(time.monotonic() - self._start, 1)
        left = round(self._estimate())
        print(f"{text:36}  {left // 60}:{left % 60:02} left", file=sys.stderr, flush=True)

    def _estimate(self):
        """Seconds for what is left: as long as the last time, or as the others took on average."""
        average = sum(self._took.values()) / len(self._took) if self._took else 0
        return self._more + sum(self._took.get("/".join(job[:2]), average) for job in self._todo)
