/* SPDX-License-Identifier: Apache-2.0 */
/* What each stage of the pipeline costs in BPF_PROG_TEST_RUN, one row per case: nanoseconds per run, of which the
 * program that does nothing takes those of the first row; of the complete program, and of one that is specialised.
 *
 *   bench OBJECT        as root */
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>

#include "core/tables/need.h"
#include "dp/op.h"
#include "tests/bpf_pipeline/harness.h"
#include "tests/parity/ct_world.h"

#define REPEAT 300000
#define ROUNDS 5
#define IN_PORT 7

static const uint8_t udp4[60] = {
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
    0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    0x03, 0xe8, 0, 53, 0, 26, 0, 0,
};
static const uint8_t udp6[78] = {
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd,
    0x60, 0, 0, 0, 0, 24, 17, 64, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
    0x03, 0xe8, 0, 53, 0, 24, 0, 1,
};

/* Headers of tunnels over IPv4, with lengths for nothing inside. */
static const uint8_t vxlan[50] = {
    2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3, 0x08, 0x00,
    0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0x66, 0xca, 10, 0, 0, 3, 10, 0, 0, 4,
    0, 0, 0x12, 0xb5, 0, 0, 0, 0, 0x08, 0, 0, 0, 0, 0, 5, 0,
};
static const uint8_t geneve[58] = {
    2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3, 0x08, 0x00,
    0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0x66, 0xca, 10, 0, 0, 3, 10, 0, 0, 4,
    0, 0, 0x17, 0xc1, 0, 0, 0, 0, 0x02, 0, 0x65, 0x58, 0, 0, 5, 0, 0x01, 0x02, 0x80, 0x01, 0, 1, 0, 2,
};
static const uint8_t gre[42] = {
    2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3, 0x08, 0x00,
    0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 47, 0x66, 0xac, 10, 0, 0, 3, 10, 0, 0, 4,
    0x20, 0, 0x65, 0x58, 0, 0, 0, 5,
};

static const char *object;

static int open_harness(struct harness *);
static uint32_t best(int fd, const uint8_t *frame, uint32_t len);
static void row(const char *what, uint32_t ns);

static union dp_key megaflow_mask(void)
{
    return (union dp_key) {
        .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff }, .vlan = { .tci = { 0xffff } },
        .ip_frag = 3,
    };
}

static union dp_key megaflow_key(uint16_t eth_type)
{
    return (union dp_key) { .in_port = IN_PORT, .eth_type = dp_htons(eth_type) };
}

static struct oxdp_flow flow_of(const union dp_key *key, const union dp_key *mask)
{
    return (struct oxdp_flow) { .key = key, .mask = mask, .fate = DP_FATE_OUTPUT, .arg = 2 };
}

static uint32_t insert(struct harness *h, const struct oxdp_flow *flow)
{
    enum oxdp_table_full full;
    uint32_t index = DP_NO_FLOW;

    if (oxdp_table_insert(h->table, flow, &index, &full)) {
        fprintf(stderr, "%s\n", oxdp_table_full_to_string(full));
    }
    return index;
}

/* 'n' flows that the complete program runs, then one that omits what they do not need.  'undo': harness_undo(). */
static void bench_flows(struct harness *h, const char *what, const uint8_t *frame, uint32_t len,
                        const struct oxdp_flow *flows, uint32_t n, int32_t undo)
{
    struct oxdp_needs needs = { .parts = 0 };
    uint32_t index[2];
    struct harness special;
    char text[64];

    for (uint32_t i = 0; i < n; i++) {
        struct oxdp_needs more = oxdp_needs_of_flow(&flows[i]);

        oxdp_needs_add(&needs, &more);
        index[i] = insert(h, &flows[i]);
    }
    harness_undo(h, undo);
    row(what, best(h->pipeline_fd, frame, len));
    harness_undo(h, 0);
    for (uint32_t i = 0; i < n; i++) {
        oxdp_table_unlink(h->table, index[i]);
    }
    oxdp_table_reclaim(h->table);

    oxdp_needs_close(&needs);
    harness_omit = oxdp_needs_complement(&needs);
    if (!open_harness(&special)) {
        for (uint32_t i = 0; i < n; i++) {
            insert(&special, &flows[i]);
        }
        harness_undo(&special, undo);
        snprintf(text, sizeof text, "specialised: %s", what);
        row(text, best(special.pipeline_fd, frame, len));
        if (special.n_fates[DP_FATE_ENGINE]) {
            printf("  %llu runs ended in the engine\n", (unsigned long long) special.n_fates[DP_FATE_ENGINE]);
        }
        harness_close(&special);
    }
    memset(&harness_omit, 0, sizeof harness_omit);
}

