/* SPDX-License-Identifier: Apache-2.0 */
/* Connection tracking: actions as Open vSwitch writes them, and the callbacks
 * of its datapath interface. */
#include <config.h>

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/ct/ct.h"
#include "dp-packet.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "dp/seam_native.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/poll-loop.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "ovs/base/compat.h"
#include "ovs/state/ct.h"
#include "ovs/datapath/datapath.h"
#include "ovs/provider/ct_dpif.h"
#include "timeval.h"
#include "util.h"

#define ZONE 7
#define TP_ID 5

static struct dpif_xdp_ct *ct;

/* In the place of ovs/datapath/datapath.c. */
struct dpif_xdp_ct *
dpif_xdp_ct_of(const struct dpif *dpif OVS_UNUSED)
{
    return ct;
}

static int
start(void **state OVS_UNUSED)
{
    ct = dpif_xdp_ct_create("test");
    dpif_xdp_ct_set_max(ct, 1024);
    return 0;
}

static int
stop(void **state OVS_UNUSED)
{
    dpif_xdp_ct_stop(ct);
    dpif_xdp_ct_destroy(ct);
    return 0;
}

/* The packets of these tests: TCP from 10.0.0.1:1000 to 10.0.0.2:2000. */
#define ETHERNET "eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),"
#define IPV4 "eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,ttl=64)," \
             "tcp(src=1000,dst=2000),tcp_flags(syn)"
#define IPV6 "eth_type(0x86dd),ipv6(src=fc00::1,dst=fc00::2,proto=6,hlimit=64)," \
             "tcp(src=1000,dst=2000),tcp_flags(syn)"

static struct dp_packet *
make_packet(const char *text, struct flow *flow)
{
    struct dp_packet *packet = dp_packet_new(0);
    struct ofpbuf key;

    ofpbuf_init(&key, 0);
    assert_int_equal(odp_flow_from_string(text, NULL, &key, NULL, NULL), 0);
    assert_int_equal(odp_flow_key_to_flow(key.data, key.size, flow, NULL), 0);
    ofpbuf_uninit(&key);
    flow_compose(packet, flow, NULL, 0);
    flow_extract(packet, flow);
    return packet;
}

/* Executes 'action' on 'packet' at 'now'. */
static void
execute_at(const char *action, struct dp_packet *packet, struct flow *flow,
           long long int now)
{
    struct dp_packet_batch batch;
    struct ofpbuf odp;

    ofpbuf_init(&odp, 0);
    assert_int_equal(odp_actions_from_string(action, NULL, &odp), 0);
    dp_packet_batch_init_packet(&batch, packet);
    dpif_xdp_ct_execute(ct, &batch, odp.data, flow, now);
    assert_int_equal(dp_packet_batch_size(&batch), 1);
    flow_extract(packet, flow);
    ofpbuf_uninit(&odp);
}

static void
execute(const char *action, struct dp_packet *packet, struct flow *flow)
{
    execute_at(action, packet, flow, time_msec());
}

/* Stores the connections (of 'zone', if not NULL) in 'entries'; returns how
 * many there are. */
static size_t
dump(const uint16_t *zone, struct ct_dpif_entry entries[], size_t max)
{
    struct ct_dpif_dump_state *state;
    struct ct_dpif_entry entry;
    int n_buckets, error;
    size_t n = 0;

    assert_int_equal(dpif_xdp_ct_dump_start(NULL, &state, zone, &n_buckets), 0);
    while (!(error = dpif_xdp_ct_dump_next(NULL, state, &entry))) {
        assert_true(n < max);
        entries[n++] = entry;
    }
    assert_int_equal(error, EOF);
    assert_int_equal(dpif_xdp_ct_dump_done(NULL, state), 0);
    return n;
}

