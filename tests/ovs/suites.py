# SPDX-License-Identifier: Apache-2.0
"""Which suites there are, and what they need to run outside of their source tree.

A work folder holds, per suite: the generated script, atconfig and atlocal (which Autotest reads from the
folder that it runs in), and bin/, whose `ovs-vswitchd` is the daemon under test.
"""
import dataclasses
import fcntl
import functools
import itertools
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
PYTHON = "/usr/bin/python3"

# Unit tests of threads and load balancing that only lib/dpif-netdev.c has.
DPIF_NETDEV_FILES = "alb.at", "pmd.at"


LOCKS = []      # held until this process ends


class Unusable(Exception):
    """The suite cannot run here; the text says why."""


@dataclasses.dataclass(frozen=True)
class Test:
    number: int
    file: str
    name: str
    keywords: frozenset

    def matches(self, word):
        """Whether 'word' (number, range, keyword or part of the name) selects this test."""
        if re.fullmatch(r"\d+", word):
            return self.number == int(word)
        if found := re.fullmatch(r"(\d+)-(\d+)", word):
            return int(found[1]) <= self.number <= int(found[2])
        return word in self.keywords or word in self.name


@dataclasses.dataclass(frozen=True, eq=False)
class Suite:
    title: str
    work: pathlib.Path
    script: pathlib.Path
    expect: list
    environment: dict
    only: frozenset = None

    @functools.cache
    def tests(self):
        """Every test of the suite (restricted to the numbers in 'only', if any), in order."""
        listing = subprocess.run(["sh", self.script, "--list"], cwd=self.work, check=True, text=True,
                                 stdout=subprocess.PIPE, env=self.environment).stdout
        return [test for test in parse_listing(listing) if self.only is None
                or test.number in self.only and test.file not in DPIF_NETDEV_FILES]


def prepare(options, name):
    """Makes the suite 'name' (system or unit) as 'options' ask for; raises Unusable."""
    tree = ovs_tree(options.ovs_tree)
    source = source_of(tree)
    if name == "unit":
        title = "Open vSwitch's unit tests on the datapath"
        script = source / "tests/testsuite"
        only = on_a_datapath(script)
    else:
        title = "Open vSwitch's system tests"
        script, only = source / "tests/system-userspace-testsuite", None
    kind, settings = "", {}
    if options.stock:
        kind, title = "-stock", f"{title} with the stock daemon"
    elif options.no_offload:
        kind, title = "-engine", f"{title} in the engine alone"
        settings["OXDP_OTHER_CONFIG"] = "other_config:xdp-offload=false"
    elif options.hook:
        kind, title = f"-{options.hook}", f"{title} with every port on hook {options.hook}"
        settings["OXDP_OTHER_CONFIG"] = f"other_config:xdp-hook={options.hook}"
    work = own_folder(options.work or TOP / "build/tests/ovs", name + kind)

    if not options.stock and name == "system":
        script = generate(HERE / "system-xdp.at", source, work)
    (work / "bin").mkdir()
    (work / "bin/ovs-vswitchd").symlink_to(daemon(options, name, tree))
    (work / "atconfig").write_text(with_absolute_paths((tree / "tests/atconfig").read_text(), tree, source))
    (work / "atlocal").write_text(for_this_machine((tree / "tests/atlocal").read_text()))
    return Suite(title, work, script, expectations_of(name, tree), {**environment(tree, source, work), **settings}, only)


def ovs_tree(tree=None):
    """A built Open vSwitch tree: 'tree' if given, else the project's own build."""
    if tree is None:
        built = subprocess.run([TOP / "scripts/build-ovs"], stdout=subprocess.PIPE, text=True)
        if built.returncode:
            raise Unusable("Open vSwitch could not be built")
        tree = pathlib.Path(built.stdout.split("\n")[-2])
    for needed in "tests/atconfig", "tests/atlocal", "utilities/ovs-appctl", "ovsdb/ovsdb-server":
        if not (tree / needed).exists():
            raise Unusable(f"{tree} is no built Open vSwitch tree: it has no {needed}")
    return tree.resolve()


def expectations_of(name, tree):
    """The files of expectations of suite 'name' in 'tree', the last one that names a test counts: expected-NAME.txt, and
    expected-NAME-RELEASE.txt of each release up to the tree's."""
    release = numbers(re.search(r'^#define PACKAGE_VERSION "(.*)"', (tree / "config.h").read_text(), re.MULTILINE)[1])
    since = {numbers(path.stem): path for path in HERE.glob(f"expected-{name}-*.txt")}
    return [HERE / f"expected-{name}.txt", *(since[key] for key in sorted(since) if key <= release)]


def numbers(text):
    """The release in 'text': (3, 5)."""
    return tuple(map(int, re.search(r"(\d+)\.(\d+)", text).groups()))