static void bench_ip4(struct harness *h, const char *what, const struct dp_op *ops, uint32_t n_ops)
{
    union dp_key mask = megaflow_mask();
    union dp_key key = megaflow_key(DP_ETH_IP4);
    struct oxdp_flow flow = flow_of(&key, &mask);

    flow.ops = ops;
    flow.n_ops = n_ops;
    bench_flows(h, what, udp4, sizeof udp4, &flow, 1, 0);
}

static void bench_push(struct harness *h, const char *what, const uint8_t *header, uint32_t len)
{
    union dp_key mask = megaflow_mask();
    union dp_key key = megaflow_key(DP_ETH_IP4);
    struct oxdp_flow flow = flow_of(&key, &mask);
    struct dp_blob blob = { .align = 0 };
    struct dp_op op = {
        .code = DP_OP_TNL_PUSH, .n_blobs = 1, .growth = len,
        .u.tunnel_push = {
            .len = len, .udp = header[DP_ETH_LEN + 9] == DP_IP_UDP, .first_port = 32768, .n_ports = 28232,
        },
    };

    memcpy(blob.bytes, header, len);
    memcpy(&op.u.tunnel_push.tail, header + len - 8, 8);
    flow.ops = &op;
    flow.n_ops = 1;
    flow.blobs = &blob;
    bench_flows(h, what, udp4, sizeof udp4, &flow, 1, len);
}

/* Two flows: what has the header loses it, what was inside goes on. */
static void bench_pop(struct harness *h, const char *what, const uint8_t *header, uint32_t len, enum dp_tunnel kind)
{
    struct dp_op op = {
        .code = kind == DP_TUNNEL_GENEVE ? DP_OP_TNL_POP_GENEVE : DP_OP_TNL_POP, .u.tunnel_pop = { 9, kind },
    };
    union dp_key mask = megaflow_mask(), inner_mask = mask;
    union dp_key key = megaflow_key(DP_ETH_IP4), inner_key = key;
    struct oxdp_flow flows[] = { flow_of(&key, &mask), flow_of(&inner_key, &inner_mask) };
    uint8_t frame[128];
    uint8_t *ip = frame + DP_ETH_LEN;
    struct dp_ctx ctx = { .data = frame, .end = frame + sizeof frame };
    uint16_t ip_len = len - DP_ETH_LEN + sizeof udp4, sum;

    memcpy(frame, header, len);
    memcpy(frame + len, udp4, sizeof udp4);
    dp_store16(ip + 2, dp_htons(ip_len).raw);
    if (kind != DP_TUNNEL_GRE) {
        dp_store16(ip + DP_IP4_LEN + 4, dp_htons(ip_len - DP_IP4_LEN).raw);
    }
    dp_store16(ip + 10, 0);
    sum = ~dp_csum_fold(dp_ct_sum(&ctx, DP_ETH_LEN, DP_IP4_LEN));
    dp_store16(ip + 10, sum);
    flows[0].ops = &op;
    flows[0].n_ops = 1;
    flows[0].fate = DP_FATE_RECIRC;
    flows[0].arg = 0;
    inner_key.in_port = 9;
    inner_key.tun_id.raw = DP_BYTES(4, 4, dp_htonl(5).raw);
    inner_mask.tun_id.raw = UINT64_MAX;
    bench_flows(h, what, frame, len + sizeof udp4, flows, 2, -(int32_t) len);
}

static void bench_ip6(struct harness *h)
{
    union dp_key mask = megaflow_mask();
    union dp_key key = megaflow_key(DP_ETH_IP6);

    memset(&mask.ip6_src_hi, 0xff, 8);
    memset(&mask.ip6_src_lo, 0xff, 24);
    memset(&mask.tp_src, 0xff, 4);
    mask.ip_proto = 0xff;
    key.ip_proto = DP_IP_UDP;
    memcpy(&key.ip6_src_hi, udp6 + 22, 8);
    memcpy(&key.ip6_src_lo, udp6 + 30, 24);
    memcpy(&key.tp_src, udp6 + 54, 4);

    struct oxdp_flow flow = flow_of(&key, &mask);

    bench_flows(h, "IPv6, 5-tuple, output", udp6, sizeof udp6, &flow, 1, 0);
}