/* What each action makes of a new connection's first packet. */
static const struct row {
    const char *action;
    const char *packet;
    const char *source, *destination;   /* Of the packet afterwards. */
    uint16_t source_port, destination_port;
    uint16_t zone;
    uint32_t mark, label;
    uint32_t timeout;                   /* Seconds; 0: not looked at. */
    const char *helper;
    bool committed;
} rows[] = {
#define V4(SOURCE, SPORT, DESTINATION, DPORT) IPV4, SOURCE, DESTINATION, SPORT, DPORT
#define V6(SOURCE, SPORT, DESTINATION, DPORT) IPV6, SOURCE, DESTINATION, SPORT, DPORT
#define AS_IS V4("10.0.0.1", 1000, "10.0.0.2", 2000)
    { "ct", AS_IS, .committed = false },
    { "ct(zone=7)", AS_IS, 7, .committed = false },
    { "ct(commit)", AS_IS, .committed = true },
    { "ct(commit,zone=65535)", AS_IS, 65535, .committed = true },
    { "ct(force_commit)", AS_IS, .committed = true },
    { "ct(commit,mark=0x5/0xf)", AS_IS, .mark = 5, .committed = true },
    { "ct(commit,zone=7,label=0x7/0xf)", AS_IS, 7, .label = 7, .committed = true },
    { "ct(commit,helper=ftp)", AS_IS, .helper = "ftp", .committed = true },
    { "ct(commit,timeout=5)", AS_IS, .timeout = 1234, .committed = true },
    { "ct(commit,timeout=nonsense)", AS_IS, .timeout = 30, .committed = true },
    { "ct(nat)", AS_IS, .committed = false },
    { "ct(commit,nat)", AS_IS, .committed = true },
    { "ct(nat(src=10.0.0.9))", AS_IS, .committed = false },
    { "ct(commit,nat(src=10.0.0.9))", V4("10.0.0.9", 1000, "10.0.0.2", 2000), .committed = true },
    { "ct(commit,nat(dst=10.0.0.9))", V4("10.0.0.1", 1000, "10.0.0.9", 2000), .committed = true },
    { "ct(commit,nat(src=10.0.0.9:5000))", V4("10.0.0.9", 5000, "10.0.0.2", 2000), .committed = true },
    { "ct(commit,nat(dst=10.0.0.9:80))", V4("10.0.0.1", 1000, "10.0.0.9", 80), .committed = true },
    { "ct(commit,nat(src=10.0.0.9-10.0.0.9:5000-5000,random))",
      V4("10.0.0.9", 5000, "10.0.0.2", 2000), .committed = true },
    { "ct(commit,nat(dst=10.0.0.9,persistent,hash))",
      V4("10.0.0.1", 1000, "10.0.0.9", 2000), .committed = true },
    { "ct(commit,nat(src=0.0.0.0))", AS_IS, .committed = true },
    { "ct(commit,nat(src=fc00::9))", V6("fc00::9", 1000, "fc00::2", 2000), .committed = true },
    { "ct(commit,nat(dst=[fc00::9]:80))", V6("fc00::1", 1000, "fc00::9", 80), .committed = true },
};

static void
check_address(const struct flow *flow, ovs_be32 v4, const struct in6_addr *v6, const char *expected)
{
    char text[INET6_ADDRSTRLEN];

    inet_ntop(flow->dl_type == htons(ETH_TYPE_IP) ? AF_INET : AF_INET6,
              flow->dl_type == htons(ETH_TYPE_IP) ? (const void *) &v4 : v6, text, sizeof text);
    assert_string_equal(text, expected);
}

