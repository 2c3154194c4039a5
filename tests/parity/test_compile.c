/* SPDX-License-Identifier: Apache-2.0 */
/* Which flows the fast path runs, and why it does not run the others. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "dp/seam_native.h"
#include "dp/ct.h"
#include "dp/tunnel_out.h"
#include "flow.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "openvswitch/match.h"
#include "openvswitch/ofpbuf.h"
#include "ovs/fastpath/compile.h"
#include "packets.h"
#include "util.h"

static const struct dp_capability everything = {
    .table_version = DP_TABLE_VERSION,
    .key_groups = DP_CAPABILITY_ALL_KEYS,
    .ops = DP_CAPABILITY_ALL_OPS,
};

/* Translates a flow, alone and after others with the same mask. */
static enum dpif_xdp_compile_reason compile(const struct match *match, const struct nlattr *actions, size_t actions_len,
                                            const struct dp_capability *caps, struct dpif_xdp_compiled *out,
                                            bool *matches)
{
    static struct dpif_xdp_compiled_mask last;
    static struct flow_wildcards last_wc;
    static struct dpif_xdp_compiled again;
    bool matches_again;
    enum dpif_xdp_compile_reason reason = dpif_xdp_compile(&match->flow, &match->wc, NULL, actions, actions_len, caps,
                                                           out, matches);

    if (!flow_wildcards_equal(&match->wc, &last_wc)) {
        last.valid = false;
        last_wc = match->wc;
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dpif_xdp_compile(&match->flow, &match->wc, &last, actions, actions_len, caps, &again,
                                          &matches_again), reason);
        assert_int_equal(matches_again, *matches);
        if (*matches) {
            assert_memory_equal(&again.key, &out->key, sizeof again.key);
            assert_memory_equal(&again.mask, &out->mask, sizeof again.mask);
        }
    }
    return reason;
}

static void base_match(struct match *match)
{
    match_init_catchall(match);
    match->flow.packet_type = htonl(PT_ETH);
    match->wc.masks.packet_type = OVS_BE32_MAX;
    match_set_in_port(match, u16_to_ofp(3));
    match_set_recirc_id(match, 0);
    match_set_dl_type(match, htons(ETH_TYPE_IP));
}

/* Of a tunnel in IPv4, as ofproto gives it; with TYPE an enum ovs_vport_type. */
#define GRE(FLAGS, MORE) "gre((flags=" #FLAGS ",proto=0x6558)" MORE ")"
#define TNL_PUSH(TUNNEL, SIZE, TYPE)                                                                            \
    "tnl_push(tnl_port(6),header(size=" #SIZE ",type=" #TYPE ",eth(dst=02:00:00:00:00:02,src=02:00:00:00:00:01,"    \
    "dl_type=0x0800),ipv4(src=172.16.0.1,dst=172.16.0.2,proto=47,tos=0,ttl=64,frag=0x4000)," TUNNEL "),out_port(4))"

