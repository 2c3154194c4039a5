/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of connections under several threads, which stand for CPUs and engine threads: few tuples, begun from both
 * ends, killed, swept and flushed at the same time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "core/ct/ct.h"
#include "dp/seam_native.h"
#include "dp/ct_run.h"

#define N 1024
#define N_TUPLES 24
#define N_THREADS 3
#define HZ 1000
#define NOW 1000000
#define SECONDS 2

static struct oxdp_ct *ct;
static uint64_t rounds[N_THREADS], n_made, n_locked, n_found, n_wrong, n_twins;
static uint32_t stop;

/* Every second one is the one before reversed: what its peer sends. */
static struct dp_ct_tuple tuple(uint32_t i)
{
    struct dp_ct_tuple t = {
        .addr = { { 0x0100000a }, { 0x0200000a } }, .l4 = { 1000 + i / 2, 53 }, .zone = 7, .proto = DP_IP_UDP,
    };
    struct dp_ct_tuple reversed;

    dp_ct_reverse(&reversed, &t);
    return i % 2 ? reversed : t;
}

static void count(uint64_t *n) { __atomic_fetch_add(n, 1, __ATOMIC_RELAXED); }

/* Who made connection 'ref' of tuple 't' finds it, and nobody else's, by both tuples, until somebody ends it. */
static void check_made(struct dp_ctx *ctx, const struct dp_ct_tuple *t, uint32_t ref)
{
    struct dp_ct_tuple reversed;
    bool same;

    dp_ct_reverse(&reversed, t);
    same = dp_ct_find(ctx, t, NOW) == ref && dp_ct_find(ctx, &reversed, NOW) == (ref | 1);
    if (!same && !(DP_READ_ONCE(ctx->ct->lives[DP_CT_REF_INDEX(ref)].state) & DP_CT_DEAD)) {
        count(&n_twins);
    }
}

/* A packet with tuple 't'. */
static void track(struct dp_ctx *ctx, const struct dp_ct_tuple *t, uint32_t random)
{
    static const struct dp_ct_action action = { .zone = 7, .flags = DP_CT_COMMIT };
    struct dp_ct_run run = { .tuple = *t };
    uint32_t ref = dp_ct_find(ctx, t, NOW), index = DP_CT_REF_INDEX(ref);

    if (!ref) {
        enum dp_ct_made made = dp_ct_make(ctx, &run, &action, NOW);

        count(made == DP_CT_MADE ? &n_made : &n_locked);
        if (made == DP_CT_MADE) {
            check_made(ctx, t, run.ref);
        }
    } else {
        const struct dp_ct_key *key = &ctx->ct->keys[index];

        /* Although others end it, its entry is nobody else's before this packet is done. */
        for (uint32_t i = 0; i < random % 64; i++) {
            if (!dp_ct_has(ctx, key, index, DP_CT_REF_REPLY(ref), t)) {
                count(&n_wrong);
            }
        }
        if (random % 16 == 0) {
            dp_ct_kill(ctx, index);
        }
        count(&n_found);
    }
}

