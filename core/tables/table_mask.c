/* SPDX-License-Identifier: Apache-2.0 */
/* Masks, and the hash table that each has in the shared buckets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/tables/buddy.h"
#include "core/tables/table_private.h"
#include "dp/seam_native.h"
#include "dp/hash.h"

/* A region larger than this many buckets for each bucketful of flows means keys that collide: no use in growing. */
#define MAX_SPARSENESS 32

static int find_or_add_mask(struct oxdp_table *, const union dp_key *mask);
static uint32_t hash_mask(const union dp_key *mask);
static int count_cold(const union dp_key *mask);
static bool mask_equals(const struct dp_mask *, const union dp_key *);
static void mask_words(const struct dp_mask *, union dp_key *ret_words);
static void fill_mask(struct dp_mask *, const union dp_key *);
static void update_union(struct oxdp_table *);
static int grow(struct oxdp_table *, struct dp_mask *);
static bool put_slot(struct oxdp_table *, uint64_t region, uint32_t flow);
static int defer_region(struct oxdp_table *, uint64_t region);

int oxdp_table_mask_get(struct oxdp_table *t, const union dp_key *mask, struct oxdp_mask_hint *hint)
{
    int index;

    if (hint && hint->id && t->masks[hint->index].id == hint->id && t->mem.masks[hint->index].n_flows) {
        t->mem.masks[hint->index].n_flows++;
        return hint->index;
    }
    index = find_or_add_mask(t, mask);
    if (hint && index > 0) {
        *hint = (struct oxdp_mask_hint) { index, t->masks[index].id };
    }
    return index;
}

static int find_or_add_mask(struct oxdp_table *t, const union dp_key *mask)
{
    uint32_t hash = hash_mask(mask);
    struct dp_head *head = t->mem.head;
    uint32_t index;

    for (index = 1; index <= DP_MAX_MASKS; index++) {
        if (t->masks[index].used && t->masks[index].hash == hash && mask_equals(&t->mem.masks[index], mask)) {
            t->mem.masks[index].n_flows++;
            return index;
        }
    }

    if (count_cold(mask) > DP_FLOW_COLD) {
        return -E2BIG;
    }
    for (index = 1; index <= DP_MAX_MASKS && t->masks[index].used; index++) {
    }
    if (index > DP_MAX_MASKS || oxdp_table_n_masks(head) >= DP_MAX_MASKS) {
        return -ENOSPC;
    }

    uint32_t first = oxdp_buddy_alloc(t->buckets, 1);
    struct dp_mask *m = &t->mem.masks[index];

    if (first == OXDP_BUDDY_NONE) {
        return -ENOSPC;
    }
    memset(&t->mem.buckets[first], 0, sizeof(struct dp_bucket));
    fill_mask(m, mask);
    m->region = DP_REGION(first, 0);
    m->n_flows = 1;
    t->masks[index].used = true;
    t->masks[index].id = ++t->last_id;
    t->masks[index].hash = hash;
    t->masks[index].packets = 0;
    oxdp_table_order(head)[oxdp_table_n_masks(head)] = index;
    __atomic_store_n(&head->masks_now, head->masks_now + 1, __ATOMIC_RELEASE);
    update_union(t);
    return index;
}

void oxdp_table_mask_put(struct oxdp_table *t, uint32_t index)
{
    struct dp_head *head = t->mem.head;
    uint8_t *order = oxdp_table_order(head);
    uint32_t i = 0;

    if (--t->mem.masks[index].n_flows) {
        return;
    }
    /* Readers that search now find the last mask here or, still, at the end: they miss none. */
    while (order[i] != index) {
        i++;
    }
    __atomic_store_n(&order[i], order[oxdp_table_n_masks(head) - 1], __ATOMIC_RELEASE);
    __atomic_store_n(&head->masks_now, head->masks_now - 1, __ATOMIC_RELEASE);

    /* It stays 'used', so that its entry is not taken.  Without flows no lookup finds it. */
    t->limbo_masks[t->n_limbo_masks++] = index;
    update_union(t);
}

