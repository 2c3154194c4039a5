/* SPDX-License-Identifier: Apache-2.0 */
/* The flow object: made, used, counted, freed.  Operations on flows are in
 * ovs/flows/flow_put.c. */
#include <config.h>

#include "ovs/lookup/flow_table.h"

#include <stdlib.h>
#include <string.h>

#include "packets.h"
#include "util.h"

/* Deleted flows that are left to RCU at the same time. */
#define MAX_DELETED 512

void
dpif_xdp_flows_init(struct dpif_xdp_flows *flows)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    dpif_xdp_cls_init(&flows->cls);
    dpif_xdp_ufids_init(&flows->ufids);
    dpif_xdp_known_masks_init(&flows->masks);
    flows->deleted = NULL;
    flows->n_deleted = 0;
    flows->n_installed = 0;
    hmap_init(&flows->twins);
}

void
dpif_xdp_flows_destroy(struct dpif_xdp_flows *flows)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    dpif_xdp_cls_destroy(&flows->cls);
    dpif_xdp_ufids_destroy(&flows->ufids);
    dpif_xdp_known_masks_destroy(&flows->masks);
    dpif_xdp_flows_forget_twins(flows);
    hmap_destroy(&flows->twins);
}

/* A flow that ofproto has: 'twins' of struct dpif_xdp_flows. */
struct twin {
    struct hmap_node node;
    ovs_u128 ufid;
};

void
dpif_xdp_flows_note_twin(struct dpif_xdp_flows *flows, const ovs_u128 *ufid)
{
    struct twin *twin = xmalloc(sizeof *twin);

    twin->ufid = *ufid;
    hmap_insert(&flows->twins, &twin->node, ufid->u32[0]);
}

static struct twin *
find_twin(const struct dpif_xdp_flows *flows, const ovs_u128 *ufid)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct twin *twin;

    HMAP_FOR_EACH_WITH_HASH (twin, node, ufid->u32[0], &flows->twins) {
        if (ovs_u128_equals(twin->ufid, *ufid)) {
            return twin;
        }
    }
    return NULL;
}

bool
dpif_xdp_flows_has_twin(const struct dpif_xdp_flows *flows,
                        const ovs_u128 *ufid)
{
    return find_twin(flows, ufid);
}

bool
dpif_xdp_flows_forget_twin(struct dpif_xdp_flows *flows, const ovs_u128 *ufid)
{
    struct twin *twin = find_twin(flows, ufid);

    if (twin) {
        hmap_remove(&flows->twins, &twin->node);
        free(twin);
    }
    return twin;
}

ovs_u128 *
dpif_xdp_flows_list_twins(const struct dpif_xdp_flows *flows, size_t *n)
{
    ovs_u128 *ufids = xmalloc(hmap_count(&flows->twins) * sizeof *ufids);
    const struct twin *twin;

    *n = 0;
    HMAP_FOR_EACH (twin, node, &flows->twins) {
        ufids[(*n)++] = twin->ufid;
    }
    return ufids;
}

void
dpif_xdp_flows_forget_twins(struct dpif_xdp_flows *flows)
{
    struct twin *twin;

    HMAP_FOR_EACH_POP (twin, node, &flows->twins) {
        free(twin);
    }
}

struct dpif_xdp_flow *
dpif_xdp_flows_lookup(const struct dpif_xdp_flows *flows,
                      const struct dpif_xdp_key *key)
{
    return dpif_xdp_flow_from_rule(dpif_xdp_cls_lookup(&flows->cls, key));
}

struct dpif_xdp_flow *
dpif_xdp_flows_find(const struct dpif_xdp_flows *flows, const ovs_u128 *ufid)
{
    return dpif_xdp_ufids_find(&flows->ufids, ufid);
}

struct subtable *
dpif_xdp_flows_subtable(struct dpif_xdp_flows *flows,
                        const struct flow_wildcards *wc)
{
    return dpif_xdp_cls_subtable(&flows->cls, wc);
}

