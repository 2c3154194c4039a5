# SPDX-License-Identifier: Apache-2.0
"""The scripts behind make: what they say when something is missing or wrong."""
import contextlib
import os
import pathlib
import subprocess

import pytest

import lab
import switch as switches

TOP = switches.TOP
CHECK = TOP / "scripts/check"


@pytest.fixture(autouse=True)
def empty_folders():
    """Places to mount at: what is made there is not seen outside."""
    for folder in "/mnt", "/usr/src":
        lab.run("mount", "-t", "tmpfs", "tmpfs", folder)
    yield
    for folder in "/mnt", "/usr/src":
        lab.run("umount", "-l", folder)


@pytest.fixture
def own_logs(tmp_path_factory):
    """What Meson notes in the build folder stays as it is: results of tests, what was installed."""
    with mounted(tmp_path_factory.mktemp("logs"), switches.BUILD / "meson-logs"):
        yield


@contextlib.contextmanager
def mounted(source, path):
    """Also for those who may not look into the folders above 'source'."""
    pathlib.Path(path).mkdir(parents=True, exist_ok=True)
    lab.run("mount", "--bind", source, path)
    try:
        yield pathlib.Path(path)
    finally:
        lab.run("umount", path)


def fails(*args, env=None, cwd=None):
    """What a program says that must fail."""
    done = subprocess.run([str(arg) for arg in args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd,
                          env={**os.environ, **(env or {})}, timeout=lab.PATIENCE, check=False)
    assert done.returncode != 0, done.stdout
    return done.stdout


# scripts/check.

@pytest.mark.parametrize("name, tests, part", [
    ("test_everybody_looks_for_the_same_clangs", 1, "tools"),
    ("test_packaging.py::test_the_version_is_the_same_everywhere", 1, "tools"),
    ("tests/tools/test_packaging.py", 5, "tools"),
    ("test_core_checksum", 2, "unit"),
    ("test_core_checksum (plain)", 1, "unit")])
def test_one_test_is_run_by_its_name(own_logs, name, tests, part, tmp_path):
    (switches.BUILD / "check").mkdir(exist_ok=True)
    with mounted(switches.BUILD, "/mnt/build"), mounted(tmp_path, "/mnt/build/check"):  # A check that runs now keeps its results.
        said = lab.run(CHECK, "/mnt/build", name)
    assert said.splitlines()[-1] == f"{tests} passed, 0 failed, 0 skipped", said
    assert f"== {part}: " in said


def test_unknown_name():
    said = fails(CHECK, switches.BUILD, "test_chek")
    assert said.startswith("check: there is no part or test test_chek; parts are layers, unit, system, user, tools, bench, ovs;")
    assert "perhaps test_check" in said


def test_unsteady_test_is_named_as_a_defect(tmp_path):
    """A test that fails the first time; more of them than are allowed fail the run."""
    names = [f"test_{number}" for number in range(4)]
    (tmp_path / "scripts").mkdir()
    tests = tmp_path / "tests/tools"
    tests.mkdir(parents=True)
    (tmp_path / "scripts/check").write_text(CHECK.read_text())
    (tmp_path / "scripts/check").chmod(0o755)
    (tests / "test_shaky.py").write_text("import os\n" + "".join(
        f"def {name}():\n    first = not os.path.exists('{name}')\n    open('{name}', 'w').close()\n    assert not first\n"
        for name in names) + "def test_good():\n    pass\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build/build.ninja").write_text("")
    said = lab.run(tmp_path / "scripts/check", *names[:3], "test_good")
    for name in names[:3]:
        assert f"   tools: UNSTEADY tests/tools/test_shaky.py::{name}" in said
    assert said.splitlines()[-1] == "4 passed, 0 failed, 0 skipped"
    for name in names[:3]:
        (tmp_path / name).unlink()
    said = fails(tmp_path / "scripts/check", *names)
    assert "failed: 4 unsteady tests; up to 3 are no failure of the run" in said
    assert said.splitlines()[-1] == "4 passed, 1 failed, 0 skipped"


def test_parts_of_everything():
    said = lab.run(CHECK, "--all", "--list")
    for part in "gcc", "clang", "check", "asan-system", "fuzz-replay", "fuzz-parse", "ct-mutants", "ovs-unit", "ovs-xdp", "ovs-tcx", \
            "ovs-both", "ovs-engine", "cpus-1", "cpus-16", "vm-ct-xdp", "vm-tunnels", "vm":
        assert f"\n{part} " in f"\n{said}"
    assert "there is no part bogus" in fails(TOP / "scripts/check-all", "bogus")


# scripts/build, scripts/install, scripts/deps.

def path_without(tmp_path, *names):
    """A PATH with everything but some programs."""
    for folder in "/usr/sbin", "/usr/bin", "/sbin", "/bin":
        for program in pathlib.Path(folder).iterdir():
            link = tmp_path / program.name
            if program.name not in names and not link.is_symlink():
                link.symlink_to(program)
    return str(tmp_path)


@pytest.mark.parametrize("program, package", [("meson", "meson"), ("ninja", "ninja-build"), ("pkg-config", "pkg-config")])
def test_missing_program_is_named_with_its_package(program, package, tmp_path):
    said = fails(TOP / "scripts/build", "build-of-nobody", env={"PATH": path_without(tmp_path, program)})
    assert said.startswith(f'build: {program} is missing: apt-get install {package} ("make deps" as root installs all)')


def test_compiler_that_is_not_there():
    assert fails(TOP / "scripts/build", "build-of-nobody", env={"CC": "gcc-1"}) == "build: the compiler gcc-1 is not installed\n"
    assert fails(TOP / "scripts/build", "build-of-nobody", env={"CLANG": "clang-3"}) == \
        "build: the compiler clang-3 is not installed\n"


def test_install_without_rights_and_uninstall(own_logs, tmp_path):
    with mounted(TOP, "/mnt/tree"), mounted(switches.BUILD, "/mnt/build"):
        said = fails("setpriv", "--reuid=65534", "--clear-groups", "/mnt/tree/scripts/install", "/mnt/build")
        assert said == ('install: /usr/local cannot be written to by nobody: run "make install" as root, or name another folder '
                        "with DESTDIR=FOLDER or MESON_ARGS=--prefix=FOLDER\n")
    said = lab.run(TOP / "scripts/install", switches.BUILD, tmp_path)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    for name in "sbin/ovs-vswitchd-xdp", "sbin/ovs-xdp-check", "sbin/ovs-xdp-report", "bin/ovs-xdp-obj", \
            "share/man/man8/ovs-vswitchd-xdp.8", "share/man/man8/ovs-xdp-check.8", "share/man/man8/ovs-xdp-report.8":
        assert f"usr/local/{name}" in files
    example = lab.run(tmp_path / "usr/local/share/ovs-xdp/examples/ovn/three-hosts", "--help", env={**os.environ, "COLUMNS": "500"})
    assert f"{tmp_path}/usr/local/sbin/ovs-vswitchd-xdp" in example
    lab.run(TOP / "scripts/install", "--remove", switches.BUILD)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() or path.name == "ovs-xdp"]
    assert "nothing was installed from" in fails(TOP / "scripts/install", "--remove", switches.BUILD)


