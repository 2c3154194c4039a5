/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* From key to flow: a signature cache, then tuple space search.
 *
 * The signature cache maps the hash of the key, masked by the union of all masks, to a flow.  Packets that differ only
 * in bits that no mask has share a signature: a million connections under one megaflow need one slot.  A masked
 * compare verifies the candidate, so a stale or colliding signature is harmless.  Open vSwitch's datapath
 * flows that overlap have equal actions: any match is the right match. */
#ifndef DP_LOOKUP_H
#define DP_LOOKUP_H 1

#include "dp/hash.h"
#include "dp/table.h"

DP_INLINE int dp_flow_matches(struct dp_ctx *ctx, const struct dp_flow *flow, const union dp_key *key);
DP_STAGE __u64 dp_lookup_masks(struct dp_ctx *ctx, union dp_key *key, struct dp_cache *set, __u32 tag);

/* What a lookup in the masks' tables returns: the flow's index or DP_NO_FLOW, and how many masks it walked. */
#define DP_WALK(FLOW, MASKS) ((__u64) (MASKS) << 32 | (FLOW))
#define DP_WALK_FLOW(WALK) ((__u32) (WALK))
#define DP_WALK_MASKS(WALK) ((__u32) ((WALK) >> 32))

/* What lookups cost beyond the signature cache. */
struct dp_walked {
    __u16 masks;
    __u16 hits;
};

/* Returns a flow that matches '*key' and its index, or NULL and DP_NO_FLOW.  Adds to '*walked' if masks were
 * walked. */
DP_INLINE const struct dp_flow *dp_lookup(struct dp_ctx *ctx, const struct dp_head *head, union dp_key *key,
                                          __u32 *ret_index, struct dp_walked *walked)
{
    const struct dp_mask *all = dp_masks_at(ctx, DP_MASK_ALL);

    if (!all) {
        *ret_index = DP_NO_FLOW;
        return 0;
    }

    __u64 hash = dp_hash_key(ctx, head, all, key);
    __u32 tag = dp_hash_tag(hash);
    struct dp_cache *set = dp_cache_at(ctx, (__u32) hash & dp_cache_last(ctx));

    if (!set) {
        *ret_index = DP_NO_FLOW;
        return 0;
    }

    __u64 slot = DP_READ_ONCE(set->slot[0]);

    if (DP_SLOT_TAG(slot) != tag) {
        slot = DP_READ_ONCE(set->slot[1]);
    }
    if (DP_LIKELY(DP_SLOT_TAG(slot) == tag)) {
        const struct dp_flow *flow = dp_flows_at(ctx, DP_SLOT_FLOW(slot));

        if (flow && dp_flow_matches(ctx, flow, key)) {
            *ret_index = DP_SLOT_FLOW(slot);
            return flow;
        }
    }

    __u64 walk = dp_lookup_masks(ctx, key, set, tag);

    walked->masks += DP_WALK_MASKS(walk);
    *ret_index = DP_WALK_FLOW(walk);
    if (*ret_index == DP_NO_FLOW) {
        return 0;
    }
    walked->hits++;
    return dp_flows_at(ctx, *ret_index);
}

/* Masked compare over the words that the mask uses.  A flow that uses words that are omitted does not match. */
DP_INLINE int dp_flow_matches(struct dp_ctx *ctx, const struct dp_flow *flow, const union dp_key *key)
{
    __u32 mask_index = DP_READ_FIRST(flow->mask);       /* What else the flow has was written before. */
    const struct dp_mask *mask = dp_masks_at(ctx, mask_index);

    if (!mask || mask_index == DP_MASK_ALL) {
        return 0;
    }

    __u64 difference = mask->words & dp_omitted_words(ctx);

    DP_UNROLL
    for (int i = 0; i < DP_HOT_WORDS; i++) {
        if (DP_WORD(i) & DP_CORE_WORDS || !DP_OMITS_WORD(ctx, i)) {
            difference |= (key->w[i] & mask->hot[i]) ^ flow->hot[i];
        }
    }
    if (!DP_OMITS_WARM(ctx) && mask->uses_warm) {
        DP_UNROLL
        for (int i = 0; i < DP_WARM_WORDS; i++) {
            difference |= (key->w[DP_HOT_WORDS + i] & mask->warm[i]) ^ flow->warm[i];
        }
    }
    if (difference) {
        return 0;
    }

    __u32 n_cold = DP_OMITS_COLD(ctx) ? 0 : mask->n_cold;

    for (__u32 i = 0; i < DP_FLOW_COLD && i < n_cold; i++) {
        __u32 w = mask->cold_word[i];

        if (w < DP_KEY_WORDS) {
            difference |= (key->w[w] & mask->cold[i]) ^ flow->cold[i];
        }
    }
    return !difference;
}

