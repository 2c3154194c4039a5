# SPDX-License-Identifier: Apache-2.0
"""Every dpctl command, with good and with malformed input: a clear answer or a clear error, never a crash.

Revalidators would delete flows that no OpenFlow rule explains, so they pause.
"""
import re

import pytest

import lab
import traffic
import wire

ETH = "eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15)"
IPV4 = f"{ETH},eth_type(0x0800),ipv4(src=35.8.2.41,dst=172.16.0.20,proto=%s,tos=0x80,ttl=128,frag=no)"
IPV6 = f"{ETH},eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0x5,proto=%s,tclass=0x70,hlimit=128,frag=no)"

OTHER = f"{ETH},eth_type(0x1234)"

KEYS = [
    OTHER,
    f"{ETH},eth_type(0x1234/0xfff0)",
    "eth(src=00:01:02:03:04:05/ff:ff:ff:ff:ff:f0,dst=10:11:12:13:14:15/01:00:00:00:00:00),eth_type(0x1234)",
    IPV4 % 5, IPV4 % "5/0xf0",
    f"{ETH},eth_type(0x0800),ipv4(src=35.8.2.41/255.255.255.0,dst=172.16.0.20/255.255.0.0,tos=0/0x3,frag=no)",
    f"{ETH},eth_type(0x0800),ipv4(proto=17,frag=first),udp(src=1,dst=2)",
    f"{ETH},eth_type(0x0800),ipv4(proto=17,frag=later)",
    IPV4 % 6 + ",tcp(src=80,dst=8080/0xff00),tcp_flags(+syn-ack)",
    IPV4 % 6 + ",tcp(src=80,dst=8080),tcp_flags(0x12)",
    IPV4 % 17 + ",udp(src=81,dst=6632)", IPV4 % 132 + ",sctp(src=82,dst=6633)", IPV4 % 1 + ",icmp(type=1,code=2)",
    IPV6 % 10, IPV6 % 6 + ",tcp(src=80,dst=8080)", IPV6 % 58 + ",icmpv6(type=1,code=2)",
    IPV6 % 58 + ",icmpv6(type=136,code=0),nd(target=::3,sll=00:05:06:07:08:09,tll=00:0a:0b:0c:0d:0e)",
    f"{ETH},eth_type(0x0806),arp(sip=1.2.3.4,tip=5.6.7.8,op=1,sha=00:0f:10:11:12:13,tha=00:14:15:16:17:18)",
    f"{ETH},eth_type(0x8847),mpls(label=100,tc=3,ttl=64,bos=1)",
    f"{ETH},eth_type(0x8848),mpls(label=100/0xff0,tc=7,ttl=64,bos=1)",
    f"{ETH},eth_type(0x8100),vlan(vid=99,pcp=7),encap(eth_type(0x0800),ipv4(proto=6,frag=no),tcp(src=80))",
    f"{ETH},eth_type(0x8100),vlan(vid=99/0xff0,pcp=7/0x6),encap(eth_type(0x1234))",
    f"skb_priority(0x1234),skb_mark(0x1234/0xfff0),dp_hash(0x5/0xff),{OTHER}",
    f"recirc_id(0x77),{OTHER}",
    f"ct_state(+trk+est),ct_zone(0x5),ct_mark(0x10305070/0xf0f0f0f0),ct_label(0x1234567890abcdef/0xff),{OTHER}",
    f"tunnel(tun_id=0x7f10354,src=10.10.10.10,dst=20.20.20.20,tos=0x8,ttl=64,flags(csum|key)),{OTHER}",
    f"tunnel(tun_id=0x1,src=1.1.1.1,dst=2.2.2.2,ttl=64,vxlan(gbp(id=10,flags=0xb)),flags(key)),{OTHER}",
    f"tunnel(tun_id=0x1,src=1.1.1.1,dst=2.2.2.2,ttl=64,geneve({{class=0,type=0,len=4,0xa/0xff}}),flags(key)),{OTHER}",
    f"tunnel(tun_id=0x1,ipv6_src=::1,ipv6_dst=::2,ttl=64,erspan(ver=1,idx=0x7),flags(df|key)),{OTHER}",
]

