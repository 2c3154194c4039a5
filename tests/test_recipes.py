# SPDX-License-Identifier: Apache-2.0
"""Places that the recipes of CONTRIBUTING.md list, that neither the compiler nor a packet misses when they are forgotten.

Lists in headers are X-macros; each of their names must stand where the recipe says."""
import pathlib
import re

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
COMPILER = [f"ovs/fastpath/compile{part}.c" for part in ("", "_ct", "_program", "_sample", "_set", "_tunnel")]


def text(*names):
    return "\n".join((TOP / name).read_text(encoding="utf-8") for name in names)


def rows(header, macro):
    """[(name, the rest of the row)] of an X-macro list."""
    found = re.search(rf"#define {macro}\(X\)((?:.*\\\n)*.*\n)", text(header))
    assert found, f"{header} has no list {macro}"
    names = re.findall(r"X\((\w+),(.*)", found[1])
    assert names, f"{macro} in {header} is empty"
    return names


def forgotten(names, where, pattern):
    """Those of 'names' for which 'pattern', with {} for the name, is not found in the files 'where'."""
    said = text(*where)
    return [name for name in names if not re.search(pattern.format(name), said)]


def operations():
    return [name for name, _ in rows("dp/op.h", "DP_OPS") if name != "GROUP"]       # Its header says why.


def program_drops():
    """What programs drop, except what a flow asks for; and what they lose behind that."""
    reasons = rows("dp/reason.h", "DP_REASONS")
    return ([name for name, rest in reasons if re.match(r"\s*(DROP|FLOW),", rest) and "as a flow says" not in rest]
            + [name for name, _ in rows("dp/counter.h", "DP_LOST_COUNTERS")])


def key_fields():
    """Fields of union dp_key, without padding."""
    body = re.search(r"union dp_key \{(.*?)\n\};", text("dp/key.h"), re.DOTALL)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    names = re.findall(r"^\s+(?:__u\d+|dp_be\d+|struct dp_vlan) (\w+)(?:\[\w+\])?;", body, re.MULTILINE)
    names += re.findall(r"^\s+__u\d+ (\w+)\[", body, re.MULTILINE)
    return sorted({name for name in names if name != "w" and not name.startswith("pad")})


def headers():
    """{name in dp/frame.h: whether a frame, of which the Ethernet type and what stands behind are given, has that header}."""
    found = {name: (lambda eth_type, _, value=int(value, 16): eth_type == value)
             for name, value in re.findall(r"^#define DP_(ETH_\w+) (0x\w{4})$", text("dp/frame.h"), re.MULTILINE)}
    for name, value in re.findall(r"^#define DP_(IP_\w+) (\d+)$", text("dp/frame.h"), re.MULTILINE):
        found[name] = lambda eth_type, ip, value=int(value): value in (ip[9] if eth_type == 0x0800 else -1,
                                                                       ip[6] if eth_type == 0x86dd else -1)
    return found


def options():
    listed = re.search(r"\"xdp-mode\",[^}]*", text("ovs/netdev/netdev_xdp_options.c"))[0]
    read = re.findall(r"smap_get\w*\(other_config, \"(xdp-[\w-]+)\"", re.sub(r"\(other_config,\s+", "(other_config, ",
                                                                            text("ovs/provider/config.c",
                                                                                 "ovs/provider/served.c")))
    return sorted({*re.findall(r'"(xdp-[\w-]+)"', listed), *read})


def parsed_groups():
    """Groups of keys that a program parses, or not: those of metadata have nothing to parse."""
    parser = text(*(str(path.relative_to(TOP)) for path in sorted((TOP / "dp").glob("parse*.h"))))
    return [name for name, _ in rows("dp/capability.h", "DP_KEY_GROUPS") if re.search(rf"\bDP_PART\({name}\)", parser)]


