/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of connections: sweeping, marks, policies; and adopting those of a process that was killed anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <cmocka.h>

#include "core/ct/ct.h"
#include "dp/seam_native.h"
#include "dp/ct_run.h"

#define HZ 1000
#define NOW 1000000
#define N 2048
#define ZONES 1024              /* A zone alone does not get all entries. */
#define DEFAULT_UDP_MS 60000

/* With random numbers both buckets of a tuple would be full in one of a hundred runs, before the table is. */
static void fix_hash(struct dp_ct_head *head)
{
    for (int i = 0; i < DP_CT_HASH_WORDS; i++) {
        head->hash_key[i] = 0x9e3779b97f4a7c15 * (2 * i + 1);
    }
}

static struct oxdp_ct *make_tables(uint32_t n, bool maps, struct oxdp_ct *before)
{
    const struct oxdp_ct_config config = { .n = n, .hz = HZ, .maps = maps };
    int fd[OXDP_CT_N_TABLES];
    struct oxdp_ct *ct;

    for (int i = 0; before && i < OXDP_CT_N_TABLES; i++) {
        fd[i] = oxdp_ct_fd(before, i);
        assert_true(fd[i] >= 0);
    }
    assert_int_equal(oxdp_ct_create(&config, before ? fd : NULL, &ct), 0);
    if (!before) {
        fix_hash(oxdp_ct_tables(ct)->head);
    }
    return ct;
}

static struct dp_ct_tuple tuple(uint32_t i, uint16_t zone)
{
    return (struct dp_ct_tuple) {
        .addr = { { 0x0100000a + i }, { 0x0200000a } }, .l4 = { 1000, 53 }, .zone = zone, .proto = DP_IP_UDP,
    };
}

static uint32_t make(struct oxdp_ct *ct, uint32_t i, uint16_t zone, const struct dp_ct_action *action)
{
    struct dp_ctx ctx = { .ct = oxdp_ct_tables(ct) };
    struct dp_ct_run run = { .tuple = tuple(i, zone) };
    struct dp_ct_action a = action ? *action : (struct dp_ct_action) { .zone = zone };

    a.zone = zone;
    return dp_ct_make(&ctx, &run, &a, NOW) == DP_CT_MADE ? run.ref : 0;
}

static uint32_t find(struct oxdp_ct *ct, uint32_t i, uint16_t zone, bool reply, uint32_t now)
{
    struct dp_ctx ctx = { .ct = oxdp_ct_tables(ct) };
    struct dp_ct_tuple t = tuple(i, zone), reversed;

    dp_ct_reverse(&reversed, &t);
    return dp_ct_find(&ctx, reply ? &reversed : &t, now);
}

static uint32_t n_free(struct oxdp_ct *ct)
{
    const struct dp_ct_tables *t = oxdp_ct_tables(ct);
    uint32_t n = 0;

    for (uint32_t i = DP_CT_FREE_FIRST(t->head->free); i && i <= t->n_keys; i = dp_ct_next_free(&t->keys[i - 1], i)) {
        assert_true(n++ < t->n_keys);
    }
    return n;
}

static uint32_t n_conns(struct oxdp_ct *ct) { return oxdp_ct_tables(ct)->head->n_conns; }

static void sweep(struct oxdp_ct *ct, uint32_t now)
{
    while (!oxdp_ct_sweep(ct, now, 100)) {
    }
    if (oxdp_ct_reclaim_begin(ct)) {
        oxdp_ct_reclaim_end(ct);
    }
}

static void test_sweep(void **state)
{
    struct oxdp_ct *ct = make_tables(N, false, NULL);

    for (uint32_t i = 0; i < N; i++) {
        assert_true(make(ct, i, i % ZONES, NULL));
    }
    assert_false(make(ct, N, 1, NULL));
    assert_int_equal(oxdp_ct_tables(ct)->head->n_refused[DP_CT_REFUSED_FULL], 1);
    assert_int_equal(oxdp_ct_tables(ct)->head->n_held, N);
    sweep(ct, NOW + DEFAULT_UDP_MS - 1);
    assert_int_equal(n_conns(ct), N);

    /* What a packet refreshed stays. */
    oxdp_ct_tables(ct)->lives[DP_CT_REF_INDEX(find(ct, 5, 5, false, NOW))].used = NOW + 10;
    while (!oxdp_ct_sweep(ct, NOW + DEFAULT_UDP_MS, 100)) {
    }
    assert_int_equal(n_conns(ct), 1);
    assert_int_equal(n_free(ct), 0);    /* Somebody may still read them. */
    assert_int_equal(oxdp_ct_tables(ct)->head->n_held, N);
    assert_true(oxdp_ct_reclaim_begin(ct));
    oxdp_ct_reclaim_end(ct);
    assert_int_equal(n_free(ct), N - 1);
    assert_int_equal(oxdp_ct_tables(ct)->head->n_held, 1);
    assert_int_equal(oxdp_ct_tables(ct)->zones[5].n_held, 1);
    assert_true(find(ct, 5, 5, true, NOW));
    assert_false(find(ct, 6, 6, true, NOW));
    oxdp_ct_destroy(ct);
}