TUNNEL_HEADER = ("tnl_push(tnl_port({port}),header(size=50,type=4,eth(dst=f8:bc:12:44:34:b6,src=f8:bc:12:46:58:e0,"
                 "dl_type=0x0800),ipv4(src=1.1.2.88,dst=1.1.2.92,proto=17,tos=0,ttl=64,frag=0x4000),"
                 "udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni=0x1c7)),out_port({green}))")

# Good ones, senseless ones, and ones whose ports, meters and bonds do not exist: all that can be written as text
# (the others: test_actions.py).
ACTIONS = [
    "drop", "{green}", "{green},{blue},{green}", "{red}", "4000", "lb_output(999)", "meter(99)",
    "userspace(pid=0,slow_path(0))", "userspace(pid=6633,sFlow(vid=9,pcp=7,output=10),actions)",
    "userspace(pid=1,userdata(0102030405060708090a0b0c0d0e0f),tunnel_out_port=10)",
    "userspace(pid=6633,ipfix(output_port=10))",
    "userspace(pid=6633,controller(reason=1,dont_send=1,continuation=0,recirc_id=4444,rule_cookie=0x5555,"
    "controller_id=0,max_len=65535))",
    "set(eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15/ff:ff:ff:00:00:00)),{green}",
    "set(ipv4(src=35.8.2.41,dst=172.16.0.20,tos=0x80,ttl=128)),{green}", "set(ipv4(tos=0/0x3)),{green}",
    "set(tcp(src=80,dst=8080)),{green}", "set(udp(src=81/0xff00,dst=6632)),{green}", "set(sctp(src=82)),{green}",
    "set(ipv6(src=::1,dst=::2,label=0/0xfff,hlimit=1)),{green}", "set(icmp(type=1,code=2)),{green}",
    "set(arp(sip=1.2.3.4)),{green}", "set(nd(target=::7)),{green}", "set(mpls(label=5,tc=0,ttl=3,bos=1)),{green}",
    "set(skb_priority(7)),{green}", "set(skb_mark(7)),{green}",
    "set(tunnel(tun_id=0xabc,src=1.1.1.1,dst=2.2.2.2,ttl=64,flags(df|csum|key))),{green}",
    "push_vlan(vid=12,pcp=0),push_vlan(tpid=0x9100,vid=13,pcp=5),{green}", "pop_vlan,pop_vlan,{green}",
    "add_mpls(label=200,tc=7,ttl=64,bos=1,eth_type=0x8847),{green}",
    "push_nsh(flags=0,ttl=63,mdtype=1,np=3,spi=0x123456,si=255,c1=0x1,c2=0x2,c3=0x3,c4=0x4),{green}",
    "sample(sample=100.0%,actions({green},push_vlan(vid=1,pcp=2))),{blue}", "sample(sample=0.0%,actions({green}))",
    "trunc(100),{green},{blue}", "trunc(14),{green}", "clone(clone(push_vlan(vid=12,pcp=0),{green}),{blue}),{green}",
    "ct_clear,{green}",
    "ct", "ct(commit),{green}", "ct(commit,zone=5,mark=0xa0a0a0a0/0xfefefefe),{green}", "ct(commit,helper=ftp),{green}",
    "ct(commit,timeout=ovs_tp_1_tcp4,nat(src=10.0.0.240:32768-65535,random)),{green}",
    "ct(commit,nat(dst=10.0.0.128-10.0.0.254,hash)),{green}", "ct(nat),{green}", "ct(force_commit,zone=7),{green}",
    "check_pkt_len(size=200,gt({green}),le({blue}))", "check_pkt_len(size=200,gt(drop),le(ct(nat)))",
    "tnl_pop({green})", "tnl_pop(4000)", TUNNEL_HEADER, "clone(" + TUNNEL_HEADER + ")",
]

# Well-formed, but no such field can be set in a packet.
REFUSED = ["set(vlan(vid=3,pcp=5)),{green}", "set(eth_type(0x1234)),{green}", "set(in_port(2)),{green}",
           "set(tcp_flags(1)),{green}", "set(packet_type(ns=0,id=0)),{green}", "set(ct_mark(5)),{green}",
           "set(ct_state(0x21)),{green}", "clone(set(ct_zone(5)),{green})", "sample(sample=50.0%,actions(set(vlan(vid=3))))",
           "check_pkt_len(size=200,gt(set(vlan(vid=3))),le({blue}))"]

