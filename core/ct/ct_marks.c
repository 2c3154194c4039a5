/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of mark and label.  A connection holds the index of one; its content does not change while a reader may have
 * it. */
#include <errno.h>
#include <stdlib.h>

#include "core/ct/ct_private.h"
#include "dp/hash.h"

struct oxdp_ct_marks_index {
    uint32_t n_pairs;           /* Elements of the arrays by pair. */
    uint32_t n_chains;          /* A power of two. */
    uint32_t *chains;           /* By hash, the first pair; 0: none. */
    uint32_t *next;             /* By pair, the next one of its chain, or of the free ones. */
    uint32_t free;              /* The first free pair that was used before, 0: none; */
    uint32_t unused;            /* from this one on none was used: nothing is written or read of them. */
    uint32_t *limbo;            /* Pairs that no connection held, and that are not free yet.  They may be found
                                 * again. */
    uint32_t n_limbo;
    uint32_t n_waiting;         /* How many of them reclaiming began with. */
    uint32_t *put_in;           /* By pair: the number of the reclaiming before which its last holder put it; 0: it is
                                 * not in limbo. */
    uint32_t reclaiming;        /* Number of the next reclaiming, from 1 on. */
};

int oxdp_ct_marks_create(struct oxdp_ct *ct)
    OXDP_NO_LOCK_ANALYSIS       /* Not shared yet. */
{
    struct oxdp_ct_marks_index *m = calloc(1, sizeof *m);

    ct->marks = m;
    if (!m) {
        return -ENOMEM;
    }
    m->n_chains = 1;
    while (m->n_chains < ct->mem.n_marks) {
        m->n_chains *= 2;
    }
    m->n_pairs = ct->mem.n_marks;
    m->chains = oxdp_ct_memory_numbers(m->n_chains);
    m->next = oxdp_ct_memory_numbers(m->n_pairs);
    m->limbo = oxdp_ct_memory_numbers(m->n_pairs);
    m->put_in = oxdp_ct_memory_numbers(m->n_pairs);
    m->reclaiming = 1;
    return m->chains && m->next && m->limbo && m->put_in ? 0 : -ENOMEM;
}

void oxdp_ct_marks_destroy(struct oxdp_ct *ct)
    OXDP_NO_LOCK_ANALYSIS       /* Not shared any more. */
{
    struct oxdp_ct_marks_index *m = ct->marks;

    if (m) {
        oxdp_ct_memory_free_numbers(m->chains, m->n_chains);
        oxdp_ct_memory_free_numbers(m->next, m->n_pairs);
        oxdp_ct_memory_free_numbers(m->limbo, m->n_pairs);
        oxdp_ct_memory_free_numbers(m->put_in, m->n_pairs);
        free(m);
    }
}

static uint32_t *chain_of(struct oxdp_ct *ct, uint32_t mark, const uint64_t label[2])
    OXDP_REQUIRES(oxdp_ct_mutex)
{
    const uint64_t *key = (const uint64_t *) ct->mem.head->hash_key;
    uint64_t hash = dp_hash_word(label[0], key[0]) + dp_hash_word(label[1], key[1]) + dp_hash_word(mark, key[2]);

    return &ct->marks->chains[(hash ^ hash >> 32) & (ct->marks->n_chains - 1)];
}

static void link(struct oxdp_ct *ct, uint32_t i)
    OXDP_REQUIRES(oxdp_ct_mutex)
{
    const struct dp_ct_marks *pair = &ct->mem.marks[i];
    const uint64_t label[2] = { pair->label[0], pair->label[1] };
    uint32_t *chain = chain_of(ct, pair->mark, label);

    ct->marks->next[i] = *chain;
    *chain = i;
}

/* Returns a free pair, or 0. */
static uint32_t allocate(struct oxdp_ct *ct)
    OXDP_REQUIRES(oxdp_ct_mutex)
{
    struct oxdp_ct_marks_index *m = ct->marks;
    uint32_t i = m->free;

    if (i) {
        m->free = m->next[i];
    } else if (m->unused < ct->mem.n_marks) {
        i = m->unused++;
    }
    return i;
}

