/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that another process left.  It may have been killed anywhere: counts, locks and the free list are made anew
 * from the entries, of which those count that are complete and published. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/ct/ct_private.h"
#include "dp/ct_new.h"

/* What of a connection stands in the buckets: bits of directions, by index. */
#define PUBLISHED(D) (1 << (D))
#define BOTH (PUBLISHED(0) | PUBLISHED(1))
#define READ_AHEAD 4            /* Buckets whose connections' keys are fetched ahead: they lie anywhere. */

static uint8_t *find_published(struct oxdp_ct *, uint32_t *elsewhere);
static bool is_whole(struct oxdp_ct *, const uint8_t *published, uint32_t index);
static void count(struct oxdp_ct *, uint32_t index);
static void clear(struct oxdp_ct *, uint32_t index);
static void mend_buckets(struct oxdp_ct *, const uint8_t *whole, uint32_t *elsewhere);

void oxdp_ct_freeze(struct oxdp_ct *ct, struct dp_ct_head *head)
{
    __atomic_store_n(&head->frozen, 1, __ATOMIC_SEQ_CST);
    if (ct->config.grace) {
        ct->config.grace(ct->config.aux);
    }
}

/* Of what is counted anew from the entries. */
static void forget_counts(struct dp_ct_zone *zone)
{
    zone->count = 0;
    zone->n_expected = 0;
    zone->n_held = 0;
}

int oxdp_ct_adopt(struct oxdp_ct *ct)
    OXDP_NO_LOCK_ANALYSIS       /* Nobody else has it yet. */
{
    struct dp_ct_tables *t = &ct->mem;
    uint32_t *elsewhere = calloc(t->n_buckets, sizeof *elsewhere);
    uint8_t *published;

    oxdp_ct_freeze(ct, t->head);
    published = elsewhere ? find_published(ct, elsewhere) : NULL;
    ct->inherited = calloc(t->n_marks, sizeof *ct->inherited);
    if (!published || !ct->inherited) {
        free(elsewhere);
        free(published);
        return -ENOMEM;
    }
    t->head->epoch = (t->head->epoch + 1) & ~DP_CT_LOCK_USER;
    t->head->no_seq_check &= DP_CT_SEQ_DISABLED;        /* A process that is gone was copying. */
    t->head->n_conns = 0;
    t->head->n_held = 0;
    for (uint32_t i = 0; i < t->n_zones; i++) {
        forget_counts(&t->zones[i]);
    }
    for (uint32_t i = 0; i < t->n_marks; i++) {
        ct->inherited[i] = i && t->marks[i].refs;
        t->marks[i].refs = ct->inherited[i];
    }
    for (uint32_t i = 1; i < OXDP_CT_POLICIES; i++) {
        ct->policy_holders[i]++;
    }
    for (uint32_t i = 0; i < t->n_keys; i++) {
        published[i] = is_whole(ct, published, i);
        if (published[i]) {
            count(ct, i);
        } else {
            clear(ct, i);
        }
    }
    ct->kept = t->head->n_conns;
    mend_buckets(ct, published, elsewhere);
    free(published);
    free(elsewhere);
    return 0;
}

/* The bucket where the tuple of 'slot' of bucket 'no' is looked for first; UINT32_MAX if no lookup finds it here. */
static uint32_t home_of(struct oxdp_ct *ct, uint32_t no, uint64_t slot)
{
    uint32_t ref = DP_CT_SLOT_REF(slot);
    uint32_t last = ct->mem.head->bucket_last;
    struct dp_ct_tuple t;

    if (!ref || DP_CT_REF_INDEX(ref) >= ct->mem.n_keys) {
        return UINT32_MAX;
    }
    dp_ct_tuple_of(&ct->ctx, DP_CT_REF_INDEX(ref), DP_CT_REF_REPLY(ref), &t);

    uint64_t hash = dp_ct_hash(ct->mem.head, &t);
    uint32_t home = dp_hash_bucket(hash, last);

    return dp_hash_tag(hash) == DP_CT_SLOT_TAG(slot) && (home == no || dp_hash_alternative(hash, last) == no)
        ? home : UINT32_MAX;
}

/* By index, which directions lookups find; the caller frees it.  Counts, by bucket, those that stand 'elsewhere' (NULL:
 * does not count). */
static uint8_t *find_published(struct oxdp_ct *ct, uint32_t *elsewhere)
{
    uint8_t *published = calloc(ct->mem.n_keys, 1);

    for (uint32_t no = 0; published && no < ct->mem.n_buckets; no++) {
        const struct dp_ct_bucket *bucket = &ct->mem.buckets[no];

        for (int i = 0; i < DP_CT_SLOTS; i++) {
            uint32_t next = DP_CT_SLOT_REF(bucket[no + READ_AHEAD < ct->mem.n_buckets ? READ_AHEAD : 0].slot[i]);
            uint32_t home = bucket->slot[i] ? home_of(ct, no, bucket->slot[i]) : UINT32_MAX;
            uint32_t ref = DP_CT_SLOT_REF(bucket->slot[i]);

            if (next && DP_CT_REF_INDEX(next) < ct->mem.n_keys) {
                __builtin_prefetch(&ct->mem.keys[DP_CT_REF_INDEX(next)]);
            }
            if (home != UINT32_MAX) {
                published[DP_CT_REF_INDEX(ref)] |= PUBLISHED(DP_CT_REF_REPLY(ref));
                if (home != no && elsewhere) {
                    elsewhere[home]++;
                }
            }
        }
    }
    return published;
}

