# SPDX-License-Identifier: Apache-2.0
"""The demonstration, which a newcomer runs first, does what it says."""
import sys

import lab
import switch as switches


def test_demo():
    said = lab.run(sys.executable, switches.TOP / "scripts/demo", switches.BUILD, limit=300)
    assert "All of this happened" in said