static uint32_t n_slots(struct oxdp_ct *ct)
{
    const struct dp_ct_tables *t = oxdp_ct_tables(ct);
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n_buckets; i++) {
        for (int k = 0; k < DP_CT_SLOTS; k++) {
            n += t->buckets[i].slot[k] != 0;
        }
    }
    return n;
}

/* When a flush returns, nothing of the zone is found, counted or dumped; the sweeper, which comes later, finds what is
 * left to do.  Meanwhile its tuples begin other connections. */
static void test_flush(void **state)
{
    struct oxdp_ct *ct = make_tables(N, false, NULL);
    uint32_t limit, count, position = 0, index, again;

    oxdp_ct_limit_set(ct, 1, N / 4);
    for (uint32_t i = 0; i < N / 2; i++) {
        assert_true(make(ct, i, 1 + i % 2, NULL));
    }
    assert_false(make(ct, N, 1, NULL));
    assert_int_equal(oxdp_ct_flush(ct, 1), N / 4);
    assert_int_equal(n_conns(ct), N / 4);
    assert_true(oxdp_ct_limit_get(ct, 1, &limit, &count));
    assert_int_equal(count, 0);
    for (uint32_t i = 0; i < N / 2; i++) {
        assert_int_equal(!find(ct, i, 1 + i % 2, false, NOW), i % 2 == 0);
        assert_int_equal(!find(ct, i, 1 + i % 2, true, NOW), i % 2 == 0);
    }
    assert_false(oxdp_ct_next(ct, NOW, 1, &position, &index));
    assert_int_equal(n_free(ct), N / 2);
    again = make(ct, 0, 1, NULL);
    assert_true(again);
    sweep(ct, NOW);
    assert_int_equal(n_free(ct), N * 3 / 4 - 1);
    assert_int_equal(n_slots(ct), 2 * (N / 4 + 1));
    assert_int_equal(find(ct, 0, 1, true, NOW), again | 1);
    assert_int_equal(oxdp_ct_flush(ct, -1), N / 4 + 1);
    sweep(ct, NOW);
    assert_int_equal(n_free(ct), N);
    assert_int_equal(n_slots(ct), 0);
    oxdp_ct_destroy(ct);
}

/* Only what left before reclaiming began is freed by it. */
static void test_reclaim(void **state)
{
    struct oxdp_ct *ct = make_tables(N, false, NULL);
    uint32_t a = make(ct, 1, 1, NULL), b = make(ct, 2, 1, NULL);
    uint32_t generation = oxdp_ct_tables(ct)->keys[DP_CT_REF_INDEX(b)].generation;

    oxdp_ct_remove(ct, DP_CT_REF_INDEX(a), oxdp_ct_tables(ct)->keys[DP_CT_REF_INDEX(a)].generation);
    assert_true(oxdp_ct_reclaim_begin(ct));
    oxdp_ct_remove(ct, DP_CT_REF_INDEX(b), generation + 1);     /* Another connection's. */
    assert_int_equal(n_conns(ct), 1);
    oxdp_ct_remove(ct, DP_CT_REF_INDEX(b), generation);
    oxdp_ct_reclaim_end(ct);
    assert_int_equal(n_free(ct), N - 1);
    assert_true(oxdp_ct_reclaim_begin(ct));
    oxdp_ct_reclaim_end(ct);
    assert_int_equal(n_free(ct), N);
    assert_false(oxdp_ct_reclaim_begin(ct));
    oxdp_ct_destroy(ct);
}

