/* SPDX-License-Identifier: Apache-2.0 */
/* A packet's way in each world (test_ct_flows.c), and whether they agree: on the packet, its metadata, all connections,
 * the statistics of flows, and the paths. */
#include <config.h>

#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conntrack.h"
#include "tests/bpf_pipeline/ct_flows.h"
#include "tests/bpf_pipeline/ct_call.h"
#include "tests/parity/oracle_ct.h"

#define COMPARED 256            /* Elements of a table. */

void set_frames(void)
{
    for (int i = 0; i < N_WORLDS; i++) {
        worlds[i].ctx.start = frames[i];
        worlds[i].ctx.data = frames[i] + HEADROOM;
        worlds[i].ctx.end = worlds[i].ctx.data + packet.len;
        memcpy(worlds[i].ctx.data, packet.arrived, packet.len);
    }
}

/* Whether the engine is to verify the transport checksum: as programs do. */
static bool verifies(struct ct_world *w, const struct dp_frame *frame, const struct dp_ct_action *action,
                     struct dp_ct_md *md)
{
    struct dp_ct_action trusting = *action;
    struct dp_ct_run run = { .md = *md };

    trusting.flags |= DP_CT_GOOD_L4;
    if (dp_ct_packet(&w->ctx, frame, packet.v6, &trusting, &run) != 1) {
        return true;
    }
    run.ref = dp_ct_find(&w->ctx, &run.tuple, test.now);
    return dp_ct_must_verify(&run);
}

