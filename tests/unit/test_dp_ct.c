/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of connections: lookups, limits, full buckets and full tables, locks, what sweeping leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/parity/ct_world.h"

#define NOW 1000000

static struct dp_ct_tuple tuple(uint32_t client, uint16_t port)
{
    return (struct dp_ct_tuple) {
        .addr = { { 0x0100000a + client }, { 0x0200000a } }, .l4 = { port, 53 }, .zone = 7, .proto = DP_IP_UDP,
    };
}

static enum dp_ct_made make(struct ct_world *w, const struct dp_ct_action *action, struct dp_ct_tuple t, uint32_t *ref)
{
    struct dp_ct_run run = { .tuple = t };
    enum dp_ct_made made = dp_ct_make(&w->ctx, &run, action, NOW);

    *ref = run.ref;
    return made;
}

static void take_away(struct ct_world *w, uint32_t index)
{
    assert_true(dp_ct_kill(&w->ctx, index));
    assert_false(dp_ct_kill(&w->ctx, index));
    ct_world_leave(w, index);
    dp_ct_free(&w->ctx, index);
}

/* What must hold whenever nobody runs: counts are those of the entries, no slot is left behind. */
static void check(struct ct_world *w, uint32_t n)
{
    uint32_t used = 0, held = 0, n_free = 0, slots = 0, elsewhere = 0, moved = 0;

    for (uint32_t i = 0; i < w->tables.n_keys; i++) {
        used += !!(w->tables.keys[i].flags & DP_CT_KEY_USED);
    }
    for (uint32_t i = DP_CT_FREE_FIRST(w->tables.head->free); i && i <= w->tables.n_keys;
         i = dp_ct_next_free(&w->tables.keys[i - 1], i)) {
        n_free++;
    }
    for (uint32_t i = 0; i < w->tables.n_buckets; i++) {
        const struct dp_ct_bucket *bucket = &w->tables.buckets[i];

        assert_int_equal(bucket->lock, 0);
        elsewhere += bucket->n_elsewhere;
        for (int k = 0; k < DP_CT_SLOTS; k++) {
            uint32_t ref = DP_CT_SLOT_REF(bucket->slot[k]);
            struct dp_ct_tuple t;

            if (ref) {
                slots++;
                dp_ct_tuple_of(&w->ctx, DP_CT_REF_INDEX(ref), DP_CT_REF_REPLY(ref), &t);
                moved += dp_hash_bucket(dp_ct_hash(w->tables.head, &t), w->tables.head->bucket_last) != i;
            }
        }
    }
    for (uint32_t i = 0; i < DP_CT_ZONES; i++) {
        held += w->tables.zones[i].n_held;
    }
    assert_int_equal(used, n);
    assert_int_equal(w->tables.head->n_conns, n);
    assert_int_equal(w->tables.head->n_held, n);
    assert_int_equal(held, n);
    assert_int_equal(n_free, w->tables.n_keys - n);
    assert_int_equal(slots, 2 * n);
    assert_int_equal(elsewhere, moved);
}

static void test_found_both_ways(void **state)
{
    struct dp_ct_action action = { .zone = 7, .flags = DP_CT_COMMIT };
    struct ct_world w;
    struct dp_ct_tuple t = tuple(0, 1000), reply, other;
    uint32_t ref, again;

    ct_world_init(&w, 16, 16);
    assert_int_equal(make(&w, &action, t, &ref), DP_CT_MADE);
    dp_ct_reverse(&reply, &t);
    assert_int_equal(dp_ct_find(&w.ctx, &t, NOW), ref);
    assert_int_equal(dp_ct_find(&w.ctx, &reply, NOW), ref | 1);
    check(&w, 1);

    other = t;
    other.zone++;
    assert_int_equal(dp_ct_find(&w.ctx, &other, NOW), 0);
    other = t;
    other.proto = DP_IP_TCP;
    assert_int_equal(dp_ct_find(&w.ctx, &other, NOW), 0);
    other = t;
    other.v6 = 1;
    assert_int_equal(dp_ct_find(&w.ctx, &other, NOW), 0);

    /* Another packet that begins it is too late. */
    assert_int_equal(make(&w, &action, t, &again), DP_CT_LOCKED);
    check(&w, 1);

    take_away(&w, DP_CT_REF_INDEX(ref));
    assert_int_equal(dp_ct_find(&w.ctx, &t, NOW), 0);
    assert_int_equal(dp_ct_find(&w.ctx, &reply, NOW), 0);
    check(&w, 0);
    ct_world_destroy(&w);
}

