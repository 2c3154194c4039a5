/* SPDX-License-Identifier: Apache-2.0 */
/* Flows with ct(), natively and in the kernel: the conversations of tests/parity/make_ct.c, each packet through
 * flows with one to three ct(), which recirculate to the next.  What a program leaves to the engine is done here as
 * the engine does it.
 *
 * Four worlds with tables of their own must agree after each packet: the engine alone (dp_ct()), the pipeline
 * natively without the path cache, with it, and with it in the kernel.  The first two have the same packet and the
 * same metadata, and all the same connections; the last three the same packet and the same statistics of flows; the
 * last two the same paths, byte by byte.
 *
 * Packets to which the same is to happen meet the same flows: those of a port of their own.  Some flows also set
 * Ethernet addresses, TOS and TTL, and push or pop a tag.  The engine alone does not do that: then its packet is not
 * compared.
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
#define HEADROOM 64
#define MAX_WAYS 24
#define FIRST_PORT 16
#define REPEATED 6

/* What happens to a packet, one after the other. */
struct item {
    enum { ITEM_CT, ITEM_CLEAR, ITEM_SET } kind;
    struct dp_ct_action action;
    bool dst;
    uint64_t address[2];
    uint32_t flow;              /* Number of the flow that it is in, */
    uint32_t ct;                /* and of its ct(), or of the one before, in this flow. */
};

enum { ENGINE, WALK, NATIVE, KERNEL, N_WORLDS };

static struct ct_world worlds[N_WORLDS];
static uint32_t now;
/* What happens to packets of one port. */
struct way {
    struct item items[MAX_ITEMS];
    int n_items, n_flows;
    bool v6;
    uint32_t edits;             /* EDIT_*. */
    uint32_t flow[MAX_ITEMS][N_WORLDS];
};

#define EDIT_ETHERNET 1
#define EDIT_IP 2               /* TOS and TTL; the last flow matches both. */
#define EDIT_PUSH 4             /* In the last flow. */
#define EDIT_TAGGED 8           /* Packets arrive with a tag, */
#define EDIT_POP 16             /* which the first flow pops. */
#define EDIT_MARK 32            /* The last flow matches packets of connections without a mark. */
#define EDITS 64

static struct way ways[MAX_WAYS];
static uint32_t n_ways;
static uint8_t frames[N_WORLDS][HEADROOM + MAX_FRAME];
static struct dp_ct_md metadata[N_WORLDS];
static struct oxdp_table *tables[N_WORLDS];
static struct harness kernel;           /* Has that of KERNEL. */
static struct dp_path_tables paths;     /* Of NATIVE. */
static uint8_t arrived[MAX_FRAME];      /* The packet. */
static size_t frame_len;
static struct dp_frame layers;
static bool v6;
static struct item items[MAX_ITEMS];
static int n_items, n_flows;
static uint32_t chosen;                 /* A number that the items decide. */
static bool strange;                    /* The packet has another tag, or another source address and TTL. */
static bool plain;                      /* Every other conversation has no marks, and each zone once. */
static bool differs;
static unsigned long n_packets, n_steps, n_resumed, n_hits, n_edited_hits, n_up[N_WORLDS][DP_N_REASONS], n_states[256];

static bool finish(void);
static void forget_ways(void);
static void sweep_paths(bool all);