int oxdp_table_mask_link(struct oxdp_table *t, uint32_t mask_index, uint32_t flow)
{
    struct dp_mask *mask = &t->mem.masks[mask_index];

    while (!put_slot(t, mask->region, flow)) {
        int error = grow(t, mask);

        if (error) {
            return error;
        }
    }
    return 0;
}

static bool put_in_bucket(struct dp_bucket *bucket, uint64_t slot)
{
    for (int i = 0; i < DP_BUCKET_SLOTS; i++) {
        if (!bucket->slot[i]) {
            __atomic_store_n(&bucket->slot[i], slot, __ATOMIC_RELEASE);
            return true;
        }
    }
    return false;
}

/* Puts a flow whose home bucket is full into its alternative bucket.  Readers look there if 'n_elsewhere' is not 0. */
static bool put_elsewhere(struct dp_bucket *home, struct dp_bucket *other, uint64_t slot)
{
    __atomic_store_n(&home->n_elsewhere, home->n_elsewhere + 1, __ATOMIC_RELEASE);
    if (put_in_bucket(other, slot)) {
        return true;
    }
    home->n_elsewhere--;
    return false;
}

/* Makes room in a full bucket: copies one of the flows at home there to its alternative bucket, then puts 'slot' in its
 * place.  Readers look at home first and then in the alternative, so they always find it. */
static bool displace(struct oxdp_table *t, uint64_t region, uint32_t bucket_index, uint64_t slot)
{
    uint32_t first = DP_REGION_FIRST(region);
    uint32_t last = DP_REGION_LAST(region);
    struct dp_bucket *bucket = &t->mem.buckets[first + bucket_index];

    for (int i = 0; i < DP_BUCKET_SLOTS; i++) {
        uint64_t hash = t->hashes[DP_SLOT_FLOW(bucket->slot[i])];
        uint32_t other = dp_hash_alternative(hash, last);

        if (dp_hash_bucket(hash, last) == bucket_index && other != bucket_index
            && put_elsewhere(bucket, &t->mem.buckets[first + other], bucket->slot[i])) {
            __atomic_store_n(&bucket->slot[i], slot, __ATOMIC_RELEASE);
            return true;
        }
    }
    return false;
}

static bool put_slot(struct oxdp_table *t, uint64_t region, uint32_t flow)
{
    uint64_t hash = t->hashes[flow];
    uint32_t first = DP_REGION_FIRST(region);
    uint32_t last = DP_REGION_LAST(region);
    uint32_t home_index = dp_hash_bucket(hash, last);
    uint32_t other_index = dp_hash_alternative(hash, last);
    struct dp_bucket *home = &t->mem.buckets[first + home_index];
    struct dp_bucket *other = &t->mem.buckets[first + other_index];
    uint64_t slot = DP_SLOT(dp_hash_tag(hash), flow);

    if (put_in_bucket(home, slot)) {
        return true;
    }
    if (home == other) {
        return false;
    }
    if (put_elsewhere(home, other, slot) || displace(t, region, home_index, slot)) {
        return true;
    }
    __atomic_store_n(&home->n_elsewhere, home->n_elsewhere + 1, __ATOMIC_RELEASE);
    if (displace(t, region, other_index, slot)) {
        return true;
    }
    home->n_elsewhere--;
    return false;
}