def test_list_of_packages_that_does_not_exist():
    said = fails(TOP / "scripts/deps", "Bogus")
    assert said.startswith("deps: there is no list 'Bogus'; debian/control has: Demo Test ")


# scripts/build-ovs, with a tree that is only as much Open vSwitch as it looks at.

@pytest.fixture
def tree(tmp_path):
    made = tmp_path / "tree"
    (made / "vswitchd").mkdir(parents=True)
    (made / "vswitchd/vswitch.ovsschema").write_text("{}")
    (made / "configure.ac").write_text("AC_INIT(openvswitch, 3.5.4, bugs@openvswitch.org)\n")
    (made / "configure").write_text("#!/bin/sh\nmkdir -p vswitchd\necho '#define HAVE_AF_XDP 1' > config.h\n"
                                    "printf 'all:\\n\\ttouch made\\n' > Makefile\n")
    (made / "configure").chmod(0o755)
    return made


def build_ovs(tmp_path, *args, may_fail=False):
    env = {**os.environ, "OVSXDP_CACHE": str(tmp_path / "cache")}
    if may_fail:
        return fails(TOP / "scripts/build-ovs", *args, env=env)
    return pathlib.Path(lab.run(TOP / "scripts/build-ovs", *args, env=env).splitlines()[-1])