/* Both buckets of tuple 't' hold the living connection 'ref', as often as they have room. */
static void fill_buckets(struct oxdp_ct *ct, const struct dp_ct_tuple *t, uint32_t ref)
{
    struct dp_ct_tables *tables = oxdp_ct_tables(ct);
    uint64_t hash = dp_ct_hash(tables->head, t);

    for (int i = 0; i < DP_CT_SLOTS; i++) {
        tables->buckets[dp_hash_bucket(hash, tables->head->bucket_last)].slot[i] = DP_CT_SLOT(0, ref);
        tables->buckets[dp_hash_alternative(hash, tables->head->bucket_last)].slot[i] = DP_CT_SLOT(0, ref);
    }
}

/* As dp_ct_insert() begins: the connection of 'run' is counted, and has an entry.  Returns its index. */
static uint32_t begin_insert(struct oxdp_ct *ct, struct dp_ct_run *run)
{
    struct dp_ctx ctx = { .ct = oxdp_ct_tables(ct) };
    const struct dp_ct_action action = { .zone = run->tuple.zone };
    struct dp_ct_head *head = ctx.ct->head;
    uint32_t first;

    dp_ct_reverse(&run->reply, &run->tuple);
    assert_true(dp_ct_admit(&head->n_conns, head->maxconns));
    first = dp_ct_allocate(&ctx, head);
    assert_true(dp_ct_fill(&ctx, run, &action, DP_CT_COUNTED(0, 0), (uint64_t) NOW << 32 | (first - 1)));
    return first - 1;
}

/* A flush in the middle of dp_ct_insert() leaves the connection alone: the second slot would follow after it.  Also if
 * a packet has killed it meanwhile: its entry would be free while others meet it in that slot. */
static void test_flush_of_what_is_half_made(void **state)
{
    struct oxdp_ct *ct = make_tables(N, false, NULL);
    struct dp_ctx ctx = { .ct = oxdp_ct_tables(ct) };
    struct dp_ct_run run = { .tuple = tuple(2, 2) };
    uint32_t index = begin_insert(ct, &run);

    assert_true(dp_ct_publish(&ctx, &run.tuple, DP_CT_REF(index, 0)));
    assert_int_equal(oxdp_ct_flush(ct, 2), 0);
    dp_ct_kill(&ctx, index);
    sweep(ct, NOW);
    assert_int_equal(n_conns(ct), 1);
    assert_int_equal(ctx.ct->head->n_held, 1);
    assert_true(dp_ct_publish(&ctx, &run.reply, DP_CT_REF(index, 1)));
    dp_ct_hand_over(&ctx, index);
    assert_int_equal(oxdp_ct_flush(ct, 2), 1);
    sweep(ct, NOW);
    assert_int_equal(n_free(ct), N);
    oxdp_ct_destroy(ct);
}

/* The entry of a connection is filled, userspace flushes and sweeps, and then both buckets are full.  Who filled the
 * entry gives it back, and nobody else does. */
static void test_flush_of_what_has_no_place(void **state)
{
    struct oxdp_ct *ct = make_tables(N, false, NULL);
    struct dp_ctx ctx = { .ct = oxdp_ct_tables(ct) };
    struct dp_ct_run run = { .tuple = tuple(2, 2) };
    struct dp_ct_head *head = ctx.ct->head;
    uint32_t other = make(ct, 1, 1, NULL), later = NOW + DEFAULT_UDP_MS, index;

    fill_buckets(ct, &run.tuple, other);
    index = begin_insert(ct, &run);
    assert_int_equal(oxdp_ct_flush(ct, 2), 0);
    ctx.ct->lives[DP_CT_REF_INDEX(other)].used = later;
    sweep(ct, later);
    assert_false(dp_ct_publish(&ctx, &run.tuple, DP_CT_REF(index, 0)));
    dp_ct_free(&ctx, index);
    dp_ct_discount(&ctx, head, 2, 0, 0);

    sweep(ct, later);
    assert_int_equal(n_free(ct), N - 1);
    assert_int_equal(n_conns(ct), 1);
    assert_int_equal(head->n_held, 1);
    oxdp_ct_destroy(ct);
}

static const struct dp_ct_marks *marks_of(struct oxdp_ct *ct, uint32_t ref)
{
    return &oxdp_ct_tables(ct)->marks[oxdp_ct_tables(ct)->keys[DP_CT_REF_INDEX(ref)].marks];
}