void ct_oracle_begin(bool loses)
{
    finish();
    for (int i = 0; i < N_WORLDS; i++) {
        ct_world_clear(&worlds[i]);
    }
    forget_ways();
    sweep_paths(true);
    plain ^= true;
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
    if (sweep) {
        sweep_paths(false);
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

/* Gives all worlds the packet. */
static void set_frames(void)
{
    for (int i = 0; i < N_WORLDS; i++) {
        worlds[i].ctx.start = frames[i];
        worlds[i].ctx.data = frames[i] + HEADROOM;
        worlds[i].ctx.end = worlds[i].ctx.data + frame_len;
        memcpy(worlds[i].ctx.data, arrived, frame_len);
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
    memcpy(arrived, data, len);
    set_frames();
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
    return frames[ENGINE] + HEADROOM;
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
    struct dp_ct_action *action;

    for (int i = 0; plain && i < n_items; i++) {
        if (items[i].kind == ITEM_CT && items[i].action.zone == step->zone) {
            return differs ? PARITY_DIFFERENT : PARITY_EQUAL;
        }
    }
    action = &add(ITEM_CT)->action;
    *action = (struct dp_ct_action) {
        .zone = step->zone, .policy = step->policy,
        .flags = (step->commit ? DP_CT_COMMIT : 0) | (step->nat ? DP_CT_NAT : 0)
            | (step->nat_action & NAT_ACTION_SRC ? DP_CT_TO_SRC : 0)
            | (step->nat_action & NAT_ACTION_DST ? DP_CT_TO_DST : 0)
            | (step->nat_action & (NAT_ACTION_SRC_PORT | NAT_ACTION_DST_PORT) ? DP_CT_TO_PORTS : 0)
            | (step->set_mark && !plain ? DP_CT_MARK : 0) | (step->set_label && !plain ? DP_CT_LABEL : 0),
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

/* Sorts the items into flows.  One with several ct() sets no address.  In a plain conversation each has one, and a last
 * flow none. */
static void make_flows(void)
{
    uint32_t flow = 0, ct = 0;
    bool sets = false;

    chosen = 0;
    for (int i = 0; i < n_items; i++) {
        chosen = (chosen + items[i].kind + items[i].action.zone + items[i].action.flags) * 2654435761u;
    }
    chosen >>= 16;
    for (int i = 0; i < n_items; i++) {
        if (items[i].kind == ITEM_CT && i) {
            bool joins = !plain && (chosen + i) % 3 && ct + 1 < DP_MAX_CT && !sets && !sets_behind(i);

            flow += !joins;
            ct = joins ? ct + 1 : 0;
            sets = sets_behind(i);
        } else if (items[i].kind == ITEM_CT) {
            sets = sets_behind(i);
        }
        items[i].flow = flow;
        items[i].ct = ct;
    }
    n_flows = flow + 1 + plain;
}

/* Whether item 'i' is a ct_clear that the next item, a flow's first ct(), does as well: sometimes. */
static bool is_folded(int i)
{
    return chosen & 1 && i >= 0 && i + 1 < n_items && items[i].kind == ITEM_CLEAR && items[i + 1].kind == ITEM_CT
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

/* The edits of flow number 'flow' behind its 'n' operations.  Returns how many there are then. */
static uint32_t add_edits(const struct way *way, int flow, struct dp_op *ops, uint32_t n)
{
    bool last = flow + 1 == way->n_flows;

    if (way->edits & EDIT_ETHERNET && flow % 2 == 0) {
        ops[n++] = (struct dp_op) {
            .code = DP_OP_SET_ETH,
            .u.eth = { .value = { 0x11223344, flow, 0x7700 },
                       .mask = { UINT32_MAX, 0xffff, last ? UINT32_MAX : 0xff00 } },
        };
    }
    if (way->edits & EDIT_IP && way->v6) {
        ops[n++] = (struct dp_op) {
            .code = DP_OP_SET_IP6, .needs = DP_HAS_IP6,
            .u.ip6 = { .ttl = 63 - flow, .ttl_mask = 0xff, .tos = 4, .tos_mask = 0xfc },
        };
    } else if (way->edits & EDIT_IP) {
        ops[n++] = (struct dp_op) {
            .code = DP_OP_SET_IP4, .needs = DP_HAS_IP4,
            .u.ip4 = { .ttl = 63 - flow, .ttl_mask = 0xff, .tos = 4 << flow % 2, .tos_mask = 0xfc },
        };
    }
    if (way->edits & EDIT_POP && !flow) {
        ops[n++] = (struct dp_op) { .code = DP_OP_POP_VLAN };
    }
    if (way->edits & EDIT_PUSH && last) {
        ops[n++] = (struct dp_op) {
            .code = DP_OP_PUSH_VLAN, .u.vlan = { .tpid = dp_htons(DP_ETH_VLAN), .tci = dp_htons(DP_VLAN_PRESENT | 77) },
        };
    }
    return n;
}

/* What each operation says of all that follow, as ovs/fastpath/compile.c has it. */
static void sum_ops(struct dp_op *ops, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;) {
        ops[i].codes = UINT64_C(1) << ops[i].code | (i + 1 < n ? ops[i + 1].codes : 0);
        ops[i].needs |= i + 1 < n ? ops[i + 1].needs : 0;
        ops[i].growth = (ops[i].code == DP_OP_PUSH_VLAN ? DP_VLAN_LEN : 0) + (i + 1 < n ? ops[i + 1].growth : 0);
    }
}

/* Inserts flow number 'i' of the way, in all worlds with flows. */
static void insert_flow(struct way *way, int i)
{
    union dp_key key = { .in_port = FIRST_PORT + (way - ways), .recirc_id = i ? 64 * (way - ways) + i : 0,
                         .eth_type = dp_htons(way->v6 ? DP_ETH_IP6 : DP_ETH_IP4) };
    union dp_key mask = { .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff } };
    struct dp_op ops[MAX_ITEMS + 4];
    struct dp_blob blobs[DP_MAX_CT];
    bool last = i + 1 == way->n_flows;
    uint32_t n = add_edits(way, i, ops, make_ops(i, ops, blobs));
    struct oxdp_flow flow = { .key = &key, .mask = &mask, .ops = ops, .blobs = blobs, .n_ops = n,
                              .fate = last ? DP_FATE_OUTPUT : DP_FATE_RECIRC,
                              .arg = last ? OUTPUT_PORT : 64 * (way - ways) + i + 1 };
    enum oxdp_table_full full;

    if (way->edits & EDIT_TAGGED && !i) {
        key.vlan = (struct dp_vlan) { dp_htons(DP_ETH_VLAN), dp_htons(DP_VLAN_PRESENT | 5) };
        mask.vlan = (struct dp_vlan) { { 0xffff }, { 0xffff } };
    }
    if (way->edits & EDIT_ETHERNET && !i) {
        memcpy(key.eth_src, arrived + 6, sizeof key.eth_src);
        memset(mask.eth_src, 0xff, sizeof mask.eth_src);
    }
    if (way->edits & EDIT_IP && (last || !i)) {
        key.ip_ttl = 64 - i;
        mask.ip_ttl = 0xff;
    }
    if (way->edits & EDIT_MARK && last && i) {
        mask.ct_mark = UINT32_MAX;
    }
    sum_ops(ops, n);
    for (int w = WALK; w < N_WORLDS; w++) {
        if (oxdp_table_insert(tables[w], &flow, &way->flow[i][w], &full)) {
            fprintf(stderr, "%s\n", oxdp_table_full_to_string(full));
            exit(1);
        }
    }
}

static void remove_flows(const struct way *way)
{
    for (int w = WALK; w < N_WORLDS; w++) {
        for (int i = 0; i < way->n_flows; i++) {
            oxdp_table_unlink(tables[w], way->flow[i][w]);
        }
        oxdp_table_reclaim(tables[w]);
    }
}

static void forget_ways(void)
{
    while (n_ways) {
        remove_flows(&ways[--n_ways]);
    }
}

/* The way of the packet, which may be a new one.  Now and then its flows are replaced by others that do the same. */
static struct way *find_way(void)
{
    struct way *way;

    for (way = ways; way < &ways[n_ways]; way++) {
        if (way->v6 == v6 && way->n_items == n_items && !memcmp(way->items, items, n_items * sizeof *items)) {
            if (n_packets % 32 == 0) {
                remove_flows(way);
                break;
            }
            return way;
        }
    }
    if (way == &ways[MAX_WAYS]) {
        forget_ways();
        way = ways;
    }
    if (way == &ways[n_ways]) {
        memcpy(way->items, items, n_items * sizeof *items);
        way->n_items = n_items;
        way->n_flows = n_flows;
        way->v6 = v6;
        way->edits = n_packets % 3 ? (n_packets * 2654435761u >> 8) % EDITS : 0;
        n_ways++;
    }
    for (int i = 0; i < way->n_flows; i++) {
        insert_flow(way, i);
    }
    return way;
}

/* What userspace does with what is out of date (core/ct/ct_path.c), where nobody else runs. */
static void sweep(struct dp_ctx *ctx, struct dp_path_tables *t, bool all)
{
    for (uint32_t i = 0; i < t->n_micros; i++) {
        struct dp_micro *micro = &t->micros[i];

        if (micro->word
            && (all || t->paths[DP_MICRO_PATH(micro->word)].status != DP_PATH_READY || !dp_micro_is_current(ctx, micro)
                || DP_MICRO_STATUS(micro->word) != DP_PATH_READY)) {
            micro->word = 0;
            t->path_head->n_micros--;
        }
    }
    for (uint32_t i = 0; i < t->n_paths; i++) {
        if (t->paths[i].status && (all || t->paths[i].status == DP_PATH_STALE)) {
            t->paths[i].status = 0;
            t->path_head->n_paths--;
        }
    }
}

static void sweep_paths(bool all)
{
    sweep(&worlds[NATIVE].ctx, &paths, all);
    sweep(&worlds[KERNEL].ctx, &kernel.paths, all);
}

/* Whether the engine is to verify the transport checksum: as programs do. */
static bool verifies(struct ct_world *w, const struct dp_frame *frame, const struct dp_ct_action *action,
                     struct dp_ct_md *md)
{
    struct dp_ct_action trusting = *action;
    struct dp_ct_run run = { .md = *md };

    trusting.flags |= DP_CT_GOOD_L4;
    if (dp_ct_packet(&w->ctx, frame, v6, &trusting, &run) != 1) {
        return true;
    }
    run.ref = dp_ct_find(&w->ctx, &run.tuple, now);
    return dp_ct_must_verify(&run);
}

/* As the engine does it: the items from ct() number 'ct' of flow number 'flow' on, to a packet with these layers. */
static void execute(struct ct_world *w, const struct dp_frame *frame, struct dp_ct_md *md, uint32_t flow, uint32_t ct)
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
            action.flags |= verifies(w, frame, &action, &run.md) ? 0 : DP_CT_GOOD_L4;
            if (dp_ct(&w->ctx, frame, v6, &action, now, &run) == DP_CT_BUSY) {
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

            if (frame->l4 == DP_NO_LAYER) {
                break;
            }
            run.md.cached = 0;
            if (v6) {
                memcpy(op.u.ip6_addr.value, items[i].address, 16);
                dp_set_ip6_address(&w->ctx, frame, &op, items[i].dst ? 24 : 8);
            } else {
                memset(&op, 0, sizeof op);
                *(items[i].dst ? &op.u.ip4.dst : &op.u.ip4.src) = items[i].address[0];
                *(items[i].dst ? &op.u.ip4.dst_mask : &op.u.ip4.src_mask) = UINT32_MAX;
                dp_set_ip4(&w->ctx, frame, &op);
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

/* Goes on where a run of the pipeline ended.  A packet of a path has no metadata. */
static void go_on(int i, const struct dp_run *run, bool engine)
{
    lock_buckets(i, 0);
    if (run->path.found == DP_PATH_HIT) {
        metadata[i] = metadata[WALK];
        return;
    }
    metadata_of(run, &metadata[i]);
    if (engine) {
        n_up[i][run->reason]++;
        n_resumed += run->tracked != 0;
        execute(&worlds[i], &run->frame, &metadata[i], run->key.recirc_id % 64, run->tracked);
    }
}

static void run_native(int i, uint32_t in_port)
{
    static uint32_t pause;              /* A program's run keeps it, too. */
    struct ct_world *w = &worlds[i];
    struct dp_run run = { .flow = 0 };
    struct dp_outcome outcome;

    memset(&run, 0x5a, sizeof run);
    run.frame.local_stack = 0;
    run.path.found = DP_PATH_NONE;
    run.path.pause = i == NATIVE ? pause : 0;
    w->ctx.now = now;
    lock_buckets(i, is_busy());
    outcome = dp_pipeline(&w->ctx, in_port, &run);
    go_on(i, &run, outcome.fate == DP_FATE_ENGINE);
    if (outcome.fate != DP_FATE_ENGINE && (outcome.fate != DP_FATE_OUTPUT || outcome.to != OUTPUT_PORT)) {
        fprintf(stderr, "the native pipeline ended in %d\n", outcome.fate);
        differs = true;
    }
    if (i == NATIVE) {
        pause = run.path.pause;
    }
    if (i == NATIVE && run.path.found == DP_PATH_HIT) {
        n_hits++;
        n_edited_hits += ways[in_port - FIRST_PORT].edits != 0;
    }
}

static void run_kernel(uint32_t in_port)
{
    struct dp_ctx *ctx = &worlds[KERNEL].ctx;
    uint32_t out_len, ns;
    int verdict;

    kernel.call->now = now;
    *kernel.in_port = in_port;
    lock_buckets(KERNEL, is_busy());
    verdict = harness_run(kernel.pipeline_fd, ctx->data, ctx->end - ctx->data, 1, ctx->data, &out_len, &ns);
    if (verdict != XDP_PASS && verdict != XDP_TX) {
        fprintf(stderr, "BPF_PROG_TEST_RUN: %d\n", verdict);
        differs = true;
        return;
    }
    ctx->end = ctx->data + out_len;
    go_on(KERNEL, harness_last_run(&kernel), verdict == XDP_PASS);
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

/* The frame of world 'a' is that of 'b'. */
static void same_frame(const char *what, int a, int b)
{
    const struct dp_ctx *x = &worlds[a].ctx, *y = &worlds[b].ctx;

    if (x->end - x->data != y->end - y->data) {
        fprintf(stderr, "the length of %s\n", what);
        differs = true;
    }
    same(what, x->data, y->data, MIN(x->end - x->data, y->end - y->data));
}

/* Statistics of the way's flows.  The kernel's clock is not ours. */
static void compare_statistics(const struct way *way)
{
    for (int i = 0; i < way->n_flows; i++) {
        struct dp_stats stats[N_WORLDS];

        for (int w = WALK; w < N_WORLDS; w++) {
            oxdp_table_stats(tables[w], way->flow[i][w], &stats[w]);
        }
        stats[KERNEL].used = stats[WALK].used;
        same("statistics (passes, path)", &stats[WALK], &stats[NATIVE], sizeof stats[0]);
        same("statistics (native, kernel)", &stats[NATIVE], &stats[KERNEL], sizeof stats[0]);
    }
}

static void compare(const struct way *way)
{
    const struct dp_ct_tables *e = &worlds[ENGINE].tables, *p = &worlds[WALK].tables, *a = &worlds[NATIVE].tables;
    const struct dp_ct_tables *b = &worlds[KERNEL].tables;

    if (!way->edits) {
        same_frame("the packet (engine, passes)", ENGINE, WALK);
    }
    same_frame("the packet (passes, path)", WALK, NATIVE);
    same_frame("the packet (native, kernel)", NATIVE, KERNEL);
    same("metadata (engine, passes)", &metadata[ENGINE], &metadata[WALK], sizeof metadata[0]);
    same("metadata (passes, path)", &metadata[WALK], &metadata[NATIVE], sizeof metadata[0]);
    same("metadata (native, kernel)", &metadata[NATIVE], &metadata[KERNEL], sizeof metadata[0]);
#define X(NAME, TYPE)                                                                                   \
    same(#NAME " (engine, passes)", e->NAME, p->NAME, MIN(a->n_##NAME, COMPARED) * sizeof(TYPE));       \
    same(#NAME " (passes, path)", p->NAME, a->NAME, MIN(a->n_##NAME, COMPARED) * sizeof(TYPE));         \
    same(#NAME " (native, kernel)", a->NAME, b->NAME, MIN(a->n_##NAME, COMPARED) * sizeof(TYPE));
    DP_CT_TABLES(X)
#undef X
    same("the default zone", &a->zones[DP_CT_ZONE_DEFAULT], &b->zones[DP_CT_ZONE_DEFAULT], sizeof *a->zones);
    compare_statistics(way);
#define X(NAME, TYPE) same(#NAME, paths.NAME, kernel.paths.NAME, MIN(paths.n_##NAME, COMPARED) * sizeof(TYPE));
    DP_PATH_TABLES(X)
#undef X
    if (differs) {
        for (int i = 0; i < n_items; i++) {
            fprintf(stderr, "%d: flow %d, zone %d, flags %#x\n", items[i].kind, items[i].flow, items[i].action.zone,
                    items[i].action.flags);
        }
        fprintf(stderr, "edits %#x\n", way->edits);
        parity_dump("packet, engine", worlds[ENGINE].ctx.data, frame_len);
    }
}

/* Puts a tag into the packet of a world. */
static void tag(struct dp_ctx *ctx)
{
    memmove(ctx->data - DP_VLAN_LEN, ctx->data, 12);
    ctx->data -= DP_VLAN_LEN;
    memcpy(ctx->data + 12, (uint8_t[]) { 0x81, 0, 0, strange ? 6 : 5 }, DP_VLAN_LEN);
}

/* Has the packet make its way in all worlds. */
static void run(const struct way *way)
{
    uint32_t in_port = FIRST_PORT + (way - ways);

    set_frames();
    for (int i = WALK; i < N_WORLDS; i++) {
        if (way->edits & EDIT_TAGGED) {
            tag(&worlds[i].ctx);
        } else if (way->edits && strange) {
            worlds[i].ctx.data[11] ^= way->edits & EDIT_ETHERNET ? 1 : 0;
            worlds[i].ctx.data[DP_ETH_LEN + (v6 ? 7 : 8)]--;
            if (!v6) {
                dp_csum_apply(worlds[i].ctx.data + DP_ETH_LEN + 10, dp_csum_change16(dp_htons(1 << 8).raw, 0));
            }
        }
    }
    memset(&metadata[ENGINE], 0, sizeof metadata[ENGINE]);
    execute(&worlds[ENGINE], &layers, &metadata[ENGINE], 0, 0);
    run_native(WALK, in_port);
    run_native(NATIVE, in_port);
    run_kernel(in_port);
    n_packets++;
    n_steps += n_flows;
    n_states[metadata[ENGINE].state]++;
    compare(way);
}

/* Somebody gives all connections this mark. */
static void remark(uint32_t mark)
{
    const uint64_t no_label[2] = { 0 };

    for (int w = 0; w < N_WORLDS; w++) {
        struct dp_ct_tables *t = &worlds[w].tables;
        uint32_t pair = ct_world_intern(&worlds[w], mark, no_label);

        for (uint32_t i = 0; i < t->n_keys; i++) {
            if (t->keys[i].flags & DP_CT_KEY_USED) {
                uint32_t before = dp_ct_remark(&worlds[w].ctx, DP_CT_REF(i, 0), pair);

                t->marks[pair].refs += pair != 0;
                t->marks[before].refs -= before != 0;
            }
        }
    }
}

/* Of TCP connections: in zone 'shut' the ends may send no more than they have, so that it refuses data that other zones
 * take; in zone 'narrow' end 'd' never announced more than one byte, so that it takes longer segments once only. */
static void spoil_windows(uint32_t narrow, uint32_t shut, int d)
{
    for (int w = 0; w < N_WORLDS; w++) {
        const struct dp_ct_tables *t = &worlds[w].tables;

        for (uint32_t i = 0; i < t->n_keys; i++) {
            struct dp_ct_life *life = &t->lives[i];
            const struct dp_ct_key *key = &t->keys[i];

            if (!(key->flags & DP_CT_KEY_USED) || key->proto != DP_IP_TCP) {
                continue;
            }
            if (key->zone == shut) {
                uint64_t before = life->window[0];

                life->window[0] = DP_CT_WINDOW(DP_CT_WINDOW_LO(before), DP_CT_WINDOW_LO(life->window[1]));
                life->window[1] = DP_CT_WINDOW(DP_CT_WINDOW_LO(life->window[1]), DP_CT_WINDOW_LO(before));
            } else if (key->zone == narrow) {
                life->state = DP_CT_PUT(life->state, DP_CT_STATE_WSCALE(0), 16, 0);
                life->state = DP_CT_PUT(life->state, DP_CT_STATE_WIN(d), 16, 1);
            }
        }
    }
}

/* Makes the next segment of a TCP segment with data.  Its checksum is wrong then, but nobody verifies it. */
static void advance(void)
{
    uint8_t *tcp = arrived + layers.l4;
    uint32_t header_len;

    if (layers.has & DP_HAS_TCP && layers.l4 + DP_TCP_LEN <= frame_len) {
        header_len = (tcp[12] >> 4) * 4;
        dp_store32(tcp + 4, dp_htonl(dp_ntohl(dp_load_be32(tcp + 4)) + layers.l4_len - header_len).raw);
    }
}

/* The packet and what was to happen to it; in every other conversation several times, with what may happen
 * meanwhile: the first leaves a path that the others find, or must not find. */
static bool finish(void)
{
    struct way *way;

    if (n_items && !differs) {
        make_flows();
        way = find_way();
        for (int i = 0; i < (plain ? REPEATED : 1) && !differs; i++) {
            strange = i + 1 == REPEATED && n_packets % 3 == 0;
            if (i && n_packets % 2) {
                advance();
            }
            if (i + 2 == REPEATED && n_packets % 5 == 0) {
                remark(n_packets % 2);
            }
            if (i + 1 == REPEATED && n_packets % 2) {
                spoil_windows(items[0].action.zone, items[n_items - 1].action.zone, n_packets / 2 % 2);
            }
            now += !i ? 0 : i + 1 == REPEATED && n_packets % 7 == 0 ? 31 * CT_WORLD_HZ : n_packets % 7;
            run(way);
        }
    }
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
        if (n_up[WALK][i]) {
            printf("%lu packets handed to the engine: %s\n", n_up[WALK][i], names[i]);
        }
    }
}

/* The tables of paths, equal in both worlds that have them. */
static void make_paths(void)
{
#define X(NAME, TYPE)                                   \
    paths.n_##NAME = kernel.paths.n_##NAME;             \
    paths.NAME = calloc(paths.n_##NAME, sizeof(TYPE));
    DP_PATH_TABLES(X)
#undef X
    for (int i = 0; i < DP_PATH_HASH_WORDS; i++) {
        paths.path_head->hash_key[i] = 0x9fb21c651e98df25ull * (2 * i + 1) | 1;
    }
    paths.path_head->micro_last = paths.n_micros - 1;
    paths.path_head->fresh = 30 * CT_WORLD_HZ;
    *kernel.paths.path_head = *paths.path_head;
    worlds[NATIVE].ctx.paths = &paths;
    worlds[KERNEL].ctx.paths = &kernel.paths;
}

int main(int argc, char **argv)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = harness_no_grace };
    struct oxdp_table_config config = oxdp_table_config(MAX_WAYS * MAX_ITEMS, 64);
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
        || oxdp_table_create(&config, NULL, &callbacks, &tables[WALK])
        || oxdp_table_create(&config, NULL, &callbacks, &tables[NATIVE])) {
        return 1;
    }
    tables[KERNEL] = kernel.table;
    worlds[KERNEL].tables = kernel.ct;
    ct_world_begin(&worlds[KERNEL]);
    for (int i = ENGINE; i < KERNEL; i++) {
        ct_world_init(&worlds[i], kernel.ct.n_keys, kernel.ct.n_buckets);
        worlds[i].ctx.tables = i == ENGINE ? NULL : oxdp_table_memory(tables[i]);
    }
    make_paths();
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
    printf("%lu packets met a path, %lu of them one that sets more than addresses and ports\n", n_hits, n_edited_hits);
    oxdp_table_destroy(tables[WALK]);
    oxdp_table_destroy(tables[NATIVE]);
    harness_close(&kernel);
    for (int i = ENGINE; i < KERNEL; i++) {
        ct_world_destroy(&worlds[i]);
    }
#define X(NAME, TYPE) free(paths.NAME);
    DP_PATH_TABLES(X)
#undef X
    return kinds < 10 || !n_resumed || n_packets < 10 * rounds || !n_up[WALK][DP_REASON_UP_CT_NEW]
        || n_edited_hits < n_packets / 400
        || n_up[WALK][DP_REASON_UP_CT] + n_up[WALK][DP_REASON_UP_ENGINE] > n_packets / 2;
}