struct subtable *
dpif_xdp_flows_known_subtable(const struct dpif_xdp_flows *flows,
                              const struct nlattr *mask, size_t len,
                              const struct flow *key,
                              const struct flowmap *map)
{
    return dpif_xdp_known_masks_find(&flows->masks, &flows->cls, mask, len,
                                     key, map);
}

void
dpif_xdp_flows_know_subtable(struct dpif_xdp_flows *flows,
                             const struct nlattr *mask, size_t len,
                             const struct flow *key, const struct flowmap *map,
                             struct subtable *subtable)
{
    dpif_xdp_known_masks_add(&flows->masks, &flows->cls, mask, len, key, map,
                             subtable);
}

void
dpif_xdp_flows_insert(struct dpif_xdp_flows *flows, struct dpif_xdp_flow *flow,
                      const struct dpif_xdp_place *place, uint64_t *values)
{
    flow->seq = flows->n_installed++;
    dpif_xdp_cls_insert(&flows->cls, &flow->rule, place, values);
    dpif_xdp_ufids_insert(&flows->ufids, flow);
}

void
dpif_xdp_flows_remove(struct dpif_xdp_flows *flows, struct dpif_xdp_flow *flow)
{
    dpif_xdp_cls_remove(&flows->cls, &flow->rule);
    dpif_xdp_ufids_remove(&flows->ufids, flow);
}

void
dpif_xdp_flows_prefetch(const struct dpif_xdp_flows *flows,
                        const ovs_u128 *ufid)
{
    dpif_xdp_ufids_prefetch(&flows->ufids, ufid);
}

void
dpif_xdp_flows_prefetch_flow(const struct dpif_xdp_flows *flows,
                             const ovs_u128 *ufid)
{
    dpif_xdp_ufids_prefetch_flow(&flows->ufids, ufid);
}

void
dpif_xdp_flows_prefetch_removal(const struct dpif_xdp_flows *flows,
                                const struct dpif_xdp_flow *flow)
{
    dpif_xdp_rule_prefetch(&flows->cls, &flow->rule);
}

void
dpif_xdp_flows_optimize(struct dpif_xdp_flows *flows)
{
    dpif_xdp_cls_optimize(&flows->cls);
}

uint32_t
dpif_xdp_flows_n(const struct dpif_xdp_flows *flows)
{
    return dpif_xdp_cls_n_rules(&flows->cls);
}

uint32_t
dpif_xdp_flows_n_masks(const struct dpif_xdp_flows *flows)
{
    return dpif_xdp_cls_n_masks(&flows->cls);
}

struct dpif_xdp_flow *
dpif_xdp_flow_from_rule(const struct dpif_xdp_rule *rule)
{
    return rule ? CONTAINER_OF(rule, struct dpif_xdp_flow, rule) : NULL;
}

struct dpif_xdp_flow *
dpif_xdp_flow_next(const struct dpif_xdp_flows *flows, uint32_t *position)
{
    return dpif_xdp_flow_from_rule(dpif_xdp_cls_next(&flows->cls, position));
}

uint32_t
dpif_xdp_flow_position(const struct dpif_xdp_flow *flow)
{
    return flow->rule.index - 1;
}

struct dpif_xdp_actions *
dpif_xdp_flow_actions(const struct dpif_xdp_flow *flow)
{
    return ovsrcu_get(struct dpif_xdp_actions *, &flow->actions);
}

void
dpif_xdp_flow_used(struct dpif_xdp_flow *flow, size_t n_packets,
                   size_t n_bytes, uint16_t tcp_flags, long long now_ms)
{
    uint64_t orig;
    uint16_t flags;

    atomic_add_relaxed(&flow->n_bytes, n_bytes, &orig);
    atomic_store_relaxed(&flow->used, now_ms);
    atomic_read_relaxed(&flow->tcp_flags, &flags);
    if (tcp_flags & ~flags) {
        uint16_t ignored;

        atomic_or_explicit(&flow->tcp_flags, tcp_flags, &ignored,
                           memory_order_relaxed);
    }
    /* At last, and in order with dpif_xdp_fastpath_mark(). */
    atomic_add(&flow->n_packets, n_packets, &orig);
}