static void
test_actions(void **state OVS_UNUSED)
{
    const struct ct_dpif_timeout_policy policy = {
        .id = TP_ID,
        .present = 1u << CT_DPIF_TP_ATTR_TCP_SYN_SENT,
        .attrs[CT_DPIF_TP_ATTR_TCP_SYN_SENT] = 1234,
    };

    for (const struct row *row = rows; row < &rows[ARRAY_SIZE(rows)]; row++) {
        char *text = xasprintf("in_port(1),%s%s", ETHERNET, row->packet);
        struct ct_dpif_entry entry;
        struct dp_packet *packet;
        struct flow flow;

        print_message("%s\n", row->action);
        start(NULL);
        assert_int_equal(dpif_xdp_ct_set_timeout_policy(NULL, &policy), 0);
        packet = make_packet(text, &flow);
        execute(row->action, packet, &flow);

        assert_int_equal(packet->md.ct_state & ~(CS_SRC_NAT | CS_DST_NAT), CS_TRACKED | CS_NEW);
        assert_int_equal(packet->md.ct_zone, row->zone);
        assert_int_equal(packet->md.ct_mark, row->mark);
        assert_int_equal(packet->md.ct_label.u64.lo, row->label);
        check_address(&flow, flow.nw_src, &flow.ipv6_src, row->source);
        check_address(&flow, flow.nw_dst, &flow.ipv6_dst, row->destination);
        assert_int_equal(ntohs(flow.tp_src), row->source_port);
        assert_int_equal(ntohs(flow.tp_dst), row->destination_port);

        assert_int_equal(dump(NULL, &entry, 1), row->committed);
        if (row->committed) {
            assert_int_equal(entry.zone, row->zone);
            assert_int_equal(entry.mark, row->mark);
            if (row->timeout) {
                assert_in_range(entry.timeout, row->timeout - 1, row->timeout);
            }
            assert_true(nullable_string_is_equal(entry.helper.name, row->helper));
            ct_dpif_entry_uninit(&entry);
        }
        dp_packet_delete(packet);
        stop(NULL);
        free(text);
    }
}

/* A range of addresses or ports is used, not only its first one. */
static void
test_nat_ranges(void **state OVS_UNUSED)
{
    uint32_t min_address = UINT32_MAX, max_address = 0;
    uint16_t min_port = UINT16_MAX, max_port = 0;

    for (uint16_t port = 1; port <= 64; port++) {
        char *text = xasprintf("in_port(1)," ETHERNET "eth_type(0x0800),"
                               "ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,ttl=64),"
                               "tcp(src=%"PRIu16",dst=2000),tcp_flags(syn)", port);
        struct dp_packet *packet;
        struct flow flow;

        packet = make_packet(text, &flow);
        execute("ct(commit,nat(src=10.0.1.1-10.0.1.8:5000-6000,hash))", packet, &flow);
        min_address = MIN(min_address, ntohl(flow.nw_src));
        max_address = MAX(max_address, ntohl(flow.nw_src));
        min_port = MIN(min_port, ntohs(flow.tp_src));
        max_port = MAX(max_port, ntohs(flow.tp_src));
        dp_packet_delete(packet);
        free(text);
    }
    assert_in_range(min_address, 0x0a000101, 0x0a000107);
    assert_in_range(max_address, min_address + 1, 0x0a000108);
    assert_in_range(min_port, 5000, 5999);
    assert_in_range(max_port, min_port + 1, 6000);
}

/* One connection in each of 'n' zones from 'first' on. */
static void
fill_zones(uint16_t first, uint16_t n)
{
    for (uint16_t zone = first; zone < first + n; zone++) {
        char *action = xasprintf("ct(commit,zone=%"PRIu16")", zone);
        struct dp_packet *packet;
        struct flow flow;

        packet = make_packet("in_port(1)," ETHERNET IPV4, &flow);
        execute(action, packet, &flow);
        dp_packet_delete(packet);
        free(action);
    }
}

static void
test_dump_and_flush(void **state OVS_UNUSED)
{
    const uint16_t zone = ZONE, empty = ZONE + 5;
    struct ct_dpif_entry entries[5];
    struct ct_dpif_tuple tuple;
    uint32_t n;

    fill_zones(ZONE, 5);
    assert_int_equal(dpif_xdp_ct_get_nconns(NULL, &n), 0);
    assert_int_equal(n, 5);
    assert_int_equal(dump(NULL, entries, 5), 5);
    assert_int_equal(dump(&empty, entries, 5), 0);
    assert_int_equal(dump(&zone, entries, 5), 1);
    assert_int_equal(entries[0].zone, ZONE);
    tuple = entries[0].tuple_orig;
    assert_int_equal(ntohs(tuple.src_port), 1000);

    /* A tuple without a zone means zone 0, where nothing is. */
    assert_int_equal(dpif_xdp_ct_flush(NULL, NULL, &tuple), ENOENT);
    assert_int_equal(dump(NULL, entries, 5), 5);
    assert_int_equal(dpif_xdp_ct_flush(NULL, &zone, &tuple), 0);
    assert_int_equal(dump(&zone, entries, 5), 0);
    assert_int_equal(dump(NULL, entries, 5), 4);

    fill_zones(ZONE, 1);
    assert_int_equal(dpif_xdp_ct_flush(NULL, &zone, NULL), 0);
    assert_int_equal(dump(NULL, entries, 5), 4);
    assert_int_equal(dpif_xdp_ct_flush(NULL, NULL, NULL), 0);
    assert_int_equal(dump(NULL, entries, 5), 0);
}