def test_tree_that_is_built_outside_of_itself_has_its_schema(tree, tmp_path):
    for _ in range(2):                                  # Made, and found.
        folder = build_ovs(tmp_path, "--source", tree)
        assert folder != tree and (folder / "made").exists()
        assert (folder / "vswitchd/vswitch.ovsschema").read_text() == "{}"


def test_package_that_ships_a_folder(tree, tmp_path):
    with mounted(tree, "/usr/src/openvswitch"):
        folder = build_ovs(tmp_path)
    assert (folder / "made").exists() and (folder / "vswitchd/vswitch.ovsschema").exists() and not (tree / "made").exists()


def test_no_source(tmp_path):
    (tmp_path / "empty").mkdir()
    with mounted(tmp_path / "empty", "/usr/src/openvswitch"):
        assert "there is no Open vSwitch in /usr/src/openvswitch: apt-get install openvswitch-source" in build_ovs(
            tmp_path, may_fail=True)
    assert f"{tmp_path / 'empty'} is no source tree of Open vSwitch." in build_ovs(
        tmp_path, "--source", tmp_path / "empty", may_fail=True)


@pytest.mark.parametrize("release", ("2.17.9", "3.0.4", "3.8.0", "4.1.0"))
def test_release_that_does_not_fit(tree, tmp_path, release):
    """It is refused before it is built, which would take minutes."""
    (tree / "configure.ac").write_text(f"AC_INIT(openvswitch, {release}, bugs@openvswitch.org)\n")
    said = build_ovs(tmp_path, "--source", tree, may_fail=True)
    assert (f"{tree} is Open vSwitch {release}: OVS-XDP builds with 3.1 to 4.0. "
            "Give one of these with -Dovs_source=DIR.") in said
    assert not list(tmp_path.glob("cache/*/made"))


def test_tree_of_a_repository(tree, tmp_path):
    """It has no configure script, but boot.sh."""
    script = (tree / "configure").read_text(encoding="utf-8")
    (tree / "configure").unlink()
    (tree / "boot.sh").write_text(f"#!/bin/sh\ncat > configure <<'EOF'\n{script}EOF\nchmod +x configure\n", encoding="utf-8")
    (tree / "boot.sh").chmod(0o755)
    assert (build_ovs(tmp_path, "--source", tree) / "made").exists()


# meson.build.

def configured(tmp_path, types):
    """What Meson says, which ends at a clang that does not exist."""
    return fails("meson", "setup", f"-Ddatapath_types={types}", "-Dclang=/nowhere/clang", tmp_path / "build", TOP)


@pytest.mark.parametrize("types, wrong", (("netdv", "netdv"), ("system,dpdk", "dpdk"), ("xdp", "xdp"), ("netdev system.", "system.")))
def test_datapath_types_that_do_not_exist(tmp_path, types, wrong):
    assert f"-Ddatapath_types={types}: allowed are netdev, system, or both (netdev,system), not {wrong}\n" in configured(tmp_path, types)


@pytest.mark.parametrize("types", ("", "system", "netdev,system", "system, netdev"))
def test_datapath_types_that_exist(tmp_path, types):
    said = configured(tmp_path, types)
    assert "/nowhere/clang was not found" in said and "allowed are" not in said