static void test_marks(void **state)
{
    struct oxdp_ct *ct = make_tables(N, false, NULL);
    const uint64_t label[2] = { 7, 8 }, none[2] = { 0, 0 };
    uint32_t a = make(ct, 1, 1, NULL), b = make(ct, 2, 1, NULL);
    const struct dp_ct_marks *held;

    assert_true(oxdp_ct_remark(ct, a, 5, label));
    assert_true(oxdp_ct_remark(ct, b, 5, label));
    held = marks_of(ct, a);
    assert_ptr_equal(held, marks_of(ct, b));
    assert_int_equal(held->mark, 5);
    assert_int_equal(held->label[1], 8);

    /* Its content stays while somebody may read it, also if it was put and taken again meanwhile. */
    assert_true(oxdp_ct_remark(ct, a, 0, none));
    assert_int_equal(marks_of(ct, a)->mark, 0);
    assert_true(oxdp_ct_remark(ct, b, 6, label));
    assert_true(oxdp_ct_reclaim_begin(ct));
    assert_true(oxdp_ct_remark(ct, b, 5, label));
    assert_ptr_equal(marks_of(ct, b), held);
    assert_true(oxdp_ct_remark(ct, b, 6, label));
    oxdp_ct_reclaim_end(ct);
    assert_true(oxdp_ct_remark(ct, a, 9, label));
    assert_ptr_not_equal(marks_of(ct, a), held);
    assert_int_equal(held->mark, 5);
    assert_true(oxdp_ct_reclaim_begin(ct));
    oxdp_ct_reclaim_end(ct);
    assert_true(oxdp_ct_remark(ct, a, 10, label));
    assert_ptr_equal(marks_of(ct, a), held);

    /* Never a wrong mark: there is a pair for each connection and more. */
    for (uint32_t i = 0; i < N - 2; i++) {
        const uint64_t own[2] = { i + 100, 1 };

        assert_true(oxdp_ct_remark(ct, make(ct, 100 + i, i % ZONES, NULL), i, own));
    }
    assert_int_equal(oxdp_ct_flush(ct, -1), N);
    sweep(ct, NOW);
    assert_int_equal(n_free(ct), N);
    oxdp_ct_destroy(ct);
}

static void test_policies(void **state)
{
    struct oxdp_ct *ct = make_tables(N, false, NULL);
    uint32_t ticks[DP_CT_N_TIMEOUTS] = { 1 };
    struct dp_ct_action action = { 0 };
    uint16_t first;

    action.policy = first = oxdp_ct_policy_get(ct, ticks);
    assert_true(first);
    assert_int_equal(oxdp_ct_policy_get(ct, ticks), first);
    assert_true(make(ct, 1, 1, &action));
    for (uint32_t i = 2; i < OXDP_CT_POLICIES; i++) {
        ticks[0] = i;
        assert_true(oxdp_ct_policy_get(ct, ticks));
    }
    ticks[0] = 1000;
    assert_int_equal(oxdp_ct_policy_get(ct, ticks), 0);
    oxdp_ct_policy_put(ct, first);
    oxdp_ct_policy_put(ct, first);
    assert_int_equal(oxdp_ct_policy_get(ct, ticks), 0);         /* A connection has it. */
    oxdp_ct_flush(ct, 1);
    assert_int_equal(oxdp_ct_policy_get(ct, ticks), first);
    oxdp_ct_destroy(ct);
}

static void test_limits(void **state)
{
    struct oxdp_ct *ct = make_tables(N, false, NULL);
    uint32_t limit, count;

    assert_false(oxdp_ct_limit_get(ct, 1, &limit, &count));
    assert_true(make(ct, 0, 1, NULL));
    oxdp_ct_limit_set(ct, 1, 2);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_equal(!!make(ct, i, 1, NULL), i < 3);
    }
    oxdp_ct_flush(ct, 1);
    assert_true(oxdp_ct_limit_get(ct, 1, &limit, &count));
    assert_int_equal(limit, 2);
    assert_int_equal(count, 0);
    oxdp_ct_limit_delete(ct, 1);
    assert_false(oxdp_ct_limit_get(ct, 1, &limit, &count));
    oxdp_ct_destroy(ct);
}

