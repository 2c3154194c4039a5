# SPDX-License-Identifier: Apache-2.0
"""The layers: dp <- bpf <- core <- ovs <- tools, bench, tests.

Reads the include lines of the tree and compares them with the table below, which is docs/explanation/architecture.md's
section on layers in a form that can be checked.
"""
import pathlib
import re

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)

# What names mean.  The first row that matches an included name says to which group it belongs.
GROUPS = (
    ("dp", r"dp/.*"),
    ("skeleton", r"([a-z0-9_]+/)*[a-z0-9_]+\.skel\.h"),
    ("bpf helpers", r"bpf/(bpf_helpers|bpf_endian|bpf_core_read|bpf_tracing)\.h"),
    ("libbpf", r"(bpf/(bpf|libbpf|btf|libbpf_.*|xsk)|xdp/.*)\.h"),
    ("vmlinux", r"(.*/)?vmlinux\.h"),
    ("bpf", r"bpf/.*"),
    ("core", r"core/.*"),
    ("ovs", r"ovs/.*"),
    ("tools", r"tools/.*"),
    ("tests", r"tests/.*"),
    ("bench", r"bench/.*"),
    ("cmocka", r"cmocka\.h"),
    ("uapi", r"(linux|asm|asm-generic)/.*"),
    ("stddef", r"(stddef|stdint|stdbool|stdarg|limits)\.h"),
)

# What each layer may include.  "system" is everything that a C library or the kernel installs; "openvswitch"
# is what the tree of Open vSwitch holds and nobody else does.
ALLOWED = {
    "dp": {"dp", "uapi", "stddef"},
    "bpf": {"dp", "bpf", "bpf helpers", "uapi", "stddef"},
    "core": {"dp", "bpf", "core", "skeleton", "libbpf", "uapi", "stddef", "system"},
    "ovs": {"dp", "core", "ovs", "uapi", "stddef", "system", "openvswitch"},
    "tools": {"dp", "core", "tools", "uapi", "stddef", "system"},
    "examples": {"skeleton", "bpf helpers", "libbpf", "uapi", "stddef", "system"},
    "bench": {"dp", "core", "bench", "skeleton", "bpf helpers", "libbpf", "uapi", "stddef", "system"},
    "tests": {"dp", "bpf", "core", "ovs", "tests", "skeleton", "bpf helpers", "libbpf", "cmocka", "uapi", "stddef",
              "system", "openvswitch"},
}

# Headers of C libraries and of the kernel that none of the rows above names.
SYSTEM = re.compile(r"(arpa|net|netinet|netpacket|sys|scsi)/[a-z0-9_]+\.h|[a-z]+\.h")


def group_of(layer, quote, name, beside):
    """The group of an included 'name'; 'beside' tells whether a file of that name stands beside the includer."""
    if quote == '"' and beside:
        return layer
    for group, pattern in GROUPS:
        if re.fullmatch(pattern, name):
            return group
    if quote == "<" and name != "config.h" and SYSTEM.fullmatch(name):
        return "system"
    return "openvswitch"


def violations(layer, text, beside=lambda name: False):
    """The includes of 'text', a file of 'layer', that its layer does not allow."""
    found = []
    for quote, name in INCLUDE.findall(text):
        group = group_of(layer, quote, name, beside(name))
        if group not in ALLOWED[layer]:
            found.append(f"{layer}/ may not include {name} ({group})")
    return found


def sources():
    return sorted(path for layer in ALLOWED for path in (TOP / layer).rglob("*.[ch]"))


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(TOP)))
def test_includes(path):
    layer = path.relative_to(TOP).parts[0]
    assert not violations(layer, path.read_text(encoding="utf-8"), lambda name: (path.parent / name).is_file())


@pytest.mark.parametrize("layer, line", [
    ("dp", '#include "core/xsk/umem.h"'),
    ("dp", "#include <stdio.h>"),
    ("dp", "#include <bpf/bpf_helpers.h>"),
    ("dp", '#  include "openvswitch/flow.h"'),
    ("bpf", '#include "core/programs/progs.h"'),
    ("bpf", '#include "vmlinux.h"'),
    ("bpf", "#include <bpf/libbpf.h>"),
    ("core", '#include "ovs/provider/dpif_xdp.h"'),
    ("core", "#include <config.h>"),
    ("core", '#include "openvswitch/vlog.h"'),
    ("core", '#include "packets.h"'),
    ("ovs", "#include <bpf/libbpf.h>"),
    ("ovs", "#include <xdp/xsk.h>"),
    ("ovs", '#include "bpf/xdp.skel.h"'),
    ("ovs", '#include "tests/unit/fake.h"'),
    ("tools", '#include "ovs/provider/dpif_xdp.h"'),
    ("bench", '#include "ovs/provider/dpif_xdp.h"'),
    ("bench", '#include "netdev.h"'),
])
def test_forbidden_include_is_seen(layer, line):
    assert len(violations(layer, f"/* A file. */\n#include <linux/types.h>\n{line}\n")) == 1


@pytest.mark.parametrize("layer, line", [
    ("dp", '#include "dp/record.h"'),
    ("dp", "#include <linux/if_ether.h>"),
    ("bpf", "#include <bpf/bpf_helpers.h>"),
    ("core", "#include <bpf/libbpf.h>"),
    ("core", "#include <xdp/xsk.h>"),
    ("core", '#include "bpf/xdp.skel.h"'),
    ("core", "#include <sys/mman.h>"),
    ("ovs", '#include "core/xsk/umem.h"'),
    ("ovs", "#include <config.h>"),
    ("ovs", '#include "openvswitch/vlog.h"'),
])
def test_allowed_include_passes(layer, line):
    assert violations(layer, f"{line}\n") == []
