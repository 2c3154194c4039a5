# SPDX-License-Identifier: Apache-2.0
"""Runs tests of a suite in sandboxes, several at a time.

Tests of one suite use the same device names, so they cannot share a network namespace.  The tests are dealt
to workers in small batches; each batch is one run of the suite's script in a sandbox and a folder of its own.
"""
import collections
import concurrent.futures
import contextlib
import pathlib
import re
import subprocess
import threading
import time

SANDBOX = pathlib.Path(__file__).resolve().parent / "sandbox"
SMALLEST, LARGEST = 6, 40     # tests in a batch
RUNNING = set()
LINE = re.compile(r"\s*(\d+): (.*?)\s+(ok|FAILED|skipped|expected failure|UNEXPECTED PASS)(?: \((.*)\))?$")

# 'status' is one of ok, FAILED, skipped, timed out, vanished; 'log' is the folder with the test's traces.
Result = collections.namedtuple("Result", "status where log seconds")


def run(suite, tests, jobs, test_timeout, label="batch"):
    """Runs 'tests', 'jobs' at a time; returns {test: Result}.

    'test_timeout', in seconds, is what a test may take on average.  Folders of logs begin with 'label'.
    """
    size = min(max(len(tests) // jobs // 4, SMALLEST), LARGEST, -(-len(tests) // jobs))
    batches = [tests[start:start + size] for start in range(0, len(tests), size)]
    progress = Progress()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool, interruptible(pool):
        done = pool.map(lambda index: run_batch(suite, f"{label}-{index:02}", batches[index], test_timeout,
                                                progress), range(len(batches)))
        return {test: result for batch in done for test, result in batch.items()}


@contextlib.contextmanager
def interruptible(pool):
    """On an exception (Ctrl-C), drops the batches that wait and ends those that run."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(RUNNING):
            process.kill()
        raise


def run_batch(suite, name, tests, test_timeout, progress):
    folder = suite.work / name
    folder.mkdir()
    for file in "atconfig", "atlocal":
        (folder / file).symlink_to(suite.work / file)
    command = [SANDBOX, "bash", suite.script, f"AUTOTEST_PATH={suite.environment['AUTOTEST_PATH']}",
               *(str(test.number) for test in tests)]
    process = subprocess.Popen(command, cwd=folder, env=suite.environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    RUNNING.add(process)
    watchdog = threading.Timer(60 + test_timeout * len(tests), process.kill)
    watchdog.start()
    try:
        results = collect(process.stdout, {test.number: test for test in tests}, folder, suite.script.name,
                          progress)
        process.wait()
    finally:
        timed_out = not watchdog.is_alive()
        watchdog.cancel()
        RUNNING.discard(process)
    for test in tests:
        if test not in results:
            results[test] = Result("timed out" if timed_out else "vanished", None, folder, None)
            progress.tell(test, results[test])
            timed_out = False
    return results


def collect(stream, tests, folder, script, progress):
    """Reads the script's report to its end; returns {test: Result}."""
    results, since = {}, time.monotonic()
    with open(folder / "output", "w", encoding="utf-8") as output:
        for line in stream:
            output.write(line)
            found = LINE.match(line.rstrip())
            if found and int(found[1]) in tests:
                test = tests[int(found[1])]
                logs = folder / f"{script}.dir"
                log = next((logs / name for name in (f"{test.number:0{width}}" for width in range(1, 5))
                            if (logs / name).is_dir()), folder)
                results[test] = Result(found[3], found[4], log, time.monotonic() - since)
                progress.tell(test, results[test])
                since = time.monotonic()
    return results


class Progress:
    """One line per finished test, from all workers."""

    def __init__(self):
        self.lock = threading.Lock()

    def tell(self, test, result):
        seconds = "" if result.seconds is None else f"{result.seconds:6.1f} s"
        with self.lock:
            print(f"{test.number:4}: {test.name:<68} {result.status:<8}{seconds}", flush=True)