static void *send_packets(void *number)
{
    struct dp_ctx ctx = { .ct = oxdp_ct_tables(ct) };
    uint64_t random = 0x9e3779b97f4a7c15ull * ((uintptr_t) number + 1);

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        struct dp_ct_tuple t;

        random = random * 6364136223846793005ull + 1442695040888963407ull;
        t = tuple((random >> 33) % N_TUPLES);
        track(&ctx, &t, random >> 40);
        __atomic_fetch_add(&rounds[(uintptr_t) number], 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* Until no thread is with a packet that it had. */
static void grace(void)
{
    uint64_t before[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        before[i] = __atomic_load_n(&rounds[i], __ATOMIC_SEQ_CST);
    }
    for (int i = 0; i < N_THREADS; i++) {
        while (__atomic_load_n(&rounds[i], __ATOMIC_SEQ_CST) == before[i]) {
            nanosleep(&(struct timespec) { .tv_nsec = 10000 }, NULL);
        }
    }
}

static void reclaim(bool wait)
{
    if (oxdp_ct_reclaim_begin(ct)) {
        if (wait) {
            grace();
        }
        oxdp_ct_reclaim_end(ct);
    }
}

/* A tuple has one connection that is alive, in whichever direction, and lookups find it. */
static void check_unique(void)
{
    struct dp_ct_tables *t = oxdp_ct_tables(ct);
    struct dp_ctx ctx = { .ct = t };

    for (uint32_t i = 0; i < N_TUPLES; i++) {
        struct dp_ct_tuple wanted = tuple(i);
        uint32_t n = 0;

        for (uint32_t k = 0; k < t->n_keys; k++) {
            if (t->keys[k].flags & DP_CT_KEY_USED && !(t->lives[k].state & DP_CT_DEAD)) {
                n += dp_ct_has(&ctx, &t->keys[k], k, 0, &wanted) || dp_ct_has(&ctx, &t->keys[k], k, 1, &wanted);
            }
        }
        assert_true(n < 2);
        assert_int_equal(!!dp_ct_find(&ctx, &wanted, NOW), n);
    }
}

static void check_empty(void)
{
    const struct dp_ct_tables *t = oxdp_ct_tables(ct);
    uint32_t n = 0;

    assert_int_equal(t->head->n_conns, 0);
    assert_int_equal(t->head->n_held, 0);
    assert_int_equal(t->zones[7].n_held, 0);
    for (uint32_t i = DP_CT_FREE_FIRST(t->head->free); i && i <= t->n_keys; i = dp_ct_next_free(&t->keys[i - 1], i)) {
        assert_true(n++ < t->n_keys);
    }
    assert_int_equal(n, t->n_keys);
    for (uint32_t i = 0; i < t->n_buckets; i++) {
        assert_int_equal(t->buckets[i].lock, 0);
        assert_int_equal(t->buckets[i].n_elsewhere, 0);
        for (int k = 0; k < DP_CT_SLOTS; k++) {
            assert_int_equal(t->buckets[i].slot[k], 0);
        }
    }
}

/* On a busy machine that takes longer. */
static bool is_enough(void)
{
    uint64_t made = __atomic_load_n(&n_made, __ATOMIC_RELAXED);

    return made > 1000 && __atomic_load_n(&n_found, __ATOMIC_RELAXED) > made;
}

static void run_threads(uint32_t n_buckets)
{
    const struct oxdp_ct_config config = { .n = N, .hz = HZ };
    pthread_t threads[N_THREADS];
    time_t end = time(NULL) + SECONDS;

    assert_int_equal(oxdp_ct_create(&config, NULL, &ct), 0);
    oxdp_ct_tables(ct)->head->bucket_last = n_buckets - 1;
    n_made = n_locked = n_found = n_wrong = n_twins = stop = 0;
    for (uintptr_t i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, send_packets, (void *) i), 0);
    }
    for (uint32_t i = 1; time(NULL) < end || !is_enough(); i++) {
        while (!oxdp_ct_sweep(ct, NOW, 64)) {
        }
        if (i % 8 == 0) {
            oxdp_ct_flush(ct, i % 16 ? 7 : -1);
        }
        reclaim(true);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    print_message("%llu made, %llu not, %llu packets of connections\n", (unsigned long long) n_made,
                  (unsigned long long) n_locked, (unsigned long long) n_found);
    assert_int_equal(n_wrong, 0);
    assert_int_equal(n_twins, 0);
    check_unique();
    oxdp_ct_flush(ct, -1);
    reclaim(false);
    check_empty();
    oxdp_ct_destroy(ct);
}

static void test_threads(void **state) { run_threads(N); }

/* Most tuples find their buckets full, or those of their replies. */
static void test_full_buckets(void **state) { run_threads(2); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_full_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
