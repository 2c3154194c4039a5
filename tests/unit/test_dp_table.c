/* SPDX-License-Identifier: Apache-2.0 */
/* The shared tables: what the writer (core/tables/table.h) installs is what a reader (dp/lookup.h) finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/tables/buddy.h"
#include "core/tables/table.h"
#include "dp/seam_native.h"
#include "dp/lookup.h"

struct world {
    struct oxdp_table *table;
    struct dp_ctx ctx;
    uint32_t n_graces;
    uint32_t n_reclaimed;
    uint64_t final_packets;
};

static void grace(void *aux)
{
    ((struct world *) aux)->n_graces++;
}

static void reclaimed(void *aux, uint32_t flow, const struct dp_stats *final)
{
    struct world *w = aux;

    w->n_reclaimed++;
    w->final_packets += final->packets;
}

static struct world *world_create(uint32_t n_flows, uint32_t n_buckets)
{
    struct oxdp_table_config config = oxdp_table_config(n_flows, 2);
    struct world *w = calloc(1, sizeof *w);
    struct oxdp_table_callbacks callbacks = { .grace = grace, .reclaimed = reclaimed, .aux = w };

    if (n_buckets) {
        config.n_buckets = n_buckets;
    }
    assert_int_equal(oxdp_table_create(&config, NULL, &callbacks, &w->table), 0);
    w->ctx.tables = oxdp_table_memory(w->table);
    return w;
}

static void world_destroy(struct world *w)
{
    oxdp_table_destroy(w->table);
    free(w);
}

/* The masks that readers try. */
static const uint8_t *order_of(const struct world *w)
{
    const struct dp_head *head = w->ctx.tables->head;

    return &head->order[DP_MASKS_FIRST(head->masks_now)];
}

/* A mask of 'bits' bits of the IPv4 source, and 'cold' cold words. */
static union dp_key make_mask(int bits, int cold)
{
    union dp_key mask = { .in_port = UINT32_MAX, .recirc_id = UINT32_MAX, .eth_type = { 0xffff } };

    mask.ip4_src = dp_htonl(bits ? UINT32_MAX << (32 - bits) : 0);
    for (int i = 0; i < cold; i++) {
        mask.w[DP_HOT_WORDS + i] = UINT64_MAX;
    }
    return mask;
}

static union dp_key make_key(uint32_t n)
{
    union dp_key key = { .in_port = 1, .eth_type = dp_htons(0x0800), .ip4_src = dp_htonl(n) };

    for (int i = DP_HOT_WORDS; i < DP_KEY_WORDS; i++) {
        key.w[i] = (uint64_t) n * 0x9e3779b97f4a7c15ull + i;
    }
    return key;
}

static int insert(struct world *w, const union dp_key *key, const union dp_key *mask, uint32_t arg, uint32_t *flow,
                  enum oxdp_table_full *full)
{
    union dp_key masked = *key;
    struct oxdp_flow spec = { .key = &masked, .mask = mask, .fate = DP_FATE_OUTPUT, .arg = arg };

    for (int i = 0; i < DP_KEY_WORDS; i++) {
        masked.w[i] &= mask->w[i];
    }
    return oxdp_table_insert(w->table, &spec, flow, full);
}

/* Returns the 'arg' of the flow found, or UINT32_MAX. */
static uint32_t find(struct world *w, union dp_key key)
{
    struct dp_walked walked = { 0 };
    uint32_t index;
    const struct dp_flow *flow = dp_lookup(&w->ctx, w->ctx.tables->head, &key, &index, &walked);

    assert_int_equal(flow == NULL, index == DP_NO_FLOW);
    assert_in_range(walked.masks, walked.hits, DP_MASKS_N(w->ctx.tables->head->masks_now));
    assert_true(walked.hits <= (flow != NULL));
    return flow ? flow->arg : UINT32_MAX;
}