static void test_actions(void **state)
{
    static const struct {
        const char *actions;
        enum dpif_xdp_compile_reason reason;
        enum dp_fate fate;
        uint32_t arg;
        uint32_t n_ops;
    } rows[] = {
        { "2", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 2, 0 },
        { "", DPIF_XDP_COMPILE_OK, DP_FATE_DROP, 0, 0 },
        { "recirc(5)", DPIF_XDP_COMPILE_OK, DP_FATE_RECIRC, 5, 0 },
        { "set(eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02)),2", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 2, 1 },
        { "set(ipv4(ttl=63/0xff)),push_vlan(vid=9,pcp=0),4", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 4, 2 },
        { "set(ipv6(src=::1,dst=::2,label=0,tclass=0,hlimit=9)),4", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 4, 3 },
        { "set(ipv6(dst=::2/ffff::)),4", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 4, 1 },
        { "pop_vlan,pop_vlan,4", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 4, 2 },
        { "meter(3),2", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 2, 1 },
        { "trunc(100),2", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 2, 1 },
        { "ct_clear,set(skb_mark(0x1)),set(skb_priority(0x2)),2", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 2, 3 },
        { "1,2", DPIF_XDP_COMPILE_OK, DP_FATE_GROUP, 0, 0 },
        { "push_vlan(vid=9,pcp=0),1,2,3", DPIF_XDP_COMPILE_OK, DP_FATE_GROUP, 0, 1 },
        { "1,2,1", DPIF_XDP_COMPILE_ORDER, DP_FATE_ENGINE, 0, 0 },
        { "1,set(skb_mark(0x1)),2", DPIF_XDP_COMPILE_ORDER, DP_FATE_ENGINE, 0, 0 },
        { "1,2,recirc(1)", DPIF_XDP_COMPILE_ORDER, DP_FATE_ENGINE, 0, 0 },
        { "trunc(100),1,2", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
        { "2,set(skb_mark(0x1))", DPIF_XDP_COMPILE_ORDER, DP_FATE_ENGINE, 0, 0 },
        { "userspace(pid=1)", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
        { "ct(commit),recirc(1)", DPIF_XDP_COMPILE_OK, DP_FATE_RECIRC, 1, 1 },
        { "ct_clear,set(eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02)),ct(zone=5,nat),recirc(1)",
          DPIF_XDP_COMPILE_OK, DP_FATE_RECIRC, 1, 2 },
        { "ct(commit,nat(src=10.0.0.1-10.0.0.9:1-9)),set(ipv4(ttl=63/0xff)),2", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 2,
          2 },
        { "ct(force_commit),2", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
        { "ct(commit,helper=ftp),2", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
        { "ct(zone=1),ct(zone=2),2", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 2, 2 },
        { "set(ipv4(ttl=63/0xff)),ct,2", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 2, 2 },
        { "meter(3),ct,2", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
        { "1,ct,2", DPIF_XDP_COMPILE_ORDER, DP_FATE_ENGINE, 0, 0 },
        { "sample(sample=50.0%,actions(2))", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
        { "clone(1),2", DPIF_XDP_COMPILE_ORDER, DP_FATE_ENGINE, 0, 0 },
        { "pop_vlan,clone(push_vlan(vid=9,pcp=0),4)", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 4, 2 },
        { "clone(" TNL_PUSH(GRE(0x2000, ",key=0x2a"), 42, 3) ",4)", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 4, 1 },
        { TNL_PUSH(GRE(0x2000, ",key=0x2a"), 42, 3) ",push_vlan(vid=9,pcp=0),4", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 4,
          2 },
        { TNL_PUSH(GRE(0x1000, ",seq=0x0"), 42, 3) ",4", DPIF_XDP_COMPILE_OK, DP_FATE_OUTPUT, 4, 1 },
        { "trunc(100)," TNL_PUSH(GRE(0x0, ""), 38, 3) ",4", DPIF_XDP_COMPILE_TUNNEL, DP_FATE_ENGINE, 0, 0 },
        { TNL_PUSH(GRE(0x0, ""), 38, 3) ",set(ipv4(ttl=1)),4", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
        { TNL_PUSH(GRE(0x0, ""), 38, 3) ",recirc(1)", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
        { "set(tunnel(tun_id=0x1,src=1.1.1.1,dst=2.2.2.2,ttl=64,flags(df))),2", DPIF_XDP_COMPILE_PROGRAM,
          DP_FATE_ENGINE, 0, 0 },
        { "trunc(100),recirc(1)", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
        { "trunc(100),pop_vlan,2", DPIF_XDP_COMPILE_ACTION, DP_FATE_ENGINE, 0, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct dpif_xdp_compiled out;
        struct ofpbuf actions;
        struct match match;
        bool matches;

        base_match(&match);
        ofpbuf_init(&actions, 0);
        if (odp_actions_from_string(rows[i].actions, NULL, &actions)) {
            fail_msg("%s", rows[i].actions);
        }

        enum dpif_xdp_compile_reason reason = compile(&match, actions.data, actions.size, &everything, &out, &matches);

        if (reason != rows[i].reason || out.fate != rows[i].fate || out.n_ops != rows[i].n_ops
            || (!reason && out.arg != rows[i].arg) || !matches) {
            fail_msg("%s: %s, fate %d, %u operations", rows[i].actions, dpif_xdp_compile_reason_to_string(reason),
                     out.fate, out.n_ops);
        }
        ofpbuf_uninit(&actions);
    }
}

/* Into tunnels by the routes of the host, with what the kernel is told of them. */
static void test_tunnel_set(void **state)
{
    struct dp_capability caps = everything;
    struct dpif_xdp_compiled out;
    const struct dp_tunnel_out *to = (const struct dp_tunnel_out *) out.blobs[0].bytes;
    struct ofpbuf actions;
    struct match match;
    bool matches;

    caps.ops &= ~DP_CAPABILITY_GROUPS;  /* As at tcx. */
    caps.ops |= DP_CAPABILITY_HOST_TUNNELS | DP_CAPABILITY_COPIES;
    base_match(&match);
    ofpbuf_init(&actions, 0);
    assert_int_equal(odp_actions_from_string("set(tunnel(tun_id=0x2a,src=1.1.1.1,dst=2.2.2.2,tos=0x3,ttl=64,"
                                             "flags(df|csum|key))),2", NULL, &actions), 0);
    assert_int_equal(compile(&match, actions.data, actions.size, &caps, &out, &matches), DPIF_XDP_COMPILE_OK);
    assert_int_equal(out.fate, DP_FATE_OUTPUT);
    assert_int_equal(out.arg, 2);
    assert_int_equal(out.n_ops, 1);
    assert_int_equal(out.ops[0].code, DP_OP_TNL_SET);
    assert_int_equal(out.n_blobs, 1);
    assert_int_equal(to->id, 42);
    assert_int_equal(to->flags, DP_TUNNEL_CSUM | DP_TUNNEL_DF | DP_TUNNEL_HAS_KEY);
    assert_int_equal(to->tos, 3);
    assert_int_equal(to->ttl, 64);
    assert_int_equal(to->src[0], htonl(0x01010101));
    assert_int_equal(to->dst[0], htonl(0x02020202));

    ofpbuf_clear(&actions);
    assert_int_equal(odp_actions_from_string("set(tunnel(tun_id=0x1,ipv6_src=::1,ipv6_dst=::2,ttl=1,"
                                             "geneve({class=0x102,type=0x80,len=4,0xa}),flags(key))),1,"
                                             "set(tunnel(tun_id=0x2,dst=2.2.2.2,ttl=1,flags(key))),2",
                                             NULL, &actions), 0);
    assert_int_equal(compile(&match, actions.data, actions.size, &caps, &out, &matches), DPIF_XDP_COMPILE_OK);
    assert_int_equal(out.n_ops, 3);     /* The second is a copy to port 1. */
    assert_int_equal(out.n_blobs, 3);
    assert_int_equal(to->flags, DP_TUNNEL_IP6 | DP_TUNNEL_HAS_KEY);
    assert_int_equal(to->options_len, 8);
    assert_memory_equal(out.blobs[1].bytes, "\x01\x02\x80\x01\0\0\0\x0a", 8);

    ofpbuf_clear(&actions);
    assert_int_equal(odp_actions_from_string("trunc(100),set(tunnel(tun_id=0x2,dst=2.2.2.2,ttl=1,flags(key))),2", NULL,
                                             &actions), 0);
    assert_int_equal(compile(&match, actions.data, actions.size, &caps, &out, &matches), DPIF_XDP_COMPILE_TUNNEL);
    ofpbuf_uninit(&actions);
}

/* Into tunnels to several ends, as at tcx, where outputs are copies. */
static void test_tunnels(void **state)
{
#define KEYED TNL_PUSH(GRE(0x2000, ",key=0x2a"), 42, 3)
#define PLAIN TNL_PUSH(GRE(0x0, ""), 38, 3)
#define EIGHT(X) X "," X "," X "," X "," X "," X "," X "," X
    static const struct {
        const char *actions;
        enum dpif_xdp_compile_reason reason;
        const char *codes;      /* P: pushed, A: pushed again, O: copies, V: a tag. */
    } rows[] = {
        { "clone(" KEYED ",4),clone(" KEYED ",4)", DPIF_XDP_COMPILE_OK, "POA" },
        { "clone(" KEYED ",4,5),clone(" KEYED ",4),clone(" KEYED ",6)", DPIF_XDP_COMPILE_OK, "POAOA" },
        { "clone(" KEYED ",4),2,3", DPIF_XDP_COMPILE_OK, "OP" },
        { "2,clone(" KEYED ",4),3,clone(" KEYED ",4)", DPIF_XDP_COMPILE_OK, "OPOA" },
        { "clone(" KEYED ",4),clone(" KEYED ",push_vlan(vid=9,pcp=0),4)", DPIF_XDP_COMPILE_OK, "POAV" },
        { "clone(" KEYED ",4),2,clone(" KEYED ",4)," KEYED ",4", DPIF_XDP_COMPILE_OK, "OPOAOA" },
        { "clone(" KEYED ",4)," KEYED ",push_vlan(vid=9,pcp=0),4", DPIF_XDP_COMPILE_OK, "POAV" },
        { KEYED "," KEYED ",4", DPIF_XDP_COMPILE_TUNNEL, "" },          /* One within the other. */
        { KEYED ",4," KEYED ",4", DPIF_XDP_COMPILE_TUNNEL, "" },
        { "clone(" KEYED "," KEYED ",4)," KEYED ",4", DPIF_XDP_COMPILE_TUNNEL, "" },
        { "clone(" KEYED ",4)," KEYED "," KEYED ",4", DPIF_XDP_COMPILE_TUNNEL, "" },
        { "clone(" KEYED ",push_vlan(vid=9,pcp=0),4)," KEYED ",4", DPIF_XDP_COMPILE_ORDER, "" },
        { "clone(" KEYED ",push_vlan(vid=9,pcp=0),4),clone(" KEYED ",4)", DPIF_XDP_COMPILE_ORDER, "" },
        { "clone(" KEYED ",4),clone(" PLAIN ",4)", DPIF_XDP_COMPILE_ORDER, "" },
        { "clone(" KEYED ",4),set(eth(src=02:00:00:00:00:01)),2", DPIF_XDP_COMPILE_ORDER, "" },
        { "clone(" KEYED ",4),recirc(1)", DPIF_XDP_COMPILE_ORDER, "" },
        { EIGHT("clone(" KEYED ",4)"), DPIF_XDP_COMPILE_OK, "POAOAOAOAOAOAOA" },
        { EIGHT("clone(" KEYED ",4)") ",clone(" KEYED ",4)", DPIF_XDP_COMPILE_TOO_LONG, "" },
    };
    struct dp_capability caps = everything;

    caps.ops &= ~DP_CAPABILITY_GROUPS;
    caps.ops |= DP_CAPABILITY_COPIES;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct dpif_xdp_compiled out;
        char codes[DP_MAX_OPS + 1];
        enum dpif_xdp_compile_reason reason;
        struct ofpbuf actions;
        struct match match;
        bool matches;

        base_match(&match);
        ofpbuf_init(&actions, 0);
        assert_null(odp_actions_from_string(rows[i].actions, NULL, &actions));
        reason = compile(&match, actions.data, actions.size, &caps, &out, &matches);
        for (uint32_t op = 0; op < out.n_ops; op++) {
            codes[op] = (out.ops[op].code == DP_OP_OUTPUT ? 'O' : out.ops[op].code == DP_OP_PUSH_VLAN ? 'V'
                         : out.ops[op].code != DP_OP_TNL_PUSH ? '?' : out.ops[op].u.tunnel_push.again ? 'A' : 'P');
        }
        codes[out.n_ops] = '\0';
        if (reason != rows[i].reason || strcmp(codes, rows[i].codes)) {
            fail_msg("%s: %s, %s", rows[i].actions, dpif_xdp_compile_reason_to_string(reason), codes);
        }
        /* XDP makes no copies that differ. */
        reason = compile(&match, actions.data, actions.size, &everything, &out, &matches);
        assert_int_not_equal(reason, DPIF_XDP_COMPILE_OK);
        ofpbuf_uninit(&actions);
    }
}

#define ASK(CHANCE) "sample(sample=" CHANCE "%,actions(userspace(pid=1,sFlow(vid=0,pcp=0,output=3))))"

/* Which flows with sample() are programs', and how they are laid out. */
static void test_sample_flows(void **state)
{
    static const struct {
        const char *actions;
        enum dpif_xdp_compile_reason reason;
        uint32_t n_ops, chance, tracks;
    } rows[] = {
        { ASK("50.0") ",2", DPIF_XDP_COMPILE_OK, 1, 1u << 31, 0 },
        { ASK("50.0"), DPIF_XDP_COMPILE_OK, 1, 1u << 31, 0 },
        { ASK("50.0") "," ASK("50.0") ",2", DPIF_XDP_COMPILE_OK, 1, 3u << 30, 0 },
        { "set(ipv4(ttl=63))," ASK("50.0") ",2", DPIF_XDP_COMPILE_OK, 2, 1u << 31, 0 },
        { ASK("50.0") ",push_vlan(vid=9,pcp=0)," ASK("50.0") ",2", DPIF_XDP_COMPILE_OK, 2, 3u << 30, 0 },
        { ASK("50.0") ",ct(zone=1),recirc(1)", DPIF_XDP_COMPILE_OK, 2, 1u << 31, 1 },
        { ASK("50.0") ",set(ipv4(ttl=63)),ct(zone=1),ct(zone=2),2", DPIF_XDP_COMPILE_OK, 4, 1u << 31, 1 },
        { ASK("50.0") ",tnl_pop(4)", DPIF_XDP_COMPILE_OK, 2, 1u << 31, 0 },
        { ASK("50.0") ",clone(" TNL_PUSH(GRE(0x0, ""), 38, 3) ",4)", DPIF_XDP_COMPILE_OK, 2, 1u << 31, 0 },
        { "ct(zone=1)," ASK("50.0") ",2", DPIF_XDP_COMPILE_ACTION, 0, 0, 0 },
        { "meter(1)," ASK("50.0") ",2", DPIF_XDP_COMPILE_ACTION, 0, 0, 0 },
        { "trunc(100)," ASK("50.0") ",2", DPIF_XDP_COMPILE_ACTION, 0, 0, 0 },
        { TNL_PUSH(GRE(0x0, ""), 38, 3) "," ASK("50.0") ",4", DPIF_XDP_COMPILE_ACTION, 0, 0, 0 },
        { "clone(" ASK("50.0") ",2)", DPIF_XDP_COMPILE_ACTION, 0, 0, 0 },
        { "check_pkt_len(size=200,gt(2),le(" ASK("50.0") ",3))", DPIF_XDP_COMPILE_ACTION, 0, 0, 0 },
        { "sample(sample=50.0%,actions(userspace(pid=1),2)),2", DPIF_XDP_COMPILE_ACTION, 0, 0, 0 },
    };
    struct dp_capability without = everything;
    struct match match;

    without.ops &= ~(1ull << DP_OP_SAMPLE);
    base_match(&match);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct dpif_xdp_compiled out;
        struct ofpbuf actions;
        bool matches;

        ofpbuf_init(&actions, 0);
        print_message("%s\n", rows[i].actions);
        assert_null(odp_actions_from_string(rows[i].actions, NULL, &actions));
        assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches), rows[i].reason);
        assert_int_equal(out.n_ops, rows[i].n_ops);
        if (out.n_ops) {
            assert_int_equal(out.ops[0].code, DP_OP_SAMPLE);
            assert_int_equal(out.ops[0].u.sample.chance, rows[i].chance);
            assert_int_equal(out.ops[0].u.sample.tracks, rows[i].tracks);
            assert_int_equal(compile(&match, actions.data, actions.size, &without, &out, &matches),
                             DPIF_XDP_COMPILE_PROGRAM);
        }
        ofpbuf_uninit(&actions);
    }
}

/* What the engine draws of three actions sample() for a packet of which it knows that one was drawn at least: each by
 * itself as often as its chance says. */
static void test_draw(void **state)
{
    enum { N = 200000 };
    const double chance[] = { 0.5, 0.25, 0.125 }, any = 1 - 0.5 * 0.75 * 0.875;
    uint32_t n_drawn[3] = { 0 };
    struct ofpbuf actions, drawn;

    ofpbuf_init(&actions, 0);
    ofpbuf_init(&drawn, 0);
    assert_null(odp_actions_from_string("sample(sample=50.0%,actions(userspace(pid=1))),set(ipv4(ttl=63)),"
                                        "sample(sample=25.0%,actions(userspace(pid=2))),7,"
                                        "sample(sample=12.5%,actions(userspace(pid=3))),ct(zone=1),recirc(1)",
                                        NULL, &actions));
    for (int i = 0; i < N; i++) {
        uint32_t n = 0, n_sets = 0;
        const struct nlattr *a;
        size_t left;

        ofpbuf_clear(&drawn);
        dpif_xdp_draw_samples(actions.data, actions.size, &drawn);
        NL_ATTR_FOR_EACH (a, left, drawn.data, drawn.size) {
            if (nl_attr_type(a) == OVS_ACTION_ATTR_USERSPACE) {
                uint32_t pid = nl_attr_get_u32(nl_attr_find_nested(a, OVS_USERSPACE_ATTR_PID));

                assert_int_equal(n_sets, pid > 1);
                n_drawn[pid - 1]++;
                n++;
            } else {
                assert_int_equal(nl_attr_type(a), OVS_ACTION_ATTR_SET_MASKED);
                n_sets++;
            }
        }
        assert_true(n > 0);
    }
    for (int i = 0; i < 3; i++) {
        double expected = N * chance[i] / any;

        print_message("%d of %.0f\n", n_drawn[i], expected);
        assert_true(n_drawn[i] > expected * 0.97 && n_drawn[i] < expected * 1.03);
    }

    ofpbuf_clear(&drawn);
    dpif_xdp_drop_samples(actions.data, actions.size, &drawn);
    ofpbuf_uninit(&actions);
    ofpbuf_init(&actions, 0);
    assert_null(odp_actions_from_string("set(ipv4(ttl=63)),7,ct(zone=1),recirc(1)", NULL, &actions));
    assert_true(ofpbuf_equal(&actions, &drawn));
    ofpbuf_uninit(&actions);
    ofpbuf_uninit(&drawn);
}

/* What CT has of ct(), which stands behind an edit and ct_clear. */
static void test_ct(void **state)
{
    struct dpif_xdp_compiled out;
    struct ofpbuf actions;
    struct match match;
    bool matches;

    base_match(&match);
    ofpbuf_init(&actions, 0);
    assert_false(odp_actions_from_string("push_vlan(vid=9,pcp=0),ct_clear,ct(commit,zone=5,mark=0x11/0xff,"
                                         "label=0x2/0xf,timeout=7,nat(dst=10.0.0.1-10.0.0.9:80-90)),2",
                                         NULL, &actions));
    assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches), DPIF_XDP_COMPILE_OK);
    ofpbuf_uninit(&actions);

    const struct dp_op *op = &out.ops[0];

    assert_int_equal(out.n_ops, 2);
    assert_int_equal(op->code, DP_OP_CT);
    assert_int_equal(out.ops[1].code, DP_OP_PUSH_VLAN);
    assert_int_equal(op->u.ct.zone, 5);
    assert_int_equal(op->u.ct.flags, DP_CT_COMMIT | DP_CT_MARK | DP_CT_LABEL | DP_CT_NAT | DP_CT_TO_DST | DP_CT_TO_PORTS
                     | DP_CT_FRESH);
    assert_int_equal(op->u.ct.mark, 0x11);
    assert_int_equal(op->u.ct.mark_mask, 0xff);
    assert_int_equal(op->u.ct.min_port, 80);
    assert_int_equal(op->u.ct.max_port, 90);
    assert_int_equal(out.ct_policy[0], 7);
    assert_int_equal(out.blobs[0].ct.min[0], dp_htonl(0x0a000001).raw);
    assert_int_equal(out.blobs[0].ct.max[0], dp_htonl(0x0a000009).raw);
    assert_int_equal(((const uint8_t *) out.blobs[0].ct.label)[0], 2);
    assert_int_equal(((const uint8_t *) out.blobs[0].ct.label_mask)[0], 0xf);
}

/* Which flows with ct() are programs', and how they are laid out. */
static void test_ct_flows(void **state)
{
    static const struct {
        const char *actions;
        enum dpif_xdp_compile_reason reason;
        uint32_t n_ops, next[DP_MAX_CT];        /* Of the operations CT. */
    } rows[] = {
        { "ct(zone=1),recirc(1)", DPIF_XDP_COMPILE_OK, 1, { 0 } },
        { "ct(commit,zone=1),ct(zone=2),recirc(1)", DPIF_XDP_COMPILE_OK, 2, { 1, 0 } },
        { "ct(zone=1),set(eth(dst=00:00:00:00:00:01)),ct_clear,ct(zone=2),ct(zone=3),2",
          DPIF_XDP_COMPILE_OK,
          5,
          { 3, 1, 0 } },
        { "push_vlan(vid=9,pcp=0),ct_clear,ct(zone=1),ct(zone=2),2", DPIF_XDP_COMPILE_OK, 3, { 2, 0 } },
        { "ct(zone=1),ct(zone=2),ct(zone=3),ct(zone=4),2", DPIF_XDP_COMPILE_ACTION, 0, { 0 } },
        { "set(ipv4(ttl=63)),ct(zone=1),recirc(1)", DPIF_XDP_COMPILE_OK, 2, { 0 } },
        { "set(ipv4(dst=10.0.0.9)),ct(zone=1),recirc(1)", DPIF_XDP_COMPILE_ACTION, 0, { 0 } },
        { "ct(zone=1),set(ipv4(dst=10.0.0.9)),2", DPIF_XDP_COMPILE_OK, 2, { 0 } },
        { "ct(zone=1),set(ipv4(dst=10.0.0.9)),ct(zone=2),2", DPIF_XDP_COMPILE_ACTION, 0, { 0 } },
        { "ct(zone=1),ct(zone=2),set(ipv4(dst=10.0.0.9)),2", DPIF_XDP_COMPILE_ACTION, 0, { 0 } },
        { "trunc(100),ct(zone=1),2", DPIF_XDP_COMPILE_ACTION, 0, { 0 } },
        { "ct(zone=1,nat),tnl_pop(4)", DPIF_XDP_COMPILE_TUNNEL, 0, { 0 } },
    };
    struct dp_capability without = everything;
    struct match match;

    without.ops &= ~(1ull << DP_OP_CT);
    base_match(&match);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct dpif_xdp_compiled out;
        struct ofpbuf actions;
        uint32_t n = 0;
        bool matches;

        ofpbuf_init(&actions, 0);
        print_message("%s\n", rows[i].actions);
        assert_int_equal(odp_actions_from_string(rows[i].actions, NULL, &actions), 0);
        assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches), rows[i].reason);
        assert_int_equal(out.n_ops, rows[i].n_ops);
        for (uint32_t j = 0; j < out.n_ops; j++) {
            if (out.ops[j].code == DP_OP_CT) {
                assert_int_equal(out.ops[j].u.ct.next, rows[i].next[n]);
                assert_int_equal(out.ops[j].u.ct.zone, n + 1);
                n++;
            }
        }
        if (!rows[i].reason) {
            assert_int_equal(compile(&match, actions.data, actions.size, &without, &out, &matches),
                             DPIF_XDP_COMPILE_PROGRAM);
        }
        ofpbuf_uninit(&actions);
    }
}

/* As many outputs as a group holds, and one more; programs that have no groups. */
static void test_groups(void **state)
{
    struct dp_capability without = everything;
    struct dpif_xdp_compiled out;
    struct ofpbuf actions;
    struct match match;
    bool matches;

    base_match(&match);
    ofpbuf_init(&actions, 0);
    for (int i = 0; i <= DP_MAX_GROUP; i++) {
        nl_msg_put_u32(&actions, OVS_ACTION_ATTR_OUTPUT, 100 - i);
        assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches),
                         i < DP_MAX_GROUP ? DPIF_XDP_COMPILE_OK : DPIF_XDP_COMPILE_TOO_LONG);
        if (i && i < DP_MAX_GROUP) {
            assert_int_equal(out.fate, DP_FATE_GROUP);
            assert_int_equal(out.n_outputs, i + 1);
            assert_int_equal(out.outputs[i], 100 - i);
        }
    }
    assert_int_equal(out.fate, DP_FATE_ENGINE);

    without.ops &= ~DP_CAPABILITY_GROUPS;
    actions.size = 2 * NL_A_U32_SIZE;
    assert_int_equal(compile(&match, actions.data, actions.size, &without, &out, &matches),
                     DPIF_XDP_COMPILE_ORDER);
    without.ops |= DP_CAPABILITY_COPIES;
    assert_int_equal(compile(&match, actions.data, actions.size, &without, &out, &matches),
                     DPIF_XDP_COMPILE_OK);
    assert_int_equal(out.fate, DP_FATE_OUTPUT);
    assert_int_equal(out.n_ops, 1);
    ofpbuf_uninit(&actions);
}