/* Masks that nothing matches before one that does: walked each time, because the cache holds no miss. */
static void bench_masks(struct harness *h, int n)
{
    char what[64];

    for (int i = 0; i < n; i++) {
        union dp_key mask = megaflow_mask();
        union dp_key key = megaflow_key(DP_ETH_IP4);

        mask.ip4_dst = dp_htonl(UINT32_MAX << i);
        key.ip4_dst = dp_htonl(0x0b000000);
        struct oxdp_flow flow = flow_of(&key, &mask);

        insert(h, &flow);
    }
    snprintf(what, sizeof what, "miss after %d masks", n);
    row(what, best(h->pipeline_fd, udp4, sizeof udp4));
}

/* A packet of an established connection: TCP or UDP over IPv4 or IPv6, from who began it or, 'reply', from its peer. */
static uint32_t make_frame(bool v6, uint8_t proto, uint8_t tcp_flags, bool reply, uint8_t frame[128])
{
    uint32_t ip_len = v6 ? DP_IP6_LEN : DP_IP4_LEN;
    uint32_t l4_len = proto == DP_IP_TCP ? DP_TCP_LEN : 26;
    uint8_t *ip = frame + DP_ETH_LEN, *l4 = ip + ip_len;
    uint16_t sum = 0;

    memset(frame, 0, 128);
    memcpy(frame, v6 ? udp6 : udp4, DP_ETH_LEN + ip_len + 4);
    if (reply) {
        memcpy(ip + (v6 ? 8 : 12), (v6 ? udp6 : udp4) + DP_ETH_LEN + (v6 ? 24 : 16), v6 ? 16 : 4);
        memcpy(ip + (v6 ? 24 : 16), (v6 ? udp6 : udp4) + DP_ETH_LEN + (v6 ? 8 : 12), v6 ? 16 : 4);
        memcpy(l4, (v6 ? udp6 : udp4) + DP_ETH_LEN + ip_len + 2, 2);
        memcpy(l4 + 2, (v6 ? udp6 : udp4) + DP_ETH_LEN + ip_len, 2);
    }
    ip[v6 ? 6 : 9] = proto;
    ip[v6 ? 5 : 3] = v6 ? l4_len : ip_len + l4_len;
    if (!v6) {
        struct dp_ctx ctx = { .data = frame, .end = frame + 128 };

        sum = ~dp_csum_fold(dp_ct_sum(&ctx, DP_ETH_LEN, DP_IP4_LEN));
        memcpy(ip + 10, &sum, 2);
    }
    if (proto == DP_IP_TCP) {
        l4[7] = !(tcp_flags & DP_TCP_SYN);      /* Both ends began with sequence number 0. */
        l4[11] = tcp_flags & DP_TCP_ACK ? 1 : 0;
        l4[12] = 0x50;
        l4[13] = tcp_flags;
        l4[14] = 0x40;
    } else {
        l4[5] = l4_len;
    }
    return DP_ETH_LEN + ip_len + l4_len;
}

/* Passes one packet through the tracker, as the engine would. */
static void track(struct ct_world *w, const struct dp_ct_action *action, bool v6, uint8_t proto, uint8_t tcp_flags,
                  bool reply)
{
    static struct dp_ct_run run;
    uint8_t frame[128];
    uint32_t len = make_frame(v6, proto, tcp_flags, reply, frame);
    struct dp_frame layers = { .l3 = DP_ETH_LEN, .l4 = DP_ETH_LEN + (v6 ? DP_IP6_LEN : DP_IP4_LEN) };
    struct dp_ct_action trusting = *action;

    trusting.flags |= DP_CT_GOOD_L4;
    layers.l4_len = len - layers.l4;
    w->ctx.start = w->ctx.data = frame;
    w->ctx.end = frame + len;
    memset(&run, 0, sizeof run);
    dp_ct(&w->ctx, &layers, v6, &trusting, 0, &run);
}