static void
test_settings(void **state OVS_UNUSED)
{
    enum ct_features features = 0;
    bool is_generic = false, enabled;
    char *name;
    uint32_t n;

    assert_int_equal(dpif_xdp_ct_set_maxconns(NULL, 77), 0);
    assert_int_equal(dpif_xdp_ct_get_maxconns(NULL, &n), 0);
    assert_int_equal(n, 77);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dpif_xdp_ct_set_tcp_seq_chk(NULL, i), 0);
        assert_int_equal(dpif_xdp_ct_get_tcp_seq_chk(NULL, &enabled), 0);
        assert_int_equal(enabled, i);
    }
    assert_int_equal(dpif_xdp_ct_get_features(NULL, &features), 0);
    assert_int_equal(features, CONNTRACK_F_ZERO_SNAT);
    assert_int_equal(dpif_xdp_ct_get_timeout_policy_name(NULL, TP_ID, ETH_TYPE_IP, 6, &name, &is_generic), 0);
    assert_string_equal(name, "5");
    assert_true(is_generic);
    free(name);
}

/* The default limit: of a list of all limits, from which it is taken, or 'n' where Open vSwitch does not list it. */
static uint32_t
take_default_limit(struct ovs_list *reply, uint32_t n)
{
    if (DPIF_XDP_LISTS_DEFAULT_LIMIT) {
        struct ct_dpif_zone_limit *limit = CONTAINER_OF(ovs_list_pop_front(reply), struct ct_dpif_zone_limit, node);

        assert_int_equal(limit->zone, DPIF_XDP_DEFAULT_ZONE);
        n = limit->limit;
        free(limit);
    }
    return n;
}

static void
test_limits(void **state OVS_UNUSED)
{
    struct ovs_list request = OVS_LIST_INITIALIZER(&request), reply = OVS_LIST_INITIALIZER(&reply);
    struct ct_dpif_zone_limit *limit;
    uint32_t n = 100;

    ct_dpif_push_zone_limit(&request, ZONE, 2, 0);
    ct_dpif_push_zone_limit(&request, 65535, 3, 0);
    if (DPIF_XDP_LISTS_DEFAULT_LIMIT) {
        ct_dpif_push_zone_limit(&request, DPIF_XDP_DEFAULT_ZONE, n, 0);
    }
    assert_int_equal(dpif_xdp_ct_set_limits(NULL DPIF_XDP_DEFAULT_LIMIT(, &n), &request), 0);
    fill_zones(ZONE, 1);
    fill_zones(ZONE + 1, 1);

    /* All zones that have a limit, then some zones, among them one without. */
    n = 0;
    ct_dpif_free_zone_limits(&request);
    assert_int_equal(dpif_xdp_ct_get_limits(NULL DPIF_XDP_DEFAULT_LIMIT(, &n), &request, &reply), 0);
    assert_int_equal(take_default_limit(&reply, n), 100);
    assert_int_equal(ovs_list_size(&reply), 2);
    limit = CONTAINER_OF(ovs_list_front(&reply), struct ct_dpif_zone_limit, node);
    assert_int_equal(limit->zone, ZONE);
    assert_int_equal(limit->limit, 2);
    assert_int_equal(limit->count, 1);
    limit = CONTAINER_OF(ovs_list_back(&reply), struct ct_dpif_zone_limit, node);
    assert_int_equal(limit->zone, 65535);
    assert_int_equal(limit->limit, 3);

    ct_dpif_free_zone_limits(&reply);
    ct_dpif_push_zone_limit(&request, ZONE + 9, 0, 0);
    ct_dpif_push_zone_limit(&request, ZONE, 0, 0);
    assert_int_equal(dpif_xdp_ct_get_limits(NULL DPIF_XDP_DEFAULT_LIMIT(, &n), &request, &reply), 0);
    assert_int_equal(ovs_list_size(&reply), 2);
    limit = CONTAINER_OF(ovs_list_front(&reply), struct ct_dpif_zone_limit, node);
    assert_int_equal(limit->zone, ZONE + 9);
    assert_int_equal(limit->limit, 100);

    ct_dpif_free_zone_limits(&reply);
    ct_dpif_free_zone_limits(&request);
    ct_dpif_push_zone_limit(&request, ZONE, 0, 0);
    assert_int_equal(dpif_xdp_ct_del_limits(NULL, &request), 0);
    ct_dpif_free_zone_limits(&request);
    assert_int_equal(dpif_xdp_ct_get_limits(NULL DPIF_XDP_DEFAULT_LIMIT(, &n), &request, &reply), 0);
    assert_int_equal(take_default_limit(&reply, n), 100);
    assert_int_equal(ovs_list_size(&reply), 1);
    ct_dpif_free_zone_limits(&reply);
}