uint32_t oxdp_ct_marks_get(struct oxdp_ct *ct, uint32_t mark, const uint64_t label[2])
{
    struct oxdp_ct_marks_index *m = ct->marks;
    uint32_t i;

    if (!mark && !label[0] && !label[1]) {
        return 0;
    }
    for (i = *chain_of(ct, mark, label); i; i = m->next[i]) {
        struct dp_ct_marks *pair = &ct->mem.marks[i];

        if (pair->mark == mark && pair->label[0] == label[0] && pair->label[1] == label[1]) {
            __atomic_add_fetch(&pair->refs, 1, __ATOMIC_RELAXED);
            return i;
        }
    }
    i = allocate(ct);
    if (i) {
        ct->mem.marks[i] = (struct dp_ct_marks) { .mark = mark, .refs = 1, .label = { label[0], label[1] } };
        link(ct, i);
    }
    return i;
}

bool oxdp_ct_marks_hold(struct oxdp_ct *ct, uint32_t i)
{
    if (i >= ct->mem.n_marks) {
        return false;
    }
    __atomic_add_fetch(&ct->mem.marks[i].refs, 1, __ATOMIC_RELAXED);
    return true;
}

void oxdp_ct_marks_rebuild(struct oxdp_ct *ct)
    OXDP_NO_LOCK_ANALYSIS       /* Not shared yet. */
{
    struct oxdp_ct_marks_index *m = ct->marks;

    m->free = 0;
    m->unused = 1;
    if (!ct->mem.head->n_conns && !ct->inherited) {
        return;
    }
    for (uint32_t i = 1; i < ct->mem.n_marks; i++) {
        if (!ct->mem.marks[i].refs) {
            continue;
        }
        for (; m->unused < i; m->unused++) {
            m->next[m->unused] = m->free;
            m->free = m->unused;
        }
        link(ct, i);
        m->unused++;
    }
}

static void unlink_pair(struct oxdp_ct *ct, uint32_t i)
    OXDP_REQUIRES(oxdp_ct_mutex)
{
    const struct dp_ct_marks *pair = &ct->mem.marks[i];
    const uint64_t label[2] = { pair->label[0], pair->label[1] };

    for (uint32_t *p = chain_of(ct, pair->mark, label); *p; p = &ct->marks->next[*p]) {
        if (*p == i) {
            *p = ct->marks->next[i];
            return;
        }
    }
}

void oxdp_ct_marks_put(struct oxdp_ct *ct, uint32_t i)
{
    struct oxdp_ct_marks_index *m = ct->marks;

    if (!i || __atomic_sub_fetch(&ct->mem.marks[i].refs, 1, __ATOMIC_RELAXED)) {
        return;
    }
    if (!m->put_in[i]) {
        m->limbo[m->n_limbo++] = i;
    }
    m->put_in[i] = m->reclaiming;
}

bool oxdp_ct_marks_reclaim_begin(struct oxdp_ct *ct)
{
    ct->marks->n_waiting = ct->marks->n_limbo;
    ct->marks->reclaiming++;
    return ct->marks->n_waiting;
}

void oxdp_ct_marks_reclaim_end(struct oxdp_ct *ct)
{
    struct oxdp_ct_marks_index *m = ct->marks;
    uint32_t n_left = 0;

    for (uint32_t k = 0; k < m->n_limbo; k++) {
        uint32_t i = m->limbo[k];

        if (k >= m->n_waiting || (!ct->mem.marks[i].refs && m->put_in[i] == m->reclaiming)) {
            m->limbo[n_left++] = i;     /* Put, perhaps once more, since it began. */
            continue;
        }
        m->put_in[i] = 0;
        if (!ct->mem.marks[i].refs) {
            unlink_pair(ct, i);
            m->next[i] = m->free;
            m->free = i;
        }
    }
    m->n_limbo = n_left;
    m->n_waiting = 0;
}