/* As the engine does it: the items from ct() number 'ct' of flow number 'flow' on, to a packet with these layers. */
static void execute(struct ct_world *w, const struct dp_frame *frame, struct dp_ct_md *md, uint32_t flow, uint32_t ct)
{
    struct dp_ct_run run = { .md = *md };

    for (int i = 0; i < packet.n_items; i++) {
        struct dp_ct_action action = packet.items[i].action;
        uint32_t in = packet.items[i].flow + is_folded(i);

        if (in < flow || (in == flow && ct && (is_folded(i) || packet.items[i].ct < ct))) {
            continue;
        }
        switch (packet.items[i].kind) {
        case ITEM_CT:
            action.flags |= verifies(w, frame, &action, &run.md) ? 0 : DP_CT_GOOD_L4;
            if (dp_ct(&w->ctx, frame, packet.v6, &action, test.now, &run) == DP_CT_BUSY) {
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
            if (packet.v6) {
                memcpy(op.u.ip6_addr.value, packet.items[i].address, 16);
                dp_set_ip6_address(&w->ctx, frame, &op, packet.items[i].dst ? 24 : 8);
            } else {
                memset(&op, 0, sizeof op);
                *(packet.items[i].dst ? &op.u.ip4.dst : &op.u.ip4.src) = packet.items[i].address[0];
                *(packet.items[i].dst ? &op.u.ip4.dst_mask : &op.u.ip4.src_mask) = UINT32_MAX;
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
    md->v6 = packet.v6 && key->ct_proto;
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

static bool is_busy(void) { return counts.packets % 16 == 0; }

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
        counts.up[i][run->reason]++;
        counts.resumed += run->tracked != 0;
        execute(&worlds[i], &run->frame, &metadata[i], run->key.recirc_id % 64, run->tracked);
    }
}

static void run_native(int i, const struct way *way)
{
    static uint32_t pause;              /* A program's run keeps it, too. */
    struct ct_world *w = &worlds[i];
    struct dp_run run = { .flow = 0 };
    struct dp_outcome outcome;

    memset(&run, 0x5a, sizeof run);
    run.frame.local_stack = 0;
    run.path.found = DP_PATH_NONE;
    run.path.pause = i == NATIVE ? pause : 0;
    w->ctx.now = test.now;
    lock_buckets(i, is_busy());
    outcome = dp_pipeline(&w->ctx, FIRST_PORT + way_number(way), &run);
    go_on(i, &run, outcome.fate == DP_FATE_ENGINE);
    if (outcome.fate != DP_FATE_ENGINE && (outcome.fate != DP_FATE_OUTPUT || outcome.to != OUTPUT_PORT)) {
        fprintf(stderr, "the native pipeline ended in %d\n", outcome.fate);
        test.differs = true;
    }
    if (i == NATIVE) {
        pause = run.path.pause;
    }
    if (i == NATIVE && run.path.found == DP_PATH_HIT) {
        counts.hits++;
        counts.edited_hits += way->edits != 0;
    }
}

static void run_kernel(const struct way *way)
{
    struct dp_ctx *ctx = &worlds[KERNEL].ctx;
    uint32_t out_len, ns;
    int verdict;

    kernel.call->now = test.now;
    *kernel.in_port = FIRST_PORT + way_number(way);
    lock_buckets(KERNEL, is_busy());
    verdict = harness_run(kernel.pipeline_fd, ctx->data, ctx->end - ctx->data, 1, ctx->data, &out_len, &ns);
    if (verdict != XDP_PASS && verdict != XDP_TX) {
        fprintf(stderr, "BPF_PROG_TEST_RUN: %d\n", verdict);
        test.differs = true;
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
        test.differs = true;
    }
    return !test.differs;
}

/* The frame of world 'a' is that of 'b'. */
static void same_frame(const char *what, int a, int b)
{
    const struct dp_ctx *x = &worlds[a].ctx, *y = &worlds[b].ctx;

    if (x->end - x->data != y->end - y->data) {
        fprintf(stderr, "the length of %s\n", what);
        test.differs = true;
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

/* The engine does not count what decides when paths are learned: its lives become as those of the passes in that. */
static void count_calm(const struct dp_ct_tables *engine, const struct dp_ct_tables *passes)
{
    const uint64_t calm = 7ull << DP_CT_STATE_CALM;

    for (uint32_t i = 0; i < engine->n_lives; i++) {
        engine->lives[i].state = (engine->lives[i].state & ~calm) | (passes->lives[i].state & calm);
    }
}

static void compare(const struct way *way)
{
    const struct dp_ct_tables *e = &worlds[ENGINE].tables, *p = &worlds[WALK].tables, *a = &worlds[NATIVE].tables;
    const struct dp_ct_tables *b = &worlds[KERNEL].tables;

    count_calm(e, p);

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
    if (test.differs) {
        for (int i = 0; i < packet.n_items; i++) {
            const struct item *item = &packet.items[i];

            fprintf(stderr, "%d: flow %d, zone %d, flags %#x\n", item->kind, item->flow, item->action.zone,
                    item->action.flags);
        }
        fprintf(stderr, "edits %#x\n", way->edits);
        parity_dump("packet, engine", worlds[ENGINE].ctx.data, packet.len);
    }
}

/* Puts a tag into the packet of a world. */
static void tag(struct dp_ctx *ctx)
{
    memmove(ctx->data - DP_VLAN_LEN, ctx->data, 12);
    ctx->data -= DP_VLAN_LEN;
    memcpy(ctx->data + 12, (uint8_t[]) { 0x81, 0, 0, packet.is_strange ? 6 : 5 }, DP_VLAN_LEN);
}

void run(const struct way *way)
{
    set_frames();
    for (int i = WALK; i < N_WORLDS; i++) {
        if (way->edits & EDIT_TAGGED) {
            tag(&worlds[i].ctx);
        } else if (way->edits && packet.is_strange) {
            worlds[i].ctx.data[11] ^= way->edits & EDIT_ETHERNET ? 1 : 0;
            worlds[i].ctx.data[DP_ETH_LEN + (packet.v6 ? 7 : 8)]--;
            if (!packet.v6) {
                dp_csum_apply(worlds[i].ctx.data + DP_ETH_LEN + 10, dp_csum_change16(dp_htons(1 << 8).raw, 0));
            }
        }
    }
    memset(&metadata[ENGINE], 0, sizeof metadata[ENGINE]);
    execute(&worlds[ENGINE], &packet.layers, &metadata[ENGINE], 0, 0);
    run_native(WALK, way);
    run_native(NATIVE, way);
    run_kernel(way);
    counts.packets++;
    counts.steps += packet.n_flows;
    counts.states[metadata[ENGINE].state]++;
    compare(way);
}
