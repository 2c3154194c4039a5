/* SPDX-License-Identifier: Apache-2.0 */
/* Flows with ct(), natively and in the kernel: the conversations of tests/parity/make_ct.c, each packet through flows
 * with one to three ct(), which recirculate to the next.  What a program leaves to the engine is done here as the
 * engine does it.
 *
 * Three worlds with tables of their own must agree after each packet: the engine alone (dp_ct()), the pipeline
 * natively, the pipeline in the kernel.  The first two have the same packet and the same metadata; the last two the
 * same tables, byte by byte.
 *
 *   test_ct_flows OBJECT [CONVERSATIONS [SEED]]        as root */
#include <config.h>

#include <linux/bpf.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conntrack.h"
#include "dp/seam_native.h"
#include "dp/pipeline.h"
#include "tests/bpf_pipeline/harness.h"
#include "tests/parity/ct_world.h"
#include "tests/bpf_pipeline/ct_call.h"
#include "tests/parity/oracle_ct.h"

#define MAX_FRAME 2048          /* Of harness_run(). */
#define N_CONNS 128
#define COMPARED 256            /* Elements of a table. */
#define MAX_ITEMS 16
#define OUTPUT_PORT 3

/* What happens to a packet, one after the other. */
struct item {
    enum { ITEM_CT, ITEM_CLEAR, ITEM_SET } kind;
    struct dp_ct_action action;
    bool dst;
    uint64_t address[2];
    uint32_t flow;              /* Number of the flow that it is in, */
    uint32_t ct;                /* and of its ct(), or of the one before, in this flow. */
};

enum { ENGINE, NATIVE, KERNEL, N_WORLDS };

static struct ct_world worlds[N_WORLDS];
static uint32_t now;
static uint8_t frames[N_WORLDS][MAX_FRAME];
static struct dp_ct_md metadata[N_WORLDS];
static struct oxdp_table *table;        /* Of NATIVE. */
static struct harness kernel;           /* Has that of KERNEL. */
static size_t frame_len;
static struct dp_frame layers;
static bool v6;
static struct item items[MAX_ITEMS];
static int n_items, n_flows;
static bool differs;
static unsigned long n_packets, n_steps, n_resumed, n_up[2][DP_N_REASONS], n_states[256];

static bool finish(void);

void ct_oracle_begin(bool loses)
{
    finish();
    for (int i = 0; i < N_WORLDS; i++) {
        ct_world_clear(&worlds[i]);
    }
    differs = false;
}

void ct_oracle_limit_zone(int zone, uint32_t limit)
{
    for (int i = 0; i < N_WORLDS; i++) {
        ct_world_limit_zone(&worlds[i], zone, limit);
    }
}

void ct_oracle_limit(uint32_t maxconns)
{
    for (int i = 0; i < N_WORLDS; i++) {
        worlds[i].tables.head->maxconns = maxconns;
    }
}

void ct_oracle_check_sequence(bool check)
{
    for (int i = 0; i < N_WORLDS; i++) {
        worlds[i].tables.head->no_seq_check = !check;
    }
}

bool ct_oracle_wait(uint64_t ms, bool sweep)
{
    finish();
    now += ms;
    for (int i = 0; sweep && i < N_WORLDS; i++) {
        ct_world_sweep(&worlds[i], now);
    }
    return !differs;
}

void ct_oracle_flush(int zone)
{
    finish();
    for (int i = 0; i < N_WORLDS; i++) {
        ct_world_flush(&worlds[i], zone);
    }
}

bool ct_oracle_packet(const uint8_t *data, size_t len)
{
    union dp_key key = { .in_port = PARITY_IN_PORT };

    finish();
    if (len > MAX_FRAME) {
        return false;
    }
    frame_len = len;
    for (int i = 0; i < N_WORLDS; i++) {
        memcpy(frames[i], data, len);
        worlds[i].ctx.start = worlds[i].ctx.data = frames[i];
        worlds[i].ctx.end = frames[i] + len;
    }
    layers.local_stack = 0;
    if (dp_parse(&worlds[0].ctx, &layers, &key, 2) != DP_PARSED) {
        return false;
    }
    v6 = DP_BE16_IS(key.eth_type, DP_ETH_IP6);
    return v6 || DP_BE16_IS(key.eth_type, DP_ETH_IP4);
}

const uint8_t *ct_oracle_frame(size_t *len)
{
    finish();
    *len = frame_len;
    return frames[ENGINE];
}

static struct item *add(int kind)
{
    struct item *item = &items[n_items++];