static void test_too_many(void **state)
{
    struct dpif_xdp_compiled out;
    struct ofpbuf actions;
    struct match match;
    bool matches;

    base_match(&match);
    ofpbuf_init(&actions, 0);
    for (int i = 0; i <= DP_MAX_OPS; i++) {
        assert_int_equal(odp_actions_from_string("ct_clear", NULL, &actions), 0);
        assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches),
                         i < DP_MAX_OPS ? DPIF_XDP_COMPILE_OK : DPIF_XDP_COMPILE_TOO_LONG);
    }
    ofpbuf_uninit(&actions);
}

/* Only a label that parsing saw may be popped. */
static void test_mpls(void **state)
{
    struct ovs_action_push_mpls push = { .mpls_ethertype = htons(ETH_TYPE_MPLS) };
    struct dpif_xdp_compiled out;
    struct ofpbuf actions;
    struct match match;
    bool matches;

    base_match(&match);
    ofpbuf_init(&actions, 0);
    nl_msg_put_be16(&actions, OVS_ACTION_ATTR_POP_MPLS, htons(ETH_TYPE_MPLS));
    assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches),
                     DPIF_XDP_COMPILE_OK);
    nl_msg_put_be16(&actions, OVS_ACTION_ATTR_POP_MPLS, htons(ETH_TYPE_IP));
    assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches),
                     DPIF_XDP_COMPILE_ACTION);
    ofpbuf_clear(&actions);
    nl_msg_put_unspec(&actions, OVS_ACTION_ATTR_PUSH_MPLS, &push, sizeof push);
    nl_msg_put_unspec(&actions, OVS_ACTION_ATTR_PUSH_MPLS, &push, sizeof push);
    assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches),
                     DPIF_XDP_COMPILE_OK);
    assert_int_equal(out.ops[1].growth, 4);
    nl_msg_put_be16(&actions, OVS_ACTION_ATTR_POP_MPLS, htons(ETH_TYPE_MPLS));
    assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches),
                     DPIF_XDP_COMPILE_ACTION);
    ofpbuf_uninit(&actions);
}

