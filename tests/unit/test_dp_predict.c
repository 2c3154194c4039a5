/* SPDX-License-Identifier: Apache-2.0 */
/* dp/predict.h and dp/inside.h: what they take for granted of a frame is what dp_parse() and the flow's mask say of
 * it. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

#include "core/tables/table.h"
#include "dp/seam_native.h"
#include "dp/pipeline.h"

#define ROUNDS 300000
#define IN_PORT 3
#define VLAN_LIMIT 2

struct frame {
    uint8_t bytes[400];
    uint32_t len;
    uint32_t ip, transport;     /* Offsets. */
    bool plain;                 /* Neither a fragment nor with options. */
};

struct world {
    struct oxdp_table *table;
    struct dp_ctx ctx;
    struct dp_prediction *expected;
};

static void no_grace(void *aux)
{
}

static int world_create(void **state)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = no_grace };
    struct oxdp_table_config config = oxdp_table_config(16, 1);
    struct world *w = calloc(1, sizeof *w);

    config.vlan_limit = VLAN_LIMIT;
    assert_int_equal(oxdp_table_create(&config, NULL, &callbacks, &w->table), 0);
    w->ctx.tables = oxdp_table_memory(w->table);
    w->expected = dp_prediction_of(&w->ctx, IN_PORT);
    srand(1);
    *state = w;
    return 0;
}

static int world_destroy(void **state)
{
    struct world *w = *state;

    oxdp_table_destroy(w->table);
    free(w);
    return 0;
}

static void show(struct world *w, struct frame *frame)
{
    w->ctx.start = w->ctx.data = frame->bytes;
    w->ctx.end = frame->bytes + frame->len;
}

/* TCP or UDP in IPv4 or IPv6, behind a tag or none, with values from small ranges. */
static struct frame make_frame(void)
{
    struct frame f = { .ip = 14, .plain = true };
    bool tcp = rand() & 1;
    int header = tcp ? 20 + rand() % 3 * 4 : 8;
    int payload = rand() % 40 + (rand() % 4 ? 0 : 220);
    uint8_t *ip;

    for (size_t i = 0; i < sizeof f.bytes; i++) {
        f.bytes[i] = rand() & 3;
    }
    if (rand() & 1) {
        dp_store16(f.bytes + 12, dp_htons(rand() & 1 ? DP_ETH_VLAN : DP_ETH_QINQ).raw);
        f.ip = 18;
    }
    ip = f.bytes + f.ip;
    if (rand() & 1) {
        int options = rand() % 8 ? 0 : 4;
        uint16_t fragment = rand() % 8 ? rand() & 0x4000 : 0x2000;

        dp_store16(ip - 2, dp_htons(DP_ETH_IP4).raw);
        ip[0] = 0x45 + options / 4;
        dp_store16(ip + 2, dp_htons(20 + options + header + payload).raw);
        dp_store16(ip + 6, dp_htons(fragment).raw);
        ip[9] = tcp ? DP_IP_TCP : DP_IP_UDP;
        f.transport = f.ip + 20 + options;
        f.plain = !options && fragment != 0x2000;
    } else {
        dp_store16(ip - 2, dp_htons(DP_ETH_IP6).raw);
        ip[0] |= 0x60;
        dp_store16(ip + 4, dp_htons(header + payload).raw);
        ip[6] = tcp ? DP_IP_TCP : DP_IP_UDP;
        f.transport = f.ip + 40;
    }
    if (tcp) {
        f.bytes[f.transport + 12] = header << 2;
    }
    f.len = f.transport + header + payload + rand() % 3 * 8;
    return f;
}

/* Some bits of any words that parsing fills, and the Ethernet type, as Open vSwitch always does. */
static union dp_key make_mask(void)
{
    union dp_key mask = { .eth_type = { 0xffff } };

    for (int i = 0; i < DP_PACKET_WORDS; i++) {
        for (int j = 0; j < 8; j++) {
            uint8_t bits = rand() % 3 ? 0 : rand() & 1 ? 0xff : rand();

            mask.w[i] |= (uint64_t) bits << 8 * j;
        }
    }
    mask.in_port = UINT32_MAX;
    mask.recirc_id = UINT32_MAX;
    return mask;
}

/* A frame like '*from', but for what chance changes: bytes, the length of IP, the end, a checksum that is left to
 * others. */
static struct frame mutate(const struct frame *from)
{
    struct frame f = *from;
    uint8_t *ip = f.bytes + f.ip;