    if (n_items > MAX_ITEMS) {
        abort();
    }
    memset(item, 0, sizeof *item);
    item->kind = kind;
    return item;
}

void ct_oracle_clear(void) { add(ITEM_CLEAR); }

void ct_oracle_set_address(bool dst, const uint8_t addr[16])
{
    struct item *item = add(ITEM_SET);

    item->dst = dst;
    memcpy(item->address, addr, v6 ? 16 : 4);
}

enum parity ct_oracle_step(const struct ct_step *step)
{
    struct dp_ct_action *action = &add(ITEM_CT)->action;

    *action = (struct dp_ct_action) {
        .zone = step->zone, .policy = step->policy,
        .flags = (step->commit ? DP_CT_COMMIT : 0) | (step->nat ? DP_CT_NAT : 0)
            | (step->nat_action & NAT_ACTION_SRC ? DP_CT_TO_SRC : 0)
            | (step->nat_action & NAT_ACTION_DST ? DP_CT_TO_DST : 0)
            | (step->nat_action & (NAT_ACTION_SRC_PORT | NAT_ACTION_DST_PORT) ? DP_CT_TO_PORTS : 0)
            | (step->set_mark ? DP_CT_MARK : 0) | (step->set_label ? DP_CT_LABEL : 0),
        .mark = step->mark[0], .mark_mask = step->mark[1],
        .nat = { .min_port = step->min_port, .max_port = step->max_port },
    };
    memcpy(action->label, step->label[0], 16);
    memcpy(action->label_mask, step->label[1], 16);
    memcpy(action->nat.min, step->min_addr, v6 ? 16 : 4);
    memcpy(action->nat.max, step->max_addr, v6 ? 16 : 4);
    return differs ? PARITY_DIFFERENT : PARITY_EQUAL;
}

/* Whether an address is set between item 'i', a ct(), and the next ct(). */
static bool sets_behind(int i)
{
    bool sets = false;

    for (i++; i < n_items && items[i].kind != ITEM_CT; i++) {
        sets |= items[i].kind == ITEM_SET;
    }
    return sets;
}

/* Sorts the items into flows.  One with several ct() sets no address. */
static void make_flows(void)
{
    uint32_t flow = 0, ct = 0;
    bool sets = false;

    for (int i = 0; i < n_items; i++) {
        if (items[i].kind == ITEM_CT && i) {
            bool joins = (n_packets + i) % 3 && ct + 1 < DP_MAX_CT && !sets && !sets_behind(i);

            flow += !joins;
            ct = joins ? ct + 1 : 0;
            sets = sets_behind(i);
        } else if (items[i].kind == ITEM_CT) {
            sets = sets_behind(i);
        }
        items[i].flow = flow;
        items[i].ct = ct;
    }
    n_flows = flow + 1;
}

/* Whether item 'i' is a ct_clear that the next item, a flow's first ct(), does as well: sometimes. */
static bool is_folded(int i)
{
    return now & 1 && i >= 0 && i + 1 < n_items && items[i].kind == ITEM_CLEAR && items[i + 1].kind == ITEM_CT
        && !items[i + 1].ct;
}

/* The pair of mark and label that a connection gets that the action makes, in all worlds. */
static uint32_t intern(const struct dp_ct_action *action)
{
    uint64_t label[2] = { 0 };
    uint32_t index = 0;

    if (action->flags & DP_CT_LABEL) {
        memcpy(label, action->label, sizeof label);
    }
    for (int i = 0; i < N_WORLDS; i++) {
        index = ct_world_intern(&worlds[i], action->flags & DP_CT_MARK ? action->mark : 0, label);
    }
    return index;
}