def source_of(tree):
    found = re.search(r"^abs_top_srcdir='(.*)'", (tree / "tests/atconfig").read_text(), re.MULTILINE)
    return pathlib.Path(found[1])


def daemon(options, name, tree):
    if options.stock:
        path = tree / "vswitchd/ovs-vswitchd"
    elif name == "unit":
        path = options.daemon or TOP / "build/tests/ovs/ovs-vswitchd-xdp-dummy"
    else:
        path = options.daemon or TOP / "build/ovs-vswitchd-xdp"
    if not os.access(path, os.X_OK):
        raise Unusable(f"there is no daemon at {path}: run make first")
    return path.resolve()


def generate(macros, source, work):
    """Makes the suite's script from our macro file and upstream's sources (about a second)."""
    script = work / macros.with_suffix(".testsuite").name
    made = subprocess.run(["autom4te", "--language=autotest", "--cache", work / "autom4te.cache",
                           "-I", source, "-o", script, macros],
                          cwd=work, env={**os.environ, "OXDP_OVS_SRC": str(source)}, check=False)
    if made.returncode:
        raise Unusable(f"autom4te could not make a suite of {macros}")
    return script


def with_absolute_paths(atconfig, tree, source):
    """'atconfig', with the relative paths that assume the tree's tests/ as working folder made absolute."""
    paths = {"at_srcdir": f"{source}/tests", "at_top_srcdir": source, "at_top_build_prefix": f"{tree}/"}
    for name, path in paths.items():
        atconfig = re.sub(rf"^{name}=.*", f"{name}='{path}'", atconfig, flags=re.MULTILINE)
    return atconfig


def for_this_machine(atlocal):
    """'atlocal', with the interpreter that has Debian's Python modules whatever configure found, and time for Open vSwitch's tools
    where programs take it: an emulated machine verifies one for half a minute."""
    atlocal = re.sub(r"^PYTHON3=.*", f"PYTHON3='{PYTHON}'", atlocal, flags=re.MULTILINE)
    if patience := os.environ.get("OXDP_PATIENCE"):
        atlocal = re.sub(r"^OVS_CTL_TIMEOUT=.*", f"OVS_CTL_TIMEOUT={patience}", atlocal, flags=re.MULTILINE)
    return atlocal


def environment(tree, source, work):
    """Autotest's variables: where programs are found, ours first, then what is built, then scripts that are only in the source;
    and Python's, for tftpy."""
    path = [work / "bin", *(top / part for top in (tree, source)
                            for part in "utilities vswitchd ovsdb vtep tests ipsec".split())]
    return {**os.environ, "AUTOTEST_PATH": ":".join(map(str, path)), "PYTHONPATH": str(python_modules()),
            "LC_ALL": "C"}


def python_modules():
    """The folder with tftpy, which Debian does not package: from PyPI, once per machine.

    Without it the TFTP tests skip, and the run says so.
    """
    cache = os.environ.get("OVSXDP_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ovs-xdp")
    folder = pathlib.Path(cache) / "python"
    if not (folder / "tftpy").is_dir():
        subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--root-user-action=ignore",
                        "--target", folder, "tftpy"], timeout=120, check=False)
    return folder


def quick_names(engine_alone):
    """The names in quick.txt: those marked "engine:", or the others."""
    lines = [line.strip() for line in (HERE / "quick.txt").read_text().splitlines() if not line.startswith("#")]
    marked = [line.removeprefix("engine:").strip() for line in lines if line.startswith("engine:")]
    return marked if engine_alone else [line for line in lines if line and not line.startswith("engine:")]


def on_a_datapath(script):
    """The numbers of the tests in 'script' that run ovs-vswitchd with a dummy datapath."""
    groups = script.read_text(encoding="latin-1").split("\n#AT_START_")[1:]
    return frozenset(int(group[:group.index("\n")]) for group in groups
                     if re.search(r"ovs-vswitchd .*--enable-dummy|^ *sim_add ", group, re.MULTILINE))


def parse_listing(text):
    """Tests of `testsuite --list`: number, file:line, name; keywords on the lines below."""
    tests = []
    for line in text.splitlines():
        if found := re.match(r"\s*(\d+): (\S+?):\d+\s+(.*\S)", line):
            tests.append([int(found[1]), found[2], found[3], []])
        elif tests and line.startswith(" " * 6):
            tests[-1][3].extend(line.split())
    return [Test(number, file, name, frozenset(words)) for number, file, name, words in tests]


def own_folder(parent, name):
    """An empty folder 'name' in 'parent', or name.2, name.3 ... while other runs use those."""
    parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        folder = parent / (name if number == 1 else f"{name}.{number}")
        lock = open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        LOCKS.append(lock)
        fresh(folder)
        return folder


def fresh(folder):
    """An empty 'folder'."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