    switch (rand() % 5) {
    case 0:
        f = make_frame();
        break;
    case 1:
        f.len -= rand() % 40;
        break;
    case 2:
        dp_store16(ip + (rand() & 1 ? 2 : 4), dp_htons(rand() % 300).raw);
        break;
    case 3: {
        bool is_ip4 = dp_load16(ip - 2) == dp_htons(DP_ETH_IP4).raw;
        bool is_tcp = ip[is_ip4 ? 9 : 6] == DP_IP_TCP;
        uint32_t len = dp_ntohs(dp_load_be16(ip + (is_ip4 ? 2 : 4))) - (is_ip4 ? f.transport - f.ip : 0);
        uint64_t sum = dp_pending_sum(ip + (is_ip4 ? 12 : 8), is_ip4 ? 1 : 4)
            + dp_htons(is_tcp ? DP_IP_TCP : DP_IP_UDP).raw + dp_htons(len).raw;

        while (sum >> 16) {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        dp_store16(f.bytes + f.transport + (is_tcp ? 16 : 6), sum);
        return f;
    }
    }
    for (int n = rand() % 4; n; n--) {
        f.bytes[rand() % 80] ^= 1 << rand() % 8;
    }
    return f;
}

static uint32_t insert(struct world *w, const union dp_key *key, const union dp_key *mask, uint8_t fate)
{
    union dp_key masked;
    struct oxdp_flow spec = { .key = &masked, .mask = mask, .fate = fate, .arg = 5 };
    enum oxdp_table_full full;
    uint32_t index;

    for (int i = 0; i < DP_KEY_WORDS; i++) {
        masked.w[i] = key->w[i] & mask->w[i];
    }
    assert_int_equal(oxdp_table_insert(w->table, &spec, &index, &full), 0);
    return index;
}

static int parse(struct world *w, struct dp_frame *frame, union dp_key *key)
{
    memset(key, 0, sizeof *key);
    key->in_port = IN_PORT;
    return dp_parse(&w->ctx, frame, key, VLAN_LIMIT);
}

/* Of two frames that were parsed: what a prediction cannot tell apart. */
static bool same_kind(const struct frame *a, const struct dp_frame *in_a, const struct frame *b,
                      const struct dp_frame *in_b)
{
    return in_a->l3 == in_b->l3 && in_a->l4 == in_b->l4 && (in_a->has | DP_HAS_SHORT) == (in_b->has | DP_HAS_SHORT)
        && !memcmp(a->bytes + 12, b->bytes + 12, 2)
        && (in_a->has & DP_HAS_IP6 || a->bytes[in_a->l3] == b->bytes[in_b->l3])
        && (in_a->has & DP_HAS_UDP || a->bytes[in_a->l4 + 12] >> 4 == b->bytes[in_b->l4 + 12] >> 4);
}

/* A frame is taken for one of the flow if and only if parsing and the mask say so, and then it is described as parsing
 * does. */
static void test_frames(void **state)
{
    struct world *w = *state;
    int n_predicted = 0, n_not = 0, n_pending = 0, n_kinds[3] = { 0, 0, 0 };

    for (int round = 0; round < ROUNDS; round++) {
        struct frame first = make_frame(), next = mutate(&first);
        struct dp_frame learned = { .local_stack = 0 }, parsed, predicted;
        union dp_key mask = make_mask(), key;
        uint32_t tcp_flags = 0;

        show(w, &first);
        assert_int_equal(parse(w, &learned, &key), DP_PARSED);

        uint32_t index = insert(w, &key, &mask, DP_FATE_OUTPUT);
        const struct dp_flow *flow = dp_flows_at(&w->ctx, index);

        memset(w->expected, 0, sizeof *w->expected);
        dp_predict_next(&w->ctx, &learned, &key, index, w->expected);
        assert_true(w->expected->reach ? first.plain : !first.plain || first.len < DP_PREDICTED_LONG);

        show(w, &next);
        parsed.local_stack = predicted.local_stack = rand() & 1;

        const struct dp_flow *found = w->expected->reach
            ? dp_predict(&w->ctx, w->expected, 0, IN_PORT, &predicted, &tcp_flags) : NULL;
        int result = parse(w, &parsed, &key);

        if (found) {
            assert_ptr_equal(found, flow);
            assert_int_equal(result, DP_PARSED);
            assert_true(dp_flow_matches(&w->ctx, flow, &key));
            assert_memory_equal(&predicted, &parsed, offsetof(struct dp_frame, entropy));
            assert_int_equal(tcp_flags, parsed.has & DP_HAS_TCP ? dp_ntohs(key.tcp_flags) : 0);
            n_predicted++;
            n_kinds[w->expected->reach == DP_PREDICTED_SHORT ? 0 : w->expected->reach == DP_PREDICTED_MIDDLE ? 1 : 2]++;
        } else if (w->expected->reach) {
            assert_false(result == DP_PARSED && dp_flow_matches(&w->ctx, flow, &key) && !key.ip_frag
                         && next.len >= w->expected->reach
                         && (!parsed.local_stack || next.len >= parsed.l3 + DP_IP6_LEN)
                         && same_kind(&first, &learned, &next, &parsed));
            n_not++;
            n_pending += result == DP_PARSE_UNFINISHED;
        }
        oxdp_table_unlink(w->table, index);
        oxdp_table_reclaim(w->table);
    }
    assert_in_range(n_predicted, ROUNDS / 10, ROUNDS);
    assert_in_range(n_not, ROUNDS / 10, ROUNDS);
    assert_in_range(n_pending, ROUNDS / 100, ROUNDS);
    for (int i = 0; i < 3; i++) {
        assert_in_range(n_kinds[i], ROUNDS / 100, ROUNDS);
    }
}

static struct frame make_plain(void)
{
    struct frame frame;

