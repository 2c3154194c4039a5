# SPDX-License-Identifier: Apache-2.0
"""What is measured is what the sources are."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))

from bench.peers import ours  # noqa: E402

RULES = """rule copy
  command = cp $in $out
build daemon: copy daemon.c
"""


def test_build_that_is_older_than_its_sources(tmp_path):
    assert ours.stale(tmp_path) is None                 # Installed, not built here.
    (tmp_path / "build.ninja").write_text(RULES)
    (tmp_path / "daemon.c").write_text("new")
    assert ours.stale(tmp_path) == "it is older than its sources: run make"
    ours.world.command("ninja", "-C", str(tmp_path))
    assert ours.stale(tmp_path) is None
    os.utime(tmp_path / "daemon.c", (2e9, 2e9))
    assert ours.stale(tmp_path) == "it is older than its sources: run make"
    (tmp_path / "build.ninja").write_text("rule")
    assert "ninja" in ours.stale(tmp_path)              # Why it cannot tell.