static void
test_timeout_policies(void **state OVS_UNUSED)
{
    struct ct_dpif_timeout_policy policy = { .id = TP_ID };

    assert_int_equal(dpif_xdp_ct_get_timeout_policy(NULL, TP_ID, &policy), ENOENT);

    /* Setting one replaces it. */
    for (uint32_t attr = CT_DPIF_TP_ATTR_UDP_FIRST; attr <= CT_DPIF_TP_ATTR_UDP_SINGLE; attr++) {
        policy.present = 1u << attr;
        policy.attrs[attr] = 1000 + attr;
        assert_int_equal(dpif_xdp_ct_set_timeout_policy(NULL, &policy), 0);
        memset(&policy, 0, sizeof policy);
        assert_int_equal(dpif_xdp_ct_get_timeout_policy(NULL, TP_ID, &policy), 0);
        assert_int_equal(policy.id, TP_ID);
        assert_int_equal(policy.present, 1u << attr);
        assert_int_equal(policy.attrs[attr], 1000 + attr);
    }
    assert_int_equal(dpif_xdp_ct_del_timeout_policy(NULL, TP_ID), 0);
    assert_int_equal(dpif_xdp_ct_get_timeout_policy(NULL, TP_ID, &policy), ENOENT);
}

static void
test_fragments(void **state OVS_UNUSED)
{
    struct dpif_ipf_status status;
    struct ipf_dump_ctx *ctx;
    char *line;

    assert_int_equal(dpif_xdp_ipf_set_enabled(NULL, true, false), 0);
    assert_int_equal(dpif_xdp_ipf_set_min_frag(NULL, false, 1000), 0);
    assert_int_equal(dpif_xdp_ipf_set_min_frag(NULL, true, 1400), 0);
    assert_int_equal(dpif_xdp_ipf_set_max_nfrags(NULL, 50), 0);
    memset(&status, 0xff, sizeof status);
    assert_int_equal(dpif_xdp_ipf_get_status(NULL, &status), 0);
    assert_true(status.v4.enabled);
    assert_false(status.v6.enabled);
    assert_int_equal(status.v4.min_frag_size, 1000);
    assert_int_equal(status.v6.min_frag_size, 1400);
    assert_int_equal(status.nfrag_max, 50);
    assert_int_equal(status.nfrag, 0);
    assert_int_equal(status.v4.nfrag_accepted | status.v6.nfrag_purged, 0);

    assert_int_equal(dpif_xdp_ipf_dump_start(NULL, &ctx), 0);
    assert_int_equal(dpif_xdp_ipf_dump_next(NULL, ctx, &line), EOF);
    assert_int_equal(dpif_xdp_ipf_dump_done(NULL, ctx), 0);
}