/* Whether connection 'index' is alive and complete. */
static bool is_whole(struct oxdp_ct *ct, const uint8_t *published, uint32_t index)
{
    const struct dp_ct_key *key = &ct->mem.keys[index];
    struct dp_ct_tuple t[2];

    if (!(key->flags & DP_CT_KEY_USED) || ct->mem.lives[index].state & DP_CT_DEAD || key->marks >= ct->mem.n_marks
        || key->policy >= ct->mem.n_policies) {
        return false;
    }
    if (published[index] != PUBLISHED(0)) {
        return published[index] == BOTH;
    }
    dp_ct_tuple_of(&ct->ctx, index, 0, &t[0]);
    dp_ct_tuple_of(&ct->ctx, index, 1, &t[1]);
    return dp_ct_same(&t[0], &t[1]);
}

/* As dp_ct_insert() did. */
static void count(struct oxdp_ct *ct, uint32_t index)
{
    const struct dp_ct_key *key = &ct->mem.keys[index];
    struct dp_ct_zone *zone = key->flags & DP_CT_KEY_OWN_LIMIT ? &ct->mem.zones[key->zone]
        : key->flags & DP_CT_KEY_DEFAULT_LIMIT ? &ct->mem.zones[DP_CT_ZONE_DEFAULT] : NULL;

    ct->mem.head->n_conns++;
    dp_ct_hold(&ct->ctx, key->zone, 1);
    if (zone && zone->seq == key->limit_seq) {
        zone->count++;
    }
    oxdp_ct_marks_hold(ct, key->marks);
}

static void clear(struct oxdp_ct *ct, uint32_t index)
{
    struct dp_ct_key *key = &ct->mem.keys[index];

    dp_ct_kill(&ct->ctx, index);
    key->flags &= ~DP_CT_KEY_USED;
    key->generation++;
    ct->mem.cold[index] = (struct dp_ct_cold) { 0 };
}

/* Takes out what no connection that is 'whole' has, and says how many of each bucket's stand elsewhere.  Programs look
 * up meanwhile: they never see a count that is too small. */
static void mend_buckets(struct oxdp_ct *ct, const uint8_t *whole, uint32_t *elsewhere)
{
    for (uint32_t no = 0; no < ct->mem.n_buckets; no++) {
        struct dp_ct_bucket *bucket = &ct->mem.buckets[no];

        bucket->lock = 0;
        for (int i = 0; i < DP_CT_SLOTS; i++) {
            uint64_t slot = bucket->slot[i];
            uint32_t index = DP_CT_REF_INDEX(DP_CT_SLOT_REF(slot));

            if (slot && (index >= ct->mem.n_keys || !whole[index])) {
                uint32_t home = home_of(ct, no, slot);

                elsewhere[home != UINT32_MAX ? home : no] -= home != UINT32_MAX && home != no;
                DP_WRITE_ONCE(bucket->slot[i], 0);
            }
        }
    }
    for (uint32_t no = 0; no < ct->mem.n_buckets; no++) {
        DP_WRITE_ONCE(ct->mem.buckets[no].n_elsewhere, elsewhere[no]);
    }
}

void oxdp_ct_list_free(struct oxdp_ct *ct)
{
    uint32_t tag = DP_CT_FREE_TAG(ct->mem.head->free) + 1;
    uint32_t first = ct->mem.n_keys + 1;

    for (uint32_t i = ct->mem.n_keys; i-- > 0;) {
        if (!(ct->mem.keys[i].flags & DP_CT_KEY_USED)) {
            ct->mem.keys[i].next_free = first;
            first = i + 1;
        }
    }
    ct->mem.head->free = DP_CT_FREE(first, tag);
}