/* dp_flow_matches() as a stage, for the loops below. */
DP_STAGE int dp_flow_index_matches(struct dp_ctx *ctx, const union dp_key *key, __u32 index)
{
    const struct dp_flow *flow = dp_flows_at(ctx, index);

    return key && flow && dp_flow_matches(ctx, flow, key);
}

/* Returns the flow in 'bucket' that matches, or DP_NO_FLOW. */
DP_INLINE __u32 dp_bucket_find(struct dp_ctx *ctx, const struct dp_bucket *bucket, __u32 tag, const union dp_key *key)
{
    for (int i = 0; i < DP_BUCKET_SLOTS; i++) {
        __u64 slot = DP_READ_ONCE(bucket->slot[i]);

        if (DP_SLOT_TAG(slot) == tag && dp_flow_index_matches(ctx, key, DP_SLOT_FLOW(slot))) {
            return DP_SLOT_FLOW(slot);
        }
    }
    return DP_NO_FLOW;
}

/* Looks in the hash table of one mask. */
DP_STAGE __u32 dp_lookup_mask(struct dp_ctx *ctx, union dp_key *key, __u32 mask_index)
{
    const struct dp_head *head = dp_head_at(ctx, 0);
    const struct dp_mask *mask = dp_masks_at(ctx, mask_index);

    if (!key || !head || !mask) {
        return DP_NO_FLOW;
    }

    __u64 hash = dp_hash_key(ctx, head, mask, key);
    __u64 region = DP_READ_ONCE(mask->region);
    __u32 first = DP_REGION_FIRST(region);
    __u32 last = DP_REGION_LAST(region);
    const struct dp_bucket *bucket = dp_buckets_at(ctx, first + dp_hash_bucket(hash, last));

    if (!bucket) {
        return DP_NO_FLOW;
    }

    __u32 flow = dp_bucket_find(ctx, bucket, dp_hash_tag(hash), key);

    if (flow != DP_NO_FLOW || !DP_READ_ONCE(bucket->n_elsewhere)) {
        return flow;
    }
    bucket = dp_buckets_at(ctx, first + dp_hash_alternative(hash, last));
    return bucket ? dp_bucket_find(ctx, bucket, dp_hash_tag(hash), key) : DP_NO_FLOW;
}

/* Tuple space search over all masks; a hit goes to the front of the signature cache's 'set'. */
DP_STAGE __u64 dp_lookup_masks(struct dp_ctx *ctx, union dp_key *key, struct dp_cache *set, __u32 tag)
{
    const struct dp_head *head = dp_head_at(ctx, 0);
    __u32 i;

    if (!key || !set || !head) {
        return DP_NO_FLOW;
    }

    __u32 now = DP_READ_ONCE(head->masks_now);
    __u32 first = DP_MASKS_FIRST(now);
    __u32 n_masks = DP_MASKS_N(now);

    for (i = 0; i < DP_MAX_MASKS && i < n_masks; i++) {
        __u32 flow = dp_lookup_mask(ctx, key, head->order[first + i]);

        if (flow != DP_NO_FLOW) {
            DP_WRITE_ONCE(set->slot[1], DP_READ_ONCE(set->slot[0]));
            DP_WRITE_ONCE(set->slot[0], DP_SLOT(tag, flow));
            return DP_WALK(flow, i + 1);
        }
    }
    return DP_WALK(DP_NO_FLOW, i);
}

#endif /* dp/lookup.h */
