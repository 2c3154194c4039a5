# SPDX-License-Identifier: Apache-2.0
"""options:xdp-obj: a user's own build of the program.

    red == to-red [ own program ] == green        what the program leaves out, the engine executes

Flows of other ports run as before.  An object that cannot be used is refused with the reason, and nothing changes.
"""
import re
import shutil

import pytest

import lab
import switch as switches
import traffic
import wire
import xdp

HOOK = "xdp"
RED = "02:00:00:00:00:01"
BUILD = switches.TOP / "scripts/ovs-xdp-obj"

# Programs of users: the one of docs/how-to/custom-programs.md, and others by what is wrong with them.
SOURCES = {
    "no-program": '#define OXDP_OWN_ENTRY\n#include "bpf/xdp.bpf.c"\n'
                  'SEC("xdp")\nint other_name(struct xdp_md *ctx) { return datapath(ctx); }\n',
    "not-xdp": '#define OXDP_OWN_ENTRY\n#include "bpf/xdp.bpf.c"\n'
               'SEC("tc")\nint oxdp_xdp(struct __sk_buff *skb) { return 0; }\n',
    "unsafe": '#define OXDP_OWN_ENTRY\n#include "bpf/xdp.bpf.c"\n'
              'SEC("xdp")\nint oxdp_xdp(struct xdp_md *ctx) { return *(int *) (long) ctx->data; }\n',
    "tables": '#include "dp/table.h"\n#undef DP_TABLE_VERSION\n#define DP_TABLE_VERSION 999\n#include "bpf/xdp.bpf.c"\n',
    "records": '#include "dp/record.h"\n#undef DP_RECORD_VERSION\n#define DP_RECORD_VERSION 998\n'
               '#include "bpf/xdp.bpf.c"\n',
    "mute": '#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\nchar LICENSE[] SEC("license") = "GPL";\n'
            'SEC("xdp")\nint oxdp_xdp(struct xdp_md *ctx) { return XDP_PASS; }\n',
    "filter": re.search(r"\n\n(    #define OXDP_OWN_ENTRY\n.*?\n    }\n)", (switches.TOP / "docs/how-to/custom-programs.md").read_text(
        encoding="utf-8"), re.DOTALL)[1],
    # Two members of the same size change places.
    "member": re.sub(r"(struct dp_stats \{\n)([^\n]* packets;\n)([^\n]* bytes;[^\n]*\n)", r"\1\3\2", (
        switches.TOP / "dp/table.h").read_text(encoding="utf-8")) + '#include "bpf/xdp.bpf.c"\n',
    "maps": '#include <linux/bpf.h>\n#define BPF_MAP_TYPE_DEVMAP BPF_MAP_TYPE_DEVMAP_HASH\n'
            '#include "bpf/xdp.bpf.c"\n',
}


@pytest.fixture(autouse=True)
def _only_xdp():
    if switches.DATAPATH != "xdp":
        pytest.skip("only ours takes programs of users")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("objects")


@pytest.fixture(scope="module")
def objects(folder):
    """Builds objects, each once: objects("trimmed", "--only", "ip4,arp") is the path of the file."""
    def build(name, *arguments):
        path = folder / f"{name}.o"
        if not path.exists():
            if name in SOURCES:
                source = folder / f"{name}.c"
                source.write_text(SOURCES[name], encoding="utf-8")
                arguments = ("--source", source)
            lab.run(BUILD, *arguments, "-o", path)
        return path
    return build


def use(switch, device, file):
    switch.vsctl("set", "interface", device, f"options:xdp-obj={file}")
    lab.wait_until(lambda: (switch.status(device) or {}).get("xdp-obj") == str(file), f"{file} in use")


def stop_using(switch, device):
    switch.vsctl("remove", "interface", device, "options", "xdp-obj")
    lab.wait_until(lambda: "xdp-obj" not in switch.status(device), "the datapath's own program in use")


def count(switch, device, what):
    section = switch.appctl("xdp/stats").split(f": {device}\n")[1].split("\n  port ")[0]
    return int(re.search(rf"{what}[^:]*: (\d+)", section)[1])


def program(switch, file):
    """What xdp/show says about the program of 'file': its lines."""
    return re.search(rf"program: [^\n]*, of {re.escape(str(file))}\n((    .*\n)*)", switch.appctl("xdp/show"))[1]


