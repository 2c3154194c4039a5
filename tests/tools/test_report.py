# SPDX-License-Identifier: Apache-2.0
"""ovs-xdp-report: what is in it, what must not be, and that it ends whatever hangs."""
import importlib.machinery
import importlib.util
import ipaddress
import json
import os
import pathlib
import platform
import re
import signal
import stat
import tarfile
import time

import pytest

import lab
import switch as switches
import traffic

REPORT = pathlib.Path(os.environ.get("OXDP_REPORT", switches.TOP / "tools/report/ovs-xdp-report"))

KEY = "c2VjcmV0IGtleSBvZiBub2JvZHkgYXQgYWxs4Gq7"
SECRETS = {
    "psk": "swordfish-psk", "ipsec-password": "hunter2hunter2", "snmp-community": "not-public", "api_key": "ApiKeyValue77",
    "x-auth-token": "tok-12345", "cookie-hex": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "blob": KEY,
}
LOGGED = {
    "password=logged-pw-1 and more": "logged-pw-1",
    '{"secret": "logged-pw-2", "x": 1}': "logged-pw-2",
    "GET https://admin:logged-pw-3@controller/": "logged-pw-3",
    "Authorization: Bearer logged-pw-4-abcdef": "logged-pw-4-abcdef",
    f"key is {KEY}": KEY,
    "-----BEGIN PRIVATE KEY-----\nMIIBlogged5\nMIIBlogged6\n-----END PRIVATE KEY-----": "MIIBlogged5",
}


def report(tmp_path, *args, env=None, name="r.tar.gz"):
    """Runs the program and returns name -> text of what is in its file."""
    path = tmp_path / name
    lab.run(REPORT, "-o", path, *args, env=env)
    with tarfile.open(path) as archive:
        return {member.name.split("/", 1)[1]: archive.extractfile(member).read().decode() for member in archive}


def of(running, *more):
    return ("--target", running.rundir / "ovs-vswitchd.ctl", "--database", f"unix:{running.rundir}/db.sock", "--log-file",
            running.log_path, "--database-file", running.rundir / "conf.db", *more)


@pytest.fixture
def red():
    """Before the switch in a test's arguments, so that it ends after that."""
    with lab.Namespace("red") as namespace:
        lab.make_veth("to-red", namespace)
        lab.add_addresses(namespace, "eth0", "192.168.77.2/24")
        yield namespace


@pytest.fixture
def running():
    with switches.Switch() as switch:
        switch.env["PATH"] = f"{pathlib.Path(switches.tool('ovsdb-tool')).parent}:{switch.env['PATH']}"
        yield switch