    do {
        frame = make_frame();
    } while (!frame.plain || frame.len < DP_PREDICTED_LONG);
    return frame;
}

static const struct dp_flow *predict(struct world *w, uint32_t in_port)
{
    struct dp_frame frame = { .local_stack = 0 };
    uint32_t tcp_flags;

    return dp_predict(&w->ctx, w->expected, 0, in_port, &frame, &tcp_flags);
}

/* A prediction ends with its flow, and is about one port; what the flow does may change. */
static void test_flow_changes(void **state)
{
    struct world *w = *state;
    struct frame first = make_plain();
    struct dp_frame frame = { .local_stack = 0 };
    union dp_key key, mask = { .in_port = UINT32_MAX, .eth_type = { 0xffff } };

    show(w, &first);
    assert_int_equal(parse(w, &frame, &key), DP_PARSED);

    uint32_t index = insert(w, &key, &mask, DP_FATE_OUTPUT);
    struct dp_flow *flow = dp_flows_at(&w->ctx, index);

    memset(w->expected, 0, sizeof *w->expected);
    assert_null(predict(w, 0));                         /* Nothing was learned: not even of flow 0, which is free. */
    dp_predict_next(&w->ctx, &frame, &key, index, w->expected);
    assert_ptr_equal(predict(w, IN_PORT), flow);
    assert_null(predict(w, IN_PORT + DP_PREDICTED_PORTS));  /* Has the same place. */
    flow->fate = DP_FATE_ENGINE;
    assert_ptr_equal(predict(w, IN_PORT), flow);
    flow->fate = DP_FATE_RECIRC;
    assert_null(predict(w, IN_PORT));
    flow->fate = DP_FATE_OUTPUT;
    assert_ptr_equal(predict(w, IN_PORT), flow);
    oxdp_table_unlink(w->table, index);
    assert_null(predict(w, IN_PORT));
    memset(w->expected, 0, sizeof *w->expected);
    dp_predict_next(&w->ctx, &frame, &key, index, w->expected);
    assert_null(predict(w, IN_PORT));                   /* Who found it before it was unlinked learns nothing of it. */
    oxdp_table_reclaim(w->table);
    assert_int_equal(insert(w, &key, &mask, DP_FATE_DROP), index);
    assert_null(predict(w, IN_PORT));                   /* Equal, but another flow. */
    oxdp_table_unlink(w->table, index);
    oxdp_table_reclaim(w->table);
}

static void send(struct world *w, struct frame frame)
{
    struct dp_run run = { .frame.local_stack = 0 };
    struct dp_outcome outcome;

    show(w, &frame);
    outcome = dp_pipeline(&w->ctx, IN_PORT, &run);
    assert_int_equal(outcome.fate, DP_FATE_OUTPUT);
    assert_int_equal(outcome.reason, DP_REASON_FORWARDED);
    assert_int_equal(outcome.to, 5);
}

/* Frames of two flows by turns are hardly predicted, those of one flow are again; every frame is counted once, for its
 * flow. */
static void test_trains(void **state)
{
    struct world *w = *state;
    union dp_key mask = { .in_port = UINT32_MAX, .eth_type = { 0xffff }, .eth_src = { 0xff } };
    struct frame frames[2] = { make_plain() };
    struct dp_frame frame = { .local_stack = 0 };
    uint32_t flows[2];
    uint64_t tries = 0;

    frames[1] = frames[0];
    frames[1].bytes[6] ^= 1;
    for (int i = 0; i < 2; i++) {
        union dp_key key;

        show(w, &frames[i]);
        assert_int_equal(parse(w, &frame, &key), DP_PARSED);
        flows[i] = insert(w, &key, &mask, DP_FATE_OUTPUT);
    }
    memset(w->expected, 0, sizeof *w->expected);
    for (int i = 0; i < 100000; i++) {
        tries += !w->expected->rest;
        send(w, frames[i & 1]);
    }
    assert_in_range(tries, 1, 400);
    assert_int_equal(w->expected->hits, 0);
    for (int i = 0; i < 10000; i++) {
        send(w, frames[0]);
    }
    assert_in_range(w->expected->hits, 10000 - DP_PREDICTION_REST - 2, 9999);
    for (int train = 0; train < 1000; train++) {
        for (int i = 0; i < 4; i++) {
            send(w, frames[train & 1]);
        }
    }
    assert_in_range(w->expected->hits, 10000 - DP_PREDICTION_REST + 2900, 13999);
    for (int i = 0; i < 2; i++) {
        struct dp_stats stats;

        oxdp_table_stats(w->table, flows[i], &stats);
        assert_int_equal(stats.packets, i ? 52000 : 62000);
        assert_int_equal(stats.bytes, stats.packets * frames[i].len);
        oxdp_table_unlink(w->table, flows[i]);
    }
    oxdp_table_reclaim(w->table);
}

#define TUNNEL_PORT 19          /* With IN_PORT's place among the ports. */
#define PACKETS 4               /* Of each round: one that tells, others that are like it or not. */

/* A tunnel's packet in headroom, as it was sent. */
struct packet {
    uint8_t bytes[512];
    uint32_t len;
};

/* One of 'kind' with '*inside' in it, with values from small ranges. */
static struct packet wrap(enum dp_tunnel kind, const struct frame *inside)
{
    struct packet p = { .len = DP_ETH_LEN + DP_IP4_LEN };
    uint8_t *ip = p.bytes + DP_ETH_LEN, *head = ip + DP_IP4_LEN;
    struct dp_ctx ctx = { .data = p.bytes };
    uint32_t options = kind == DP_TUNNEL_GENEVE ? rand() % 4 * 4 : 0;
    uint16_t flags = rand() & (DP_GRE_KEY | DP_GRE_SEQ | (rand() % 4 ? 0 : DP_GRE_CSUM));