static void test_expires_before_it_is_swept(void **state)
{
    struct dp_ct_action action = { .zone = 7, .flags = DP_CT_COMMIT };
    struct ct_world w;
    struct dp_ct_tuple t = tuple(0, 1000);
    uint32_t ref, again;

    ct_world_init(&w, 16, 16);
    assert_int_equal(make(&w, &action, t, &ref), DP_CT_MADE);
    assert_int_equal(dp_ct_find(&w.ctx, &t, NOW - 1), ref);     /* Another CPU's clock. */
    assert_int_equal(dp_ct_find(&w.ctx, &t, NOW + 59999), ref);
    assert_int_equal(dp_ct_find(&w.ctx, &t, NOW + 60000), 0);

    struct dp_ct_run run = { .tuple = t };

    assert_int_equal(dp_ct_make(&w.ctx, &run, &action, NOW + 60000), DP_CT_MADE);
    again = run.ref;
    assert_int_not_equal(again, ref);
    assert_int_equal(dp_ct_find(&w.ctx, &t, NOW + 60000), again);
    assert_int_equal(w.tables.head->n_conns, 2);
    ct_world_sweep(&w, NOW + 60000);
    check(&w, 1);
    assert_int_equal(dp_ct_find(&w.ctx, &t, NOW + 60000), again);
    ct_world_destroy(&w);
}

static void test_limits(void **state)
{
    struct dp_ct_action action = { .zone = 7, .flags = DP_CT_COMMIT };
    struct ct_world w;
    uint32_t ref, first;

    ct_world_init(&w, 64, 64);
    w.tables.zones[7] = (struct dp_ct_zone) { .limit = 3, .flags = DP_CT_ZONE_LIMITED, .seq = 1 };
    w.tables.zones[DP_CT_ZONE_DEFAULT] = (struct dp_ct_zone) { .limit = 2, .flags = DP_CT_ZONE_LIMITED, .seq = 1 };
    assert_int_equal(make(&w, &action, tuple(0, 1), &first), DP_CT_MADE);
    for (int i = 1; i < 5; i++) {
        assert_int_equal(make(&w, &action, tuple(0, i + 1), &ref), i < 3 ? DP_CT_MADE : DP_CT_REFUSED);
    }
    assert_int_equal(w.tables.zones[7].count, 3);
    assert_int_equal(w.tables.zones[7].n_refused, 2);
    assert_int_equal(w.tables.head->n_refused[DP_CT_REFUSED_LIMIT], 2);
    take_away(&w, DP_CT_REF_INDEX(first));
    assert_int_equal(w.tables.zones[7].count, 2);

    /* Zones without their own limit share one. */
    for (int i = 0; i < 4; i++) {
        struct dp_ct_tuple t = tuple(0, 1);

        action.zone = t.zone = 8 + i;
        assert_int_equal(make(&w, &action, t, &ref), i < 2 ? DP_CT_MADE : DP_CT_REFUSED);
    }
    assert_int_equal(w.tables.zones[DP_CT_ZONE_DEFAULT].count, 2);
    assert_int_equal(w.tables.zones[8].count, 0);

    /* A limit set anew does not count what was there. */
    w.tables.zones[7].seq++;
    w.tables.zones[7].count = 0;
    ct_world_sweep(&w, NOW + 1000000);
    assert_int_equal(w.tables.zones[7].count, 0);
    assert_int_equal(w.tables.zones[DP_CT_ZONE_DEFAULT].count, 0);
    check(&w, 0);

    w.tables.head->maxconns = 1;
    action.zone = 7;
    assert_int_equal(make(&w, &action, tuple(0, 1), &ref), DP_CT_MADE);
    assert_int_equal(make(&w, &action, tuple(0, 2), &ref), DP_CT_REFUSED);
    assert_int_equal(w.tables.zones[7].count, 1);
    assert_int_equal(w.tables.head->n_refused[DP_CT_REFUSED_MAXCONNS], 1);

    /* Another packet took the last one between the first look and the second. */
    struct dp_ct_run run = { .tuple = tuple(0, 3) };

    dp_ct_reverse(&run.reply, &run.tuple);
    assert_int_equal(dp_ct_insert(&w.ctx, &run, &action, NOW), DP_CT_REFUSED);
    assert_int_equal(w.tables.zones[7].count, 1);
    ct_world_destroy(&w);
}

