/* SPDX-License-Identifier: Apache-2.0 */
/* Flows, and the table that has them.
 *
 * Readers are under RCU.  Writers exclude each other by a mutex of the
 * caller. */
#ifndef DPIF_XDP_FLOW_TABLE_H
#define DPIF_XDP_FLOW_TABLE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flow.h"
#include "netlink.h"
#include "openvswitch/hmap.h"
#include "openvswitch/list.h"
#include "openvswitch/types.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "ovs/base/locks.h"
#include "ovs/lookup/known_masks.h"
#include "ovs/lookup/lookup.h"
#include "ovs/lookup/ufids.h"
#include "util.h"

/* What the fast path (ovs/fastpath/) has in each flow. */
struct dpif_xdp_fastpath_flow {
    uint32_t index;             /* In the tables, or DP_NO_FLOW. */
    uint32_t old_index;         /* What 'index' replaced last, not reclaimed
                                 * yet, or DP_NO_FLOW. */
    uint64_t n_packets;         /* Counted by entries that are gone. */
    uint64_t n_bytes;
    uint64_t used;              /* Monotonic ms. */
    uint16_t tcp_flags;
    uint8_t reason;             /* enum dpif_xdp_fastpath_reason. */
    bool counted;               /* In the numbers of flows by reason. */
    bool released;              /* To be freed with its last entry. */
    uint8_t hook;               /* Of its port: enum dpif_xdp_hook. */
    bool on_tcx;                /* Compiled for the programs at tcx. */
    bool on_xdp;                /* Compiled for those at XDP. */
    struct ovs_list outside;    /* In 'outside' of struct dpif_xdp_fastpath. */
};

/* Where a revalidator found what ofproto has of a flow (ovs/flows/ahead.c), or
 * NULL. */
struct dpif_xdp_flow_ahead {
    const void *cmap;           /* A hash table of ukeys, ... */
    const void *impl;           /* ... the memory of its buckets, ... */
    const void *bucket;         /* ... and that of the ukey. */
    const void *lock;           /* Of the ukey. */
    const void *xcache;
    const void *entries;        /* Of the xlate cache. */
};

/* The actions of a flow, immutable, freed through RCU. */
struct dpif_xdp_actions {
    size_t size;
    uint32_t growth;                    /* Bytes that they may prepend. */
    bool uses_hash;                     /* Of the packet's 5-tuple. */
    OVS_ALIGNED_VAR(8) struct nlattr actions[];
};

/* A flow.  Immutable, except 'actions' and the statistics.  Its key, the
 * values of its rule and the actions that it began with are in one block of
 * memory with it. */
struct dpif_xdp_flow {
    struct dpif_xdp_rule rule;          /* In flows->cls. */
    struct miniflow *key;               /* Unmasked, of the first packet. */
    OVSRCU_TYPE(struct dpif_xdp_actions *) actions;
    struct dpif_xdp_actions *first_actions;
    ovs_u128 ufid;
    uint64_t seq;                       /* Of its installation. */
    struct dpif_xdp_flow *next_deleted; /* In flows->deleted. */

    /* Of the engine. */
    atomic_uint64_t n_bytes;
    atomic_llong used;                  /* Monotonic ms; 0: never. */
    atomic_uint16_t tcp_flags;
    atomic_uint64_t n_packets;

    /* What the last terse dump that had this flow said, of all tiers.  Used
     * by one thread at a time. */
    uint64_t n_dumped;                  /* UINT64_MAX: there was none. */
    long long int used_dumped;
    struct dpif_xdp_flow_ahead ahead;

    struct dpif_xdp_fastpath_flow fp OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    atomic_bool deleted;                /* Read by any thread. */
};

/* Prefetches all of a flow. */
static inline void
dpif_xdp_flow_prefetch(const struct dpif_xdp_flow *flow)
{
    for (size_t i = 0; i < sizeof *flow; i += CACHE_LINE_SIZE) {
        OVS_PREFETCH_WRITE((const char *) flow + i);
    }
}