    dp_store16(p.bytes + 12, dp_htons(DP_ETH_IP4).raw);
    ip[0] = 0x45;
    ip[1] = rand() & 1;
    ip[8] = 63 + (rand() & 1);
    ip[9] = kind == DP_TUNNEL_GRE ? DP_IP_GRE : DP_IP_UDP;
    ip[14] = rand() % 8 == 0;
    ip[15] = rand() & 1;
    ip[19] = 9;
    for (int i = 0; i < 32; i++) {
        head[i] = rand() & 1;
    }
    switch (kind) {
    case DP_TUNNEL_VXLAN:
        dp_store32(head + 8, DP_SWAP32(0x08000000));
        head[15] = 0;
        p.len += 16;
        break;
    case DP_TUNNEL_GENEVE:
        head[8] = options / 4;
        head[9] = rand() & 0x80;
        dp_store16(head + 10, dp_htons(DP_ETH_TEB).raw);
        p.len += 16 + options;
        break;
    case DP_TUNNEL_GRE:
        dp_store16(head, dp_htons(flags).raw);
        dp_store16(head + 2, dp_htons(DP_ETH_TEB).raw);
        p.len += dp_gre_len((uint32_t) flags << 16 | DP_ETH_TEB);
        break;
    }
    memcpy(p.bytes + p.len, inside->bytes, inside->len);
    p.len += inside->len;
    if (kind != DP_TUNNEL_GRE) {
        dp_store16(head + 4, dp_htons(p.len - DP_ETH_LEN - DP_IP4_LEN).raw);
        dp_store16(head + 6, rand() % 8 ? 0 : 1);
    }
    dp_store16(ip + 2, dp_htons(p.len - DP_ETH_LEN).raw);
    ctx.end = p.bytes + p.len;
    dp_store16(ip + 10, (uint16_t) ~dp_csum_fold(dp_ct_sum(&ctx, DP_ETH_LEN, DP_IP4_LEN)));
    return p;
}

static void put_tag(struct packet *p)
{
    memmove(p->bytes + 16, p->bytes + 12, p->len - 12);
    dp_store16(p->bytes + 12, dp_htons(DP_ETH_VLAN).raw);
    dp_store16(p->bytes + 14, dp_htons(5).raw);
    p->len += DP_VLAN_LEN;
}

/* What became of a packet. */
struct fate {
    struct dp_outcome outcome;
    struct dp_run run;
    uint32_t popped;            /* Bytes. */
    struct dp_stats stats[2];   /* What the flows counted. */
};

static struct fate pass(struct world *w, const struct packet *packet, const uint32_t flows[2], bool predicting)
{
    struct fate fate = { .run.frame.local_stack = 0 };
    struct packet copy = *packet;