/* The hash is that of the packet as it was parsed. */
static void test_hash(void **state)
{
    struct ovs_action_hash hash = { .hash_alg = OVS_HASH_ALG_SYM_L4 };
    struct dpif_xdp_compiled out;
    struct ofpbuf actions;
    struct match match;
    bool matches;

    base_match(&match);
    ofpbuf_init(&actions, 0);
    nl_msg_put_unspec(&actions, OVS_ACTION_ATTR_HASH, &hash, sizeof hash);
    assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches),
                     DPIF_XDP_COMPILE_OK);
    ofpbuf_clear(&actions);
    assert_int_equal(odp_actions_from_string("set(ipv4(ttl=63/0xff))", NULL, &actions), 0);
    nl_msg_put_unspec(&actions, OVS_ACTION_ATTR_HASH, &hash, sizeof hash);
    assert_int_equal(compile(&match, actions.data, actions.size, &everything, &out, &matches),
                     DPIF_XDP_COMPILE_ACTION);
    ofpbuf_uninit(&actions);
}

static enum dpif_xdp_compile_reason match_reason(const struct match *match, const struct dp_capability *caps)
{
    struct dpif_xdp_compiled out;
    bool matches;
    enum dpif_xdp_compile_reason reason = compile(match, NULL, 0, caps, &out, &matches);

