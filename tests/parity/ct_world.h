/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of connections in ordinary memory, for native tests; and what userspace does with them there. */
#ifndef TESTS_PARITY_CT_WORLD_H
#define TESTS_PARITY_CT_WORLD_H 1

#include <stdlib.h>
#include <string.h>

#include "dp/seam_native.h"
#include "dp/ct_run.h"

#define CT_WORLD_MARKS 4096
#define CT_WORLD_POLICIES 16
#define CT_WORLD_HZ 1000        /* Ticks are milliseconds. */

struct ct_world {
    struct dp_ct_tables tables;
    struct dp_ctx ctx;
    uint32_t n_marks;           /* In use. */
};

static inline void ct_world_policy(struct ct_world *w, uint32_t i)
{
    static const uint32_t seconds[DP_CT_N_TIMEOUTS] = {
#define X(NAME, SECONDS) SECONDS,
        DP_CT_TIMEOUTS(X)
#undef X
    };

    for (int class = 0; class < DP_CT_N_TIMEOUTS; class++) {
        w->tables.policies[i].ticks[class] = seconds[class] * CT_WORLD_HZ;
    }
}

/* Forgets all connections, marks and limits. */
static inline void ct_world_clear(struct ct_world *w)
{
    struct dp_ct_tables *t = &w->tables;

    memset(t->buckets, 0, t->n_buckets * sizeof *t->buckets);
    memset(t->lives, 0, t->n_lives * sizeof *t->lives);
    t->head->free = 0;
    t->head->n_conns = 0;
    t->head->maxconns = 3000000;
    t->head->no_seq_check = 0;
    w->n_marks = 1;
    for (uint32_t i = t->n_keys; i-- > 0;) {
        dp_ct_free(&w->ctx, i);
    }
    t->head->n_held = 0;
    memset(t->head->n_refused, 0, sizeof t->head->n_refused);
    memset(t->zones, 0, t->n_zones * sizeof *t->zones);
}

/* Begins with the tables, all zeros, that w->tables has. */
static inline void ct_world_begin(struct ct_world *w)
{
    struct dp_ct_tables *t = &w->tables;

    t->head->magic = DP_CT_MAGIC;
    t->head->version = DP_CT_VERSION;
    t->head->n = t->n_keys;
    t->head->bucket_last = t->n_buckets - 1;
    t->head->n_marks = CT_WORLD_MARKS;
    t->head->n_policies = CT_WORLD_POLICIES;
    for (uint32_t i = 0; i < DP_CT_HASH_WORDS; i++) {
        t->head->hash_key[i] = 0x9e3779b97f4a7c15ull * (2 * i + 1) | 1;
    }
    for (uint32_t i = 0; i < CT_WORLD_POLICIES; i++) {
        ct_world_policy(w, i);
    }
    w->ctx.ct = t;
    ct_world_clear(w);
}

/* 'n_buckets': a power of two. */
static inline void ct_world_init(struct ct_world *w, uint32_t n, uint32_t n_buckets)
{
    struct dp_ct_tables *t = &w->tables;

    memset(w, 0, sizeof *w);
#define X(NAME, N)                                  \
    t->n_##NAME = N;                                \
    t->NAME = calloc(t->n_##NAME, sizeof *t->NAME);
    X(head, 1)
    X(buckets, n_buckets)
    X(keys, n)
    X(lives, n)
    X(addr6, n)
    X(cold, n)
    X(marks, CT_WORLD_MARKS)
    X(policies, CT_WORLD_POLICIES)
    X(zones, DP_CT_ZONES + 1)
#undef X
    ct_world_begin(w);
}

static inline void ct_world_destroy(struct ct_world *w)
{
#define X(NAME, TYPE) free(w->tables.NAME);
    DP_CT_TABLES(X)
#undef X
}

/* The index of a pair of mark and label. */
static inline uint32_t ct_world_intern(struct ct_world *w, uint32_t mark, const uint64_t label[2])
{
    for (uint32_t i = 0; i < w->n_marks; i++) {
        const struct dp_ct_marks *m = &w->tables.marks[i];

        if (m->mark == mark && m->label[0] == label[0] && m->label[1] == label[1]) {
            return i;
        }
    }
    if (w->n_marks == CT_WORLD_MARKS) {
        abort();
    }
    w->tables.marks[w->n_marks] = (struct dp_ct_marks) { .mark = mark, .label = { label[0], label[1] } };
    return w->n_marks++;
}

/* Takes the dead connection 'index' out of buckets and counts, as core/ct/ct.c does in steps. */
static inline void ct_world_leave(struct ct_world *w, uint32_t index)
{
    const struct dp_ct_key *key = &w->tables.keys[index];

    dp_ct_unpublish(&w->ctx, index, 0);
    dp_ct_unpublish(&w->ctx, index, 1);
    dp_ct_discount(&w->ctx, dp_ct_head_at(&w->ctx, 0), key->zone, key->limit_seq, key->flags);
}

/* Takes away what is dead and what has expired; nobody else runs. */
static inline void ct_world_sweep(struct ct_world *w, uint32_t now)
{
    for (uint32_t i = 0; i < w->tables.n_keys; i++) {
        const struct dp_ct_key *key = &w->tables.keys[i];

        if (key->flags & DP_CT_KEY_USED && dp_ct_expired(&w->ctx, key, &w->tables.lives[i], now)) {
            dp_ct_kill(&w->ctx, i);
            ct_world_leave(w, i);
            dp_ct_free(&w->ctx, i);
        }
    }
}

/* Limits the connections of a zone, or with -1 those of all zones without a limit of their own together. */
static inline void ct_world_limit_zone(struct ct_world *w, int zone, uint32_t limit)
{
    struct dp_ct_zone *z = &w->tables.zones[zone < 0 ? DP_CT_ZONE_DEFAULT : zone];

    if (!(z->flags & DP_CT_ZONE_LIMITED)) {
        z->seq++;
        z->count = 0;
        z->flags = DP_CT_ZONE_LIMITED;
    }
    z->limit = limit;
}

/* Ends all connections of a zone; -1: of all. */
static inline void ct_world_flush(struct ct_world *w, int zone)
{
    for (uint32_t i = 0; i < w->tables.n_keys; i++) {
        const struct dp_ct_key *key = &w->tables.keys[i];

        if (key->flags & DP_CT_KEY_USED && (zone < 0 || key->zone == (uint16_t) zone)) {
            dp_ct_kill(&w->ctx, i);
            ct_world_leave(w, i);
            dp_ct_free(&w->ctx, i);
        }
    }
}

/* Does what dp_ct() left to its caller. */
static inline void ct_world_finish(struct ct_world *w, struct dp_ct_run *run)
{
    if (run->remark) {
        uint64_t label[2] = { run->md.label[0], run->md.label[1] };

        uint32_t marks = ct_world_intern(w, run->md.mark, label);
        uint32_t before = dp_ct_remark(&w->ctx, run->ref, marks);

        w->tables.marks[marks].refs += marks != 0;
        w->tables.marks[before].refs -= before != 0;
    }
}

#endif /* tests/parity/ct_world.h */