    if (!predicting) {
        memset(w->ctx.tables->predictions, 0, w->ctx.tables->n_predictions * sizeof *w->ctx.tables->predictions);
    }
    memset(w->ctx.tables->stats, 0, w->ctx.tables->n_stats * sizeof *w->ctx.tables->stats);
    w->ctx.start = w->ctx.data = copy.bytes;
    w->ctx.end = copy.bytes + copy.len;
    fate.outcome = dp_pipeline(&w->ctx, IN_PORT, &fate.run);
    fate.popped = w->ctx.data - copy.bytes;
    for (int i = 0; i < 2; i++) {
        oxdp_table_stats(w->table, flows[i], &fate.stats[i]);
    }
    return fate;
}

static void assert_same_fate(const struct fate *a, const struct fate *b)
{
    assert_memory_equal(&a->outcome, &b->outcome, sizeof a->outcome);
    assert_int_equal(a->popped, b->popped);
    assert_memory_equal(a->stats, b->stats, sizeof a->stats);
    assert_int_equal(a->run.passes, b->run.passes);
    if (a->outcome.fate == DP_FATE_ENGINE) {
        assert_int_equal(a->run.flow, b->run.flow);
        assert_int_equal(a->run.key.w[0], b->run.key.w[0]);
        assert_memory_equal(&a->run.key.w[DP_KEY_WORD(tun_id)], &b->run.key.w[DP_KEY_WORD(tun_id)],
                            8 * (DP_KEY_WORDS - DP_KEY_WORD(tun_id)));
    } else if (a->popped) {
        assert_memory_equal(&a->run.frame, &b->run.frame, offsetof(struct dp_frame, entropy));
    }
}

/* Flow 0 pops a header of 'kind', flow 1 takes what was in '*packet', and perhaps has an operation: one that is done,
 * or one that the packet is not suited for. */
static void insert_tunnel_flows(struct world *w, enum dp_tunnel kind, const struct packet *packet, uint32_t flows[2])
{
    static const struct dp_op trunc = { .code = DP_OP_TRUNC, .u.max_len = 70 };
    static const struct dp_op impossible = { .code = DP_OP_SET_ARP, .needs = DP_HAS_ARP };
    struct dp_op op = {
        .code = kind == DP_TUNNEL_GENEVE ? DP_OP_TNL_POP_GENEVE : DP_OP_TNL_POP, .u.tunnel_pop = { TUNNEL_PORT, kind },
    };
    union dp_key key = { .in_port = IN_PORT, .eth_type = { dp_htons(DP_ETH_IP4).raw } };
    union dp_key mask = { .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff } };
    struct oxdp_flow spec = { .key = &key, .mask = &mask, .fate = DP_FATE_RECIRC, .ops = &op, .n_ops = 1 };
    enum oxdp_table_full full;
    struct packet copy = *packet;
    struct dp_frame frame = { .local_stack = 0 };
    union dp_key inside, inside_mask = make_mask();
    uint32_t len;

    assert_int_equal(oxdp_table_insert(w->table, &spec, &flows[0], &full), 0);

