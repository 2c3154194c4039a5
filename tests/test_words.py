# SPDX-License-Identifier: Apache-2.0
"""Comments, texts and documents use the words of the field, not words of our own (docs/glossary.md)."""
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
# Pages and results of measurements are made by bench/report and stay as they were measured.
SKIPPED = re.compile(r"docs/benchmarks/|LICENSES?|tests/fuzz/corpus/|tests/test_words\.py|tests/verifier-budget|debian/|\.ci/|"
                     r".*\.(svg|png|json|gz|at)$")
# Regular expression; what to write instead; names of files in which it means something else.
WORDS = [
    (r"queueing discipline", "qdisc", None),
    (r"\b(?:the|its|whose) other end\b(?! of (?:the wire|internal port))", "its peer", r"bench/cases/|dp/ct"),
    (r"\b(?:far|near) ends?\b", "the peer, or the device", r"bench/"),
    (r"straight behind", "redirected into the peer", None),
    (r"\bthe shortcut\b", "peer redirect", None),
    (r"beside the (?:packet|frame|bytes)|tag beside\b", "in VLAN acceleration", None),
    (r"left to offload|checksums? (?:is|are) unfinished|unfinished checksum", "CHECKSUM_PARTIAL", None),
    (r"\bhand(?:s|ed|ing)? (?:it |them |packets? |frames? )?up\b|\bhanded over\b", "hand to the engine", None),
    (r"\bwalk(?:s|ing)? (?:over )?masks|masks that \w+ walks?\b", "tuple space search", r"bench/cases/"),
    (r"\b(?:daemon|process) before\b(?!hand)", "the previous instance", None),
    (r"somebody else|programs? of others|others' programs", "foreign", None),
    (r"\bwhoever\b", "name the thing that does it", None),
    (r"without a word", "silently; or say which message is missing", None),
    (r"come to rest|comes to rest", "do not change any more", None),
    (r"nobody (?:can|could) tell", "say what would differ", r"bench/|tests/bench/"),
    (r"\bway up\b", "the upcall pair", None),
    (r"left to be (?:made|done|computed|segmented)", "GSO, CHECKSUM_PARTIAL", None),
    (r"\blaid out otherwise\b", "have another layout", None),
]


def files():
    names = subprocess.run(["git", "ls-files"], cwd=TOP, check=False, capture_output=True, text=True).stdout.split()
    if not names:                       # Not a clone: what a package is built from.
        names = [str(path.relative_to(TOP)) for folder in ("bpf", "core", "dp", "ovs", "docs", "tools")
                 for path in sorted((TOP / folder).rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return [name for name in names if not SKIPPED.match(name) and (TOP / name).is_file()]


def problems(name, text):
    """Sentences on words of our own in a file of that name."""
    flat = re.sub(r"\s*\n[\s*#/]*", " ", text)      # Also where a line ends between two words.
    return [f'{name}: "{found[0]}": write "{instead}"' for pattern, instead, except_in in WORDS
            if not (except_in and re.match(except_in, name)) for found in re.finditer(pattern, flat, re.IGNORECASE)]


def test_tree():
    found = [problem for name in files() for problem in problems(name, (TOP / name).read_text(encoding="utf-8"))]
    assert not found, "\n".join(found) + "\n(docs/glossary.md has the words)"


@pytest.mark.parametrize("text, instead", [
    ("/* Past the queueing\n * discipline. */", "qdisc"), ("its other\nend", "its peer"), ("# hands it up", "hand to the engine"),
    ("The daemon before left it.", "the previous instance"), ("walking masks", "tuple space search"),
    ("frames handed over", "hand to the engine"), ("Whoever sends", "name the thing that does it")])
def test_what_is_refused(text, instead):
    assert [problem.rsplit("write ", 1)[1] for problem in problems("core/x.c", text)] == [f'"{instead}"']


@pytest.mark.parametrize("text", ["hand_up(ctx)", "the other end of the wire", "OVS-XDP: other end of internal port",
                                  "a process beforehand"])
def test_what_passes(text):
    assert problems("core/x.c", text) == []