/* A process makes connections and is killed in the middle of everything. */
static struct oxdp_ct *make_wreck(uint32_t n)
{
    const struct dp_ct_action nat = {
        .flags = DP_CT_NAT | DP_CT_TO_SRC | DP_CT_TO_PORTS,
        .nat = { .min = { 0x0900000a }, .max = { 0x0900000a }, .min_port = 5000, .max_port = 5000 },
    };
    struct oxdp_ct *ct = make_tables(n, true, NULL);
    struct dp_ct_tables *t = oxdp_ct_tables(ct);
    struct dp_ctx ctx = { .ct = t };
    const uint64_t label[2] = { 7, 8 };

    oxdp_ct_limit_set(ct, 3, 100);
    for (uint32_t i = 0; i < 500; i++) {
        assert_true(make(ct, i, 3, NULL));
        if (i == 99) {
            oxdp_ct_limit_set(ct, 3, 1000);
        }
    }
    assert_true(oxdp_ct_remark(ct, make(ct, 500, 4, &nat), 5, label));
    t->head->maxconns = 77777;

    /* A maker: an index taken, an entry filled, one of two slots published, a lock. */
    struct dp_ct_run run = { .tuple = tuple(600, 3) };
    uint32_t index = dp_ct_allocate(&ctx, t->head) - 1;

    dp_ct_reverse(&run.reply, &run.tuple);
    assert_true(dp_ct_fill(&ctx, &run, &(struct dp_ct_action) { .zone = 3 }, 0, (__u64) NOW << 32 | index));
    assert_true(dp_ct_publish(&ctx, &run.tuple, DP_CT_REF(index, 0)));
    t->buckets[3].lock = DP_CT_LOCK_USER | t->head->epoch;
    t->head->n_conns += 3;
    t->zones[3].count += 5;
    t->zones[3].n_expected = 9;

    /* Others: an entry in no bucket, an index taken. */
    run.tuple = tuple(601, 3);
    dp_ct_reverse(&run.reply, &run.tuple);
    index = dp_ct_allocate(&ctx, t->head) - 1;
    assert_true(dp_ct_fill(&ctx, &run, &(struct dp_ct_action) { .zone = 3 }, 0, (__u64) NOW << 32 | index));
    assert_true(dp_ct_allocate(&ctx, t->head));

    /* A sweeper: one killed; one that left and is not free. */
    dp_ct_kill(&ctx, DP_CT_REF_INDEX(find(ct, 10, 3, false, NOW)));
    oxdp_ct_remove(ct, DP_CT_REF_INDEX(find(ct, 11, 3, false, NOW)),
                   t->keys[DP_CT_REF_INDEX(find(ct, 11, 3, false, NOW))].generation);
    t->buckets[5].n_elsewhere += 2;
    return ct;
}

static void check_kept(struct oxdp_ct *ct)
{
    const struct dp_ct_tables *t = oxdp_ct_tables(ct);
    uint32_t limit, count, nat;

    for (uint32_t i = 0; i < 500; i++) {
        for (int reply = 0; reply < 2; reply++) {
            assert_int_equal(!!find(ct, i, 3, reply, NOW), i != 10 && i != 11);
        }
    }
    nat = find(ct, 500, 4, false, NOW);
    assert_int_equal(DP_CT_L4_PORT(t->keys[DP_CT_REF_INDEX(nat)].l4[1][1]), dp_htons(5000).raw);
    assert_int_equal(marks_of(ct, nat)->mark, 5);
    assert_int_equal(marks_of(ct, nat)->label[1], 8);
    assert_false(find(ct, 600, 3, false, NOW));
    assert_int_equal(n_conns(ct), 499);
    assert_int_equal(n_free(ct), t->n_keys - 499);
    assert_int_equal(t->head->n_held, 499);
    assert_int_equal(t->zones[3].n_held, 498);
    assert_int_equal(t->zones[4].n_held, 1);
    assert_int_equal(t->zones[3].n_expected, 0);
    assert_true(oxdp_ct_limit_get(ct, 3, &limit, &count));
    assert_int_equal(limit, 1000);
    assert_int_equal(count, 498);
    assert_int_equal(t->head->maxconns, 77777);
    for (uint32_t i = 0; i < t->n_buckets; i++) {
        assert_int_equal(t->buckets[i].lock, 0);
    }

    /* And it goes on: everything can be used, nothing is lost. */
    for (uint32_t i = 1000; i < 1500; i++) {
        assert_true(make(ct, i, 9, NULL));
    }
    assert_int_equal(oxdp_ct_flush(ct, -1), 999);
    sweep(ct, NOW);
    assert_int_equal(n_free(ct), t->n_keys);
    for (uint32_t i = 0; i < t->n_buckets; i++) {
        assert_int_equal(t->buckets[i].n_elsewhere, 0);
        for (int k = 0; k < DP_CT_SLOTS; k++) {
            assert_int_equal(t->buckets[i].slot[k], 0);
        }
    }
}

