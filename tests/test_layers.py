# SPDX-License-Identifier: Apache-2.0
"""The layers: dp <- bpf <- core <- ovs <- tools, bench, tests; the rooms of core/ and ovs/, their doors; no circles of files.

A layer is a folder of the tree: ALLOWED is docs/explanation/architecture.md's section on layers in a form that can be checked.  A
room is a folder of core/ or ovs/ with one purpose: rooms depend one way, downwards in ROOMS.  Files, in whichever
rooms, form no circle larger than two.  Includes are read from the sources; which file uses a function of which other
file is read from the objects of the build (nm), because a prototype may stand in any header.
"""
import collections
import json
import os
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("OXDP_BUILD", TOP / "build"))
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

# The layers that have rooms.
ROOMED = ("core", "ovs")
LARGEST_CIRCLE = 2      # Files.

# Each room, from the lowest, and the rooms of its layer that it may include and call.
CORE_FLOOR = {"core"}
BASE = {"ovs/base", "ovs/netdev", "ovs/lookup", "ovs/state"}
ROOMS = {
    "core": set(),
    "core/kernel": CORE_FLOOR,
    "core/tables": CORE_FLOOR,
    "core/ct": CORE_FLOOR,
    "core/capture": CORE_FLOOR | {"core/kernel"},
    "core/xsk": CORE_FLOOR,
    "core/programs": CORE_FLOOR | {"core/kernel", "core/tables", "core/ct"},
    "ovs/base": set(),
    "ovs/netdev": {"ovs/base"},
    "ovs/lookup": {"ovs/base"},
    "ovs/state": {"ovs/base"},
    "ovs/datapath": BASE,
    "ovs/fastpath": BASE | {"ovs/datapath"},
    "ovs/flows": BASE | {"ovs/datapath", "ovs/fastpath"},
    "ovs/engine": BASE | {"ovs/datapath", "ovs/fastpath", "ovs/flows"},
    "ovs/ports": BASE | {"ovs/datapath", "ovs/fastpath", "ovs/flows", "ovs/engine"},
    "ovs/provider": BASE | {"ovs/datapath", "ovs/fastpath", "ovs/flows", "ovs/engine", "ovs/ports"},
    "ovs": BASE | {"ovs/datapath", "ovs/fastpath", "ovs/flows", "ovs/engine", "ovs/ports", "ovs/provider"},
}

# Doors: the headers of a room that others include.  Each header of ONE_EACH is one, on a subject of its own.
ONE_EACH = {"core", "core/kernel", "ovs/base"}
DOORS = {
    "core/tables": {"table.h", "memory.h", "need.h", "mask_text.h"},
    "core/ct": {"ct.h"},
    "core/capture": {"capture.h"},
    "core/xsk": {"umem.h", "sock.h", "stack.h"},
    "core/programs": {"progs.h", "tcx.h", "group.h", "limit.h", "track.h", "trace.h", "sample.h", "detour.h", "order.h",
                      "pin.h", "ct_pins.h"},
    "ovs/netdev": {"netdev_xdp.h", "netdev_internal.h", "spelling.h"},
    "ovs/lookup": {"flow_table.h", "validate.h"},
    "ovs/state": {"ct.h", "ct_parse.h", "meter.h", "bond.h"},
    "ovs/datapath": {"datapath.h", "trace.h"},
    "ovs/fastpath": {"fastpath.h", "compile.h"},
    "ovs/flows": {"flows.h"},
    "ovs/engine": {"engine.h", "packet.h"},
    "ovs/ports": {"ports.h"},
    "ovs/provider": {"dpif_xdp.h"},
}

# The parts of struct dpif_xdp_dp (ovs/datapath/datapath.h), and the room whose files alone use their members.
PARTS = {
    "meters": "ovs/state", "bonds": "ovs/state", "port_table": "ovs/datapath", "flows": "ovs/lookup", "ports": "ovs/ports",
    "engine": "ovs/engine", "upcall": "ovs/engine", "senders": "ovs/engine", "rounds": "ovs/flows", "provider": "ovs/provider",
    "counts": "ovs/datapath", "trace": "ovs/datapath",
}