# Fields that dp/path*.h do not name, because they are compared with others of one word (source addresses), a microflow or its
# connections have them, or a packet of an established connection, which is no fragment, has none.
NOT_OF_PATHS = {
    "eth_src", "eth_type", "ip_proto", "ip_frag", "ip4_src", "ip4_dst", "ip6_src_hi", "ip6_src_lo", "ip6_dst", "tp_dst",
    "recirc_id", "dp_hash", "ct_state", "ct_zone", "ct_mark", "ct_label", "ct_proto", "ct_tp_src", "ct_tp_dst", "ct_ip4_src",
    "ct_ip4_dst", "ct_ip6_src", "ct_ip6_dst", "arp_hw0", "arp_hw1", "igmp_group", "mpls01", "mpls2", "nd_target", "nd_sll", "nd_tll",
    "nd_reserved", "tun_flags", "tun_id", "tun_tos", "tun_ttl", "tun_tp_src", "tun_tp_dst", "tun_ip4_src", "tun_ip4_dst",
    "tun_ip6_src", "tun_ip6_dst", "tun_options", "tun_options_len",
}

# Operations after which a packet still is that of the connection that its last ct() found: all others are in
# dp_ct_is_forgotten() of dp/ct_op.h.  SET_IP4 is both: it is there by DP_HAS_FIRST.
KEEP_THEIR_CONNECTION = {
    "SET_ETH", "PUSH_VLAN", "POP_VLAN", "SET_MPLS", "SET_IP4", "SET_IP6", "SET_ARP", "SET_ND", "SET_ND_EXT", "SET_MARK",
    "SET_PRIORITY", "TRUNC", "HASH", "CT_CLEAR", "METER", "OUTPUT", "TNL_PUSH", "TNL_PUSH_CSUM", "TNL_POP", "TNL_POP_GENEVE", "CT",
    "CHECK_LEN", "TNL_SET", "SAMPLE",
}


def hooks(named=True):
    """The hooks of enum dpif_xdp_hook as their constants; those that users can set, by their words."""
    body = re.search(r"enum dpif_xdp_hook \{(.*?)\n\};", text("ovs/netdev/netdev_xdp.h"), re.DOTALL)[1]
    if named:
        return [name for name in re.findall(r"^    DPIF_XDP_HOOK_(\w+),", body, re.MULTILINE) if name != "EITHER"]
    return re.findall(r"^    DPIF_XDP_HOOK_(\w+),(?! *\n? */\* No option)", body, re.MULTILINE)


def links_at_devices():
    """What pins of links at devices, and of programs of filters there, are called before the device's number."""
    return sorted(set(re.findall(r'"(\w+)-%d"', text(*(str(path.relative_to(TOP))
                                                     for path in sorted((TOP / "core/programs").glob("*.c")))))))


# System tests that go through all hooks by a list.  A restart is not tested with two hooks at one port.
THROUGH_HOOKS = ("tiers", "test_trace", "test_mtu", "test_option_changes", "test_ct_programs", "test_redirect", "test_restart")


def hooks_through(test):
    return [name.lower() for name in hooks(False) if name != "AUTO" and (name, test) != ("BOTH", "test_restart")]


