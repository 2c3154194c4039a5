/* SPDX-License-Identifier: Apache-2.0 */
/* How often masks match: the order in which readers search them, and what xdp/dump-masks shows. */
#include <string.h>

#include "core/tables/table_private.h"

void oxdp_table_rank_masks(struct oxdp_table *t)
{
    struct dp_head *head = t->mem.head;
    uint64_t packets[DP_MAX_MASKS + 1] = { 0 };
    uint64_t recent[DP_MAX_MASKS + 1];

    for (uint32_t i = 0, left = t->mem.n_flows - t->n_free_flows - t->n_limbo_flows; left && i < t->mem.n_flows; i++) {
        if (t->mem.flows[i].mask) {
            struct dp_stats stats;

            oxdp_table_stats(t, i, &stats);
            packets[t->mem.flows[i].mask] += stats.packets;
            left--;
        }
    }
    for (int i = 1; i <= DP_MAX_MASKS; i++) {
        recent[i] = packets[i] > t->masks[i].packets ? packets[i] - t->masks[i].packets : 0;
        t->masks[i].packets = packets[i];
    }

    /* Insertion sort: nearly sorted already, and stable.  The half that is written now was last read before the ranking
     * before this one: callers leave a second between two rankings, and no reader takes that long.  One that did could
     * miss a mask, and hand its frame to the engine. */
    uint32_t half = oxdp_table_order(head) == head->order ? DP_MAX_MASKS : 0;
    uint8_t *sorted = &head->order[half];
    uint32_t n = oxdp_table_n_masks(head);

    for (uint32_t i = 0; i < n; i++) {
        uint8_t mask = oxdp_table_order(head)[i];
        uint32_t j = i;

        for (; j && recent[sorted[j - 1]] < recent[mask]; j--) {
            sorted[j] = sorted[j - 1];
        }
        sorted[j] = mask;
    }
    __atomic_store_n(&head->masks_now, DP_MASKS_NOW(half, n), __ATOMIC_RELEASE);
}

uint32_t oxdp_table_masks(const struct oxdp_table *t, struct oxdp_table_mask_info *ret_masks)
{
    struct dp_head *head = t->mem.head;
    struct oxdp_table_mask_info *by_index[DP_MAX_MASKS + 1] = { NULL };

    for (uint32_t i = 0; i < oxdp_table_n_masks(head); i++) {
        struct oxdp_table_mask_info *info = &ret_masks[i];
        const struct dp_mask *mask = &t->mem.masks[oxdp_table_order(head)[i]];

        oxdp_table_mask_key(t, oxdp_table_order(head)[i], &info->words);
        info->n_flows = mask->n_flows;
        info->example = DP_NO_FLOW;
        info->packets = 0;
        by_index[oxdp_table_order(head)[i]] = info;
    }
    for (uint32_t i = 0; i < t->mem.n_flows; i++) {
        struct oxdp_table_mask_info *info = by_index[t->mem.flows[i].mask];

        if (info) {
            struct dp_stats stats;

            oxdp_table_stats(t, i, &stats);
            info->packets += stats.packets;
            if (info->example == DP_NO_FLOW) {
                info->example = i;
                oxdp_table_flow_key(t, t->mem.flows[i].mask, i, &info->example_key);
            }
        }
    }
    return oxdp_table_n_masks(head);
}

bool oxdp_table_match(const struct oxdp_table *t, uint32_t flow, union dp_key *ret_key, union dp_key *ret_mask)
{
    uint32_t mask = flow < t->mem.n_flows ? DP_READ_FIRST(t->mem.flows[flow].mask) : 0;

    if (!mask || mask > DP_MAX_MASKS) {
        return false;
    }
    oxdp_table_flow_key(t, mask, flow, ret_key);
    oxdp_table_mask_key(t, mask, ret_mask);
    return true;
}