# What is still to be cut: (file, room) that ROOMS does not allow, and files in a circle larger than LARGEST_CIRCLE.  The
# tests fail for an entry that is no longer true: delete its line.  Nothing is ever added.
TO_BE_CUT = set()
CIRCLE_TO_BE_CUT = set()


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


def room_of(file):
    return str(pathlib.PurePosixPath(file).parent)


def allowed(room, other):
    """Whether files in 'room' may depend on files in 'other'; other layers are for test_layers.py."""
    return room == other or room.split("/")[0] != other.split("/")[0] or other in ROOMS[room]


def includes_up(file, text):
    """The rooms that 'file', with the content 'text', includes and may not."""
    others = {room_of(name) for _, name in INCLUDE.findall(text) if name.split("/")[0] in ROOMED}
    return {other for other in others if not allowed(room_of(file), other)}


def includes_without_folder(text, beside):
    """Includes of our own headers without their folder: 'beside' has the names that stand in the includer's folder."""
    return {name for quote, name in INCLUDE.findall(text) if quote == '"' and "/" not in name and name in beside}


def not_by_the_door(file, text):
    """Headers of other rooms that 'file', with the content 'text', includes, and that are no doors."""
    names = [pathlib.PurePosixPath(name) for _, name in INCLUDE.findall(text)]
    return {str(name) for name in names if name.parts[0] in ROOMED and str(name.parent) not in {room_of(file), *ONE_EACH}
            and name.name not in DOORS[str(name.parent)]}


def parts_of_others(file, text):
    """(line number, part) where 'file', with the content 'text', uses a member of a part of another room, or keeps its address."""
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    for number, line in enumerate(text.split("\n"), 1):
        for part, address in re.findall(r"\bdp->(\w+)(?:\.|( *;))", line):
            if PARTS.get(part, room_of(file)) != room_of(file) and (not address or f"= &dp->{part}" in line):
                yield number, part


def texts(layers=ROOMED):
    return {str(path.relative_to(TOP)): path.read_text(encoding="utf-8")
            for path in sources() if path.relative_to(TOP).parts[0] in layers}


def graph_of(objects):
    """File -> {file whose functions or variables it uses: their names}; 'objects' is file -> object."""
    defined, used = {}, {}
    for file, path in objects.items():
        answer = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        symbols = [line.split()[-2:] for line in answer.splitlines()]
        used[file] = {name for kind, name in symbols if kind in "Uvw"}
        defined.update({name: file for kind, name in symbols if kind in "TDBRVW"})
    graph = {file: collections.defaultdict(set) for file in objects}
    for file, names in used.items():
        for name in names & defined.keys():
            if defined[name] != file:
                graph[file][defined[name]].add(name)
    return graph


def circles_of(graph):
    """The sets of files, larger than one, in which each can be reached from each other one."""
    def reach(start):
        seen, waiting = set(), [start]
        while waiting:
            for file in graph[waiting.pop()]:
                if file in graph and file not in seen:
                    seen.add(file)
                    waiting.append(file)
        return seen

    reached = {file: reach(file) for file in graph}
    return {frozenset({file} | {other for other in reached[file] if file in reached[other]})
            for file in graph if file in reached[file]}


def advice(graph, circle):
    """Which edge of 'circle' to cut: the one without which the circles left are smallest."""
    inside = {file: {other: graph[file][other] for other in graph[file] if other in circle} for file in circle}

    def left(edge):
        without = {file: {other for other in inside[file] if (file, other) != edge} for file in circle}
        file, other = edge
        return (sum(len(rest) ** 2 for rest in circles_of(without)), allowed(room_of(file), room_of(other)),
                len(inside[file][other]), edge)

    file, other = min(((file, other) for file in circle for other in inside[file]), key=left)
    names = ", ".join(sorted(inside[file][other]))
    return (f"{', '.join(sorted(circle))} use each other in a circle: cut the edge from {file} to {other} ({names}): move "
            f"that into a file below both, or let {file} be given a callback")


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