@pytest.mark.parametrize("what, names, where, pattern", [
    ("a specialised program leaves out a group that flows need", parsed_groups(), ["core/tables/need.c"], r"\bDP_PART\({}\)"),
    ("a hook has no name", hooks(), ["ovs/netdev/netdev_xdp_options.c"], r"\[DPIF_XDP_HOOK_{}\] ="),
    ("a hook is not among those that xdp-hook allows", [name.lower() for name in hooks(False)],
     ["ovs/netdev/netdev_xdp_options.c"], r"\"xdp-hook\", value, [^;]*\b{}\b"),
    ("a hook is not among those that other_config:xdp-hook allows", [name.lower() for name in hooks(False)],
     ["ovs/provider/config.c"], r"expected [^;]*\b{}\b"),
    *((f"{test}.py does not have a hook in its list", hooks_through(test), [f"tests/system/{test}.py"], '"{}"')
      for test in THROUGH_HOOKS),
    ("a link at a device has no kind: its pin goes when a daemon starts, and the link with it", links_at_devices(),
     ["core/programs/pin.c"], r'\{{ "{}-", PIN_'),
    ("a hook is not in configuration.md", [name.lower() for name in hooks(False)], ["docs/reference/configuration.md"], r"`{}`"),
    ("a hook is not in the man page", [name.lower() for name in hooks(False)], ["docs/ovs-vswitchd-xdp.8"], r"(?m)^\.B {}$"),
    ("no action is compiled to it", operations(), COMPILER, r"\bDP_OP_{}\b"),
    ("nobody says whether its packet still is of the connection that the last ct() found: dp_ct_is_forgotten(), or "
     "KEEP_THEIR_CONNECTION in tests/test_recipes.py", [name for name in operations() if name not in KEEP_THEIR_CONNECTION],
     ["dp/ct_op.h"], r"\bDP_OP_{}\b"),
    ("the path cache does not compare a field: a packet that differs in it would be done like the others",
     [name for name in key_fields() if name not in NOT_OF_PATHS], ["dp/path.h", "dp/path_learn.h"], r"\b{}\b"),
    ("coverage/show lacks a drop of programs", program_drops(), ["ovs/provider/drop_coverage.c"], r"\bDP_COUNTER_{}\b"),
    ("coverage/show lacks a drop of the engine", [name for name, _ in rows("ovs/datapath/datapath.h", "DPIF_XDP_DROPS")],
     ["ovs/provider/drop_coverage.c"], r"\bDPIF_XDP_DROP_{}\b"),
    ("no flow uses this group of keys", [name for name, _ in rows("dp/capability.h", "DP_KEY_GROUPS")],
     ["ovs/fastpath/compile_key.c"], r"\bDP_KEY_GROUP_{}\b"),
    ("xdp/dump-masks does not show a field", key_fields(), ["core/tables/mask_text.c"], r"(FIELD|PART|dp_key,)[( ]*{}\b"),
    ("not in configuration.md", options(), ["docs/reference/configuration.md"], r"`{}`"),
    ("not in the man page", [name.replace("-", r"\\\-") for name in options()], ["docs/ovs-vswitchd-xdp.8"], r":{}\b"),
    ("not in NEWS", options(), ["NEWS"], r"\b{}\b"),
], ids=lambda value: value.replace(" ", "-") if isinstance(value, str) and " " in value else "")
def test_nothing_is_forgotten(what, names, where, pattern):
    """CONTRIBUTING.md, "Recipes", has what else belongs to it."""
    assert names
    missing = forgotten(names, where, pattern)
    assert not missing, f"{what}: {', '.join(missing)} is not in {', '.join(where)} (CONTRIBUTING.md, Recipes)"


def sentences(header, macro):
    """{name: texts of its row} of an X-macro list whose rows have several lines."""
    body = re.search(rf"#define {macro}\(X\)((?:.*\\\n)*.*\n)", text(header))[1]
    found = re.findall(r"\bX\((\w+),((?:[^()\"]|\"[^\"]*\"|\(\w+\))*)\)", body.replace("\\\n", "\n"))
    return {name: ["".join(re.findall(r'"([^"]*)"', part)) for part in re.split(r'(?<="),\s*\n', rest)] for name, rest in found}


@pytest.mark.parametrize("header, macro", [("ovs/ports/hook.c", "HOOK_REASONS"), ("ovs/fastpath/compile.h", "DPIF_XDP_COMPILE_REASONS"),
                                           ("ovs/fastpath/fastpath_private.h", "DPIF_XDP_FASTPATH_REASONS")])
def test_every_reason_has_two_sentences(header, macro):
    """What xdp/why says: the reason, and what would have to change; one sentence each."""
    found = sentences(header, macro)
    assert len(found) >= 9 and [name for name, _ in rows(header, macro)] == [name for name in found if name != "NAME"]
    for name, texts in found.items():
        if name != "OK":
            assert len(texts) == 2 and all(len(part) > 10 and not re.search(r"\. |\.$", part) for part in texts), (name, texts)


@pytest.mark.parametrize("corpus", ["parse", "actions"])
def test_oracle_meets_every_header(corpus):
    """tests/parity compares with Open vSwitch over mutations of the corpora: what no input has, it does not compare."""
    inputs = [path.read_bytes() + bytes(20) for path in (TOP / "tests/fuzz/corpus" / corpus).iterdir()]
    frames = [(int.from_bytes(data[start + 12:start + 14], "big"), data[start + 14:])
              for data in inputs for start in range(0, min(len(data) - 34, 80))]     # Actions stand before the frame.
    lacking = [name for name, has in headers().items() if not any(has(*frame) for frame in frames)]
    assert len(headers()) > 12
    assert not lacking, \
        f"no input in tests/fuzz/corpus/{corpus} has DP_{', DP_'.join(lacking)}: add one (CONTRIBUTING.md, A match field)"


def test_a_forgotten_place_is_seen():
    assert forgotten(["CT_CLEAR", "FLY"], COMPILER, r"\bDP_OP_{}\b") == ["FLY"]