/* Doubles the mask's region: fills the new one, then publishes it with one store. */
static int grow(struct oxdp_table *t, struct dp_mask *mask)
{
    uint64_t old = mask->region;
    uint32_t n = 2 * (DP_REGION_LAST(old) + 1);

    for (;; n *= 2) {
        if (n > MAX_SPARSENESS * (mask->n_flows / DP_BUCKET_SLOTS + 1)) {
            return -ENOSPC;
        }

        uint32_t first = oxdp_buddy_alloc(t->buckets, n);

        if (first == OXDP_BUDDY_NONE && (t->n_limbo_regions || t->n_limbo_masks)) {
            t->callbacks.grace(t->callbacks.aux);
            t->waiting.regions = t->n_limbo_regions;
            t->waiting.masks = t->n_limbo_masks;
            oxdp_table_masks_reclaim(t);
            first = oxdp_buddy_alloc(t->buckets, n);
        }

        uint64_t region = DP_REGION(first, n - 1);
        bool fits = true;

        if (first == OXDP_BUDDY_NONE) {
            return -ENOSPC;
        }
        memset(&t->mem.buckets[first], 0, n * sizeof(struct dp_bucket));
        for (uint32_t i = 0; fits && i <= DP_REGION_LAST(old); i++) {
            const struct dp_bucket *bucket = &t->mem.buckets[DP_REGION_FIRST(old) + i];

            for (int j = 0; fits && j < DP_BUCKET_SLOTS; j++) {
                if (bucket->slot[j]) {
                    fits = put_slot(t, region, DP_SLOT_FLOW(bucket->slot[j]));
                }
            }
        }
        if (fits && !defer_region(t, old)) {
            __atomic_store_n(&mask->region, region, __ATOMIC_RELEASE);
            return 0;
        }
        oxdp_buddy_free(t->buckets, first, n);
        if (fits) {
            return -ENOSPC;
        }
    }
}

void oxdp_table_mask_unlink(struct oxdp_table *t, uint32_t mask_index, uint32_t flow)
{
    uint64_t hash = t->hashes[flow];
    uint64_t region = t->mem.masks[mask_index].region;
    uint32_t first = DP_REGION_FIRST(region);
    uint32_t last = DP_REGION_LAST(region);
    struct dp_bucket *home = &t->mem.buckets[first + dp_hash_bucket(hash, last)];
    struct dp_bucket *other = &t->mem.buckets[first + dp_hash_alternative(hash, last)];
    uint64_t slot = DP_SLOT(dp_hash_tag(hash), flow);

    for (int i = 0; i < DP_BUCKET_SLOTS; i++) {
        if (home->slot[i] == slot) {
            __atomic_store_n(&home->slot[i], 0, __ATOMIC_RELEASE);
            return;
        }
    }
    for (int i = 0; i < DP_BUCKET_SLOTS; i++) {
        if (other->slot[i] == slot) {
            __atomic_store_n(&other->slot[i], 0, __ATOMIC_RELEASE);
            __atomic_store_n(&home->n_elsewhere, home->n_elsewhere - 1, __ATOMIC_RELEASE);
            return;
        }
    }
}

void oxdp_table_masks_reclaim(struct oxdp_table *t)
{
    uint32_t n_regions = t->waiting.regions;
    uint32_t n = t->waiting.masks;

    for (uint32_t i = 0; i < n_regions; i++) {
        oxdp_buddy_free(t->buckets, t->limbo_regions[i].first, t->limbo_regions[i].n);
    }
    t->n_limbo_regions -= n_regions;
    if (t->n_limbo_regions) {
        memmove(t->limbo_regions, t->limbo_regions + n_regions, t->n_limbo_regions * sizeof *t->limbo_regions);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct dp_mask *mask = &t->mem.masks[t->limbo_masks[i]];

        oxdp_buddy_free(t->buckets, DP_REGION_FIRST(mask->region), DP_REGION_LAST(mask->region) + 1);
        t->masks[t->limbo_masks[i]].used = false;
    }
    t->n_limbo_masks -= n;
    memmove(t->limbo_masks, t->limbo_masks + n, t->n_limbo_masks);
    t->waiting.regions = 0;
    t->waiting.masks = 0;
}

static int defer_region(struct oxdp_table *t, uint64_t region)
{
    if (t->n_limbo_regions == t->allocated_limbo_regions) {
        uint32_t n = t->allocated_limbo_regions ? 2 * t->allocated_limbo_regions : 16;
        void *grown = realloc(t->limbo_regions, n * sizeof *t->limbo_regions);

        if (!grown) {
            return -ENOMEM;
        }
        t->limbo_regions = grown;
        t->allocated_limbo_regions = n;
    }
    t->limbo_regions[t->n_limbo_regions].first = DP_REGION_FIRST(region);
    t->limbo_regions[t->n_limbo_regions++].n = DP_REGION_LAST(region) + 1;
    return 0;
}