@pytest.fixture
def masks():
    loader = importlib.machinery.SourceFileLoader("report", str(REPORT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("report", loader))
    loader.exec_module(module)
    return module.Mask


def bridge_with_host(running):
    running.add_bridge("br0")
    running.add_port("to-red")
    lab.run("ip", "link", "set", "br0", "up")
    lab.add_addresses(lab.Namespace(), "br0", "192.168.77.1/24", "fd77:7777::1/64")


def test_what_is_in_it(red, running, tmp_path):
    bridge_with_host(running)
    traffic.wait_for_ping(red, "192.168.77.1")
    found = report(tmp_path, *of(running), env=running.env)
    assert stat.S_IMODE((tmp_path / "r.tar.gz").stat().st_mode) == 0o600
    assert "to-red" in found["appctl/xdp-show.txt"]
    assert "nothing was changed" in found["check.txt"] and f"pid {running.process.pid}" in found["check.txt"]
    assert {row["name"] for row in json.loads(found["database.json"])["Bridge"]} == {"br0"}
    assert "bridge br0: added interface to-red" in found["log.txt"]
    assert re.search(r"^prog .*oxdp_tcx", found["bpf.txt"], re.MULTILINE) and re.search("^map ", found["bpf.txt"], re.MULTILINE)
    assert re.search(r"^link ", found["bpf.txt"], re.MULTILINE)
    assert "to-red" in found["link.txt"] and "driver: veth" in found["devices.txt"]
    assert "NORMAL" in found["openflow.txt"]
    assert re.search(r"CONFIG_BPF_SYSCALL=y|not collected: the kernel's configuration", found["kernel-config.txt"])
    assert "ovs-vswitchd" in found["processes.txt"] and platform.release() in found["versions.txt"]
    for name in "coverage-show", "memory-show", "dpctl-show", "dpctl-dump-flows", "xdp-stats", "version":
        assert len(found[f"appctl/{name}.txt"].splitlines()) > 1 and "not collected" not in found[f"appctl/{name}.txt"]
    assert set(re.findall(r"^(\S+): \d+ characters", found["index.txt"], re.MULTILINE)) == set(found) - {"index.txt"}


def test_planted_secrets_are_not_in_it(red, running, tmp_path):
    running.add_bridge("br0")
    pairs = [f"{key}={value}" for key, value in SECRETS.items()]
    running.vsctl("set", "open", ".", *(f"external_ids:{pair}" for pair in pairs), *(f"other_config:{pair}" for pair in pairs))
    running.vsctl("set", "interface", "br0", *(f"external_ids:{pair}" for pair in pairs))
    running.vsctl("set", "bridge", "br0", *(f"other_config:{pair}" for pair in pairs), "external_ids:harmless=stays-here")
    # IPsec's, which Open vSwitch takes from a tunnel, and what a device's port does not know and complains of.
    running.vsctl("add-port", "br0", "tun0", "--", "set", "interface", "tun0", "type=vxlan", "options:remote_ip=192.0.2.1",
                  "options:psk=swordfish-psk")
    running.vsctl("add-port", "br0", "to-red", "--", "set", "interface", "to-red", "options:psk=swordfish-psk",
                  'options:password="three plain words"', f"options:blob=0x{SECRETS['cookie-hex']}")
    lab.wait_until(lambda: "plain words" in running.appctl("xdp/show"), "a complaint")
    running.vsctl("set-ssl", "/secret/key-of-ssl.pem", "/secret/cert.pem", "/secret/ca.pem")
    running.expected += ["SSL|ssl|private key|pem|unknown|xdp-|tun0"]
    for line in LOGGED:
        running.appctl("vlog/set", "file:info")
        with open(running.log_path, "a", encoding="utf-8") as log:
            log.write(f"2026-01-01T00:00:00Z|1|x|INFO|{line}\n")
    found = report(tmp_path, *of(running), env=running.env)
    everything = "\n".join(found.values())
    for secret in [*SECRETS.values(), *LOGGED.values(), "MIIBlogged6", "key-of-ssl.pem", "plain words"]:
        assert secret not in everything, [name for name, text in found.items() if secret in text]
    assert "stays-here" in found["database.json"] and "psk" in found["database.json"]
    assert "password=*** and more" in found["log.txt"]


def test_nobody_runs(tmp_path):
    """Then the database is read from its file."""
    running = switches.Switch()
    try:
        running.start_database()
        running.vsctl("--no-wait", "set", "open", ".", "external_ids:password=swordfish", "external_ids:harmless=stays-here")
        running._database.close()
        env = {**running.env, "PATH": f"{pathlib.Path(switches.tool('ovsdb-tool')).parent}:{running.env['PATH']}"}
        found = report(tmp_path, *of(running), env=env)
    finally:
        running.close()
    assert "stays-here" in found["database.json"] and "swordfish" not in "".join(found.values())
    assert "exit status 1" in found["appctl/version.txt"] and "not collected" in found["openflow.txt"]


def test_daemon_that_hangs(running, tmp_path):
    running.add_bridge("br0")
    running.expected.append("blocked|unixctl|jsonrpc")
    os.kill(running.process.pid, signal.SIGSTOP)
    try:
        since = time.monotonic()
        found = report(tmp_path, *of(running, "--limit", "2", "--total", "8"), env=running.env)
        assert time.monotonic() - since < 50
    finally:
        os.kill(running.process.pid, signal.SIGCONT)
    assert "br0" in found["database.json"] and "br0" in found["log.txt"]
    assert re.search("stopped: no end within 2 s|exit status|Alarm", found["appctl/xdp-show.txt"])
    assert f"{running.process.pid} ovs-vswitchd-xd" in found["processes.txt"]


def test_machine_without_open_vswitch(tmp_path):
    found = report(tmp_path, env={"PATH": "/usr/bin:/bin", "OVS_RUNDIR": str(tmp_path), "OVS_LOGDIR": str(tmp_path),
                                  "OVS_DBDIR": str(tmp_path)})
    assert "accepts the switch's XDP program" in found["check.txt"]
    assert found["log.txt"].startswith("not collected: ") and "not collected" in found["openflow.txt"]


def test_crash_in_an_old_log(tmp_path):
    log = tmp_path / "ovs-vswitchd.log"
    log.write_text("a quiet day\n")
    (tmp_path / "ovs-vswitchd.log.1").write_text("before\nSIGSEGV detected, backtrace:\n0x01 oxdp_programs_free+0x1\n")
    found = report(tmp_path, "--log-file", log)
    assert "oxdp_programs_free" in found["log-trouble.txt"] and "a quiet day" not in found["log-trouble.txt"]


def test_addresses_are_exchanged(red, running, tmp_path):
    bridge_with_host(running)
    traffic.wait_for_ping(red, "192.168.77.1")
    running.flows("br0", "ip,nw_src=192.168.77.2,actions=NORMAL", "priority=0,actions=NORMAL")
    secret = [lab.mac_of(lab.Namespace(), "br0"), lab.mac_of(lab.Namespace(), "to-red"), "192.168.77.", "fd77:7777"]
    plain = "\n".join(report(tmp_path, *of(running), env=running.env).values())
    found = report(tmp_path, *of(running, "--anonymise"), env=running.env, name="anonymous.tar.gz")
    everything = "\n".join(found.values())
    for text in secret:
        assert text in plain
        assert text not in everything, [name for name, said in found.items() if text in said]
    assert not re.search(rf"(?<![\w-]){platform.node()}(?![\w-])", everything)
    assert "127.0.0.1/8" in found["address.txt"] and "ff:ff:ff:ff:ff:ff" in found["link.txt"]


def test_the_same_address_is_always_the_same_other(masks):
    mask = masks(anonymise=True)
    exchange = mask.text
    one, other = exchange("10.1.2.3 10.1.2.3").split()
    assert one == other != "10.1.2.3"
    near, far = (ipaddress.ip_address(exchange(text)) for text in ("10.1.2.4", "10.99.2.3"))
    first = int(ipaddress.ip_address(one))
    assert first >> 8 == int(near) >> 8                             # The same subnet.
    assert first >> 24 == int(far) >> 24 and first >> 8 != int(far) >> 8
    assert exchange("nw_src=10.1.2.3/255.255.255.0").endswith("/255.255.255.0")
    for text in "ipv6_src=fd00::1", "remote:fd00::1:", "[fd00::1]:6640", "bad:fd00::1", "addr:aa:bb:cc:dd:ee:02":
        assert "fd00::1" not in exchange(text) and "aa:bb" not in exchange(text)
    assert exchange("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00") == "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"
    for text in "127.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", \
            "::1", "::", "ff02::1", "3.1.0", "12:34:56", "6.18.44-1", "ffff:ffff::":
        assert exchange(text) == text


@pytest.mark.parametrize("text", [
    "ufid:8a5bd6e1-6e3c-4b3e-9c3d-0f1a2b3c4d5e,recirc_id(0),in_port(2),packets:5, actions:3", "CONFIG_DEBUG_INFO_BTF_MODULES_LONG_NAME9=y",
    "prog {'name': 'oxdp_xdp', 'tag': '0123456789abcdef'}", "tunnel key=1001", "xdp-flows=200000"])
def test_what_is_no_secret_stays(masks, text):
    assert masks(anonymise=False).text(text) == text


def test_file_that_exists_is_kept(tmp_path):
    path = tmp_path / "r.tar.gz"
    path.write_text("mine")
    said = lab.run(REPORT, "-o", path, check=False)
    assert "exists: name another file with -o" in said and path.read_text() == "mine"


def test_file_that_cannot_be_written():
    said = lab.run(REPORT, "-o", "/nonexistent/r.tar.gz", "--total", "0", check=False)
    assert "/nonexistent/r.tar.gz cannot be written (No such file or directory): name another file with -o" in said