@pytest.fixture(scope="module", name="graph")
def of_the_build():
    """The graph of each layer's files, of the objects of the last build."""
    commands = BUILD / "compile_commands.json"
    assert commands.exists(), f"{BUILD} is no build folder: run make first, or set OXDP_BUILD"
    objects = {}
    for command in json.loads(commands.read_text(encoding="utf-8")):
        folder = pathlib.Path(command["directory"])
        file, path = (folder / command["file"]).resolve(), folder / command["output"]
        if command["output"].split("/")[0] in ROOMED and TOP in file.parents:     # Tests compile some again.
            assert path.exists(), f"{path} does not exist: run make first"
            objects[str(file.relative_to(TOP))] = path
    assert objects.keys() >= {file for file in texts() if file.endswith(".c")}, "files that the build does not know"
    return graph_of(objects)


def test_every_room_is_known():
    assert {room_of(file) for file in texts()} <= ROOMS.keys(), "give a new folder its line in ROOMS"


def test_rooms_depend_one_way(graph):
    found = {(file, room) for file, text in texts().items() for room in includes_up(file, text)}
    found |= {(file, room_of(other)) for file in graph for other in graph[file]
              if not allowed(room_of(file), room_of(other))}
    for file, room in sorted(found - TO_BE_CUT):
        used = sorted(name for other in graph.get(file, ()) if room_of(other) == room for name in graph[file][other])
        print(f"{file} may not depend on {room}/ (includes a header of it, or uses {', '.join(used) or 'a type'}): "
              f"ROOMS in tests/test_layers.py says what {room_of(file)}/ may depend on; move what both need down")
    assert not found - TO_BE_CUT, "rooms depend the wrong way"
    assert not TO_BE_CUT - found, "these are cut: delete their lines from TO_BE_CUT"


def test_rooms_are_entered_by_their_doors():
    found = [f"{file} includes {header}, which is no door of {room_of(header)}/: use one of {', '.join(sorted(DOORS[room_of(header)]))}, "
             "or make it a door (DOORS in tests/test_layers.py)"
             for file, text in texts((*ROOMED, "tools", "bench")).items() for header in sorted(not_by_the_door(file, text))]
    assert not found, "\n".join(found)


def test_doors_are_used():
    used = {name for file, text in texts((*ROOMED, "tools", "bench")).items() for _, name in INCLUDE.findall(text)
            if room_of(name) != room_of(file)}
    found = [f"nobody outside of {room}/ includes {name}: delete it from DOORS"
             for room, names in DOORS.items() for name in sorted(names) if f"{room}/{name}" not in used]
    assert not found, "\n".join(found)


def test_parts_belong_to_their_rooms():
    found = [f"{file}:{number}: dp->{part} is the part of {PARTS[part]}/: call a function of that room, or add one"
             for file, text in texts(("ovs",)).items() for number, part in parts_of_others(file, text)]
    assert not found, "\n".join(found)


def test_every_part_is_known():
    """A member of struct dpif_xdp_dp that is a struct of ours."""
    text = (TOP / "ovs/datapath/datapath.h").read_text(encoding="utf-8")
    body = re.search(r"\nstruct dpif_xdp_dp \{\n(.*?)\n\};", text, re.DOTALL)[1]
    assert set(re.findall(r"^    struct dpif_xdp_\w+ (\w+);", body, re.MULTILINE)) == PARTS.keys(), \
        "PARTS says which room uses the members of each part of a datapath"


def test_includes_have_their_folder():
    found = {f"{file}: write the folder of {name}" for file, text in texts(("dp", "bpf", *ROOMED)).items()
             for name in includes_without_folder(text, {path.name for path in (TOP / file).parent.iterdir()})}
    assert not found


def test_no_circles(graph):
    circles = [circle for circle in circles_of(graph) if len(circle) > LARGEST_CIRCLE]
    for circle in circles:
        assert circle <= CIRCLE_TO_BE_CUT, advice(graph, circle)
    assert not CIRCLE_TO_BE_CUT - frozenset().union(*circles), "in no circle any more: delete from CIRCLE_TO_BE_CUT"