void
dpif_xdp_wc_finish(struct flow_wildcards *wc)
{
    if (!wc->masks.vlans[0].tci) {
        wc->masks.vlans[0].tci = htons(VLAN_VID_MASK | VLAN_CFI);
    }
}

static void
actions_init(struct dpif_xdp_actions *copy, const struct nlattr *actions,
             size_t size)
{
    copy->size = size;
    copy->growth = dpif_xdp_actions_growth(actions, size);
    copy->uses_hash = dpif_xdp_actions_use_hash(actions, size);
    if (size) {
        memcpy(copy->actions, actions, size);
    }
}

struct dpif_xdp_flow *
dpif_xdp_flow_create(const struct dpif_xdp_place *place,
                     const struct flow *key, const struct miniflow *map,
                     const struct nlattr *actions, size_t actions_len,
                     uint64_t **ret_values)
{
    size_t n_key = miniflow_n_values(map);
    size_t n_words = (sizeof *map / sizeof(uint64_t) + n_key
                      + place->n_values);
    struct dpif_xdp_flow *flow;

    flow = xmalloc(sizeof *flow + n_words * sizeof(uint64_t)
                   + sizeof *flow->first_actions + actions_len);
    flow->key = (struct miniflow *) (flow + 1);
    *flow->key = *map;
    miniflow_init(flow->key, key);
    *ret_values = miniflow_values(flow->key) + n_key;
    flow->first_actions
        = (struct dpif_xdp_actions *) (*ret_values + place->n_values);
    actions_init(flow->first_actions, actions, actions_len);
    ovsrcu_init(&flow->actions, flow->first_actions);
    dpif_xdp_flow_reset_stats(flow);
    memset(&flow->ahead, 0, sizeof flow->ahead);
    atomic_init(&flow->deleted, false);
    return flow;
}

void
dpif_xdp_flow_reset_stats(struct dpif_xdp_flow *flow)
{
    atomic_store_relaxed(&flow->n_packets, 0);
    atomic_store_relaxed(&flow->n_bytes, 0);
    atomic_store_relaxed(&flow->used, 0);
    atomic_store_relaxed(&flow->tcp_flags, 0);
    flow->n_dumped = UINT64_MAX;
}

void
dpif_xdp_flow_set_actions(struct dpif_xdp_flow *flow,
                          const struct nlattr *actions, size_t size)
{
    struct dpif_xdp_actions *old = dpif_xdp_flow_actions(flow);
    struct dpif_xdp_actions *new = xmalloc(sizeof *new + size);

    actions_init(new, actions, size);
    ovsrcu_set(&flow->actions, new);
    if (old != flow->first_actions) {
        ovsrcu_postpone(free, old);
    }
}

void
dpif_xdp_flow_free(struct dpif_xdp_flows *flows, struct dpif_xdp_flow *flow)
{
    flow->next_deleted = flows->deleted;
    flows->deleted = flow;
    if (++flows->n_deleted == MAX_DELETED) {
        dpif_xdp_flows_free(flows);
    }
}

static void
free_flows(struct dpif_xdp_flow *flow)
{
    while (flow) {
        struct dpif_xdp_flow *next = flow->next_deleted;

        if (dpif_xdp_flow_actions(flow) != flow->first_actions) {
            free(dpif_xdp_flow_actions(flow));
        }
        dpif_xdp_rule_uninit(&flow->rule);
        free(flow);
        flow = next;
    }
}

void
dpif_xdp_flows_free(struct dpif_xdp_flows *flows)
{
    if (flows->deleted) {
        ovsrcu_postpone(free_flows, flows->deleted);
        flows->deleted = NULL;
        flows->n_deleted = 0;
    }
}