/* All connections are established, whatever their peers did. */
static void establish(struct ct_world *w, uint8_t proto)
{
    for (uint32_t i = 0; i < w->tables.n_keys; i++) {
        struct dp_ct_life *life = &w->tables.lives[i];
        uint64_t state = life->state;

        if (!(w->tables.keys[i].flags & DP_CT_KEY_USED)) {
            continue;
        }
        state = DP_CT_PUT(state, DP_CT_STATE_TCP(0), 8, DP_CT_TCP_ESTABLISHED | DP_CT_TCP_ESTABLISHED << 4);
        state = DP_CT_PUT(state, DP_CT_STATE_WIN(0), 16, 0x4000);
        state = DP_CT_PUT(state, DP_CT_STATE_WIN(1), 16, 0x4000);
        state = DP_CT_PUT(state, DP_CT_STATE_CLASS, 4,
                          proto == DP_IP_TCP ? DP_CT_TM_TCP_ESTABLISHED : DP_CT_TM_OTHER_BIDIR);
        life->state = state;
        life->window[0] = DP_CT_WINDOW(1, 0x4001);
        life->window[1] = DP_CT_WINDOW(1, 0x4001);
    }
}

/* Inserts flow number 'i': ct(zone = i + 1) and recirculation, or with i = zones output of what is established.
 * Adds what it needs. */
static void insert_ct_flow(struct harness *h, bool v6, bool nat, uint32_t i, uint32_t zones, struct oxdp_needs *needs)
{
    union dp_key mask = megaflow_mask(), key = megaflow_key(v6 ? DP_ETH_IP6 : DP_ETH_IP4);
    struct dp_op op = { .code = DP_OP_CT, .u.ct = { .zone = i + 1, .flags = nat ? DP_CT_NAT : 0 } };
    struct oxdp_flow flow = flow_of(&key, &mask);
    struct oxdp_needs more;

    key.recirc_id = i;
    if (i) {
        key.ct_state = DP_CS_TRK | DP_CS_EST;
        mask.ct_state = DP_CS_TRK | DP_CS_EST | DP_CS_INV | DP_CS_NEW;
    }
    if (i < zones) {
        flow.ops = &op;
        flow.n_ops = 1;
        flow.fate = DP_FATE_RECIRC;
        flow.arg = i + 1;
    }
    more = oxdp_needs_of_flow(&flow);
    oxdp_needs_add(needs, &more);
    if (h) {
        insert(h, &flow);
    }
}

/* 'zones' times ct() and recirculation, output of what is established: pass by pass, and by the path cache. */
static void bench_ct(const char *what, bool v6, uint8_t proto, bool nat, uint32_t zones, bool special)
{
    struct dp_ct_action action = { .flags = DP_CT_COMMIT | (nat ? DP_CT_NAT | DP_CT_TO_SRC : 0) };
    struct ct_world world = { .ctx = { .cpu = 0 } };
    struct oxdp_needs needs = { .parts = 0 };
    struct dp_path_head *head;
    uint8_t frame[128];
    uint32_t len = make_frame(v6, proto, DP_TCP_ACK, false, frame);
    struct harness h;
    char text[96];

    for (uint32_t i = 0; i <= zones; i++) {
        insert_ct_flow(NULL, v6, nat, i, zones, &needs);
    }
    oxdp_needs_close(&needs);
    if (special) {
        harness_omit = oxdp_needs_complement(&needs);
    }
    harness_conns = 1024;
    if (open_harness(&h)) {
        return;
    }
    world.tables = h.ct;
    ct_world_begin(&world);
    if (nat) {
        /* To its own address: the same frame is passed again and again. */
        memcpy(action.nat.min, frame + DP_ETH_LEN + (v6 ? 8 : 12), v6 ? 16 : 4);
        memcpy(action.nat.max, action.nat.min, 16);
    }
    for (uint32_t i = 0; i <= zones; i++) {
        insert_ct_flow(&h, v6, nat, i, zones, &needs);
    }
    for (action.zone = 1; action.zone <= zones; action.zone++) {
        track(&world, &action, v6, proto, DP_TCP_SYN, false);
    }
    establish(&world, proto);
    head = h.paths.path_head;
    head->micro_last = h.paths.n_micros - 1;
    for (int path = 0; path < 2; path++) {
        head->fresh = path ? UINT32_MAX / 4 : 0;
        snprintf(text, sizeof text, "%s%s, %s", special ? "specialised: " : "", what, path ? "path" : "passes");
        row(text, best(h.pipeline_fd, frame, len));
    }
    if (h.n_fates[DP_FATE_ENGINE] || !head->n_micros) {
        printf("  %llu runs ended in the engine, %u microflows\n", (unsigned long long) h.n_fates[DP_FATE_ENGINE],
               head->n_micros);
    }
    harness_close(&h);
    memset(&harness_omit, 0, sizeof harness_omit);
    harness_conns = 0;
}

