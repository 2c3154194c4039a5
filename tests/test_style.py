# SPDX-License-Identifier: Apache-2.0
"""The tree is as .editorconfig says: encoding, line ends, blanks, tabs, length of lines.  And functions and files are short."""
import configparser
import pathlib
import re

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
OVERHANG = 20                           # Columns beyond max_line_length that a line of Python or shell may have.
LONGEST = 100                           # Lines of a function.
LONGEST_FILE = 600                      # Lines, of C and Python outside of tests.
SKIPPED = {"build", ".git", "__pycache__", ".pytest_cache", "corpus", "results", "LICENSES"}


def sections():
    """(regular expression, settings) of each section, in their order."""
    text = "[]\n" + (TOP / ".editorconfig").read_text(encoding="utf-8")
    parser = configparser.RawConfigParser(comment_prefixes="#", strict=True)
    parser.read_string(text.replace("[]\n", "[preamble]\n", 1))
    return [(pattern(name), dict(parser[name])) for name in parser.sections() if name != "preamble"]


def pattern(glob):
    """EditorConfig's globs as regular expressions: without a slash they match in any folder."""
    found = "" if "/" in glob.replace("**", "") else "(?:.*/)?"
    depth = 0
    for token in re.findall(r"\*\*|[*{},]|[^*{},]+", glob):
        depth += {"{": 1, "}": -1}.get(token, 0)
        found += {"**": ".*", "*": "[^/]*", "{": "(?:", "}": ")", ",": "|" if depth else ","}.get(token) or re.escape(token)
    return re.compile(found)


SECTIONS = sections()


def settings(path):
    result = {}
    for regex, more in SECTIONS:
        if regex.fullmatch(path):
            result.update(more)
    return result


def problems(path, data):
    """What is wrong with a file of that path and content, in words."""
    how = settings(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ["it is not UTF-8"]
    found = []
    if text and not text.endswith("\n"):
        found.append("the last line has no end: add a newline")
    for number, line in enumerate(text.split("\n"), 1):
        limit = int(how.get("max_line_length", 10 ** 6))
        end = limit + (0 if path.endswith((".c", ".h")) else OVERHANG)
        if "\r" in line:
            found.append(f"line {number} ends as in DOS: remove the carriage return")
        if line != line.rstrip():
            found.append(f"line {number} has blanks at its end: remove them")
        if "\t" in line and how["indent_style"] == "space":
            found.append(f"line {number} has a tab: indent with {how['indent_size']} blanks")
        if len(line) > end:
            found.append(f"line {number} has {len(line)} characters: wrap it at {limit}, {end} is the end")
    return found


def files():
    for path in sorted(TOP.rglob("*")):
        parts = path.relative_to(TOP).parts
        if path.is_file() and not SKIPPED.intersection(parts) and not parts[0].startswith(("build", "obj-")) \
                and path.suffix not in (".pyc", ".svg", ".png", ".json", ".log", ".gz", ".xml"):
            yield path


def test_tree():
    found = [f"{path.relative_to(TOP)}: {problem}" for path in files()
             for problem in problems(str(path.relative_to(TOP)), path.read_bytes())]
    assert not found, "\n".join(found)


def long_functions(text):
    """(line, number of lines) of each function of C in 'text' that is longer than LONGEST."""
    lines, start = text.split("\n"), None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line.startswith("}") and start:
            if number - start + 1 > LONGEST:
                yield start, number - start + 1
            start = None


def test_functions_are_short():
    found = [f"{path.relative_to(TOP)}:{start}: a function of {n} lines, {LONGEST} is the end: split it"
             for path in files() if path.suffix in (".c", ".h") for start, n in long_functions(path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


def is_too_long(path, data):
    return path.endswith((".c", ".h", ".py")) and not path.startswith("tests/") and data.count(b"\n") > LONGEST_FILE


def test_files_are_short():
    found = [f"{path.relative_to(TOP)} has more than {LONGEST_FILE} lines: what has a purpose of its own goes into another file"
             for path in files() if is_too_long(str(path.relative_to(TOP)), path.read_bytes())]
    assert not found, "\n".join(found)


def test_long_file_is_seen():
    assert is_too_long("core/x.c", b"\n" * (LONGEST_FILE + 1)) and not is_too_long("core/x.c", b"\n" * LONGEST_FILE)
    assert not is_too_long("docs/x.md", b"\n" * 1000) and not is_too_long("tests/unit/x.c", b"\n" * 1000)


def test_long_function_is_seen():
    text = "int f(void)\n{\n" + "    g();\n" * (LONGEST - 2) + "%s}\n"
    assert not list(long_functions(text % ""))
    assert list(long_functions(text % "    g();\n")) == [(2, LONGEST + 1)]


@pytest.mark.parametrize("path, data, said", [
    ("core/x.c", b"int a;", "the last line has no end: add a newline"),
    ("core/x.c", b"int a; \n", "line 1 has blanks at its end: remove them"),
    ("core/x.c", b"\tint a;\n", "line 1 has a tab: indent with 4 blanks"),
    ("meson.build", b"a\n\tb\n", "line 2 has a tab: indent with 2 blanks"),
    ("docs/x.md", b"a\r\n", "line 1 ends as in DOS: remove the carriage return"),
    ("docs/x.md", b"\xff\n", "it is not UTF-8"),
    ("core/kernel/x.c", b"/" * 121 + b"\n", "line 1 has 121 characters: wrap it at 120, 120 is the end"),
    ("ovs/ports/x.c", b"/" * 80 + b"\n", "line 1 has 80 characters: wrap it at 79, 79 is the end"),
    ("tests/system/x.py", b"#" * 141 + b"\n", "line 1 has 141 characters: wrap it at 120, 140 is the end")])
def test_what_is_refused(path, data, said):
    assert said in problems(path, data)


@pytest.mark.parametrize("path, data", [
    ("Makefile", b"all:\n\techo\n"), ("debian/rules", b"%:\n\tdh $@\n"), ("docs/x.md", b"x" * 400 + b"\n"),
    ("core/x.c", b"/" * 120 + b"\n"), ("ovs/x.c", b"/" * 79 + b"\n"), ("NEWS", b"")])
def test_what_passes(path, data):
    assert problems(path, data) == []


@pytest.mark.parametrize("folder", ["tests/system", "tests/tools", "tests/bench"])
def test_tests_do_not_import_tests(folder):
    """What several of them need is in a module of its own: a change of a test then changes no other."""
    found = [f"{path.relative_to(TOP)}:{number}: move what {name} has for others into a module that is no test"
             for path in sorted((TOP / folder).glob("*.py"))
             for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
             for name in re.findall(r"^\s*(?:import|from) (test_\w+)", line)]
    assert not found, "\n".join(found)