FLOW = "in_port(1),eth(),eth_type(0x1234)"

MALFORMED = [
    "()", "in_port", "in_port()", "in_port(x)", "in_port(1", "in_port(1))", "in_port(99999999999999999999)",
    "bogus(1)", "in_port(1),bogus()", "in_port(1),eth(src=zz)", "in_port(1),eth(src=00:01:02:03:04)",
    "in_port(1),eth(),eth_type(0x0800),ipv4(src=1.2.3.4.5)", "in_port(1),eth(),eth_type(0x0800),ipv4(frag=maybe)",
    "in_port(1),eth(),eth_type(0x0800),tcp(src=1)", "in_port(1),eth(),eth_type(0x86dd),ipv4(src=1.2.3.4)",
    "in_port(1),eth(),ipv4(src=1.2.3.4)", "in_port(1),in_port(2)", "in_port(1/0xff),eth()", "eth()",
    "in_port(1),eth(),eth_type(0x8100),vlan(vid=1),encap(", "in_port(1),eth(),eth_type(0x8100),vlan(vid=99999)",
    "in_port(1),eth(),eth_type(0x8100),encap(eth_type(0x0800))", "in_port(1),eth(),vlan(vid=3)",
    "in_port(1),eth(),eth_type(0x0806),ipv4(proto=6)", "in_port(1),eth(),ct_state(+bogus)",
    "in_port(1),eth(),ct_state(0xffffffff)", "in_port(1),eth(),tunnel(tun_id=0x1", "in_port(1),eth(),nsh(spi=0xffffffffff)",
    "in_port(1),eth(),tunnel(geneve({class=0,type=0,len=3,0xa}))", "in_port(1),eth(),eth_type(0x8847),mpls(label=xyz)",
    "ufid:1234", "ufid:zz,in_port(1)", "in_port(1),eth()" + ",eth_type(0x8100),vlan(vid=1),encap(" * 50,
    "in_port(1)," * 400,
]

MALFORMED_ACTIONS = [
    "bogus", "set(", "set(bogus(1))", "set(ipv4(src=1.2.3.4.5))", "push_vlan()",
    "push_vlan(vid=99999,pcp=0)", "trunc(x)", "trunc()", "sample(sample=200%,actions(1))", "sample()", "clone(",
    "clone(" * 300, "ct(commit", "ct(zone=x)", "ct(nat(src=1.2.3.4-1.2.3))", "tnl_push(tnl_port(1))", "tnl_pop()",
    "tnl_push(tnl_port(1),header(size=9999,type=4),out_port(1))", "userspace()", "userspace(pid=x)", "recirc()",
    "check_pkt_len()", "check_pkt_len(size=0)", "meter(x)", "hash(bogus(1))", "push_mpls()", "encap_nsh@:{@",
]


@pytest.fixture
def paused(network):
    """The network, quiet, with nothing in the datapath but what the test puts there."""
    network.switch.expected += ["dpif.*(failed|refused)", "flow refused", "dpif_xdp", "odp", "unixctl", "netlink",
                                "ofproto_dpif", "conntrack", "nat", "execute"]
    network.switch.appctl("revalidator/pause")
    yield network
    network.switch.appctl("dpctl/del-flows")
    network.switch.appctl("revalidator/resume")
    assert traffic.ping(network.red, "10.0.0.2") == 3
    assert network.switch.process.running()


def ports(network):
    return {name: network.switch.dp_port(f"to-{name}") for name in ("red", "green", "blue")} | {
        "port": network.switch.dp_port("to-blue")}


def dpctl(network, command, *args, check=True):
    return network.switch.appctl(f"dpctl/{command}", *args, check=check)


def failed(answer):
    """Whether a command said what is wrong: some do so with exit status 0."""
    return answer.startswith("ovs-vswitchd: ") or "ovs-appctl: " in answer


