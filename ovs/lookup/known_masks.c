/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/lookup/known_masks.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "ovs/lookup/lookup.h"
#include "netlink.h"
#include "util.h"

/* Longer masks are parsed each time. */
#define MAX_LEN 512

struct known_mask {
    struct subtable *subtable;
    uint64_t generation;                /* Of the classifier. */
    struct flowmap map;                 /* Of 'flow'. */
    struct flow flow;                   /* With which it was parsed. */
    size_t len;
    char mask[];
};

void
dpif_xdp_known_masks_init(struct dpif_xdp_known_masks *known)
{
    struct flow *heeded = &known->heeded;

    memset(known, 0, sizeof *known);

    /* To lib/odp-util.c these are only values, except those of ICMPv6, whose
     * type decides about more. */
    memset(heeded, 0xff, sizeof *heeded);
    heeded->skb_priority = 0;
    heeded->pkt_mark = 0;
    heeded->dp_hash = 0;
    heeded->in_port.odp_port = 0;
    heeded->recirc_id = 0;
    heeded->ct_state = 0;
    heeded->ct_zone = 0;
    heeded->ct_mark = 0;
    memset(&heeded->ct_label, 0, sizeof heeded->ct_label);
    memset(&heeded->dl_dst, 0, sizeof heeded->dl_dst);
    memset(&heeded->dl_src, 0, sizeof heeded->dl_src);
    heeded->nw_src = 0;
    heeded->nw_dst = 0;
    memset(&heeded->ipv6_src, 0, sizeof heeded->ipv6_src);
    memset(&heeded->ipv6_dst, 0, sizeof heeded->ipv6_dst);
    heeded->ipv6_label = 0;
    heeded->nw_tos = 0;
    heeded->nw_ttl = 0;
    heeded->tcp_flags = 0;
    heeded->tp_src = 0;
    heeded->tp_dst = 0;
    for (size_t i = 0; i < FLOW_U64S; i++) {
        if (flow_u64_value(heeded, i)) {
            flowmap_set(&known->heeded_map, i, 1);
        }
    }
}

void
dpif_xdp_known_masks_destroy(struct dpif_xdp_known_masks *known)
{
    for (size_t i = 0; i < DPIF_XDP_MASK_SETS; i++) {
        for (size_t j = 0; j < DPIF_XDP_MASK_WAYS; j++) {
            free(known->masks[i][j]);
        }
    }
}

/* A mask that is empty stands for one that depends on all of the flow. */
static bool
can_know(size_t len, const struct flow *flow)
{
    return len && len <= MAX_LEN && flow->nw_proto != IPPROTO_ICMPV6;
}

static size_t
set_of(const struct nlattr *mask, size_t len)
{
    uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = 0;

    for (size_t i = 0; i + sizeof hash <= len; i += sizeof hash) {
        uint64_t word;

        memcpy(&word, (const char *) mask + i, sizeof word);
        hash += (word ^ word >> 32) * factor;
        factor += UINT64_C(0x3c6ef372fe94f82a);     /* Stays odd. */
    }
    return (hash ^ hash >> 32) >> 16 & (DPIF_XDP_MASK_SETS - 1);
}

static bool
has_same_meaning(const struct dpif_xdp_known_masks *known,
                 const struct known_mask *mask, const struct flow *flow,
                 const struct flowmap *map)
{
    struct flowmap either = flowmap_and(flowmap_or(*map, mask->map),
                                        known->heeded_map);
    size_t i;

    FLOWMAP_FOR_EACH_INDEX (i, either) {
        if ((flow_u64_value(flow, i) ^ flow_u64_value(&mask->flow, i))
            & flow_u64_value(&known->heeded, i)) {
            return false;
        }
    }
    return true;
}

struct subtable *
dpif_xdp_known_masks_find(const struct dpif_xdp_known_masks *known,
                          const struct dpif_xdp_cls *cls,
                          const struct nlattr *mask, size_t len,
                          const struct flow *flow, const struct flowmap *map)
{
    struct known_mask *const *ways = known->masks[set_of(mask, len)];

    for (size_t i = 0; can_know(len, flow) && i < DPIF_XDP_MASK_WAYS; i++) {
        const struct known_mask *way = ways[i];

        if (way && way->len == len && !memcmp(way->mask, mask, len)
            && way->generation == cls->generation
            && has_same_meaning(known, way, flow, map)) {
            return way->subtable;
        }
    }
    return NULL;
}

void
dpif_xdp_known_masks_add(struct dpif_xdp_known_masks *known,
                         const struct dpif_xdp_cls *cls,
                         const struct nlattr *mask, size_t len,
                         const struct flow *flow, const struct flowmap *map,
                         struct subtable *subtable)
{
    size_t set = set_of(mask, len);
    struct known_mask **way;

    if (can_know(len, flow)) {
        way = &known->masks[set][known->next[set]++ % DPIF_XDP_MASK_WAYS];
        *way = xrealloc(*way, sizeof **way + len);
        (*way)->subtable = subtable;
        (*way)->generation = cls->generation;
        (*way)->map = *map;
        (*way)->flow = *flow;
        (*way)->len = len;
        memcpy((*way)->mask, mask, len);
    }
}