def test_trimmed_under_traffic(network, objects):
    """IPv4 alone, exchanged while datagrams flow: none is lost, the rest is handled by the engine."""
    switch = network.switch
    trimmed = objects("trimmed", "--only", "ip4,arp,set-eth")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    traffic.wait_for_ping(network.red, "fc00::2")
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        stream.flowing()
        before = xdp.attached("to-red")
        use(switch, "to-red", trimmed)
        assert xdp.attached("to-red") != before
        stream.flowing()

        shown = program(switch, trimmed)
        assert "parses: Ethernet addresses and type; IPv4 and its transport headers; ARP\n" in shown
        assert "executes: set Ethernet addresses\n" in shown
        assert f"xdp-obj={trimmed}" in switch.appctl("xdp/show")

        up = count(switch, "to-red", "handed to the engine: headers beyond")
        assert traffic.ping(network.red, "fc00::2", count=5) == 5
        with wire.Wire(network.red) as red, wire.Wire(network.green) as seen:
            frame = wire.udp_frame(RED, lab.mac_of(network.green), b"tagged", tags=(7,))
            red.send(*[frame] * 5)
            assert [got for got in seen.receive(lambda got: b"tagged" in got, 5)] == [frame] * 5
        assert count(switch, "to-red", "handed to the engine: headers beyond") >= up + 10
        stream.flowing()
        port = switch.dp_port("to-red")
        flows = [flow for flow in switch.dump_flows("-m") if f"in_port(to-red)" in flow or f"in_port({port})" in flow]
        assert any("eth_type(0x0800)" in flow and "offloaded:yes, dp:xdp" in flow for flow in flows)
        assert not any("eth_type(0x86dd)" in flow and "dp:xdp" in flow for flow in flows)

        stop_using(switch, "to-red")
        stream.flowing()
        assert stream.lost() == 0
    assert f"of {trimmed}" not in switch.appctl("xdp/show")


def test_actions_left_out(network, objects):
    """One rule, two ports, two programs: both rewrite alike, one of them through the engine."""
    switch = network.switch
    use(switch, "to-red", objects("no-set", "--without", "set-eth,set-ip4"))
    switch.flows("br0", "in_port=to-red,udp,actions=mod_dl_src:02:00:00:00:00:77,mod_nw_dst=10.0.0.9,output:to-blue",
                 "in_port=to-green,udp,actions=mod_dl_src:02:00:00:00:00:77,mod_nw_dst=10.0.0.9,output:to-blue",
                 "actions=drop")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as green, wire.Wire(network.blue) as blue:
        def exchange():
            for end, name in (red, b"from red"), (green, b"from green"):
                end.send(*[wire.udp_frame(RED, lab.mac_of(network.blue), name)] * 5)
                frames = blue.receive(lambda got, name=name: name in got, 5)
                assert len(frames) == 5
                assert {(got[6:12].hex(), got[30:34].hex()) for got in frames} == {("020000000077", "0a000009")}
                assert all(wire.checksums_valid(got) for got in frames)

        def in_xdp(device):
            flows = [flow for flow in switch.dump_flows("-m") if f"in_port({device})" in flow and "0x0800" in flow]
            assert flows
            return all("offloaded:yes, dp:xdp" in flow for flow in flows)

        switch.appctl("revalidator/pause")      # Flows stay: it is the program that changes.
        try:
            exchange()
            assert in_xdp("to-green") and not in_xdp("to-red")
            stop_using(switch, "to-red")
            assert in_xdp("to-green") and in_xdp("to-red")
            exchange()
            use(switch, "to-red", objects("no-set", "--without", "set-eth,set-ip4"))
            assert in_xdp("to-green") and not in_xdp("to-red")
            exchange()
        finally:
            switch.appctl("revalidator/resume")


REFUSALS = {
    "missing": r"missing\.o: cannot open it \(No such file or directory\)",
    "folder": r"it is not a regular file",
    "text": r"text\.o: it is not an ELF object",
    "host": r"it is not a BPF object",
    "half": r"half\.o: it is not a whole BPF object; libbpf says: ",
    "no-program": r"it has no program 'oxdp_xdp'",
    "not-xdp": r"its program 'oxdp_xdp' is not an XDP program",
    "mute": r"it does not say what it can do",
    "tables": r"it was built for tables of version 999, this is version \d+: build it again",
    "records": r"it was built for records of version 998, this is version \d+: build it again",
    "member": r"its tables have another layout than those of this version, first at stats\.packets: build it again",
    "maps": r"its map 'outputs' .* is not like that of this version .*: build it again",
    "unsafe": r"the kernel's verifier refuses it \(Permission denied\): .*invalid access to packet",
}