/* How many of 'wanted' connections 'zone' gets. */
static uint32_t flood(struct ct_world *w, uint16_t zone, uint32_t wanted)
{
    struct dp_ct_action action = { .zone = zone, .flags = DP_CT_COMMIT };
    uint32_t ref, n = 0;

    for (uint32_t i = 0; i < wanted; i++) {
        struct dp_ct_tuple t = tuple(i, 1);

        t.zone = zone;
        n += make(w, &action, t, &ref) == DP_CT_MADE;
    }
    return n;
}

/* One zone after the other takes what it gets: each leaves something to the next, down to the last entry. */
static void test_share(void **state)
{
    struct ct_world w;
    struct dp_ct_tuple t;
    uint32_t first;

    ct_world_init(&w, 1024, 1024);
    assert_int_equal(flood(&w, 7, 2000), 964);  /* Then 60 are free, and 16 * 60 < 964. */
    assert_int_equal(w.tables.head->n_refused[DP_CT_REFUSED_SHARE], 2000 - 964);
    assert_int_equal(w.tables.zones[7].n_refused, 2000 - 964);
    assert_int_equal(flood(&w, 8, 2000), 57);
    assert_int_equal(flood(&w, 9, 3), 3);
    assert_int_equal(w.tables.head->n_refused[DP_CT_REFUSED_FULL], 0);
    assert_int_equal(flood(&w, 10, 1), 0);
    assert_int_equal(w.tables.head->n_refused[DP_CT_REFUSED_FULL], 1);
    check(&w, 1024);

    /* Nobody's connection ended.  What is free again is not the flood's; and not free before it is. */
    t = tuple(0, 1);
    first = DP_CT_REF_INDEX(dp_ct_find(&w.ctx, &t, NOW));
    assert_true(dp_ct_kill(&w.ctx, first));
    ct_world_leave(&w, first);
    assert_int_equal(w.tables.zones[7].n_held, 964);
    dp_ct_free(&w.ctx, first);
    assert_int_equal(w.tables.zones[7].n_held, 963);
    assert_int_equal(flood(&w, 7, 1), 0);
    assert_int_equal(flood(&w, 10, 1), 1);
    check(&w, 1024);
    ct_world_sweep(&w, NOW + 1000000);
    check(&w, 0);
    assert_int_equal(flood(&w, 7, 2000), 964);
    ct_world_destroy(&w);
}

/* Four buckets: most connections stand in the second choice of one of their tuples, and some in none. */
static void test_full(void **state)
{
    struct dp_ct_action action = { .zone = 7, .flags = DP_CT_COMMIT };
    struct ct_world w;
    uint32_t refs[64], n = 0, refused = 0;

    ct_world_init(&w, 32, 4);
    for (int i = 0; i < 64; i++) {
        if (make(&w, &action, tuple(i, 1), &refs[n]) == DP_CT_MADE) {
            n++;
        } else {
            refused++;
        }
    }
    assert_in_range(n, 8, 14);                  /* 28 slots. */
    assert_int_equal(w.tables.head->n_refused[DP_CT_REFUSED_FULL], refused);
    for (uint32_t i = 0; i < n; i++) {
        struct dp_ct_tuple t;

        for (int d = 0; d < 2; d++) {
            dp_ct_tuple_of(&w.ctx, DP_CT_REF_INDEX(refs[i]), d, &t);
            assert_int_equal(dp_ct_find(&w.ctx, &t, NOW), refs[i] | d);
        }
    }
    ct_world_sweep(&w, NOW);
    check(&w, n);
    ct_world_sweep(&w, NOW + 1000000);
    check(&w, 0);
    ct_world_destroy(&w);

    ct_world_init(&w, 8, 64);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(make(&w, &action, tuple(i, 1), &refs[i]), i < 8 ? DP_CT_MADE : DP_CT_REFUSED);
    }
    check(&w, 8);
    ct_world_destroy(&w);
}

/* Fills what is free in the buckets of tuple 't' with the living connection 'ref'.  Returns how many places it was. */
static uint32_t fill_buckets(struct ct_world *w, const struct dp_ct_tuple *t, uint32_t ref)
{
    uint64_t hash = dp_ct_hash(w->tables.head, t);
    uint32_t last = w->tables.head->bucket_last, n = 0;

    for (int i = 0; i < 2 * DP_CT_SLOTS; i++) {
        uint32_t no = i % 2 ? dp_hash_alternative(hash, last) : dp_hash_bucket(hash, last);
        __u64 *slot = &w->tables.buckets[no].slot[i / 2];

        n += !*slot;
        *slot = *slot ? *slot : DP_CT_SLOT(0, ref);
    }
    return n;
}

