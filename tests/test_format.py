# SPDX-License-Identifier: Apache-2.0
"""C code is as .clang-format says: indentation, braces, blanks, one statement a line.

Not compared: comments, preprocessor directives, where a statement is broken into lines, blanks that align columns, and
initialisers, which are tables aligned by hand."""
import concurrent.futures
import difflib
import pathlib
import re
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
FORMAT = "clang-format-19"              # Versions differ: the tree is as this one wants it.
FOLDERS = ("dp", "bpf", "core", "ovs", "tools", "tests", "bench", "examples")

pytestmark = pytest.mark.skipif(not shutil.which(FORMAT),
                                reason=f"{FORMAT} is not installed (\"make deps\", apt-get install {FORMAT})")


def statements(text):
    """"INDENT STATEMENT" for each statement, each on one line and with one blank where there are some."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"[ \t]*\\\n\s*", " ", text)
    while (collapsed := re.sub(r"\{[^{};]*\}|(?<=struct )\{[^{}]*\}|(?<=union )\{[^{}]*\}", "{}", text)) != text:
        text = collapsed
    found, current = [], None
    for line in text.split("\n"):
        words = " ".join(line.split())
        if words.startswith("#") or not words:
            if current and words:
                found.append(current)
                current = None
            continue
        if current:
            current += ("" if current[-1] in "([{" or words[0] in ")]" else " ") + words
        else:
            current = f"{len(line) - len(line.lstrip())} {words}"
        if current.endswith((";", "{", "}", ":")) and current.count("(") == current.count(")"):
            found.append(current)
            current = None
    return [alike(statement) for statement in [*found, *([current] if current else [])]]


def alike(statement):
    """Without blanks that mean nothing, or of which clang-format, which knows C++ better, thinks otherwise."""
    statement = re.sub(r'"\s+(?=\w)|(?<=\w)\s+(?=")', '"', statement).replace('""', '"')
    statement = re.sub(r"\s*&&\s*", " && ", statement)
    statement = statement.replace(") ->", ")->").replace("(*) (", "(*)(")
    statement = re.sub(r"(\b(?:class|delete)|FOR_EACH[A-Z_0-9]*) (?=[(+])", r"\1", statement)
    return re.sub(r"([{;]) | (?=}|\)$)", r"\1", statement).replace("; )", ";)").replace(" ;", ";") \
        .replace(", )", ",)").replace("){", ") {")


def problems(name, text):
    """What clang-format would change in a file of that name, in words."""
    run = subprocess.run([FORMAT, f"--assume-filename={TOP / name}"], input=text, capture_output=True, text=True, check=True)
    ours, theirs = statements(text), statements(run.stdout)
    return [f"{name}: {' / '.join(ours[a:b]) or 'nothing'}: should be {' / '.join(theirs[c:d]) or 'nothing'}"
            for tag, a, b, c, d in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes() if tag != "equal"]


def test_tree():
    names = [str(path.relative_to(TOP)) for folder in FOLDERS for path in sorted((TOP / folder).rglob("*.[ch]"))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [problem for some in pool.map(lambda name: problems(name, (TOP / name).read_text(encoding="utf-8")), names)
                 for problem in some]
    assert not found, "\n".join(found) + f"\n(the number is the indentation; \"{FORMAT} FILE\" shows more)"


@pytest.mark.parametrize("name, text", [
    ("core/x.c", "int f(void)\n{\n  return 0;\n}\n"), ("core/x.c", "int f(void) {\n    return 0;\n    }\n"),
    ("core/x.c", "int f(void)\n{\n    if(a)\n        return 0;\n}\n"), ("core/x.c", "int f(void)\n{\n    a(); b();\n}\n"),
    ("core/x.c", "int f(char* a);\n"), ("core/x.c", "int f(void)\n{\n    a( b );\n}\n"),
    ("ovs/x.c", "int f(void)\n{\n    a = (int)b;\n}\n"),
    ("core/x.c", "int f(void)\n{\n    switch (a) {\n        case 1:\n            b();\n    }\n}\n")])
def test_what_is_refused(name, text):
    assert problems(name, text)


@pytest.mark.parametrize("name, text", [
    ("core/x.c", "static const int table[] = {\n    { 1,   2 },\n    { 10, 20 },\n};\n"),
    ("core/x.c", "int f(int   a, /* One. */\n      int b);\n"), ("ovs/x.c", "static int\nf(void)\n{\n    return a\n           + b;\n}\n"),
    ("core/x.c", "#define X(A)   \\\n    A\n"), ("core/x.c", "struct a {\n    int b;          /* Aligned. */\n    int c;\n};\n")])
def test_what_passes(name, text):
    assert problems(name, text) == []
