/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Hash of a masked key.
 *
 * Multilinear hashing: the sum of words times random odd numbers, whose terms a processor computes in
 * parallel.  A word's high half is folded into its low half first, because the product's high bits depend
 * on the word's low bits only through the carry.  Userspace draws the numbers per datapath, so a sender of packets
 * cannot construct collisions. */
#ifndef DP_HASH_H
#define DP_HASH_H 1

#include "dp/omit.h"
#include "dp/table.h"

DP_INLINE __u64 dp_hash_word(__u64 word, __u64 number)
{
    return (word ^ word >> 32) * number;
}

/* Words that '*key' does not have because they are omitted are not used by the mask, unless the program is trimmed:
 * then no flow that uses them matches. */
DP_INLINE __u64 dp_hash_key(struct dp_ctx *ctx, const struct dp_head *head, const struct dp_mask *mask,
                            const union dp_key *key)
{
    __u64 hash = 0;

    DP_UNROLL
    for (int i = 0; i < DP_HOT_WORDS; i++) {
        if (DP_WORD(i) & DP_CORE_WORDS || !DP_OMITS_WORD(ctx, i)) {
            hash += dp_hash_word(key->w[i] & mask->hot[i], head->hash_key[i]);
        }
    }

    if (!DP_OMITS_WARM(ctx) && mask->uses_warm) {
        DP_UNROLL
        for (int i = 0; i < DP_WARM_WORDS; i++) {
            hash += dp_hash_word(key->w[DP_HOT_WORDS + i] & mask->warm[i], head->hash_key[DP_HOT_WORDS + i]);
        }
    }

    __u32 n_cold = DP_OMITS_COLD(ctx) ? 0 : mask->n_cold;

    for (__u32 i = 0; i < DP_COLD_WORDS && i < n_cold; i++) {
        __u32 w = mask->cold_word[i];

        if (w < DP_KEY_WORDS && !(DP_TRIMMED && dp_omitted_words(ctx) & DP_WORD(w))) {
            hash += dp_hash_word(key->w[w] & mask->cold[i], head->hash_key[w]);
        }
    }
    hash ^= hash >> 32;
    hash *= 0x9fb21c651e98df25ull;
    return hash ^ hash >> 28;
}

/* Where a flow with this hash is: its tag, its bucket in a region of last + 1 buckets, and its alternative bucket. */
DP_INLINE __u32 dp_hash_tag(__u64 hash) { return hash >> 32; }
DP_INLINE __u32 dp_hash_bucket(__u64 hash, __u32 last) { return (__u32) hash & last; }

DP_INLINE __u32 dp_hash_alternative(__u64 hash, __u32 last)
{
    __u32 other = ((__u32) (hash >> 32) * 0x5bd1e995u >> 7) & last;

    return other == dp_hash_bucket(hash, last) ? other ^ (last & 1) : other;
}

#endif /* dp/hash.h */