@pytest.mark.parametrize("file, header", [
    ("core/kernel/clsact.c", "core/programs/progs.h"),
    ("core/tables/memory.h", "core/programs/link.h"),
    ("core/error.c", "core/kernel/netlink.h"),
    ("core/xsk/umem.c", "core/programs/progs.h"),
    ("ovs/lookup/lookup.c", "ovs/engine/engine.h"),
    ("ovs/fastpath/fastpath.c", "ovs/ports/ports.h"),
    ("ovs/engine/output.h", "ovs/provider/dpif_xdp.h"),
])
def test_include_that_runs_up_is_seen(file, header):
    assert includes_up(file, f'/* A file. */\n#include "dp/key.h"\n#  include "{header}"\n') == {room_of(header)}


@pytest.mark.parametrize("file, header", [
    ("core/programs/link.c", "core/kernel/netlink.h"),
    ("core/programs/link.c", "core/programs/pin.h"),
    ("core/kernel/clsact.c", "core/error.h"),
    ("ovs/ports/tcx.c", "core/programs/tcx.h"),
    ("ovs/provider/operate.c", "ovs/lookup/lookup.h"),
    ("ovs/lookup/lookup.c", "openvswitch/vlog.h"),
])
def test_include_that_runs_down_passes(file, header):
    assert not includes_up(file, f'#include "{header}"\n')


@pytest.mark.parametrize("file, header", [
    ("core/programs/link.c", "core/ct/ct_private.h"),
    ("ovs/provider/show.c", "ovs/ports/ports_private.h"),
    ("tools/probe.c", "core/programs/link.h"),
])
def test_include_past_the_door_is_seen(file, header):
    assert not_by_the_door(file, f'#include "dp/key.h"\n#include "{header}"\n') == {header}
    assert not not_by_the_door(header, f'#include "{header}"\n#include "core/locks.h"\n')


@pytest.mark.parametrize("line", ["n = dp->ports.n_xdp_ports;", "dpif->dp->ports.hook = 0;", "struct dpif_xdp_dp_ports *p = &dp->ports;"])
def test_part_of_another_room_is_seen(line):
    text = f"/* dp->ports.hook\n */\n    {line}\n    f(&dp->ports);\n"
    assert list(parts_of_others("ovs/provider/show.c", text)) == [(3, "ports")]
    assert not list(parts_of_others("ovs/ports/hook.c", text))


def test_include_without_folder_is_seen():
    text = '#include "bond.h"\n#include "ofproto/bond.h"\n#include "util.h"\n#include "ovs/state/bond.h"\n'
    assert includes_without_folder(text, {"bond.h", "bond.c"}) == {"bond.h"}


def compiled(folder, **calls):
    """Files that call each other's functions, compiled: name -> object."""
    objects = {}
    for name, called in calls.items():
        lines = [f"void {other}(void);" for other in called] + [f"void {name}(void);", f"void {name}(void)", "{"]
        source = folder / f"{name}.c"
        source.write_text("\n".join(lines + [f"    {other}();" for other in called] + ["}", ""]), encoding="utf-8")
        objects[f"core/{name}.c"] = folder / f"{name}.o"
        subprocess.run(["cc", "-c", "-o", objects[f"core/{name}.c"], source], check=True)
    return objects


def test_circle_of_three_is_seen(tmp_path):
    graph = graph_of(compiled(tmp_path, a=["b"], b=["c", "d"], c=["a", "e"], d=["e"], e=["d"]))
    assert sorted(map(sorted, circles_of(graph))) == [["core/a.c", "core/b.c", "core/c.c"], ["core/d.c", "core/e.c"]]


def test_advice_names_the_edge_that_closes_the_circle(tmp_path):
    """The file 'a' uses 'b', 'c' and 'd' in turn; each of these knows only the next; 'd' knows 'a'."""
    graph = graph_of(compiled(tmp_path, a=["b", "c", "d"], b=["c"], c=["d"], d=["a"]))
    circle, = circles_of(graph)
    assert "cut the edge from core/d.c to core/a.c (a)" in advice(graph, circle)