static void empty_buckets(struct ct_world *w, uint32_t ref)
{
    for (uint32_t i = 0; i < w->tables.n_buckets; i++) {
        for (int k = 0; k < DP_CT_SLOTS; k++) {
            __u64 *slot = &w->tables.buckets[i].slot[k];

            *slot = *slot == DP_CT_SLOT(0, ref) ? 0 : *slot;
        }
    }
}

/* Of either tuple no place is free: packets make no connection, and use up no entry. */
static void test_one_tuple_has_no_place(void **state)
{
    struct dp_ct_action action = { .zone = 7, .flags = DP_CT_COMMIT };

    for (int d = 0; d < 2; d++) {
        struct dp_ct_tuple t[2] = { tuple(1, 1) };
        struct ct_world w;
        uint32_t other, ref;

        dp_ct_reverse(&t[1], &t[0]);
        ct_world_init(&w, 64, 64);
        assert_int_equal(make(&w, &action, tuple(2, 2), &other), DP_CT_MADE);
        assert_true(fill_buckets(&w, &t[d], other));
        for (int i = 0; i < 10; i++) {
            assert_int_equal(make(&w, &action, t[0], &ref), DP_CT_REFUSED);
            assert_false(ref);
        }
        assert_int_equal(w.tables.head->n_refused[DP_CT_REFUSED_FULL], 10);
        assert_int_equal(w.tables.head->n_held, 1);
        empty_buckets(&w, other);
        check(&w, 1);
        assert_int_equal(make(&w, &action, t[0], &ref), DP_CT_MADE);
        assert_int_equal(dp_ct_find(&w.ctx, &t[1], NOW), ref | 1);
        check(&w, 2);
        ct_world_destroy(&w);
    }
}

/* A tuple that is begun again and again between two sweeps, and others in turn: slots of the dead are used again. */
static void test_dead_slots_are_taken(void **state)
{
    struct dp_ct_action action = { .zone = 7, .flags = DP_CT_COMMIT };

    for (int others = 0; others < 2; others++) {
        struct ct_world w;
        uint32_t ref = 0;

        ct_world_init(&w, 64, 4);
        for (int i = 0; i < 60; i++) {
            if (ref) {
                dp_ct_kill(&w.ctx, DP_CT_REF_INDEX(ref));
            }
            assert_int_equal(make(&w, &action, tuple(others * i, 1), &ref), DP_CT_MADE);
        }
        assert_int_equal(w.tables.head->n_conns, 60);
        ct_world_sweep(&w, NOW);
        check(&w, 1);
        ct_world_destroy(&w);
    }
}

/* A daemon that was killed: its locks are known by their epoch. */
static void test_locked(void **state)
{
    struct dp_ct_action action = { .zone = 7, .flags = DP_CT_COMMIT };
    struct dp_ct_tuple t = tuple(0, 1);
    struct dp_ct_bucket *bucket;
    struct ct_world w;
    __u64 hash;
    uint32_t ref;

    ct_world_init(&w, 16, 16);
    bucket = dp_ct_bucket_of(&w.ctx, w.tables.head, &t, &hash);
    bucket->lock = DP_CT_LOCK_USER | 4;
    assert_int_equal(make(&w, &action, t, &ref), DP_CT_LOCKED);
    bucket->lock = 0;
    assert_int_equal(make(&w, &action, t, &ref), DP_CT_MADE);
    check(&w, 1);
    ct_world_destroy(&w);
}

/* The source port that NAT gives a connection from 'client', of this range; 0: none. */
static uint32_t source_port(struct ct_world *w, uint32_t client, uint16_t min, uint16_t max)
{
    struct dp_ct_action action = {
        .zone = 7, .flags = DP_CT_COMMIT | DP_CT_NAT | DP_CT_TO_SRC | DP_CT_TO_PORTS,
        .nat = { .min = { 0x0900000a }, .max = { 0x0900000a }, .min_port = min, .max_port = max },
    };
    struct dp_ct_tuple t;
    uint32_t ref;

    if (make(w, &action, tuple(client, 1000), &ref) != DP_CT_MADE) {
        return 0;
    }
    dp_ct_tuple_of(&w->ctx, DP_CT_REF_INDEX(ref), 1, &t);
    assert_int_equal(t.addr[1][0], 0x0900000a);
    return dp_ntohs((dp_be16) { DP_CT_L4_PORT(t.l4[1]) });
}

