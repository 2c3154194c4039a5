# SPDX-License-Identifier: Apache-2.0
"""The documents hold together: links lead somewhere, tables are tables, files that are named exist, and every page can be
reached from README.md."""
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Files that text names by their path in the tree: `core/kernel/grace.c`, tests/system/test_loops.py.
NAMED = re.compile(r"(?<![\w/.<>{}*-])((?:dp|bpf|core|ovs|tools|bench|tests|scripts|examples|docs|debian)/[\w./-]+"
                   r"\.(?:c|h|py|md|at|[58]))\b")
RULE = re.compile(r"^\|[\s:|-]+\|$")
CODE = ("dp", "bpf", "core", "ovs", "tools", "bench", "examples", "scripts")     # Folders of code.


def tracked(suffix):
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", f"*{suffix}"], cwd=TOP,
                           capture_output=True, text=True, check=True).stdout.split("\n")
    return [TOP / name for name in names if name and (TOP / name).exists()]


def pages():
    try:
        found = tracked(".md")
    except (OSError, subprocess.CalledProcessError):        # A tree without its history.
        found = [path for path in TOP.rglob("*.md") if "build" not in path.relative_to(TOP).parts]
    return sorted(found)


def shown(path):
    return str(path.relative_to(TOP))


def prose(text):
    """The text without its code: blocks between fences, indented blocks, and `spans`."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    text = re.sub(r"(?m)^(?: {4}|\t).*$", "", text)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """What a forge makes of headings."""
    found = set()
    for heading in re.findall(r"(?m)^#+ +(.*?) *#*$", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading).lower()
        found.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain)))
    return found


def broken_links(page, text):
    for target in LINK.findall(prose(text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            yield f"{target}: there is no such file"
        elif anchor and anchor not in anchors(there.read_text(encoding="utf-8")):
            yield f"{target}: {path or 'this page'} has no such heading"


def broken_tables(text):
    """A row without a head is shown as text, and a row that is too long loses cells."""
    width, n = None, 0
    lines = text.split("\n")
    for n, line in enumerate(lines, 1):
        if not line.startswith("|"):
            width = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) - 1
        if width is None:
            if n == len(lines) or not RULE.match(lines[n]):
                yield f"line {n}: a table row without a head: an empty line before it, or no |---| below it"
            width = cells
        elif cells != width:
            yield f"line {n}: {cells} cells in a table of {width}"


def missing_files(text):
    for name in sorted(set(NAMED.findall(text))):
        if not (TOP / name).exists():
            yield f"{name} does not exist"


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_page(page):
    text = page.read_text(encoding="utf-8")
    wrong = [*broken_links(page, text), *broken_tables(text), *missing_files(text)]
    assert not wrong, f"{shown(page)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("name", ["NEWS", "docs/ovs-vswitchd-xdp.8", "docs/ovs-xdp.conf.db.5"])
def test_files_named_elsewhere(name):
    wrong = list(missing_files((TOP / name).read_text(encoding="utf-8").replace("\\-", "-")))
    assert not wrong, f"{name}: " + "\n".join(wrong)


def test_files_named_in_code():
    """Comments do not send readers to files that are gone."""
    found = [f"{shown(path)}: {name}" for folder in CODE for path in sorted((TOP / folder).rglob("*"))
             if path.is_file() and path.suffix in ("", ".c", ".h", ".py", ".at", ".8", ".5", ".1") and "__pycache__" not in path.parts
             for name in missing_files(re.sub(r"(?m)^\s*#\s*include.*$", "", path.read_text(encoding="utf-8")))
             if not name.endswith(".skel.h does not exist")]        # The build makes these.
    assert not found, "there are no such files: " + "; ".join(found)


def test_every_page_can_be_reached():
    """From README.md, by links."""
    reached, ahead = set(), [TOP / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in LINK.findall(prose(page.read_text(encoding="utf-8"))):
            there = (page.parent / target.partition("#")[0]).resolve()
            there = there / "README.md" if there.is_dir() else there
            if "://" not in target and there.suffix == ".md" and there.exists():
                ahead.append(there)
    lost = [shown(page) for page in pages() if page not in reached]
    assert not lost, f"no link leads from README.md to: {', '.join(lost)}"


def test_man_page_has_the_same_commands():
    """tests/system/test_documented.py runs those of the how-to."""
    man = (TOP / "docs/ovs-vswitchd-xdp.8").read_text(encoding="utf-8")
    for code, text in ("\\-", "-"), ("\\(aq", "'"), ("\\&", ""), ("\\e", "\\"):
        man = man.replace(code, text)
    shown_there = [re.sub(r"(?m)^ {4}", "", block) for block in re.findall(r"(?ms)^\.nf\n(.*?)^\.fi$", man)]
    page = (TOP / "docs/how-to/move-a-device.md").read_text(encoding="utf-8")
    commands = re.findall(r"(?ms)^```sh\n(.*?)^```$", page)
    assert len(commands) == 2 and all(block in shown_there for block in commands)


def test_decision_has_all_wrapped_symbols():
    """What the linker replaces in Open vSwitch has a reason in writing."""
    listed = re.findall(r"^ *wrapped \+?= \[(.*?)\]$", (TOP / "ovs/meson.build").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    reasons = (TOP / "docs/decisions/0018-wrapped-symbols.md").read_text(encoding="utf-8")
    symbols = re.findall(r"'(\w+)'", " ".join(listed))
    assert len(listed) == 2 and symbols and not [symbol for symbol in symbols if f"`{symbol}`" not in reasons]


def test_life_of_a_packet_names_what_there_is():
    """Each function() stands in one of the files that the same line, or the paragraph's, names; else anywhere in the code."""
    page = (TOP / "docs/explanation/life-of-a-packet.md").read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for folder in ("dp", "bpf", "core", "ovs")
                     for path in (TOP / folder).rglob("*.[ch]"))
    gone = []
    for line in page.split("\n"):
        files = [TOP / name for name in NAMED.findall(line)]
        text = "\n".join(path.read_text(encoding="utf-8") for path in files) if line.startswith("|") and files else code
        gone += [f"{name}() ({', '.join(map(shown, files)) or 'anywhere'})" for name in re.findall(r"`(\w+)\(\)`", line)
                 if not re.search(rf"\b{name}\(", text) and not (f"{name[:3]}" == "dp_" and name.endswith("_at"))]
    assert not gone, f"not there: {'; '.join(gone)}"


