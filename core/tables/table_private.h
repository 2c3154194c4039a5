/* SPDX-License-Identifier: Apache-2.0 */
/* What core/tables/table.c, core/tables/table_mask.c and core/tables/table_rank.c share. */
#ifndef OXDP_TABLE_PRIVATE_H
#define OXDP_TABLE_PRIVATE_H 1

#include "core/tables/table.h"

struct oxdp_buddy;

struct oxdp_table {
    struct dp_tables mem;
    bool own_memory;
    struct oxdp_table_callbacks callbacks;

    struct oxdp_buddy *buckets;
    struct oxdp_buddy *ops;
    struct oxdp_buddy *blobs;

    uint64_t *hashes;           /* Of the keys of flows, by index. */

    uint32_t *free_flows;       /* Stack of indexes. */
    uint32_t n_free_flows;

    /* Unlinked, and waiting until no reader can hold it. */
    uint32_t *limbo_flows;
    uint32_t n_limbo_flows;
    struct { uint32_t first, n; } *limbo_regions;
    uint32_t n_limbo_regions, allocated_limbo_regions;
    uint8_t limbo_masks[DP_MAX_MASKS];
    uint32_t n_limbo_masks;
    struct { uint32_t flows, regions, masks; } waiting;      /* How many of them reclaiming has begun with. */

    struct oxdp_table_mask {
        bool used;
        uint32_t id;            /* No mask before had it. */
        uint32_t hash;          /* Of the mask, to find it. */
        uint64_t packets;       /* Matched up to the last ranking. */
    } masks[DP_MAX_MASKS + 1];
    uint32_t last_id;
};

/* The masks that readers try now, and how many. */
static inline uint8_t *oxdp_table_order(struct dp_head *head)
{
    return &head->order[DP_MASKS_FIRST(head->masks_now)];
}

static inline uint32_t oxdp_table_n_masks(const struct dp_head *head)
{
    return DP_MASKS_N(head->masks_now);
}

/* Index of the mask equal to '*mask', made if there is none, with a reference for one flow; -ENOSPC; or
 * -E2BIG: a flow has no room for that many words.  'hint' may be NULL. */
int oxdp_table_mask_get(struct oxdp_table *, const union dp_key *mask, struct oxdp_mask_hint *hint);
void oxdp_table_mask_put(struct oxdp_table *, uint32_t mask_index);

/* Links a complete flow, whose hash is known, into the hash table of its mask.  0 or -ENOSPC. */
int oxdp_table_mask_link(struct oxdp_table *, uint32_t mask_index, uint32_t flow);
void oxdp_table_mask_unlink(struct oxdp_table *, uint32_t mask_index, uint32_t flow);

/* Frees the masks and regions that reclaiming began with; no reader may hold any. */
void oxdp_table_masks_reclaim(struct oxdp_table *);

/* The bits of a mask. */
void oxdp_table_mask_key(const struct oxdp_table *, uint32_t mask_index, union dp_key *ret_words);

/* The masked key of a flow with that mask, and the hash of a key under a mask. */
void oxdp_table_flow_key(const struct oxdp_table *, uint32_t mask_index, uint32_t flow, union dp_key *ret_key);
uint64_t oxdp_table_hash(const struct oxdp_table *, uint32_t mask_index, const union dp_key *);

#endif /* core/tables/table_private.h */