/* The operations of flow number 'flow'.  Returns how many. */
static uint32_t make_ops(uint32_t flow, struct dp_op *ops, struct dp_blob *blob)
{
    struct dp_op *last = NULL;
    uint32_t n = 0;

    for (int i = 0; i < n_items; i++) {
        const struct item *item = &items[i];
        const struct dp_ct_action *action = &item->action;
        struct dp_op *op = &ops[n];

        if (item->flow != flow || is_folded(i)) {
            continue;
        }
        memset(op, 0, sizeof *op);
        n++;
        switch (item->kind) {
        case ITEM_CT:
            *op = (struct dp_op) {
                .code = DP_OP_CT, .n_blobs = 1,
                .u.ct = { .zone = action->zone, .policy = action->policy,
                          .flags = action->flags | (is_folded(i - 1) ? DP_CT_FRESH : 0), .mark = action->mark,
                          .mark_mask = action->mark_mask, .marks = intern(action), .min_port = action->nat.min_port,
                          .max_port = action->nat.max_port },
            };
            memcpy(blob->ct.label, action->label, 16);
            memcpy(blob->ct.label_mask, action->label_mask, 16);
            memcpy(blob->ct.min, action->nat.min, 16);
            memcpy(blob->ct.max, action->nat.max, 16);
            blob++;
            if (last) {
                last->u.ct.next = op - last;
            }
            last = op;
            break;
        case ITEM_CLEAR:
            op->code = DP_OP_CT_CLEAR;
            break;
        case ITEM_SET:
            if (v6) {
                op->code = item->dst ? DP_OP_SET_IP6_DST : DP_OP_SET_IP6_SRC;
                op->needs = DP_HAS_IP6;
                memcpy(op->u.ip6_addr.value, item->address, 16);
                memset(op->u.ip6_addr.mask, 0xff, 16);
            } else {
                op->code = DP_OP_SET_IP4;
                op->needs = DP_HAS_IP4 | DP_HAS_FIRST;
                op->u.ip4.src = item->dst ? 0 : item->address[0];
                op->u.ip4.dst = item->dst ? item->address[0] : 0;
                op->u.ip4.src_mask = item->dst ? 0 : UINT32_MAX;
                op->u.ip4.dst_mask = item->dst ? UINT32_MAX : 0;
            }
            break;
        }
    }
    return n;
}

static void insert_flow(uint32_t i, uint32_t index[2])
{
    union dp_key key
        = { .in_port = PARITY_IN_PORT, .recirc_id = i, .eth_type = dp_htons(v6 ? DP_ETH_IP6 : DP_ETH_IP4) };
    union dp_key mask = { .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff } };
    struct dp_op ops[MAX_ITEMS];
    struct dp_blob blobs[DP_MAX_CT];
    struct oxdp_flow flow = { .key = &key, .mask = &mask, .ops = ops, .blobs = blobs, .n_ops = make_ops(i, ops, blobs),
                              .fate = i + 1 < n_flows ? DP_FATE_RECIRC : DP_FATE_OUTPUT,
                              .arg = i + 1 < n_flows ? i + 1 : OUTPUT_PORT };
    enum oxdp_table_full full;

    if (oxdp_table_insert(table, &flow, &index[0], &full) || oxdp_table_insert(kernel.table, &flow, &index[1], &full)) {
        fprintf(stderr, "%s\n", oxdp_table_full_to_string(full));
        exit(1);
    }
}

/* Whether the engine is to verify the transport checksum: as programs do. */
static bool verifies(struct ct_world *w, const struct dp_ct_action *action, struct dp_ct_md *md)
{
    struct dp_ct_action trusting = *action;
    struct dp_ct_run run = { .md = *md };

    trusting.flags |= DP_CT_GOOD_L4;
    if (dp_ct_packet(&w->ctx, &layers, v6, &trusting, &run) != 1) {
        return true;
    }
    run.ref = dp_ct_find(&w->ctx, &run.tuple, now);
    return dp_ct_must_verify(&run);
}

/* As the engine does it: the items from ct() number 'ct' of flow number 'flow' on. */
static void execute(struct ct_world *w, struct dp_ct_md *md, uint32_t flow, uint32_t ct)
{
    struct dp_ct_run run = { .md = *md };

    for (int i = 0; i < n_items; i++) {
        struct dp_ct_action action = items[i].action;
        uint32_t in = items[i].flow + is_folded(i);

        if (in < flow || (in == flow && ct && (is_folded(i) || items[i].ct < ct))) {
            continue;
        }
        switch (items[i].kind) {
        case ITEM_CT:
            action.flags |= verifies(w, &action, &run.md) ? 0 : DP_CT_GOOD_L4;
            if (dp_ct(&w->ctx, &layers, v6, &action, now, &run) == DP_CT_BUSY) {
                abort();
            }
            ct_world_finish(w, &run);
            break;
        case ITEM_CLEAR:
            run.md.state = 0;
            run.md.cached = 0;
            break;
        case ITEM_SET: {
            struct dp_op op = { .u.ip6_addr = { .mask = { UINT64_MAX, UINT64_MAX } } };

            if (layers.l4 == DP_NO_LAYER) {
                break;
            }
            run.md.cached = 0;
            if (v6) {
                memcpy(op.u.ip6_addr.value, items[i].address, 16);
                dp_set_ip6_address(&w->ctx, &layers, &op, items[i].dst ? 24 : 8);
            } else {
                memset(&op, 0, sizeof op);
                *(items[i].dst ? &op.u.ip4.dst : &op.u.ip4.src) = items[i].address[0];
                *(items[i].dst ? &op.u.ip4.dst_mask : &op.u.ip4.src_mask) = UINT32_MAX;
                dp_set_ip4(&w->ctx, &layers, &op);
            }
            break;
        }
        }
    }
    *md = run.md;
    if (!md->state) {
        memset(md, 0, sizeof *md);
    }
    md->generation = md->cached ? md->generation : 0;
}