/* Prefetches what tells whether it had packets: from 'n_packets' to
 * 'fp.n_packets'. */
static inline void
dpif_xdp_flow_prefetch_counts(const struct dpif_xdp_flow *flow)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    OVS_PREFETCH(&flow->n_packets);
    OVS_PREFETCH(&flow->fp.n_packets);
}

/* The flows of a datapath. */
struct dpif_xdp_flows {
    struct dpif_xdp_cls cls;

    /* For writers. */
    struct dpif_xdp_ufids ufids OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    struct dpif_xdp_known_masks masks OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    struct dpif_xdp_flow *deleted       /* To be freed through RCU. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    size_t n_deleted OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint64_t n_installed OVS_GUARDED_BY(dpif_xdp_flow_mutex);   /* Ever. */

    /* Flows that ofproto has, and that are not in the table, because one that
     * matches the same packets came first: two threads met the first packets
     * of one flow at the same time.  Until ofproto deletes them, they are
     * flows without packets. */
    struct hmap twins OVS_GUARDED_BY(dpif_xdp_flow_mutex);
};

/* A flow's key in compressed form. */
struct dpif_xdp_flow_key {
    struct miniflow mf;
    uint64_t buf[FLOW_U64S];
};

static inline void
dpif_xdp_flow_key_init(struct dpif_xdp_flow_key *key, const struct flow *flow)
{
    miniflow_map_init(&key->mf, flow);
    miniflow_init(&key->mf, flow);
}

/* Note that ofproto has the flow 'ufid', which is not in the table; return
 * whether that was noted; forget one, and return the same, or all. */
void dpif_xdp_flows_note_twin(struct dpif_xdp_flows *, const ovs_u128 *ufid)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
bool dpif_xdp_flows_has_twin(const struct dpif_xdp_flows *,
                             const ovs_u128 *ufid)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
