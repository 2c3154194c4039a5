# SPDX-License-Identifier: Apache-2.0
"""Manual pages: they render without a warning, and ovs-xdp.conf.db(5) has what the code's tables have, no more and no
less."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent
CONF_DB = TOP / "docs/ovs-xdp.conf.db.5"
# An entry of the page: \fBoptions:xdp\-hook\fR: optional string, one of auto, xdp, tcx, both; default auto
ENTRY = re.compile(r"^\\fB(\w+):([\w-]+)\\fR(?:: (.*))?$", re.MULTILINE)


def pages():
    return sorted(path for folder in ("docs", "tools") for path in (TOP / folder).rglob("*.[158]"))


def text(*names):
    return "\n".join((TOP / name).read_text(encoding="utf-8") for name in names)


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.name)
def test_page_renders_without_a_warning(page):
    """As lintian looks at it."""
    if not shutil.which("man"):
        pytest.skip("man is not installed: apt-get install man-db")
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"})
    assert not done.returncode and not done.stderr, done.stderr


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.name)
def test_page_is_named_as_it_says(page):
    """The name and section in its head, and the name that whatis(1) finds."""
    name, section = page.name.rsplit(".", 1)
    said = page.read_text(encoding="utf-8").replace("\\-", "-")
    assert f'.TH {name.upper()} {section} "" "OVS-XDP ' in said
    assert re.search(rf"^\.SH NAME\n{re.escape(name)} - ", said, re.MULTILINE)


def entries():
    """{column: {key: what stands behind it}} of the page."""
    found = {}
    for column, key, how in ENTRY.findall(CONF_DB.read_text(encoding="utf-8").replace("\\-", "-")):
        assert key not in found.setdefault(column, {}), f"{column}:{key} stands there twice"
        found[column][key] = how
    return found


def quoted(body):
    return set(re.findall(r'"([\w-]+)"', body))


def c_list(name, declaration):
    """The strings in the initialiser behind 'declaration' in a file."""
    return quoted(re.search(rf"{re.escape(declaration)} = \{{(.*?)\}};", text(name), re.DOTALL)[1])


def counters():
    """The Interface's statistics, as netdev_xdp_get_custom_stats() names them."""
    header = text("dp/counter.h")
    lists = re.search(r"#define DP_COUNTERS\(X\)((?:.*\\\n)*.*\n)", header)[1]
    names = re.findall(r"X\((\w+),", re.search(r"#define DP_REASONS\(X\)((?:.*\\\n)*.*\n)", text("dp/reason.h"))[1])
    for name in re.findall(r"\w+_COUNTERS", lists):
        names += re.findall(r"X\((\w+),", re.search(rf"#define {name}\(X\)((?:.*\\\n)*.*\n)", header)[1])
    left_out = re.findall(r"i == DP_COUNTER_(\w+)", text("ovs/netdev/netdev_xdp.c"))
    return {f"ovs_rx_{name.lower()}" for name in names if name not in left_out}


def keys_in_code():
    config = text("ovs/provider/config.c")
    status = text("ovs/netdev/netdev_xdp_status.c") + text("ovs/netdev/netdev_internal.c")
    return {
        "other_config": c_list("ovs/provider/config.c", "keys[]")
        | set(re.findall(r'smap_get\w*\(reading->config, "([\w-]+)"', config)),
        "options": c_list("ovs/netdev/netdev_xdp_options.c", "option_names[]")
        | c_list("ovs/netdev/netdev_xdp_options.c", "without_effect[]") - {"true"},
        "status": set(re.findall(r'smap_add\w*\(status, (?:xstrdup\()?"([\w-]+)"', status))
        | c_list("ovs/netdev/netdev_internal.c", "keys[]"),
        "statistics": counters(),
    }


@pytest.mark.parametrize("column", ["other_config", "options", "status", "statistics"])
def test_keys(column):
    there, code = set(entries()[column]), keys_in_code()[column]
    assert code
    assert there == code, f"only in {CONF_DB.name}: {sorted(there - code)}; only in the code: {sorted(code - there)}"


def test_page_has_no_other_columns():
    assert set(entries()) == set(keys_in_code())


def value_of(expression):
    """The number that a constant expression of the code stands for."""
    while name := re.search(r"\b[A-Z]\w+\b", expression):
        said = text("ovs/provider/config.c", "ovs/datapath/datapath.h", "core/ct/ct.h", "core/xsk/umem.h")
        defined, = re.findall(rf"^#define {name[0]} +(.*?) *(?:/\*.*)?$", said, re.MULTILINE)
        expression = expression.replace(name[0], f"({defined})")
    assert re.fullmatch(r"[\d\s()<*+u-]+", expression), expression
    return eval(expression.replace("u", ""))                # pylint: disable=eval-used


def test_numbers_have_the_limits_of_the_code():
    code = {key: tuple(map(value_of, limits)) for key, *limits in
            re.findall(r'get_number\(reading, "([\w-]+)",\s*(\w+),\s*(\w+),\s*(\w+),', text("ovs/provider/config.c"))}
    integer = re.compile(r"optional integer, from ([\d,]+) to ([\d,]+); default ([\d,]+)")
    said = {key: tuple(int(number.replace(",", "")) for number in found.groups())
            for key, how in entries()["other_config"].items() if (found := integer.fullmatch(how))}
    assert len(code) >= 3 and said == code


def words(key, column):
    """What the page allows for a key: one of ...; default ..."""
    found = re.search(r"one of ([^;]*)", entries()[column][key])
    return found[1].split(", ")


def test_words_are_those_of_the_code():
    """Values that the code has names for, with the default first, which is what an absent key means."""
    hooks = c_list("ovs/netdev/netdev_xdp_options.c", "hook_names[]")
    modes = c_list("core/programs/attach.c", "mode_names[]")
    for column in "options", "other_config":
        assert set(words("xdp-hook", column)) == hooks - {"none"} and words("xdp-hook", column)[0] == "auto"
    assert set(words("xdp-hook", "status")) == hooks - {"auto"}
    assert set(words("xdp-mode", "options")) == modes and words("xdp-mode", "options")[0] == "best-effort"
    assert set(words("xdp-mode", "status")) == modes - {"best-effort"} | {"none"}


def installed():
    """(folder, name) of what Meson installs as programs, and of the pages."""
    build = text("meson.build") + text("tools/meson.build")
    programs = set(re.findall(r"executable\('([\w-]+)'[^)]*?install: true", build))
    for files in re.findall(r"install_data\(([^)]*?)install_dir: get_option\('s?bindir'\)", build):
        programs |= {pathlib.Path(name).name for name in re.findall(r"'([\w/-]+)'", files)}
    listed = [pathlib.Path(name).name for files in re.findall(r"install_man\(([^)]*)\)", build)
              for name in re.findall(r"'(\S+?)'", files)]
    return programs, sorted(listed)


def test_every_program_has_a_page():
    programs, listed = installed()
    assert {"ovs-vswitchd-xdp", "ovs-xdp-check", "ovs-xdp-top", "ovs-xdp-obj"} <= programs
    assert programs == {name.rsplit(".", 1)[0] for name in listed if not name.endswith(".5")}
    assert listed == sorted(page.name for page in pages())