/* One connection of 'old' becomes connection 'to'.  Returns false if the buckets are full. */
static bool copy_one(struct oxdp_ct *ct, struct dp_ct_tables *old, uint32_t from, uint32_t to)
    OXDP_NO_LOCK_ANALYSIS       /* Nobody else has it yet. */
{
    const struct dp_ct_marks *pair = &old->marks[old->keys[from].marks];
    const uint64_t label[2] = { pair->label[0], pair->label[1] };
    struct dp_ct_key *key = &ct->mem.keys[to];
    uint32_t generation = key->generation;
    struct dp_ct_tuple t[2];

    *key = old->keys[from];
    key->generation = generation + 1;
    key->marks = 0;
    ct->mem.lives[to] = old->lives[from];
    ct->mem.addr6[to] = old->addr6[from];
    ct->mem.cold[to] = old->cold[from];
    dp_ct_tuple_of(&ct->ctx, to, 0, &t[0]);
    dp_ct_tuple_of(&ct->ctx, to, 1, &t[1]);
    if (!dp_ct_publish(&ct->ctx, &t[0], DP_CT_REF(to, 0))
        || (!dp_ct_same(&t[0], &t[1]) && !dp_ct_publish(&ct->ctx, &t[1], DP_CT_REF(to, 1)))) {
        dp_ct_unpublish(&ct->ctx, to, 0);
        clear(ct, to);
        return false;
    }
    key->marks = oxdp_ct_marks_get(ct, pair->mark, label);
    oxdp_ct_marks_put(ct, key->marks);  /* count() holds it. */
    count(ct, to);
    return true;
}

static struct dp_ct_words words_of(const struct dp_ct_life *life)
{
    return (struct dp_ct_words) {
        .state = DP_READ_ONCE(life->state),
        .window = { DP_READ_ONCE(life->window[0]), DP_READ_ONCE(life->window[1]) },
    };
}

/* 'ct' is empty, and its free list not made. */
int oxdp_ct_copy(struct oxdp_ct *ct)
{
    struct dp_ct_tables *t = &ct->mem, *old = &ct->old;
    struct oxdp_ct before = { .mem = *old };
    uint8_t *published;
    uint32_t to = 0;

    before.ctx.ct = &before.mem;
    published = find_published(&before, NULL);
    ct->copied = calloc(t->n_keys, sizeof *ct->copied);
    if (!published || !ct->copied) {
        free(published);
        return -ENOMEM;
    }
    memcpy(t->policies, old->policies, t->n_policies * sizeof *t->policies);
    for (uint32_t i = 0; i < t->n_zones; i++) {
        t->zones[i] = old->zones[i];
        forget_counts(&t->zones[i]);
    }
    t->head->maxconns = old->head->maxconns;
    t->head->no_seq_check = (old->head->no_seq_check & DP_CT_SEQ_DISABLED) | DP_CT_SEQ_COPYING;
    oxdp_ct_marks_rebuild(ct);
    for (uint32_t i = 0; i < old->n_keys; i++) {
        if (is_whole(&before, published, i)) {
            if (to < t->n_keys && copy_one(ct, old, i, to)) {
                ct->copied[to] = (struct oxdp_ct_copied) {
                    .from = i, .generation = t->keys[to].generation, .words = words_of(&t->lives[to]),
                };
                to++;
                ct->kept++;
            } else {
                ct->lost++;
            }
        }
    }
    free(published);
    return 0;
}

/* As a packet of another CPU would: what the old tables have is merged into what the new ones have. */
static void catch_up(struct oxdp_ct *ct, struct oxdp_ct_copied *copied, uint32_t index)
{
    const struct dp_ct_life *from = &ct->old.lives[copied->from];
    struct dp_ct_life *to = &ct->mem.lives[index];
    struct dp_ct_words words = words_of(from);
    uint32_t used = DP_READ_ONCE(from->used);

    dp_ct_put_window(&to->window[0], copied->words.window[0], words.window[0]);
    dp_ct_put_window(&to->window[1], copied->words.window[1], words.window[1]);
    dp_ct_put_state(&to->state, copied->words.state, words.state);
    if ((int32_t) (used - DP_READ_ONCE(to->used)) > 0) {
        DP_WRITE_ONCE(to->used, used);
    }
    if (words.state & DP_CT_DEAD) {
        dp_ct_kill(&ct->ctx, index);
    }
    copied->words = words;
}

static void catch_up_all(struct oxdp_ct *ct)
{
    oxdp_ct_other_refresh(ct);
    for (uint32_t i = 0; i < ct->mem.n_keys; i++) {
        if (ct->copied[i].generation && ct->copied[i].generation == ct->mem.keys[i].generation) {
            catch_up(ct, &ct->copied[i], i);
        }
    }
}

void oxdp_ct_catch_up(struct oxdp_ct *ct)
{
    oxdp_ct_lock(ct);
    if (ct->copied) {
        uint32_t *no_seq_check = ct->other ? oxdp_ct_other_no_seq_check(ct) : &ct->old.head->no_seq_check;

        if (no_seq_check) {
            __atomic_fetch_or(no_seq_check, DP_CT_SEQ_COPYING, __ATOMIC_RELAXED);
        }
        catch_up_all(ct);
    }
    oxdp_ct_unlock(ct);
}

void oxdp_ct_copy_end(struct oxdp_ct *ct)
{
    if (ct->copied) {
        catch_up_all(ct);
        __atomic_fetch_and(&ct->mem.head->no_seq_check, ~DP_CT_SEQ_COPYING, __ATOMIC_RELAXED);
    }
}