def test_flow_life(paused):
    port = ports(paused)
    flow = f"in_port({port['red']}),eth(dst=00:00:00:00:00:99),eth_type(0x0800),ipv4(src=1.2.3.4,frag=no)"
    dpctl(paused, "add-flow", flow, str(port["green"]))
    shown = dpctl(paused, "dump-flows", "-m", f"filter=in_port={port['red']},ip,nw_src=1.2.3.4")
    assert f"actions:{'to-green' if 'to-green' in shown else port['green']}" in shown and "packets:0" in shown
    ufid = re.search(r"ufid:\S+?(?=,)", shown)[0]
    assert "1.2.3.4" in dpctl(paused, "get-flow", ufid)
    dpctl(paused, "mod-flow", flow, str(port["blue"]))
    assert re.search(rf"actions:(to-blue|{port['blue']})$", dpctl(paused, "get-flow", ufid).strip())
    assert failed(dpctl(paused, "add-flow", flow, "drop", check=False))         # It exists.
    dpctl(paused, "del-flow", flow)
    assert failed(dpctl(paused, "get-flow", ufid, check=False))
    assert failed(dpctl(paused, "del-flow", flow, check=False))                 # It is gone.
    assert failed(dpctl(paused, "mod-flow", flow, "drop", check=False))


def test_every_key(paused):
    """A flow with each key is installed, shown as it was given, and removed."""
    port = ports(paused)["red"]
    for key in KEYS:
        flow = f"in_port({port}),{key}"
        dpctl(paused, "add-flow", flow, "drop")
        assert dpctl(paused, "dump-flows", "-m").count("actions:drop") == 1, key
        ufid = re.search(r"ufid:\S+?(?=,)", [line for line in paused.switch.dump_flows("-m")
                                             if "actions:drop" in line][0])[0]
        shown = dpctl(paused, "get-flow", ufid)
        for field in re.findall(r"(?:sip|tip|target|label|vid|spi|tun_id|code)=[^,)/]+", key):
            assert field in shown, (key, shown)
        dpctl(paused, "del-flow", flow)
        assert "actions:drop" not in dpctl(paused, "dump-flows")


def test_every_action_executes(paused):
    """Packets of several kinds run through each action, also where it makes no sense."""
    port = ports(paused)
    flow = f"in_port({port['red']}),packet_type(ns=0,id=0)"
    frames = [wire.udp_frame("02:00:00:00:00:01", "02:00:00:00:00:02", b"x" * 300),
              wire.udp_frame("02:00:00:00:00:01", "02:00:00:00:00:02", b"x" * 300, tags=[5]),
              wire.udp_frame("02:00:00:00:00:01", "02:00:00:00:00:02")[:34].ljust(60, b"\0"),
              b"\x02" * 12 + b"\x86\xdd" + b"\x60" + bytes(45), b"\x02" * 12 + b"\x08\x06" + bytes(46),
              b"\x02" * 12 + b"\x88\x47" + b"\xff" * 46, b"\x02" * 12 + b"\x88\xcc" + bytes(46)]
    kinds = [f"{flow},eth(),eth_type(0x0800),ipv4(frag=no)", f"{flow},eth(),eth_type(0x86dd),ipv6(frag=no)",
             f"{flow},eth(),eth_type(0x0806),arp()", f"{flow},eth(),eth_type(0x8847),mpls(bos=1)",
             f"{flow},eth(),eth_type(0x88cc)",
             f"{flow},eth(),eth_type(0x8100),vlan(vid=5),encap(eth_type(0x0800),ipv4(frag=no))"]
    with wire.Wire(paused.red) as red:
        for actions in ACTIONS + REFUSED:
            answers = [dpctl(paused, "add-flow", kind, actions.format(**port), check=False) for kind in kinds]
            refused = all(map(failed, answers))
            assert refused == (actions in REFUSED) and refused == any(map(failed, answers)), (actions, answers)
            red.send(*frames)
            if not refused:
                lab.wait_until(lambda: packets_of_flows(paused) >= len(frames), f"packets through {actions}", 5)
            assert paused.switch.process.running(), actions
            dpctl(paused, "del-flows")


def packets_of_flows(network):
    return sum(int(found) for found in re.findall(r"packets:(\d+)", dpctl(network, "dump-flows")))