def test_decisions_are_listed():
    there = sorted(path.name for path in (TOP / "docs/decisions").glob("0*.md"))
    assert re.findall(r"\((0\d+[\w-]*\.md)\)", (TOP / "docs/decisions/README.md").read_text(encoding="utf-8")) == there


@pytest.mark.parametrize("text, wrong", [
    ("| a | b |\n|---|---|\n| 1 | 2 |\n", 0),
    ("| a | b |\n|---|---|\n\n| 1 | 2 |\n", 1),
    ("| a | b |\n|---|---|\n| 1 | 2 | 3 |\n", 1),
    ("| `a|b` | b |\n|---|---|\n", 0),
])
def test_tables_are_looked_at(text, wrong):
    assert len(list(broken_tables(text))) == wrong


@pytest.mark.parametrize("text, wrong", [
    ("[a](README.md) [b](README.md#ovs-xdp)", 0),
    ("[a](no-such-page.md)", 1),
    ("[a](README.md#no-such-heading)", 1),
    ("`[a](no-such-page.md)`\n\n    [b](no-such-page.md)\n", 0),
])
def test_links_are_looked_at(text, wrong):
    assert len(list(broken_links(TOP / "x.md", text))) == wrong


def test_glossary_is_in_order():
    words = re.findall(r"^\| ([^|]+?) \|", (TOP / "docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)[1:]
    plain = [re.sub(r"[^a-z0-9 ]", "", word.lower()) for word in words]
    assert len(words) > 40
    assert plain == sorted(plain), "docs/glossary.md is in the order of the alphabet: " + ", ".join(
        word for before, after, word in zip(plain, plain[1:], words[1:]) if before > after)


def test_first_screen():
    """What the README says before its first section: one sentence, a picture, a plot, the two commands, the state."""
    first = (TOP / "README.md").read_text(encoding="utf-8").split("\n## ")[0]
    assert first.count("\n") <= 50, "the README's first screen has more than 50 lines: move what is not for everybody to docs/"
    for what, pattern in (("a picture of the packet's way", r"(?m)^ {4}.*\[ XDP \]"), ("a plot", r"!\[[^]]+\]\("),
                          ("make demo", "make demo"), ("make check", "make check"), ("the state", r"\*\*State: ")):
        assert re.search(pattern, first), f"the README's first screen lacks {what}"


def test_the_page_of_benchmarks_is_short():
    n = len((TOP / "docs/benchmarks.md").read_text(encoding="utf-8").splitlines())
    assert n <= 200, f"docs/benchmarks.md has {n} lines: what is of one case belongs to its page in docs/benchmarks/"