static uint32_t *no_seq_check(struct oxdp_ct *ct)
{
    return &oxdp_ct_tables(ct)->head->no_seq_check;
}

static void test_adopt(void **state)
{
    struct oxdp_ct *old = make_wreck(N), *ct;
    uint32_t epoch, kept, lost;

    *no_seq_check(old) = DP_CT_SEQ_DISABLED | DP_CT_SEQ_COPYING;
    ct = make_tables(N, true, old);
    epoch = oxdp_ct_tables(ct)->head->epoch;
    assert_int_equal(*no_seq_check(ct), DP_CT_SEQ_DISABLED);
    oxdp_ct_destroy(old);
    assert_true(oxdp_ct_adopted(ct));
    assert_int_equal(epoch, 1);
    oxdp_ct_inherited(ct, &kept, &lost);
    assert_int_equal(kept, 499);
    assert_int_equal(lost, 0);
    check_kept(ct);
    oxdp_ct_destroy(ct);
}

static void test_copy(void **state)
{
    struct oxdp_ct *old = make_wreck(N), *larger, *smaller;
    uint32_t kept, lost;

    *no_seq_check(old) = DP_CT_SEQ_DISABLED;
    larger = make_tables(2 * N + 1, true, old);
    smaller = make_tables(400, true, old);
    oxdp_ct_destroy(old);
    assert_false(oxdp_ct_adopted(larger));
    check_kept(larger);
    oxdp_ct_inherited(smaller, &kept, &lost);
    assert_int_equal(kept, 400);
    assert_int_equal(lost, 99);
    assert_int_equal(n_conns(smaller), 400);
    assert_int_equal(n_free(smaller), 0);
    oxdp_ct_destroy(larger);
    oxdp_ct_destroy(smaller);
}

/* What a later version means by it nobody knows, though its size and layout are ours. */
static void test_another_version(void **state)
{
    struct oxdp_ct *old = make_wreck(N), *ct;

    oxdp_ct_tables(old)->head->version++;
    ct = make_tables(N, true, old);
    assert_false(oxdp_ct_adopted(ct));
    assert_true(oxdp_ct_unreadable(ct));
    assert_int_equal(n_conns(ct), 0);
    assert_int_equal(n_free(ct), N);
    oxdp_ct_destroy(ct);
    oxdp_ct_destroy(old);
}

/* As a version would leave 'table' whose elements begin with eight bytes that ours have not, and whose halves stand the
 * other way round.  Returns its map. */
static int leave_other(const void *table, size_t bytes, uint32_t size, struct oxdp_ct_layout *layout)
{
    LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
    uint32_t half = size / 2, their_size = size + 8;
    size_t n = bytes / size;
    uint8_t *theirs;
    int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "other", sizeof(uint32_t), n * their_size, 1, &opts);

    assert_true(fd >= 0);
    *layout = (struct oxdp_ct_layout) {
        .size = their_size, .n = 2, .move = { { 8 + size - half, 0, half }, { 8, half, size - half } },
    };
    theirs = mmap(NULL, n * their_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(theirs, MAP_FAILED);
    for (size_t i = 0; i < n; i++) {
        memset(theirs + i * their_size, 0xee, 8);
        for (int j = 0; j < 2; j++) {
            memcpy(theirs + i * their_size + layout->move[j].from,
                   (const uint8_t *) table + i * size + layout->move[j].to, layout->move[j].len);
        }
    }
    munmap(theirs, n * their_size);
    return fd;
}

/* The word of their head that says whether sequence numbers are checked. */
static uint32_t other_no_seq_check(int fd, const struct oxdp_ct_layout *layout)
{
    size_t offset = offsetof(struct dp_ct_head, no_seq_check);
    uint8_t *theirs = mmap(NULL, layout->size, PROT_READ, MAP_SHARED, fd, 0);
    uint32_t ret;

    assert_ptr_not_equal(theirs, MAP_FAILED);
    memcpy(&ret, theirs + layout->move[0].from + offset - layout->move[0].to, sizeof ret);
    munmap(theirs, layout->size);
    return ret;
}