    assert_int_equal(matches, reason == DPIF_XDP_COMPILE_OK);
    return reason;
}

/* What a mask becomes depends on the protocol of the flow. */
static void test_protocols(void **state)
{
    static const struct {
        uint16_t dl_type;
        uint8_t nw_proto;
        enum dpif_xdp_compile_reason reason;
    } rows[] = {
        { ETH_TYPE_IPV6, IPPROTO_ICMPV6, DPIF_XDP_COMPILE_OK },
        { ETH_TYPE_IPV6, IPPROTO_TCP, DPIF_XDP_COMPILE_KEY_FIELD },
        { ETH_TYPE_IPV6, IPPROTO_ICMPV6, DPIF_XDP_COMPILE_OK },
        { ETH_TYPE_ARP, IPPROTO_ICMPV6, DPIF_XDP_COMPILE_KEY_FIELD },
    };
    struct match match;

    base_match(&match);
    match.wc.masks.nw_proto = UINT8_MAX;
    match.wc.masks.nd_target = in6addr_exact;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        match.flow.dl_type = htons(rows[i].dl_type);
        match.flow.nw_proto = rows[i].nw_proto;
        assert_int_equal(match_reason(&match, &everything), rows[i].reason);
    }
}

static void test_matches(void **state)
{
    struct match match;

    base_match(&match);
    assert_int_equal(match_reason(&match, &everything), DPIF_XDP_COMPILE_OK);
    match.wc.masks.dl_type = 0;
    assert_int_equal(match_reason(&match, &everything), DPIF_XDP_COMPILE_KEY_TYPE);

    base_match(&match);
    match_set_reg(&match, 0, 1);
    assert_int_equal(match_reason(&match, &everything), DPIF_XDP_COMPILE_KEY_FIELD);

    base_match(&match);
    match.flow.dl_type = htons(ETH_TYPE_NSH);
    match.wc.masks.nsh.ttl = 0xff;
    assert_int_equal(match_reason(&match, &everything), DPIF_XDP_COMPILE_KEY_FIELD);

    base_match(&match);
    match.flow.packet_type = htonl(PT_IPV4);
    assert_int_equal(match_reason(&match, &everything), DPIF_XDP_COMPILE_KEY_FIELD);
}