    w->ctx.start = w->ctx.data = copy.bytes;
    w->ctx.end = copy.bytes + copy.len;
    memset(&inside, 0, sizeof inside);
    assert_int_equal(dp_parse(&w->ctx, &frame, &inside, VLAN_LIMIT), DP_PARSED);
    len = frame.l4 + (dp_tunnel_expected(&w->ctx, &frame, kind) & DP_MAX_POPPED);
    memset(&inside, 0, sizeof inside);
    dp_tunnel_read(&w->ctx, frame.l4, 1, &inside, kind);
    w->ctx.data += len;
    inside.in_port = TUNNEL_PORT;
    assert_int_equal(dp_parse(&w->ctx, &frame, &inside, VLAN_LIMIT), DP_PARSED);
    for (int i = DP_KEY_WORD(tun_id); i < DP_KEY_WORDS; i++) {
        bool common = i == DP_KEY_WORD(tun_id) || i == DP_KEY_WORD(tun_flags) || i == DP_KEY_WORD(tun_ip4_src)
            || i == DP_KEY_WORD(tun_options);

        if (!(rand() % (common ? 3 : 40))) {
            inside_mask.w[i] = rand() & 1 ? UINT64_MAX : (uint64_t) rand() << 32 | rand();
        }
    }
    spec = (struct oxdp_flow) {
        .key = &inside, .mask = &inside_mask, .fate = rand() % 4 ? DP_FATE_OUTPUT : rand() % 5, .arg = 5,
    };
    switch (rand() % 4) {
    case 0:
        spec.ops = &trunc;
        spec.n_ops = 1;
        break;
    case 1:
        spec.ops = &impossible;
        spec.n_ops = 1;
    }
    for (int i = 0; i < DP_KEY_WORDS; i++) {
        inside.w[i] &= inside_mask.w[i];
    }
    if (oxdp_table_insert(w->table, &spec, &flows[1], &full)) {
        flows[1] = flows[0];            /* It matches too much for a program. */
    }
}

/* A packet out of a tunnel meets the same fate, whether what is inside was predicted or not. */
static void test_inside(void **state)
{
    struct world *w = *state;
    struct dp_prediction *expected = w->ctx.tables->predictions + DP_PREDICTED_PORTS;
    uint32_t n_inside = 0, n_not = 0, n_engine = 0, n_kinds[3] = { 0, 0, 0 };

    for (int round = 0; round < ROUNDS / 10; round++) {
        enum dp_tunnel kind = round % 3;
        struct frame inside = make_plain();
        struct packet packets[PACKETS] = { wrap(kind, &inside) };
        struct fate slow[PACKETS];
        uint32_t flows[2];

        insert_tunnel_flows(w, kind, &packets[0], flows);
        for (int i = 1; i < PACKETS; i++) {
            struct frame other = rand() & 1 ? inside : mutate(&inside);

            packets[i] = rand() % 3 ? packets[0] : wrap(rand() % 8 ? kind : rand() % 3, &other);
            if (!(rand() % 4)) {
                packets[i].bytes[rand() % 70] ^= 1 << rand() % 8;
            } else if (!(rand() % 8)) {
                put_tag(&packets[i]);
            }
        }
        for (int i = 0; i < PACKETS; i++) {
            slow[i] = pass(w, &packets[i], flows, false);
        }
        memset(w->ctx.tables->predictions, 0, w->ctx.tables->n_predictions * sizeof *w->ctx.tables->predictions);
        for (int i = 0; i < PACKETS; i++) {
            uint64_t hits = 0, more = 0;
            struct fate fast;

            for (int j = 0; j < DP_PREDICTED_ENDS; j++) {
                hits += expected[j].hits;
            }
            fast = pass(w, &packets[i], flows, true);
            for (int j = 0; j < DP_PREDICTED_ENDS; j++) {
                more += expected[j].hits;
            }
            assert_same_fate(&slow[i], &fast);
            if (more != hits) {
                n_inside++;
                n_kinds[kind]++;
                n_engine += fast.outcome.fate == DP_FATE_ENGINE;
            } else {
                n_not++;
            }
        }
        oxdp_table_unlink(w->table, flows[0]);
        if (flows[1] != flows[0]) {
            oxdp_table_unlink(w->table, flows[1]);
        }
        oxdp_table_reclaim(w->table);
    }
    assert_in_range(n_inside, ROUNDS / 50, ROUNDS);
    assert_in_range(n_not, ROUNDS / 50, ROUNDS);
    assert_in_range(n_engine, ROUNDS / 1000, ROUNDS);
    for (int i = 0; i < 3; i++) {
        assert_in_range(n_kinds[i], ROUNDS / 500, ROUNDS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frames, world_create, world_destroy),
        cmocka_unit_test_setup_teardown(test_flow_changes, world_create, world_destroy),
        cmocka_unit_test_setup_teardown(test_trains, world_create, world_destroy),
        cmocka_unit_test_setup_teardown(test_inside, world_create, world_destroy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