/* While devices change over, sequence numbers are checked in no table. */
static void test_copying_is_lenient(void **state)
{
    struct oxdp_ct *old = make_wreck(N), *ct = make_tables(2 * N, true, old);

    assert_int_equal(*no_seq_check(ct), DP_CT_SEQ_COPYING);
    assert_int_equal(*no_seq_check(old), 0);
    oxdp_ct_catch_up(ct);
    assert_int_equal(*no_seq_check(old), DP_CT_SEQ_COPYING);
    oxdp_ct_taken_over(ct);
    assert_int_equal(*no_seq_check(ct), 0);
    oxdp_ct_destroy(ct);
    oxdp_ct_destroy(old);
}

/* A packet of a connection there, at time 'now', while programs of that version still run. */
static void use_other(int fd, const struct oxdp_ct_layout *layout, uint32_t index, uint32_t now)
{
    size_t bytes = (size_t) N * layout->size, used = offsetof(struct dp_ct_life, used);
    uint8_t *theirs = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_ptr_not_equal(theirs, MAP_FAILED);
    memcpy(theirs + index * layout->size + layout->move[1].from + used - layout->move[1].to, &now, sizeof now);
    munmap(theirs, bytes);
}

static void test_other_layout(void **state)
{
    struct oxdp_ct *old = make_wreck(N), *ct;
    struct oxdp_ct_layout layout[OXDP_CT_N_TABLES];
    const struct oxdp_ct_config config = { .n = N, .hz = HZ, .maps = true, .layout = layout };
    const struct dp_ct_tables *t = oxdp_ct_tables(old);
    uint32_t kept, lost, index = DP_CT_REF_INDEX(find(old, 20, 3, false, NOW));
    int fd[OXDP_CT_N_TABLES];

#define X(NAME, TYPE) \
    fd[OXDP_CT_##NAME] = leave_other(t->NAME, t->n_##NAME * sizeof(TYPE), sizeof(TYPE), &layout[OXDP_CT_##NAME]);
    DP_CT_TABLES(X)
#undef X
    assert_int_equal(oxdp_ct_create(&config, fd, &ct), 0);
    oxdp_ct_destroy(old);
    assert_false(oxdp_ct_adopted(ct) || oxdp_ct_unreadable(ct));
    oxdp_ct_inherited(ct, &kept, &lost);
    assert_int_equal(kept, 499);
    assert_int_equal(lost, 0);
    use_other(fd[OXDP_CT_lives], &layout[OXDP_CT_lives], index, NOW + 5);
    assert_int_equal(other_no_seq_check(fd[OXDP_CT_head], &layout[OXDP_CT_head]), 0);
    oxdp_ct_catch_up(ct);
    assert_int_equal(other_no_seq_check(fd[OXDP_CT_head], &layout[OXDP_CT_head]), DP_CT_SEQ_COPYING);
    index = DP_CT_REF_INDEX(find(ct, 20, 3, false, NOW));
    assert_int_equal(oxdp_ct_tables(ct)->lives[index].used, NOW + 5);
    oxdp_ct_taken_over(ct);
    check_kept(ct);
    oxdp_ct_destroy(ct);

    /* Tables that lie are those of nobody. */
    layout[OXDP_CT_keys].size += 8;
    assert_int_equal(oxdp_ct_create(&config, fd, &ct), 0);
    assert_true(oxdp_ct_unreadable(ct));
    assert_int_equal(n_conns(ct), 0);
    oxdp_ct_destroy(ct);
    for (int i = 0; i < OXDP_CT_N_TABLES; i++) {
        close(fd[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweep), cmocka_unit_test(test_flush), cmocka_unit_test(test_reclaim),
        cmocka_unit_test(test_flush_of_what_is_half_made), cmocka_unit_test(test_flush_of_what_has_no_place),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_policies), cmocka_unit_test(test_limits), cmocka_unit_test(test_adopt),
        cmocka_unit_test(test_copy), cmocka_unit_test(test_copying_is_lenient), cmocka_unit_test(test_another_version),
        cmocka_unit_test(test_other_layout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