/* The metadata in what a run left: most of it in the key. */
static void metadata_of(const struct dp_run *run, struct dp_ct_md *md)
{
    const union dp_key *key = &run->key;

    memset(md, 0, sizeof *md);
    if (!key->ct_state) {
        return;
    }
    md->state = key->ct_state;
    md->v6 = v6 && key->ct_proto;
    md->zone = key->ct_zone;
    md->mark = key->ct_mark;
    memcpy(md->label, key->ct_label, sizeof md->label);
    if (md->v6) {
        memcpy(md->addr[0], key->ct_ip6_src, 16);
        memcpy(md->addr[1], key->ct_ip6_dst, 16);
    } else {
        md->addr[0][0] = key->ct_ip4_src.raw;
        md->addr[1][0] = key->ct_ip4_dst.raw;
    }
    md->tp[0] = key->ct_tp_src.raw;
    md->tp[1] = key->ct_tp_dst.raw;
    md->proto = key->ct_proto;
    md->cached = run->ct.run.md.cached;
    md->generation = md->cached ? run->ct.run.md.generation : 0;
    md->related = run->ct.run.md.related;
}

/* Locks all buckets, as if another CPU made a connection in each; or unlocks them. */
static void lock_buckets(int i, uint32_t owner)
{
    for (uint32_t b = 0; b < worlds[i].tables.n_buckets; b++) {
        worlds[i].tables.buckets[b].lock = owner;
    }
}

static bool is_busy(void) { return n_packets % 16 == 0; }

/* Goes on where a run of the pipeline ended. */
static void go_on(int i, const struct dp_run *run, bool engine)
{
    lock_buckets(i, 0);
    metadata_of(run, &metadata[i]);
    if (engine) {
        n_up[i - NATIVE][run->reason]++;
        n_resumed += run->tracked != 0;
        execute(&worlds[i], &metadata[i], run->key.recirc_id, run->tracked);
    }
}

static void run_native(void)
{
    struct ct_world *w = &worlds[NATIVE];
    struct dp_run run = { .flow = 0 };
    struct dp_outcome outcome;

    memset(&run, 0x5a, sizeof run);
    run.frame.local_stack = 0;
    w->ctx.now = now;
    lock_buckets(NATIVE, is_busy());
    outcome = dp_pipeline(&w->ctx, PARITY_IN_PORT, &run);
    go_on(NATIVE, &run, outcome.fate == DP_FATE_ENGINE);
    if (outcome.fate != DP_FATE_ENGINE && (outcome.fate != DP_FATE_OUTPUT || outcome.to != OUTPUT_PORT)) {
        fprintf(stderr, "the native pipeline ended in %d\n", outcome.fate);
        differs = true;
    }
}

static void run_kernel(void)
{
    uint32_t out_len, ns;
    int verdict;

    kernel.call->now = now;
    lock_buckets(KERNEL, is_busy());
    verdict = harness_run(kernel.pipeline_fd, frames[KERNEL], frame_len, 1, frames[KERNEL], &out_len, &ns);
    go_on(KERNEL, harness_last_run(&kernel), verdict == XDP_PASS);
    if ((verdict != XDP_PASS && verdict != XDP_TX) || out_len != frame_len) {
        fprintf(stderr, "BPF_PROG_TEST_RUN: %d\n", verdict);
        differs = true;
    }
}

static bool same(const char *what, const void *a, const void *b, size_t len)
{
    if (memcmp(a, b, len)) {
        fprintf(stderr, "%s differs\n", what);
        parity_dump("one", a, len);
        parity_dump("other", b, len);
        differs = true;
    }
    return !differs;
}