/* A range is used up to its last port. */
static void test_nat_uses_its_range(void **state)
{
    struct ct_world w;
    bool seen[100] = { false };

    ct_world_init(&w, 1024, 1024);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t port = source_port(&w, i, 5000, 5099);

        assert_in_range(port, 5000, 5099);
        assert_false(seen[port - 5000]);
        seen[port - 5000] = true;
    }
    assert_int_equal(source_port(&w, 100, 5000, 5099), 0);
    assert_int_equal(w.tables.head->n_refused[DP_CT_REFUSED_NAT], 1);
    check(&w, 100);
    ct_world_destroy(&w);
}

/* Of a long range 128 ports are tried, one after the other; then fewer from elsewhere. */
static void test_nat_goes_elsewhere(void **state)
{
    const struct dp_ct_ports_of range = { .first = 20000, .min = 10000, .max = 29999 };
    struct dp_ct_ports_of ports;
    struct dp_ct_run run = { .tuple = tuple(500, 1000) };
    struct ct_world w;

    ct_world_init(&w, 1024, 1024);
    for (uint32_t i = 0; i < 128; i++) {
        dp_ct_reverse(&run.reply, &run.tuple);
        run.reply.addr[1][0] = 0x0900000a;
        ports = range;
        assert_int_equal(dp_ct_choose_port(&w.ctx, &run, 1, &ports, NOW), 1);
        assert_int_equal(dp_ct_port(&run.reply, 1), 20000 + i);
        assert_int_equal(source_port(&w, i, 20000 + i, 20000 + i), 20000 + i);
    }
    ports = range;
    assert_int_equal(dp_ct_choose_port(&w.ctx, &run, 1, &ports, NOW), 1);
    assert_true(dp_ct_port(&run.reply, 1) < 20000 || dp_ct_port(&run.reply, 1) > 20128);
    assert_in_range(dp_ct_port(&run.reply, 1), 10000, 29999);
    ct_world_destroy(&w);
}

/* What two CPUs made of the same words: none of it is lost, and the dead stay dead. */
static void test_merge(void **state)
{
    uint64_t old
        = DP_CT_PUT(0ull, DP_CT_STATE_WIN(0), 16, 100) | DP_CT_PUT(0ull, DP_CT_STATE_TCP(0), 4, DP_CT_TCP_SYN_SENT);
    uint64_t ours = DP_CT_PUT(old, DP_CT_STATE_WIN(0), 16, 300);
    uint64_t theirs
        = DP_CT_PUT(DP_CT_PUT(old, DP_CT_STATE_WIN(0), 16, 200), DP_CT_STATE_TCP(0), 4, DP_CT_TCP_ESTABLISHED)
        | DP_CT_DEAD;
    uint64_t merged = dp_ct_merge_state(old, ours, theirs);

    assert_int_equal(DP_CT_GET(merged, DP_CT_STATE_WIN(0), 16), 300);
    assert_int_equal(DP_CT_GET(merged, DP_CT_STATE_TCP(0), 4), DP_CT_TCP_ESTABLISHED);
    assert_true(merged & DP_CT_DEAD);
    assert_int_equal(dp_ct_merge_state(old, ours, old), ours);

    /* Sequence numbers that wrapped are later. */
    assert_int_equal(dp_ct_merge_window(DP_CT_WINDOW(0xfffffff0, 5), DP_CT_WINDOW(8, 5), DP_CT_WINDOW(0xfffffff8, 9)),
                     DP_CT_WINDOW(8, 9));
    assert_int_equal(dp_ct_merge_window(DP_CT_WINDOW(0xfffffff0, 5), DP_CT_WINDOW(0xfffffff8, 5), DP_CT_WINDOW(8, 5)),
                     DP_CT_WINDOW(8, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_both_ways),
        cmocka_unit_test(test_expires_before_it_is_swept),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_one_tuple_has_no_place),
        cmocka_unit_test(test_dead_slots_are_taken),
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_nat_uses_its_range),
        cmocka_unit_test(test_nat_goes_elsewhere),
        cmocka_unit_test(test_merge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
