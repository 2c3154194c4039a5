# SPDX-License-Identifier: Apache-2.0
"""Completion in bash offers what each command says of itself."""
import pathlib
import re

import pytest

import lab

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = TOP / "tools/completion/ovs-xdp.bash"
OBSERVE, BUILD = TOP / "tools/observe", TOP / "build"


def completed(command, word):
    text = f'source {SCRIPT}; _ovs_xdp "$1" "$2"; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return lab.run("bash", "-c", text, "bash", command, word).split()


@pytest.mark.parametrize("command, option", [
    (OBSERVE / "ovs-xdp-top", "--interval"), (OBSERVE / "ovs-xdp-trace", "--write"), (OBSERVE / "ovs-xdp-exporter", "--textfile"),
    (TOP / "tools/report/ovs-xdp-report", "--anonymise"), (TOP / "scripts/ovs-xdp-obj", "--without")])
def test_options(command, option):
    assert option in completed(command, "--") and completed(command, option[:-2]) == [option]


def test_words():
    lab.new_host()
    lab.run("ip", "link", "add", "name", "wire", "type", "bridge")
    assert completed("ovs-xdp-tcpdump", "wi") == ["wire"] and completed("ovs-xdp-trace", "port=wi") == ["port=wire"]
    assert completed("ovs-xdp-trace", "dr") == ["drops"] and not completed("ovs-xdp-top", "")


def test_every_command_is_completed():
    listed = set(re.search(r"_ovs_xdp (ovs-xdp-.*)$", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)[1].split())
    installed = [line.split()[0] for file in TOP.glob("debian/*.install") for line in file.read_text(encoding="utf-8").splitlines()]
    commands = {pathlib.Path(path).name for path in installed if re.match(r"usr/s?bin/ovs-xdp", path)}
    assert listed == commands == {pathlib.Path(path).name for path in installed if "bash-completion" in path}