static void compare(void)
{
    const struct dp_ct_tables *e = &worlds[ENGINE].tables, *a = &worlds[NATIVE].tables, *b = &worlds[KERNEL].tables;

    same("the packet (engine, native)", frames[ENGINE], frames[NATIVE], frame_len);
    same("the packet (native, kernel)", frames[NATIVE], frames[KERNEL], frame_len);
    same("metadata (engine, native)", &metadata[ENGINE], &metadata[NATIVE], sizeof metadata[0]);
    same("metadata (native, kernel)", &metadata[NATIVE], &metadata[KERNEL], sizeof metadata[0]);
#define X(NAME, TYPE)                                                                                   \
    same(#NAME " (engine, native)", e->NAME, a->NAME, MIN(a->n_##NAME, COMPARED) * sizeof(TYPE));       \
    same(#NAME " (native, kernel)", a->NAME, b->NAME, MIN(a->n_##NAME, COMPARED) * sizeof(TYPE));
    DP_CT_TABLES(X)
#undef X
    same("the default zone", &a->zones[DP_CT_ZONE_DEFAULT], &b->zones[DP_CT_ZONE_DEFAULT], sizeof *a->zones);
    if (differs) {
        for (int i = 0; i < n_items; i++) {
            fprintf(stderr, "%d: flow %d, zone %d, flags %#x\n", items[i].kind, items[i].flow, items[i].action.zone,
                    items[i].action.flags);
        }
        parity_dump("packet, engine", frames[ENGINE], frame_len);
    }
}

/* The packet and what was to happen to it. */
static bool finish(void)
{
    uint32_t flows[MAX_ITEMS][2];

    if (!n_items || differs) {
        n_items = n_flows = 0;
        return !differs;
    }
    make_flows();
    for (int i = 0; i < n_flows; i++) {
        insert_flow(i, flows[i]);
    }
    memset(&metadata[ENGINE], 0, sizeof metadata[ENGINE]);
    execute(&worlds[ENGINE], &metadata[ENGINE], 0, 0);
    run_native();
    run_kernel();
    n_packets++;
    n_steps += n_flows;
    n_states[metadata[ENGINE].state]++;
    compare();
    for (int i = 0; i < n_flows; i++) {
        oxdp_table_unlink(table, flows[i][0]);
        oxdp_table_unlink(kernel.table, flows[i][1]);
    }
    oxdp_table_reclaim(table);
    oxdp_table_reclaim(kernel.table);
    n_items = n_flows = 0;
    return !differs;
}

static void report(void)
{
    static const char *const names[] = {
#define X(NAME, KIND, TEXT) TEXT,
        DP_REASONS(X)
#undef X
    };

    for (int i = 0; i < DP_N_REASONS; i++) {
        if (n_up[0][i]) {
            printf("%lu packets handed to the engine: %s\n", n_up[0][i], names[i]);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = harness_no_grace };
    struct oxdp_table_config config = oxdp_table_config(64, 64);
    cpu_set_t here;
    unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    unsigned int kinds = 0;

    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
    config.vlan_limit = 2;
    harness_conns = N_CONNS;
    if (argc < 2 || harness_open(argv[1], &config, &callbacks, &kernel)
        || oxdp_table_create(&config, NULL, &callbacks, &table)) {
        return 1;
    }
    worlds[KERNEL].tables = kernel.ct;
    ct_world_begin(&worlds[KERNEL]);
    ct_world_init(&worlds[ENGINE], kernel.ct.n_keys, kernel.ct.n_buckets);
    ct_world_init(&worlds[NATIVE], kernel.ct.n_keys, kernel.ct.n_buckets);
    worlds[NATIVE].ctx.tables = oxdp_table_memory(table);
    for (unsigned long i = 0; i < rounds; i++) {
        struct ct_choices choices = { .random = (seed + i) * 0x9e3779b97f4a7c15ull | 1 };
        enum parity result = parity_ct(&choices, false);

        if (!finish() || result == PARITY_DIFFERENT) {
            printf("conversation %lu, packet %lu: test_ct_flows OBJECT 1 %llu\n", i, choices.packets,
                   (unsigned long long) (seed + i));
            return 1;
        }
    }
    for (int i = 0; i < 256; i++) {
        kinds += n_states[i] != 0;
    }
    printf("%lu conversations, %lu packets, %lu actions, %u kinds of ct_state\n", rounds, n_packets, n_steps, kinds);
    report();
    printf("%lu of them after the first ct() of their flow\n", n_resumed);
    oxdp_table_destroy(table);
    harness_close(&kernel);
    ct_world_destroy(&worlds[ENGINE]);
    ct_world_destroy(&worlds[NATIVE]);
    return kinds < 10 || !n_resumed || n_packets < 10 * rounds || !n_up[0][DP_REASON_UP_CT_NEW]
        || n_up[0][DP_REASON_UP_CT] + n_up[0][DP_REASON_UP_ENGINE] > n_packets / 2;
}