@pytest.mark.parametrize("command", ("add-flow", "mod-flow"))
def test_malformed_flows(paused, command):
    for key in MALFORMED:
        answer = dpctl(paused, command, key, "drop", check=False)
        assert failed(answer), (key, answer)
    for actions in MALFORMED_ACTIONS:
        answer = dpctl(paused, command, FLOW, actions, check=False)
        assert failed(answer), (actions[:100], answer)
        dpctl(paused, "del-flow", FLOW, check=False)
    for ufid in "", "ufid:", "ufid:1", "ufid:zzzz", "ufid:" + "f" * 64:
        assert failed(dpctl(paused, "get-flow", ufid, check=False))
    assert paused.switch.process.running()


def test_show(network):
    network.switch.expected.append("unknown type nonsense")
    traffic.ping(network.red, "10.0.0.2")
    name = dpctl(network, "dump-dps").strip()
    assert name == f"{network.switch.datapath}@ovs-{network.switch.datapath}"
    shown = dpctl(network, "show", "-s")
    assert all(text in shown for text in ("lookups: hit:", "flows: ", "port 0: ", "to-red", "RX packets:", "TX packets:"))
    assert failed(dpctl(network, "show", "nonsense@x", check=False))
    assert "to-red" in network.switch.appctl("dpif/show")
    trace = network.switch.appctl("ofproto/trace", "br0", f"in_port=to-red,udp,dl_dst={lab.mac_of(network.green)}")
    assert "Datapath actions: " in trace


def test_ports(network):
    """Ports can be added and removed below Open vSwitch's back; it takes away what it does not know."""
    network.switch.expected += ["dpif", "bridge", "xdp"]
    dp = dpctl(network, "dump-dps").strip()
    lab.make_veth("extra", network.host, inside="other")
    dpctl(network, "add-if", dp, "extra,type=system", check=False)
    assert failed(dpctl(network, "add-if", dp, "nosuchdevice", check=False))
    assert failed(dpctl(network, "del-if", dp, "nosuchdevice", check=False))
    assert failed(dpctl(network, "add-if", dp, "to-red", check=False))
    assert failed(dpctl(network, "add-if", "xdp@nosuchdp", "extra", check=False))
    lab.wait_until(lambda: "extra" not in dpctl(network, "show"), "the bridge takes the port away")
    assert traffic.ping(network.red, "10.0.0.2") == 3


def test_cache(network):
    if network.switch.datapath != "xdp":
        pytest.skip("only our datapath has a cache of settable size")
    dp = dpctl(network, "dump-dps").strip()
    assert re.search(r"signature-cache: size:\d+", dpctl(network, "cache-get-size"))
    for size in 1024, 1, 65536:
        dpctl(network, "cache-set-size", dp, "signature-cache", str(size))
        assert f"signature-cache: size:{size}" in dpctl(network, "cache-get-size")
        assert traffic.ping(network.red, "10.0.0.2") == 3
    for name, size in ("signature-cache", "3"), ("signature-cache", "0"), ("signature-cache", "-1"), ("x", "8"):
        assert failed(dpctl(network, "cache-set-size", dp, name, size, check=False)), (name, size)


def test_conntrack_commands(network):
    call = lambda command, *args: dpctl(network, command, *args).strip()
    call("ct-set-maxconns", "1000")
    assert call("ct-get-maxconns") == "1000"
    assert call("ct-get-nconns") == "0"
    call("ct-disable-tcp-seq-chk")
    assert "disabled" in call("ct-get-tcp-seq-chk")
    call("ct-enable-tcp-seq-chk")
    assert "enabled" in call("ct-get-tcp-seq-chk")
    call("ct-set-limits", "default=10", "zone=1,limit=5", "zone=2,limit=3")
    limits = call("ct-get-limits", "zone=1,2")
    assert "zone=1,limit=5,count=0" in limits and "zone=2,limit=3,count=0" in limits and "default limit=10" in limits
    call("ct-del-limits", "zone=1")
    assert "zone=1,limit=10" in call("ct-get-limits", "zone=1")
    assert call("dump-conntrack", "-m", "-s", "zone=5") == ""
    call("ct-stats-show", "verbose")
    call("ct-bkts")
    for arguments in (("ct-set-limits", "zone=x,limit=1"), ("ct-set-limits", "zone=70000,limit=1"),
                      ("flush-conntrack", "zone=x"), ("flush-conntrack", "ct_nw_src=bogus"), ("ct-set-maxconns", "x"),
                      ("dump-conntrack", "zone=y")):
        assert failed(dpctl(network, *arguments, check=False)), arguments