void oxdp_table_flow_key(const struct oxdp_table *t, uint32_t mask_index, uint32_t index, union dp_key *key)
{
    const struct dp_flow *flow = &t->mem.flows[index];
    const struct dp_mask *mask = &t->mem.masks[mask_index];

    memset(key, 0, sizeof *key);
    memcpy(key->w, flow->hot, sizeof flow->hot);
    memcpy(&key->w[DP_HOT_WORDS], flow->warm, sizeof flow->warm);
    for (uint32_t i = 0; i < mask->n_cold; i++) {
        key->w[mask->cold_word[i]] = flow->cold[i];
    }
}

uint64_t oxdp_table_hash(const struct oxdp_table *t, uint32_t mask_index, const union dp_key *key)
{
    static struct dp_ctx complete;     /* As a program that omits nothing. */

    return dp_hash_key(&complete, t->mem.head, &t->mem.masks[mask_index], key);
}

/* A sum whose terms do not wait for each other. */
static uint32_t hash_mask(const union dp_key *mask)
{
    uint64_t hash = 0;

    for (int i = 0; i < DP_KEY_WORDS; i++) {
        hash += (mask->w[i] ^ mask->w[i] >> 32) * (0x9e3779b97f4a7c15ull * (2 * i + 1));
    }
    return hash ^ hash >> 32;
}

static int count_cold(const union dp_key *mask)
{
    int n = 0;

    for (int i = DP_FIRST_COLD; i < DP_KEY_WORDS; i++) {
        n += mask->w[i] != 0;
    }
    return n;
}

static void mask_words(const struct dp_mask *m, union dp_key *ret_words)
{
    memset(ret_words, 0, sizeof *ret_words);
    memcpy(ret_words->w, m->hot, sizeof m->hot);
    memcpy(&ret_words->w[DP_HOT_WORDS], m->warm, sizeof m->warm);
    for (uint32_t i = 0; i < m->n_cold; i++) {
        ret_words->w[m->cold_word[i]] = m->cold[i];
    }
}

static bool mask_equals(const struct dp_mask *m, const union dp_key *mask)
{
    union dp_key words;

    mask_words(m, &words);
    return m->n_flows && !memcmp(&words, mask, sizeof words);
}

static void fill_mask(struct dp_mask *m, const union dp_key *mask)
{
    uint32_t n = 0;
    uint64_t words = 0;

    for (int i = 0; i < DP_KEY_WORDS; i++) {
        words |= mask->w[i] ? DP_WORD(i) : 0;
    }
    m->words = words;
    memcpy(m->hot, mask->w, sizeof m->hot);
    memcpy(m->warm, &mask->w[DP_HOT_WORDS], sizeof m->warm);
    for (int i = DP_FIRST_COLD; i < DP_KEY_WORDS; i++) {
        if (mask->w[i]) {
            m->cold[n] = mask->w[i];
            m->cold_word[n++] = i;
        }
    }
    m->uses_warm = (words & DP_WARM) != 0;
    __atomic_store_n(&m->n_cold, n, __ATOMIC_RELEASE);
}

void oxdp_table_mask_key(const struct oxdp_table *t, uint32_t mask_index, union dp_key *ret_words)
{
    mask_words(&t->mem.masks[mask_index], ret_words);
}

/* A reader that sees the union half changed computes a signature that no entry has: one slow lookup. */
static void update_union(struct oxdp_table *t)
{
    struct dp_head *head = t->mem.head;
    union dp_key all = { .w = { 0 } };

    for (uint32_t i = 0; i < oxdp_table_n_masks(head); i++) {
        union dp_key words;

        mask_words(&t->mem.masks[oxdp_table_order(head)[i]], &words);
        for (int j = 0; j < DP_KEY_WORDS; j++) {
            all.w[j] |= words.w[j];
        }
    }
    fill_mask(&t->mem.masks[DP_MASK_ALL], &all);
}