bool dpif_xdp_flows_forget_twin(struct dpif_xdp_flows *, const ovs_u128 *ufid)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
void dpif_xdp_flows_forget_twins(struct dpif_xdp_flows *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Returns those that are noted, '*n' of them.  The caller frees the array. */
ovs_u128 *dpif_xdp_flows_list_twins(const struct dpif_xdp_flows *, size_t *n)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

void dpif_xdp_flows_init(struct dpif_xdp_flows *);

/* Frees what 'flows', which is empty, refers to. */
void dpif_xdp_flows_destroy(struct dpif_xdp_flows *flows);

/* Return the flow that matches 'key', or has 'ufid', or NULL. */
struct dpif_xdp_flow *dpif_xdp_flows_lookup(const struct dpif_xdp_flows *,
                                            const struct dpif_xdp_key *key);
struct dpif_xdp_flow *dpif_xdp_flows_find(const struct dpif_xdp_flows *,
                                          const ovs_u128 *ufid)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* As dpif_xdp_cls_lookup_batch(). */
static inline bool
dpif_xdp_flows_lookup_batch(struct dpif_xdp_flows *flows,
                            struct dpif_xdp_cache *cache,
                            struct dpif_xdp_key *keys[], size_t n,
                            struct dpif_xdp_rule *rules[],
                            struct dpif_xdp_cls_stats *stats)
{
    return dpif_xdp_cls_lookup_batch(&flows->cls, cache, keys, n, rules,
                                     stats);
}

/* As dpif_xdp_cls_subtable(): where flows with these wildcards are kept.  The
 * other two know it by a Netlink mask: dpif_xdp_known_masks_find(). */
struct subtable *dpif_xdp_flows_subtable(struct dpif_xdp_flows *,
                                         const struct flow_wildcards *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
struct subtable *dpif_xdp_flows_known_subtable(const struct dpif_xdp_flows *,
                                               const struct nlattr *mask,
                                               size_t len, const struct flow *,
                                               const struct flowmap *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
void dpif_xdp_flows_know_subtable(struct dpif_xdp_flows *,
                                  const struct nlattr *mask, size_t len,
                                  const struct flow *, const struct flowmap *,
                                  struct subtable *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Adds 'flow' at 'place', with what dpif_xdp_flow_create() stored in
 * '*ret_values'; takes it out: readers may look at it until they quiesce. */
void dpif_xdp_flows_insert(struct dpif_xdp_flows *, struct dpif_xdp_flow *flow,
                           const struct dpif_xdp_place *place,
                           uint64_t *values)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
void dpif_xdp_flows_remove(struct dpif_xdp_flows *, struct dpif_xdp_flow *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Prefetch what dpif_xdp_flows_find() reads, and the flow: first the one for
 * several identifiers, then the other, which needs what the first fetched. */
void dpif_xdp_flows_prefetch(const struct dpif_xdp_flows *, const ovs_u128 *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
void dpif_xdp_flows_prefetch_flow(const struct dpif_xdp_flows *,
                                  const ovs_u128 *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Prefetches what dpif_xdp_flows_remove() reads. */
void dpif_xdp_flows_prefetch_removal(const struct dpif_xdp_flows *,
                                     const struct dpif_xdp_flow *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Sorts the masks by their use.  Meant to be called once a second. */
void dpif_xdp_flows_optimize(struct dpif_xdp_flows *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

uint32_t dpif_xdp_flows_n(const struct dpif_xdp_flows *);
uint32_t dpif_xdp_flows_n_masks(const struct dpif_xdp_flows *);

/* Returns the flow that follows '*position' as dpif_xdp_cls_next() does. */
struct dpif_xdp_flow *dpif_xdp_flow_next(const struct dpif_xdp_flows *,
                                         uint32_t *position);

/* The position at which dpif_xdp_flow_next() finds 'flow'. */
uint32_t dpif_xdp_flow_position(const struct dpif_xdp_flow *flow);

/* Allocates a flow for packets like 'key', with 'map', and all that it begins
 * with, with room for the values of its rule, to be inserted at the place, at
 * '*ret_values'. */
struct dpif_xdp_flow *dpif_xdp_flow_create(const struct dpif_xdp_place *,
                                           const struct flow *key,
                                           const struct miniflow *map,
                                           const struct nlattr *actions,
                                           size_t actions_len,
                                           uint64_t **ret_values);

/* Frees 'flow', which nothing leads to any more, when no thread has it,
 * together with others, at the latest with those of the next
 * dpif_xdp_flows_free(). */
void dpif_xdp_flow_free(struct dpif_xdp_flows *, struct dpif_xdp_flow *flow)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
void dpif_xdp_flows_free(struct dpif_xdp_flows *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* The flow that 'rule' belongs to; NULL for NULL. */
struct dpif_xdp_flow *dpif_xdp_flow_from_rule(const struct dpif_xdp_rule *);

struct dpif_xdp_actions *dpif_xdp_flow_actions(const struct dpif_xdp_flow *);
void dpif_xdp_flow_set_actions(struct dpif_xdp_flow *, const struct nlattr *,
                               size_t);

/* Accounts packets that 'flow' handled.  'now_ms' is monotonic. */
void dpif_xdp_flow_used(struct dpif_xdp_flow *flow, size_t n_packets,
                        size_t n_bytes, uint16_t tcp_flags, long long now_ms);
void dpif_xdp_flow_reset_stats(struct dpif_xdp_flow *);

/* The Netlink form of a mask cannot wildcard whether there is a VLAN tag: a
 * mask without VLAN means that there is none.  Makes 'wc' say so. */
void dpif_xdp_wc_finish(struct flow_wildcards *wc);

/* Returns an upper bound of the bytes that 'actions' put in front of a packet
 * before it leaves or is recirculated. */
uint32_t dpif_xdp_actions_growth(const struct nlattr *actions, size_t len);

/* Whether 'actions' depend on the hash that the engine gives a packet when it
 * extracts its key. */
bool dpif_xdp_actions_use_hash(const struct nlattr *actions, size_t len);

#endif /* ovs/lookup/flow_table.h */
