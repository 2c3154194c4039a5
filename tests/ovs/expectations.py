# SPDX-License-Identifier: Apache-2.0
"""What is expected of each test on the machine at hand, and whether it happened.

A file of expectations has stanzas like this one:

    [802.1Q VLAN devices]
    reason = the kernel has no 8021q
    probe = ip link add d0 type dummy && ip link add link d0 name d0.1 type vlan id 1
    outcome = fail
    tests =
        datapath - ping between two ports on vlan

While the probe, a shell command run in a sandbox, fails, the tests fail (`outcome = fail`) or skip
(`outcome = skip`).  When it succeeds, and for all other tests, nothing but passing is good.  `outcome = pass` takes back
what a file before says.
"""
import configparser
import pathlib
import subprocess

SANDBOX = pathlib.Path(__file__).resolve().parent / "sandbox"
MOST_REPEATED = 12      # More failures than this are no chance.
UNSTEADY_ALLOWED = 3    # As in scripts/check: more unsteady tests are a failure of the run.
OUTCOMES = {"fail": "FAILED", "skip": "skipped"}


def load(paths):
    """Reads the files 'paths' and runs their probes; returns {test name: (stanza, status)}."""
    expected = {}
    for path in paths:
        stanzas = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",),
                                            strict=True)
        with open(path, encoding="utf-8") as file:
            stanzas.read_file(file)
        for title in stanzas.sections():
            stanza = stanzas[title]
            names = stanza["tests"].strip().split("\n")
            for name in names:
                expected.pop(name, None)
            if stanza["outcome"] != "pass" and not probe(stanza["probe"]):
                expected |= dict.fromkeys(names, (f"{title}: {stanza['reason']}", OUTCOMES[stanza["outcome"]]))
    return expected


def probe(command):
    return command not in ("false", "") and subprocess.run(
        [SANDBOX, "sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0


def worth_repeating(attempts, expected):
    """Tests that failed or skipped unexpectedly in the first of 'attempts' (each {test: Result}), unless there are
    so many that chance is no explanation.  They are repeated once, to tell what fails from what is unsteady."""
    surprises = [test for test, result in attempts[-1].items()
                 if result.status not in (status_of(test, expected), "ok")]
    return surprises if len(surprises) <= MOST_REPEATED and len(attempts) == 1 else []


def judge(tests, attempts, expected):
    """Prints the summary; returns 0 when each of 'tests' did what is expected of it in its last attempt, and at most
    UNSTEADY_ALLOWED of them needed a second one; else 1."""
    known, surprises, counts, unsteady = {}, [], {"passed": 0, "failed": 0, "skipped": 0}, 0
    for test in tests:
        *failures, result = [results[test] for results in attempts if test in results]
        counts[{"ok": "passed", "skipped": "skipped"}.get(result.status, "failed")] += 1
        if result.status != status_of(test, expected):
            surprises.append((test, result))
        elif test.name in expected:
            known.setdefault(expected[test.name], []).append(test.number)
        elif failures:
            unsteady += 1
            print(f"UNSTEADY: {test.number}: {test.name}: passed when repeated; before, "
                  + ", then ".join(map(described, failures)))

    for (reason, status), numbers in known.items():
        print(f"{status} as expected, {reason}: {' '.join(map(str, numbers))}")
    for test, result in surprises:
        print(f"UNEXPECTED: {test.number}: {test.name}: {described(result)}"
              + (f", although {expected[test.name][0]}" if test.name in expected else ""))
    print(", ".join(f"{number} {what}" for what, number in counts.items())
          + (f"; {len(surprises)} not as expected" if surprises else "; all as expected")
          + (f"; {unsteady} unsteady, which are defects" if unsteady else ""), flush=True)
    if unsteady > UNSTEADY_ALLOWED:
        print(f"failed: {unsteady} unsteady tests; up to {UNSTEADY_ALLOWED} are no failure of the run")
    return 1 if surprises or unsteady > UNSTEADY_ALLOWED else 0


def status_of(test, expected):
    return expected[test.name][1] if test.name in expected else "ok"


def described(result):
    where = f" at {result.where}" if result.where else ""
    return result.status + ("" if result.status == "ok" else f"{where}; see {result.log}")