/* A program that lacks a group of fields, or an operation, is given no flow that needs it. */
static void test_trimmed_programs(void **state)
{
    struct dp_capability caps = everything;
    struct dpif_xdp_compiled out;
    struct ofpbuf actions;
    struct match match;
    bool matches;

    base_match(&match);
    match_set_nw_proto(&match, IPPROTO_UDP);
    caps.key_groups &= ~(1u << DP_KEY_GROUP_IP6);
    assert_int_equal(match_reason(&match, &caps), DPIF_XDP_COMPILE_OK);
    caps.key_groups &= ~(1u << DP_KEY_GROUP_IP4);
    assert_int_equal(match_reason(&match, &caps), DPIF_XDP_COMPILE_KEY_PROGRAM);

    /* Also where the flow is about IPv4 packets, whatever is in their headers. */
    base_match(&match);
    assert_int_equal(match_reason(&match, &caps), DPIF_XDP_COMPILE_KEY_PROGRAM);
    match_set_dl_type(&match, htons(ETH_TYPE_ARP));
    assert_int_equal(match_reason(&match, &caps), DPIF_XDP_COMPILE_OK);
    caps.key_groups &= ~(1u << DP_KEY_GROUP_ARP);
    assert_int_equal(match_reason(&match, &caps), DPIF_XDP_COMPILE_KEY_PROGRAM);
    match_set_dl_type(&match, htons(0x9999));
    assert_int_equal(match_reason(&match, &caps), DPIF_XDP_COMPILE_OK);

    caps = everything;
    base_match(&match);
    match_set_ct_state(&match, 1);
    assert_int_equal(match_reason(&match, &caps), DPIF_XDP_COMPILE_OK);
    caps.key_groups &= ~(1u << DP_KEY_GROUP_CT);
    assert_int_equal(match_reason(&match, &caps), DPIF_XDP_COMPILE_KEY_PROGRAM);

    caps = everything;
    caps.ops &= ~(1ull << DP_OP_PUSH_VLAN);
    base_match(&match);
    ofpbuf_init(&actions, 0);
    assert_int_equal(odp_actions_from_string("push_vlan(vid=9,pcp=0),4", NULL, &actions), 0);
    assert_int_equal(compile(&match, actions.data, actions.size, &caps, &out, &matches),
                     DPIF_XDP_COMPILE_PROGRAM);
    assert_true(matches);
    assert_int_equal(out.fate, DP_FATE_ENGINE);
    ofpbuf_uninit(&actions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actions),
        cmocka_unit_test(test_tunnel_set),
        cmocka_unit_test(test_tunnels),
        cmocka_unit_test(test_ct),
        cmocka_unit_test(test_ct_flows),
        cmocka_unit_test(test_sample_flows),
        cmocka_unit_test(test_draw),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_mpls),
        cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_matches),
        cmocka_unit_test(test_trimmed_programs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