static void test_finds_every_flow(void **state)
{
    enum { N = 20000, MASKS = 9, STEP = (DP_WARM_WORDS + DP_FLOW_COLD) / (MASKS - 1) };
    static uint32_t flows[N];
    struct world *w = world_create(N, 0);
    enum oxdp_table_full full;

    for (uint32_t i = 0; i < N; i++) {
        union dp_key mask = make_mask(32, i % MASKS * STEP);
        union dp_key key = make_key(i);

        assert_int_equal(find(w, key), UINT32_MAX);
        assert_int_equal(insert(w, &key, &mask, i, &flows[i], &full), 0);
        assert_int_equal(find(w, key), i);
    }
    for (int round = 0; round < 2; round++) {   /* The second mostly from the signature cache. */
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(find(w, make_key(i)), i);
        }
    }

    for (uint32_t i = 0; i < N; i += 2) {
        oxdp_table_unlink(w->table, flows[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(find(w, make_key(i)), i % 2 ? i : UINT32_MAX);
    }
    assert_int_equal(oxdp_table_reclaim(w->table), N / 2);
    assert_int_equal(w->n_graces, 1);
    assert_int_equal(w->n_reclaimed, N / 2);
    world_destroy(w);
}

/* What a mask leaves out does not matter; each bit that it has does. */
static void check_masked_compare(int first_cold)
{
    struct world *w = world_create(64, 0);
    union dp_key key = make_key(12345);
    union dp_key mask = { .w = { 0 } };
    enum oxdp_table_full full;
    uint32_t flow;

    for (int i = 0; i < DP_KEY_WORDS; i++) {
        if (i < DP_FIRST_COLD || (i >= first_cold && i < first_cold + DP_FLOW_COLD)) {
            mask.w[i] = 0x00ff00ff0f0f3355ull << (i % 3);
        }
    }
    assert_int_equal(insert(w, &key, &mask, 77, &flow, &full), 0);
    for (int word = 0; word < DP_KEY_WORDS; word++) {
        for (int bit = 0; bit < 64; bit++) {
            union dp_key other = key;

            other.w[word] ^= 1ull << bit;
            assert_int_equal(find(w, other), mask.w[word] >> bit & 1 ? UINT32_MAX : 77);
        }
    }
    world_destroy(w);
}

static void test_masked_compare(void **state)
{
    check_masked_compare(DP_FIRST_COLD);
    check_masked_compare(DP_KEY_WORDS - DP_FLOW_COLD);
}

static void test_too_wide_masks(void **state)
{
    struct world *w = world_create(64, 0);
    union dp_key key = make_key(1);
    union dp_key fits = make_mask(32, DP_WARM_WORDS + DP_FLOW_COLD);
    union dp_key wide = make_mask(32, DP_WARM_WORDS + DP_FLOW_COLD + 1);
    enum oxdp_table_full full;
    uint32_t flow;

    assert_int_equal(insert(w, &key, &wide, 1, &flow, &full), -ENOSPC);
    assert_int_equal(full, OXDP_TABLE_FULL_WORDS);
    assert_int_equal(insert(w, &key, &fits, 2, &flow, &full), 0);
    assert_int_equal(find(w, key), 2);
    world_destroy(w);
}

static void test_full_tables_say_so(void **state)
{
    struct world *w = world_create(10, 0);
    enum oxdp_table_full full;
    uint32_t flow = 0;

    for (uint32_t i = 0; i < 10; i++) {
        union dp_key mask = make_mask(32, 0);
        union dp_key key = make_key(i);

        assert_int_equal(insert(w, &key, &mask, i, &flow, &full), 0);
    }

    union dp_key mask = make_mask(32, 0);
    union dp_key key = make_key(10);

    assert_int_equal(insert(w, &key, &mask, 10, &flow, &full), -ENOSPC);
    assert_int_equal(full, OXDP_TABLE_FULL_FLOWS);
    oxdp_table_unlink(w->table, flow);
    assert_int_equal(insert(w, &key, &mask, 10, &flow, &full), -ENOSPC);
    oxdp_table_reclaim(w->table);
    assert_int_equal(insert(w, &key, &mask, 10, &flow, &full), 0);
    assert_int_equal(find(w, key), 10);
    world_destroy(w);
}

static void test_masks_run_out_and_come_back(void **state)
{
    struct world *w = world_create(1000, 0);
    struct oxdp_table_usage usage;
    enum oxdp_table_full full;
    uint32_t flows[DP_MAX_MASKS], flow;
    union dp_key mask = { .w = { 0 } };
    union dp_key key = make_key(5);

    for (int i = 0; i < DP_MAX_MASKS; i++) {
        mask.w[4] = i + 1;
        assert_int_equal(insert(w, &key, &mask, i, &flows[i], &full), 0);
    }
    mask.w[4] = UINT64_MAX;
    assert_int_equal(insert(w, &key, &mask, 0, &flow, &full), -ENOSPC);
    assert_int_equal(full, OXDP_TABLE_FULL_MASKS);

    oxdp_table_unlink(w->table, flows[17]);
    oxdp_table_usage(w->table, &usage);
    assert_int_equal(usage.masks, DP_MAX_MASKS - 1);
    assert_int_equal(insert(w, &key, &mask, 0, &flow, &full), -ENOSPC);
    oxdp_table_reclaim(w->table);
    assert_int_equal(insert(w, &key, &mask, 0, &flow, &full), 0);
    world_destroy(w);
}

/* Keys that all hash alike (here because they are equal) fill two buckets and no more. */
static void test_collisions_are_bounded(void **state)
{
    struct world *w = world_create(1000, 1024);
    struct oxdp_table_usage usage;
    union dp_key mask = make_mask(32, 0);
    union dp_key key = make_key(1);
    enum oxdp_table_full full = OXDP_TABLE_FULL_NONE;
    uint32_t flow;
    int n = 0;

    while (n < 1000 && !insert(w, &key, &mask, n, &flow, &full)) {
        n++;
    }
    assert_int_equal(full, OXDP_TABLE_FULL_BUCKETS);
    assert_in_range(n, DP_BUCKET_SLOTS, 2 * DP_BUCKET_SLOTS);
    oxdp_table_usage(w->table, &usage);
    assert_true(usage.free_buckets > 512);
    assert_int_not_equal(find(w, key), UINT32_MAX);
    world_destroy(w);
}

/* Everything comes back: hash regions of all sizes, programs, masks. */
static void test_churn_leaks_nothing(void **state)
{
    enum { N = 3000 };
    static uint32_t flows[N];
    static bool in[N];
    struct world *w = world_create(N, 0);
    struct oxdp_table_usage before, after;
    struct dp_op ops[3] = { { .needs = 1, .growth = 4, .n_blobs = 2 }, { .needs = 2 }, { .growth = 4, .n_blobs = 3 } };
    static const struct dp_blob blobs[5];

    oxdp_table_usage(w->table, &before);
    srand(1);
    for (int step = 0; step < 60000; step++) {
        int i = rand() % N;

        if (in[i]) {
            oxdp_table_unlink(w->table, flows[i]);
        } else {
            union dp_key mask = make_mask(32, i % 7);
            union dp_key key = make_key(i);
            struct oxdp_flow spec = { .key = &key, .mask = &mask, .arg = i, .ops = ops, .n_ops = i % 4,
                                      .blobs = blobs, .fate = DP_FATE_OUTPUT };
            enum oxdp_table_full full;

            for (int j = 0; j < DP_KEY_WORDS; j++) {
                key.w[j] &= mask.w[j];
            }
            if (oxdp_table_insert(w->table, &spec, &flows[i], &full)) {
                oxdp_table_reclaim(w->table);
                continue;
            }
        }
        in[i] = !in[i];
        assert_int_equal(find(w, make_key(i)), in[i] ? i : UINT32_MAX);
        if (step % 500 == 0) {
            oxdp_table_reclaim(w->table);
        }
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(find(w, make_key(i)), in[i] ? i : UINT32_MAX);
        if (in[i]) {
            oxdp_table_unlink(w->table, flows[i]);
        }
    }
    oxdp_table_reclaim(w->table);
    oxdp_table_usage(w->table, &after);
    assert_memory_equal(&before, &after, sizeof before);
    world_destroy(w);
}

static uint32_t insert_number(struct world *w, uint32_t n, const union dp_key *mask)
{
    union dp_key key = make_key(n);
    enum oxdp_table_full full;
    uint32_t flow;

    assert_int_equal(insert(w, &key, mask, n, &flow, &full), 0);
    return flow;
}

/* A mask that grows while somebody waits for programs takes what that one would have freed: nothing is freed twice. */
static void test_growing_while_reclaiming(void **state)
{
    struct world *w = world_create(1000, 32);
    union dp_key masks[] = { make_mask(32, 0), make_mask(31, 0) };
    struct oxdp_table_usage usage;
    uint32_t flows[200];
    uint32_t n = 0;

    /* From 1 bucket to 16: regions of 1, 2, 4 and 8 wait, the first since somebody began. */
    for (uint32_t i = 0; i < 8; i++) {
        flows[n++] = insert_number(w, 2 * i, &masks[0]);
    }
    assert_true(oxdp_table_reclaim_begin(w->table));
    for (uint32_t i = 8; i < 70; i++) {
        flows[n++] = insert_number(w, 2 * i, &masks[0]);
    }
    assert_int_equal(w->n_graces, 0);
    oxdp_table_usage(w->table, &usage);
    assert_true(usage.free_buckets <= 1);
    for (uint32_t i = 0; i < 40; i++) {
        flows[n++] = insert_number(w, 1000 + 2 * i, &masks[1]);
    }
    assert_true(w->n_graces > 0);
    assert_int_equal(oxdp_table_reclaim_end(w->table), 0);

    while (n) {
        oxdp_table_unlink(w->table, flows[--n]);
    }
    oxdp_table_reclaim(w->table);
    oxdp_table_usage(w->table, &usage);
    assert_int_equal(usage.free_buckets, 32);
    world_destroy(w);
}

/* A hint is of use while its mask has flows, and does no harm when that is gone, or its index another mask's. */
static void test_hints(void **state)
{
    struct world *w = world_create(64, 0);
    struct oxdp_mask_hint hint = { 0 };
    union dp_key masks[2] = { make_mask(32, 0), make_mask(24, 0) };
    union dp_key key = { .in_port = 1, .eth_type = dp_htons(0x0800), .ip4_src = dp_htonl(0x0a000000) };
    struct oxdp_flow spec = { .key = &key, .mask = &masks[0], .fate = DP_FATE_OUTPUT, .arg = 5, .hint = &hint };
    enum oxdp_table_full full;
    uint32_t flows[2];

    assert_int_equal(oxdp_table_insert(w->table, &spec, &flows[0], &full), 0);
    assert_int_equal(hint.index, w->ctx.tables->flows[flows[0]].mask);
    oxdp_table_unlink(w->table, flows[0]);

    /* The entry waits to be reclaimed, but no lookup finds it. */
    assert_int_equal(oxdp_table_insert(w->table, &spec, &flows[1], &full), 0);
    assert_int_equal(find(w, key), 5);
    oxdp_table_unlink(w->table, flows[1]);
    oxdp_table_reclaim(w->table);

    /* All indexes are another mask's in turn. */
    for (int i = 0; i < 2; i++) {
        struct oxdp_mask_hint first = hint;

        spec.mask = &masks[1];
        spec.hint = NULL;
        assert_int_equal(oxdp_table_insert(w->table, &spec, &flows[0], &full), 0);
        spec.mask = &masks[0];
        spec.hint = &first;
        assert_int_equal(oxdp_table_insert(w->table, &spec, &flows[1], &full), 0);
        assert_int_not_equal(w->ctx.tables->flows[flows[0]].mask, w->ctx.tables->flows[flows[1]].mask);
        assert_int_equal(first.index, w->ctx.tables->flows[flows[1]].mask);
        oxdp_table_unlink(w->table, flows[0]);
        oxdp_table_unlink(w->table, flows[1]);
        oxdp_table_reclaim(w->table);
        hint.index = 3 - hint.index;
    }
    world_destroy(w);
}

static void test_programs_accumulate_needs(void **state)
{
    struct world *w = world_create(16, 0);
    enum { LAST_BIT = 1u << 31 };
    struct dp_op ops[3] = {
        { .code = DP_OP_POP_VLAN, .needs = 1, .growth = 512, .n_blobs = 9 },
        { .code = 40, .needs = 2 },
        { .code = DP_OP_METER, .needs = LAST_BIT, .growth = 512, .n_blobs = 2 },
    };
    struct dp_blob blobs[11];
    union dp_key mask = make_mask(32, 0);
    union dp_key key = { .w = { 0 } };
    struct oxdp_flow spec = { .key = &key, .mask = &mask, .ops = ops, .n_ops = 3, .blobs = blobs };
    enum oxdp_table_full full;
    uint32_t flow;

    for (int i = 0; i < 11; i++) {
        memset(&blobs[i], i + 1, sizeof blobs[i]);
    }
    assert_int_equal(oxdp_table_insert(w->table, &spec, &flow, &full), 0);

    const struct dp_op *op = &w->ctx.tables->ops[w->ctx.tables->flows[flow].ops];

    assert_int_equal(op[0].needs, (uint32_t) LAST_BIT | 3);
    assert_int_equal(op[0].growth, 1024);
    assert_true(op[0].codes == (1ull << DP_OP_POP_VLAN | 1ull << 40 | 1ull << DP_OP_METER));
    assert_int_equal(op[1].needs, (uint32_t) LAST_BIT | 2);
    assert_int_equal(op[2].needs, (uint32_t) LAST_BIT);
    assert_memory_equal(dp_blobs_at(&w->ctx, op[0].u.blob), &blobs[0], 9 * sizeof blobs[0]);
    assert_memory_equal(dp_blobs_at(&w->ctx, op[2].u.blob), &blobs[9], 2 * sizeof blobs[0]);
    world_destroy(w);
}

/* The table of large arguments is full: the reason says so, and nothing else was taken. */
static void test_no_room_for_blobs(void **state)
{
    struct world *w = world_create(100, 0);
    static const struct dp_blob blobs[DP_MAX_BLOBS];
    struct dp_op op = { .n_blobs = DP_MAX_BLOBS };
    union dp_key mask = make_mask(32, 0);
    struct oxdp_table_usage before, after;
    enum oxdp_table_full full;
    uint32_t flow;
    uint32_t n = 0;

    do {
        union dp_key key = make_key(n);
        struct oxdp_flow spec = { .key = &key, .mask = &mask, .ops = &op, .n_ops = 1, .blobs = blobs };

        for (int i = 0; i < DP_KEY_WORDS; i++) {
            key.w[i] &= mask.w[i];
        }
        oxdp_table_usage(w->table, &before);
        oxdp_table_insert(w->table, &spec, &flow, &full);
        n++;
    } while (full == OXDP_TABLE_FULL_NONE && n < 100);
    assert_int_equal(full, OXDP_TABLE_FULL_BLOBS);
    oxdp_table_usage(w->table, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(n > 1);
    world_destroy(w);
}

static void test_statistics_survive_until_reclaimed(void **state)
{
    struct world *w = world_create(16, 0);
    union dp_key mask = make_mask(32, 0);
    union dp_key key = make_key(3);
    enum oxdp_table_full full;
    struct dp_stats stats;
    uint32_t flow, again;

    assert_int_equal(insert(w, &key, &mask, 1, &flow, &full), 0);

    uint32_t generation = w->ctx.tables->flows[flow].generation;

    for (uint32_t shard = 0; shard < 2; shard++) {
        struct dp_stats *s = &w->ctx.tables->stats[shard * 16 + flow];

        s->packets = 10 + shard;
        s->bytes = 1000;
        s->used = 5 + shard;
        s->tcp_flags = 1 << shard;
    }
    oxdp_table_stats(w->table, flow, &stats);
    assert_int_equal(stats.packets, 21);
    assert_int_equal(stats.bytes, 2000);
    assert_int_equal(stats.used, 6);
    assert_int_equal(stats.tcp_flags, 3);

    oxdp_table_unlink(w->table, flow);
    w->ctx.tables->stats[flow].packets++;       /* A reader that still held it. */
    oxdp_table_reclaim(w->table);
    assert_int_equal(w->final_packets, 22);
    assert_int_equal(insert(w, &key, &mask, 1, &again, &full), 0);
    assert_int_equal(again, flow);
    assert_int_equal(w->ctx.tables->flows[flow].generation, generation + 1);
    oxdp_table_stats(w->table, flow, &stats);
    assert_int_equal(stats.packets, 0);
    world_destroy(w);
}

static void test_busy_masks_come_first(void **state)
{
    struct world *w = world_create(64, 0);
    enum oxdp_table_full full;
    uint32_t flow[4];

    for (int i = 0; i < 4; i++) {
        union dp_key mask = make_mask(32 - i, 0);
        union dp_key key = make_key(i << 8);

        assert_int_equal(insert(w, &key, &mask, i, &flow[i], &full), 0);
    }
    w->ctx.tables->stats[flow[2]].packets = 100;
    w->ctx.tables->stats[flow[3]].packets = 10;
    oxdp_table_rank_masks(w->table);
    assert_int_equal(order_of(w)[0], w->ctx.tables->flows[flow[2]].mask);
    assert_int_equal(order_of(w)[1], w->ctx.tables->flows[flow[3]].mask);
    w->ctx.tables->stats[flow[1]].packets = 20;
    oxdp_table_rank_masks(w->table);
    assert_int_equal(order_of(w)[0], w->ctx.tables->flows[flow[1]].mask);
    world_destroy(w);
}

struct searcher {
    struct world *w;
    union dp_key key;
    bool stop;
    uint32_t n_lookups, n_misses;
};

/* Looks for a flow of one of the masks, as programs do, until told to stop. */
static void *search(void *searcher_)
{
    struct searcher *s = searcher_;

    while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
        struct dp_cache set = { { 0 } };

        s->n_misses += DP_WALK_FLOW(dp_lookup_masks(&s->w->ctx, &s->key, &set, 0)) == DP_NO_FLOW;
        __atomic_add_fetch(&s->n_lookups, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void test_ranking_hides_no_mask(void **state)
{
    enum { N = 32 };
    struct world *w = world_create(64, 0);
    struct searcher s = { .w = w, .key = make_key((N - 1u) << 27) };
    enum oxdp_table_full full;
    uint32_t flow[N];
    pthread_t thread;

    for (int i = 0; i < N; i++) {
        union dp_key mask = make_mask(32 - i % 16, i / 16);
        union dp_key key = make_key((uint32_t) i << 27);

        assert_int_equal(insert(w, &key, &mask, i, &flow[i], &full), 0);
    }
    assert_int_equal(pthread_create(&thread, NULL, search, &s), 0);
    for (uint32_t i = 0; __atomic_load_n(&s.n_lookups, __ATOMIC_RELAXED) < 100000; i++) {
        /* From the end to the front, and back. */
        for (int j = 0; j < N; j++) {
            w->ctx.tables->stats[flow[j]].packets += (j == N - 1) == i % 2;
        }
        oxdp_table_rank_masks(w->table);
        /* Rankings are a second apart: readers end in between. */
        for (uint32_t seen = __atomic_load_n(&s.n_lookups, __ATOMIC_RELAXED);
             __atomic_load_n(&s.n_lookups, __ATOMIC_RELAXED) - seen < 2;) {
            sched_yield();
        }
    }
    __atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_int_equal(s.n_misses, 0);
    world_destroy(w);
}

/* No two blocks overlap, and all of it comes back as one. */
static void test_buddy(void **state)
{
    enum { N = 5000 };
    static uint8_t owner[N];
    struct oxdp_buddy *b = oxdp_buddy_create(N);
    struct { uint32_t first, n; } blocks[200] = { { 0, 0 } };

    srand(2);
    for (int step = 0; step < 100000; step++) {
        int i = rand() % 200;

        if (blocks[i].n) {
            for (uint32_t j = 0; j < blocks[i].n; j++) {
                assert_int_equal(owner[blocks[i].first + j], 1);
                owner[blocks[i].first + j] = 0;
            }
            oxdp_buddy_free(b, blocks[i].first, blocks[i].n);
            blocks[i].n = 0;
        } else {
            uint32_t n = 1 + rand() % 100;
            uint32_t first = oxdp_buddy_alloc(b, n);

            if (first != OXDP_BUDDY_NONE) {
                assert_true(first + n <= N);
                blocks[i].first = first;
                blocks[i].n = n;
                for (uint32_t j = 0; j < n; j++) {
                    assert_int_equal(owner[first + j], 0);
                    owner[first + j] = 1;
                }
            }
        }
    }
    for (int i = 0; i < 200; i++) {
        if (blocks[i].n) {
            oxdp_buddy_free(b, blocks[i].first, blocks[i].n);
        }
    }
    assert_int_equal(oxdp_buddy_n_free(b), N);
    assert_int_equal(oxdp_buddy_alloc(b, 4096), 0);
    assert_int_equal(oxdp_buddy_alloc(b, 4096), OXDP_BUDDY_NONE);
    oxdp_buddy_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_every_flow),
        cmocka_unit_test(test_masked_compare),
        cmocka_unit_test(test_too_wide_masks),
        cmocka_unit_test(test_full_tables_say_so),
        cmocka_unit_test(test_masks_run_out_and_come_back),
        cmocka_unit_test(test_collisions_are_bounded),
        cmocka_unit_test(test_churn_leaks_nothing),
        cmocka_unit_test(test_growing_while_reclaiming),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_programs_accumulate_needs),
        cmocka_unit_test(test_no_room_for_blobs),
        cmocka_unit_test(test_statistics_survive_until_reclaimed),
        cmocka_unit_test(test_busy_masks_come_first),
        cmocka_unit_test(test_ranking_hides_no_mask),
        cmocka_unit_test(test_buddy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
