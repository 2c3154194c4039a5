# SPDX-License-Identifier: Apache-2.0
"""What is said twice is the same: lists of packages and of compilers, what is installed and packaged."""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parent.parent.parent


def text(name):
    return (TOP / name).read_text(encoding="utf-8")


def packages(file, field):
    """The packages of a field, one or several in a line, without our own."""
    found = re.search(rf"^{field}:(.*(?:\n .*)*)", text(file), re.MULTILINE)[1]
    return {re.sub(r"\s*\(.*?\)", "", entry).strip() for entry in found.split(",") if entry.strip()} - {"@", "@builddeps@"}


def clangs(found):
    return re.findall(r"clang(?:-\d+)?", found)


def test_packages_that_tests_need_are_listed_once_in_each_place():
    assert packages("debian/tests/control", "Depends") == packages("debian/control", "X-Test-Depends")


def test_everybody_looks_for_the_same_clangs():
    script = clangs(re.search(r"\$\{CLANG:-([^}]*)\}", text("scripts/ovs-xdp-obj"))[1])
    assert clangs(re.search(r"^clangs = \[(.*)\]$", text("bpf/meson.build"), re.MULTILINE)[1]) == script
    assert clangs(re.search(r"^ (clang-.*),$", text("debian/control"), re.MULTILINE)[1]) == script[:-1]
    assert {"clang-20", "clang-21", "clang-22"} <= set(script)


def test_every_command_of_the_packages_has_a_manual_page():
    installed = [line.split()[0] for file in TOP.glob("debian/*.install") for line in file.read_text(encoding="utf-8").splitlines()]
    commands = {pathlib.Path(path).name for path in installed if re.match(r"usr/s?bin/", path)}
    pages = {pathlib.Path(path).stem for path in installed if re.match(r"usr/share/man/man[18]/", path)}
    assert {"ovs-vswitchd-xdp", "ovs-xdp-obj", "ovs-xdp-check", "ovs-xdp-report"} <= commands
    assert commands == pages == {path.stem for folder in ("tools", "docs") for path in (TOP / folder).rglob("*.[18]")}


def test_the_version_is_the_same_everywhere():
    version = re.search(r"version: '([\d.]+)',\n\s*license", text("meson.build"))[1]
    assert text("NEWS").startswith(f"OVS-XDP {version}\n")
    assert text("debian/changelog").startswith(f"ovs-xdp ({version}-")
    for page in [*(TOP / "tools").rglob("*.[158]"), *(TOP / "docs").glob("*.[158]")]:
        assert f'"OVS-XDP {version}"' in page.read_text(encoding="utf-8").splitlines()[1]


def test_names_in_maintainer_scripts_are_those_of_the_package():
    folder = re.search(r"^usr/sbin/ovs-vswitchd-xdp (\S+)$", text("debian/openvswitch-switch-xdp.install"), re.MULTILINE)[1]
    for script in "postinst", "prerm":
        assert f"daemon=/{folder}/ovs-vswitchd-xdp\n" in text(f"debian/openvswitch-switch-xdp.{script}")
    assert f"daemon=/{folder}/ovs-vswitchd-xdp\n" in text("debian/service/ovs-kmod-ctl")
    assert f"/{folder}/scripts/ovs-ctl " in text("debian/service/10-openvswitch-switch-xdp.conf")