#define N_THREADS 4
#define N_PACKETS 48            /* Of each thread: all threads have the same. */
#define N_TURNS 20000

/* Makes, finds and marks the same connections as other threads do. */
static void *
send_packets(void *number)
{
    static const char *const actions[] = {
        "ct(commit,zone=7,mark=%d)", "ct(zone=7)", "ct(commit,zone=8)", "ct(force_commit,zone=7,label=%d)",
    };
    struct dp_packet *packets[N_PACKETS];
    struct ofpbuf odp[ARRAY_SIZE(actions)];
    uint32_t seed = 1 + (uintptr_t) number;
    struct flow flow;

    for (int i = 0; i < N_PACKETS; i++) {
        char *text
            = xasprintf("in_port(1)," ETHERNET "eth_type(0x0800),ipv4(src=10.0.0.%d,dst=10.0.0.%d,proto=17,ttl=64),"
                        "udp(src=%d,dst=%d)",
                        i & 1 ? 2 : 1, i & 1 ? 1 : 2, i & 1 ? 53 : 1000 + i / 2, i & 1 ? 1000 + i / 2 : 53);

        packets[i] = make_packet(text, &flow);
        free(text);
    }
    for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
        char *text = xasprintf(actions[i], (int) (seed + i));

        ofpbuf_init(&odp[i], 0);
        assert_int_equal(odp_actions_from_string(text, NULL, &odp[i]), 0);
        free(text);
    }
    for (int i = 0; i < N_TURNS; i++) {
        struct dp_packet_batch batch;
        struct dp_packet *packet;

        seed = seed * 1103515245 + 12345;
        packet = packets[(seed >> 16) % N_PACKETS];
        pkt_metadata_init(&packet->md, u32_to_odp(1));
        dp_packet_batch_init_packet(&batch, packet);
        dpif_xdp_ct_execute(ct, &batch, odp[(seed >> 24) % ARRAY_SIZE(odp)].data, &flow, time_msec());
        if (i % 32 == 0) {
            ovsrcu_quiesce();
        }
    }
    for (int i = 0; i < N_PACKETS; i++) {
        dp_packet_delete(packets[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(odp); i++) {
        ofpbuf_uninit(&odp[i]);
    }
    return NULL;
}

/* The clock goes back, and far ahead: ticks follow it, modulo 2^32. */
static void
test_time_jumps(void **state OVS_UNUSED)
{
    static const long long int jumps[] = {
        0, 1, -1, 1000, -1000, 86400000, -86400000, 1LL << 31, -(1LL << 31), 1LL << 32, -(1LL << 32),
        (1LL << 45) + 12345, -(1LL << 45) - 12345,
    };
    long long int now = time_msec();
    uint32_t ticks, hz;

    assert_non_null(dpif_xdp_ct_need_tables(ct));
    ticks = dpif_xdp_ct_ticks(ct, now);
    hz = dpif_xdp_ct_ticks(ct, now + 1000) - ticks;
    assert_in_range(hz, 100, 1000);
    for (size_t i = 0; i < ARRAY_SIZE(jumps); i++) {
        int64_t passed = jumps[i] * hz / 1000;

        /* Both may round. */
        assert_in_range(dpif_xdp_ct_ticks(ct, now + jumps[i]) - (uint32_t) (ticks + passed) + 1, 0, 2);
    }
}

/* A connection lives on although the clock of its packets goes back in
 * between. */
static void
test_packets_of_the_past(void **state OVS_UNUSED)
{
    static const long long int jumps[] = { 0, -10000, -9000, 1000 };
    struct ct_dpif_entry entries[2];
    long long int now = time_msec();

    for (size_t i = 0; i < ARRAY_SIZE(jumps); i++) {
        struct flow flow;
        struct dp_packet *packet = make_packet("in_port(1)," ETHERNET IPV4, &flow);

        execute_at(i ? "ct(zone=7)" : "ct(commit,zone=7)", packet, &flow, now + jumps[i]);
        assert_int_equal(packet->md.ct_state, CS_TRACKED | CS_NEW);
        dp_packet_delete(packet);
        assert_int_equal(dump(NULL, entries, ARRAY_SIZE(entries)), 1);
        assert_in_range(entries[0].timeout, 15, 31);
    }
}

/* Whether every entry is free. */
static bool
all_free(const struct dp_ct_tables *t)
{
    uint32_t n = 0;

    for (uint32_t i = DP_CT_FREE_FIRST(DP_READ_ONCE(t->head->free)); i && i <= t->n_keys && n <= t->n_keys; n++) {
        uint32_t next = DP_READ_ONCE(t->keys[i - 1].next_free);

        i = next ? next : i + 1;
    }
    return n == t->n_keys;
}

/* What threads make, mark, end and flush at the same time is counted once and leaves nothing behind. */
static void
test_threads(void **state OVS_UNUSED)
{
    struct ovs_list limits = OVS_LIST_INITIALIZER(&limits);
    struct dp_ct_tables *t;
    struct ct_dpif_entry entries[8 * N_PACKETS];
    pthread_t threads[N_THREADS];
    const uint16_t zone = 7;

    dpif_xdp_ct_set_max(ct, 16384);
    t = oxdp_ct_tables(dpif_xdp_ct_need_tables(ct));
    ct_dpif_push_zone_limit(&limits, 8, N_PACKETS / 4, 0);
    assert_int_equal(dpif_xdp_ct_set_limits(NULL DPIF_XDP_DEFAULT_LIMIT(, NULL), &limits), 0);
    ct_dpif_free_zone_limits(&limits);
    for (uintptr_t i = 0; i < N_THREADS; i++) {
        threads[i] = ovs_thread_create("sender", send_packets, (void *) i);
    }
    for (int i = 0; i < 200; i++) {
        assert_int_equal(dpif_xdp_ct_flush(NULL, &zone, NULL), 0);
        dump(NULL, entries, ARRAY_SIZE(entries));
        assert_true(t->zones[8].count <= N_PACKETS / 4 + N_THREADS);        /* Each may take one back. */
        ovsrcu_quiesce();
    }
    ovsrcu_quiesce_start();
    for (int i = 0; i < N_THREADS; i++) {
        xpthread_join(threads[i], NULL);
    }
    ovsrcu_quiesce_end();

    size_t n = dump(NULL, entries, ARRAY_SIZE(entries));

    assert_in_range(n, 1, N_PACKETS);           /* Both directions are one connection. */
    assert_int_equal(dpif_xdp_ct_flush(NULL, NULL, NULL), 0);
    assert_int_equal(t->head->n_conns, 0);
    assert_int_equal(t->zones[8].count, 0);
    while (!all_free(t)) {
        dpif_xdp_ct_hurry(ct);
        poll_timer_wait(1);
        poll_block();
    }
    for (uint32_t i = 0; i < t->n_buckets; i++) {
        assert_int_equal(t->buckets[i].lock, 0);
        assert_int_equal(t->buckets[i].n_elsewhere, 0);
        for (int k = 0; k < DP_CT_SLOTS; k++) {
            assert_int_equal(t->buckets[i].slot[k], 0);
        }
    }
    for (uint32_t i = 0; i < t->n_marks; i++) {
        assert_int_equal(t->marks[i].refs, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_actions),
        cmocka_unit_test_setup_teardown(test_nat_ranges, start, stop),
        cmocka_unit_test_setup_teardown(test_dump_and_flush, start, stop),
        cmocka_unit_test_setup_teardown(test_settings, start, stop),
        cmocka_unit_test_setup_teardown(test_limits, start, stop),
        cmocka_unit_test_setup_teardown(test_timeout_policies, start, stop),
        cmocka_unit_test_setup_teardown(test_fragments, start, stop),
        cmocka_unit_test_setup_teardown(test_time_jumps, start, stop),
        cmocka_unit_test_setup_teardown(test_packets_of_the_past, start, stop),
        cmocka_unit_test_setup_teardown(test_threads, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