def test_fragment_commands(network):
    call = lambda command, *args: dpctl(network, command, *args).strip()
    for version in "v4", "v6":
        call("ipf-set-disabled", version)
        assert f"{version} enabled: 0" in call("ipf-get-status")
        call("ipf-set-enabled", version)
        assert f"{version} enabled: 1" in call("ipf-get-status")
    call("ipf-set-min-frag", "v4", "1000")
    call("ipf-set-min-frag", "v6", "1280")
    call("ipf-set-max-nfrags", "500")
    status = call("ipf-get-status", "-m")
    assert "1000" in status and "1280" in status and "500" in status
    for arguments in (("ipf-set-min-frag", "v4", "1"), ("ipf-set-min-frag", "v9", "1000"), ("ipf-set-enabled", "x"),
                      ("ipf-set-max-nfrags", "x")):
        assert failed(dpctl(network, *arguments, check=False)), arguments


def test_flow_files(paused):
    """add-flows, mod-flows and del-flows work from a file, and a mistake in one line is named."""
    port, path = ports(paused), paused.switch.rundir / "flows"
    lines = [f"in_port({port['red']}),eth(dst=00:00:00:00:01:{n:02x}),eth_type(0x1234)" for n in range(100)]
    path.write_text("".join(f"{line} drop\n" for line in lines))
    dpctl(paused, "add-flows", path)
    assert dpctl(paused, "dump-flows").count("actions:drop") == 100
    path.write_text("".join(f"{line} {port['blue']}\n" for line in lines))
    dpctl(paused, "mod-flows", path)
    assert dpctl(paused, "dump-flows").count("actions:drop") == 0
    path.write_text("".join(f"{line}\n" for line in lines[:50]))
    dpctl(paused, "del-flows", path)
    assert dpctl(paused, "dump-flows").count("00:00:00:00:01") == 50
    path.write_text("nonsense\n")
    assert failed(dpctl(paused, "add-flows", path, check=False))


def test_datapath_commands(network):
    """A datapath apart from the bridge's: made, used, deleted."""
    network.switch.expected += ["dpif", "xdp"]
    datapath = f"{network.switch.datapath}@apart"
    dpctl(network, "add-dp", datapath)
    assert datapath in dpctl(network, "dump-dps")
    assert failed(dpctl(network, "add-dp", datapath, check=False))
    lab.make_veth("extra", network.host, inside="other")
    dpctl(network, "add-if", datapath, f"extra,type={'system' if network.switch.datapath == 'netdev' else 'xdp'}")
    assert "extra" in dpctl(network, "show", datapath)
    dpctl(network, "add-flow", datapath, FLOW, "drop")
    assert "drop" in dpctl(network, "dump-flows", datapath)
    dpctl(network, "del-flows", datapath)
    dpctl(network, "del-if", datapath, "extra")
    dpctl(network, "del-dp", datapath)
    assert datapath not in dpctl(network, "dump-dps")


def test_help_names_every_command(network):
    """Each command of "dpctl/help" or of the manual was called above."""
    called = set(re.findall(r'"((?:add|mod|del|get|dump|ct|ipf|cache|flush|set)-[a-z-]+|show)"',
                            open(__file__, encoding="utf-8").read()))
    registered = {line.split()[0][len("dpctl/"):] for line in network.switch.appctl("list-commands").splitlines()
                  if line.strip().startswith("dpctl/")}
    unused = registered - called - {"help", "list-commands", "parse-actions", "normalize-actions", "set-if",
                                    "offload-stats-show"}
    assert not unused
    assert failed(dpctl(network, "set-if", f"{network.switch.datapath}@ovs-{network.switch.datapath}", "nosuch,type=x",
                        check=False))
    dpctl(network, "offload-stats-show", check=False)