@pytest.fixture(scope="module")
def bad_objects(objects, folder):
    """Files by what is wrong with them: the keys of REFUSALS."""
    files = {kind: folder / f"{kind}.o" for kind in REFUSALS}
    files["folder"].mkdir()
    files["text"].write_text("not a program" * 10, encoding="utf-8")
    shutil.copy("/bin/true", files["host"])
    whole = objects("trimmed", "--only", "ip4,arp,set-eth").read_bytes()
    files["half"].write_bytes(whole[:len(whole) // 2])
    for kind in SOURCES:
        objects(kind)
    return files


def test_refused_when_added(network, bad_objects):
    """A port asks for a program that cannot be used: it has the switch's, and "error" says why."""
    switch = network.switch
    switch.expected += ["to-extra"]
    extra = network.plug("extra")
    lab.add_addresses(extra, "eth0", "10.0.0.9/24")
    for kind, reason in REFUSALS.items():
        switch.vsctl("add-port", "br0", "to-extra", "--", "set", "interface", "to-extra",
                     f"options:xdp-obj={bad_objects[kind]}")
        error = lab.wait_until(lambda: switch.error("to-extra"), f"an error: {kind}")
        assert re.search(reason, error) and error.endswith("; the program of the datapath is used"), error
        assert switch.ofport("to-extra") > 0 and xdp.attached("to-extra")
        traffic.wait_for_ping(network.red, "10.0.0.9")
        switch.vsctl("del-port", "to-extra")
    switch.add_port("to-extra", interface=("options:xdp-obj=builtin",))
    assert xdp.attached("to-extra")


def test_file_that_comes_later(network, objects, folder):
    """The port takes the program when it is there, by itself."""
    switch = network.switch
    switch.expected += ["to-extra"]
    extra = network.plug("extra")
    lab.add_addresses(extra, "eth0", "10.0.0.9/24")
    late = folder / "late.o"
    switch.vsctl("add-port", "br0", "to-extra", "--", "set", "interface", "to-extra", f"options:xdp-obj={late}")
    assert "No such file" in lab.wait_until(lambda: switch.error("to-extra"), "an error")
    traffic.wait_for_ping(network.red, "10.0.0.9")
    shutil.copy(objects("trimmed", "--only", "ip4,arp,set-eth"), late)
    lab.wait_until(lambda: switch.status("to-extra").get("xdp-obj") == str(late), "the program in use")
    lab.wait_until(lambda: not switch.error("to-extra"), "no more error")


def test_refused_later(network, bad_objects):
    """A port that works is told to use such a program: it goes on as it was, and "error" says why."""
    switch = network.switch
    switch.expected += ["to-red"]
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        stream.flowing()
        for kind, reason in REFUSALS.items():
            switch.vsctl("set", "interface", "to-red", f"options:xdp-obj={bad_objects[kind]}")
            error = lab.wait_until(lambda kind=kind: (found := switch.error("to-red")) and f"{kind}.o" in found and found,
                                   f"an error: {kind}")
            assert re.search(reason, error) and error.endswith("; the program of the datapath is used"), error
            assert switch.status("to-red")["xdp-error"] == error and switch.ofport("to-red") > 0
            assert "xdp-obj" not in switch.status("to-red") and xdp.attached("to-red")
            stream.flowing()
        switch.vsctl("set", "open", ".", "external_ids:other=thing")    # The bridges are configured anew.
        assert switch.error("to-red") == error
        switch.vsctl("remove", "interface", "to-red", "options", "xdp-obj")
        lab.wait_until(lambda: not switch.error("to-red"), "no more error")
        stream.flowing()
        assert stream.lost() == 0


def test_not_a_path(network):
    network.switch.expected += ["to-extra"]
    network.plug("extra")
    network.switch.vsctl("add-port", "br0", "to-extra", "--", "set", "interface", "to-extra",
                         "options:xdp-obj=trimmed.o", check=False)
    error = lab.wait_until(lambda: network.switch.error("to-extra"), "an error")
    assert "xdp-obj=trimmed.o: unsupported value, expected the absolute path of a BPF object, or builtin" in error


def test_restart(network, objects):
    """The program goes on without the daemon, and the next daemon has it again."""
    switch = network.switch
    trimmed = objects("trimmed", "--only", "ip4,arp,set-eth")
    use(switch, "to-red", trimmed)
    with traffic.Stream(network.red, network.green, "10.0.0.2") as stream:
        stream.flowing()
        switch.crash()
        stream.flowing()
        switch.start()
        lab.wait_until(lambda: any("took over" in line for line in switch.log()), "devices to be taken over")
        lab.wait_until(lambda: (switch.status("to-red") or {}).get("xdp-obj") == str(trimmed), f"{trimmed} in use")
        stream.flowing()
    assert program(switch, trimmed)
    traffic.wait_for_ping(network.red, "fc00::2")
    assert count(switch, "to-red", "handed to the engine: headers beyond") > 0


def test_of_the_whole_switch(network, objects):
    """other_config:xdp-obj is for ports that do not say anything else."""
    switch = network.switch
    trimmed = objects("trimmed", "--only", "ip4,arp,set-eth")
    switch.vsctl("set", "interface", "to-blue", "options:xdp-obj=builtin")
    switch.vsctl("set", "open", ".", f"other_config:xdp-obj={trimmed}")
    for device in "to-red", "to-green":
        lab.wait_until(lambda device=device: switch.status(device).get("xdp-obj") == str(trimmed), f"{trimmed} in use")
    assert "xdp-obj" not in switch.status("to-blue")
    traffic.wait_for_ping(network.red, "10.0.0.2")
    traffic.wait_for_ping(network.blue, "fc00::2")
    switch.vsctl("remove", "open", ".", "other_config", "xdp-obj")
    for device in "to-red", "to-green":
        lab.wait_until(lambda device=device: "xdp-obj" not in switch.status(device), "the datapath's own program in use")


def test_own_code(network, objects):
    """The example of the documentation: a filter before the datapath."""
    switch, green = network.switch, lab.mac_of(network.green)
    use(switch, "to-red", objects("filter"))
    switch.flows("br0", "in_port=to-red,actions=output:to-green", "actions=drop")
    with wire.Wire(network.red) as red, wire.Wire(network.green) as seen:
        lldp = wire.mac(green) + wire.mac(RED) + bytes.fromhex("88cc") + b"LLDP" * 20
        other = wire.mac(green) + wire.mac(RED) + bytes.fromhex("88cd") + b"else" * 20
        red.send(*[lldp, other] * 5)
        assert len(seen.receive(lambda got: b"else" in got, 5)) == 5
        stop_using(switch, "to-red")
        red.send(lldp)
        assert seen.receive(lambda got: got[12:14] in (b"\x88\xcc", b"\x88\xcd"), 1) == [lldp]


def test_rebuilt(network, objects, folder):
    """A file that was built again is read again when it is asked for again; what runs does not care about the file."""
    switch = network.switch
    file = folder / "mine.o"
    shutil.copy(objects("trimmed", "--only", "ip4,arp,set-eth"), file)
    use(switch, "to-red", file)
    file.unlink()
    traffic.wait_for_ping(network.red, "10.0.0.2")
    lab.wait_until(lambda: switch.appctl("xdp/specialise").strip().endswith("done"), "flows need nothing new meanwhile")
    traffic.wait_for_ping(network.red, "fc00::2")
    shutil.copy(objects("no-set", "--without", "set-eth,set-ip4"), file)
    stop_using(switch, "to-red")
    use(switch, "to-red", file)
    assert "MPLS labels" in program(switch, file)


def test_at_tcx(network, objects):
    """A program of one's own means XDP, unless tcx was asked for: then it has no effect, and status says so."""
    switch = network.switch
    trimmed = objects("trimmed", "--only", "ip4,arp,set-eth")
    switch.vsctl("remove", "open", ".", "other_config", "xdp-hook")
    lab.wait_until(lambda: switch.status("to-red")["xdp-hook"] == "tcx", "tcx")
    use(switch, "to-red", trimmed)
    assert switch.status("to-red")["xdp-hook"] == "xdp"
    traffic.wait_for_ping(network.red, "10.0.0.2")
    switch.vsctl("set", "interface", "to-red", "options:xdp-hook=tcx")
    lab.wait_until(lambda: "xdp-obj has no effect" in switch.status("to-red").get("xdp-warning", ""), "a warning")
    assert "xdp-obj" not in switch.status("to-red")
    traffic.wait_for_ping(network.red, "10.0.0.2")