int main(int argc, char **argv)
{
    static const struct dp_op set_eth = { .code = DP_OP_SET_ETH, .u.eth = { { 1, 2, 3 }, { ~0u, ~0u, ~0u } } };
    static const struct dp_op rewrite[] = {
        { .code = DP_OP_SET_ETH, .u.eth = { { 1, 2, 3 }, { ~0u, ~0u, ~0u } } },
        { .code = DP_OP_SET_IP4, .needs = DP_HAS_IP4,
          .u.ip4 = { .src = 0x0100000b, .src_mask = ~0u, .ttl = 63, .ttl_mask = 255 } },
    };
    static const struct dp_op vlan[] = {
        { .code = DP_OP_PUSH_VLAN, .growth = DP_VLAN_LEN, .u.vlan = { { 0x0081 }, { 0x0510 } } },
        { .code = DP_OP_POP_VLAN },
    };
    struct harness h;

    object = argc > 1 ? argv[1] : "";
    if (open_harness(&h)) {
        return 1;
    }
    printf("%u instructions verified\n", h.n_verified);
    row("nothing", best(h.empty_fd, udp4, sizeof udp4));
    row("miss, no masks", best(h.pipeline_fd, udp4, sizeof udp4));
    bench_ip4(&h, "output", NULL, 0);
    bench_ip4(&h, "set Ethernet, output", &set_eth, 1);
    bench_ip4(&h, "set Ethernet, set IPv4, decrement TTL, output", rewrite, 2);
    bench_ip4(&h, "push VLAN, pop VLAN, output", vlan, 2);
    bench_ip6(&h);
    bench_push(&h, "push VXLAN, output", vxlan, sizeof vxlan);
    bench_push(&h, "push Geneve with an option, output", geneve, sizeof geneve);
    bench_push(&h, "push GRE with a key, output", gre, sizeof gre);
    bench_pop(&h, "pop VXLAN, output", vxlan, sizeof vxlan, DP_TUNNEL_VXLAN);
    bench_pop(&h, "pop Geneve with an option, output", geneve, sizeof geneve, DP_TUNNEL_GENEVE);
    bench_pop(&h, "pop GRE with a key, output", gre, sizeof gre, DP_TUNNEL_GRE);
    bench_masks(&h, 16);
    for (int special = 0; special < 2; special++) {
        bench_ct("TCP, 1 zone", false, DP_IP_TCP, false, 1, special);
        bench_ct("UDP, 1 zone", false, DP_IP_UDP, false, 1, special);
        bench_ct("TCP over IPv6, 1 zone", true, DP_IP_TCP, false, 1, special);
        bench_ct("TCP, 1 zone, NAT", false, DP_IP_TCP, true, 1, special);
        bench_ct("TCP over IPv6, 1 zone, NAT", true, DP_IP_TCP, true, 1, special);
        bench_ct("TCP, 3 zones, NAT", false, DP_IP_TCP, true, 3, special);
        bench_ct("UDP, 3 zones, NAT", false, DP_IP_UDP, true, 3, special);
        bench_ct("TCP over IPv6, 3 zones, NAT", true, DP_IP_TCP, true, 3, special);
    }
    harness_close(&h);
    return 0;
}

static int open_harness(struct harness *h)
{
    struct oxdp_table_config config = oxdp_table_config(10000, 2);
    static const struct oxdp_table_callbacks callbacks = { .grace = harness_no_grace };

    return harness_open(object, &config, &callbacks, h);
}

static void row(const char *what, uint32_t ns)
{
    printf("%-48s %5u ns\n", what, ns);
}

static uint32_t best(int fd, const uint8_t *frame, uint32_t len)
{
    uint32_t least = UINT32_MAX;

    for (int i = 0; i < ROUNDS; i++) {
        uint8_t out[2048];
        uint32_t out_len, ns;

        if (harness_run(fd, frame, len, REPEAT, out, &out_len, &ns) >= 0 && ns < least) {
            least = ns;
        }
    }
    return least;
}
