/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the flow of a packet: a signature cache of the asking thread, then
 * tuple space search, one hash table for each distinct mask.
 *
 * All threads share one struct dpif_xdp_cls.  Readers are under RCU and must
 * not quiesce between a lookup and their last use of its result.  Writers
 * (insert, remove, optimize, destroy) exclude each other by a mutex of the
 * caller.  Which one of several matching rules is found is not defined, as in
 * Open vSwitch's other datapaths: megaflows that overlap have equal
 * actions. */
#ifndef DPIF_XDP_LOOKUP_H
#define DPIF_XDP_LOOKUP_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flow.h"
#include "openvswitch/hmap.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "pvector.h"

struct dp_packet;
struct dpif_xdp_cache;
struct dpif_xdp_rules;
struct pattern;
struct subtable;

/* What is looked up.  Made by dpif_xdp_key_from_*(). */
struct dpif_xdp_key {
    uint64_t zero;                      /* Stands for words not in 'mf'. */
    uint32_t hash;                      /* Finds the cache entry. */
    uint32_t pad;
    struct miniflow mf;
    uint64_t buf[FLOW_U64S];            /* Values of 'mf'. */
};

/* A rule, to be embedded in what a lookup shall lead to. */
struct dpif_xdp_rule {
    ATOMIC(struct pattern *) patterns;
    struct subtable *subtable;
    const uint64_t *values;             /* One per word of the mask. */
    uint64_t hash;                      /* Of 'values'. */
    uint32_t index;                     /* In 'cls->rules'. */
};

/* Where to insert a rule. */
struct dpif_xdp_place {
    struct subtable *subtable;
    uint64_t hash;
    size_t n_values;
    uint64_t values[FLOW_U64S];
};

struct dpif_xdp_cls {
    struct pvector subtables;           /* Most used first; for readers. */
    OVSRCU_TYPE(struct dpif_xdp_rules *) rules; /* By index. */
    atomic_uint32_t n_rules;

    /* For writers. */
    struct hmap by_mask;                /* Subtables. */
    struct subtable *last;              /* Found last. */
    uint64_t generation;                /* Changes when a subtable is gone. */
    uint32_t *free_indexes;             /* Of 'rules'. */
    size_t n_free;
};

/* Numbers of packets; 'n_mask_walk' is the number of masks tried. */
struct dpif_xdp_cls_stats {
    uint64_t n_cache_hit;
    uint64_t n_table_hit;
    uint64_t n_miss;
    uint64_t n_mask_walk;
};

void dpif_xdp_cls_init(struct dpif_xdp_cls *);

/* Frees what 'cls' refers to.  All rules must have been removed. */
void dpif_xdp_cls_destroy(struct dpif_xdp_cls *cls);

/* Returns where rules with these wildcards are kept, in_port exact.  If there
 * is none yet, then dpif_xdp_cls_insert() must follow; it is gone with its
 * last rule. */
struct subtable *dpif_xdp_cls_subtable(struct dpif_xdp_cls *,
                                       const struct flow_wildcards *);

/* Finds the place in 'subtable' of a rule for packets like 'flow'.  Returns
 * NULL, or the rule that was inserted there before. */
struct dpif_xdp_rule *dpif_xdp_cls_place(struct subtable *subtable,
                                         const struct flow *flow,
                                         struct dpif_xdp_place *);

/* Adds 'rule' at 'place'.  'values' is memory for the place's values, which
 * lives as long as 'rule'. */
void dpif_xdp_cls_insert(struct dpif_xdp_cls *, struct dpif_xdp_rule *rule,
                         const struct dpif_xdp_place *, uint64_t *values);

/* Removes 'rule'.  Readers may still find and use it until a grace period has
 * passed; then dpif_xdp_rule_uninit() frees what it refers to. */
void dpif_xdp_cls_remove(struct dpif_xdp_cls *, struct dpif_xdp_rule *rule);
void dpif_xdp_rule_uninit(struct dpif_xdp_rule *);

/* Prefetches what dpif_xdp_cls_remove() reads but 'rule'.  For writers. */
void dpif_xdp_rule_prefetch(const struct dpif_xdp_cls *,
                            const struct dpif_xdp_rule *rule);

/* Returns the rule that follows '*position', which begins at 0, and moves it
 * there; NULL after the last.  Rules that are there all the time are met once,
 * whatever is inserted or removed meanwhile. */
struct dpif_xdp_rule *dpif_xdp_cls_next(const struct dpif_xdp_cls *,
                                        uint32_t *position);

/* Returns the wildcards with which 'rule' was inserted, in_port exact. */
const struct flow_wildcards *
dpif_xdp_rule_wc(const struct dpif_xdp_rule *rule);

/* Returns a pointer that all rules with one mask share, NULL at first, for
 * writers.  free() frees what it points to, with the last of the rules. */
void **dpif_xdp_rule_aux(const struct dpif_xdp_rule *);

/* Whether 'rule' matches nothing but recirc_id, in_port, packet_type,
 * dl_type, the first VLAN tag's TCI and nw_frag: it matches all packets that
 * have these in common with one that it matches. */
bool dpif_xdp_rule_is_simple(const struct dpif_xdp_rule *rule);

/* Returns the rule that matches 'key', or NULL.  Uses no cache and counts
 * nothing. */
struct dpif_xdp_rule *dpif_xdp_cls_lookup(const struct dpif_xdp_cls *,
                                          const struct dpif_xdp_key *key);

/* Stores the rules that match 'keys', of which there are 'n', at most
 * NETDEV_MAX_BURST, in 'rules', NULL where there is none, and counts in
 * '*stats'.  Returns true if all were found.
 *
 * 'cache' and '*stats' belong to the calling thread; others may only read
 * '*stats'.  If 'cache' is NULL, then '*stats' may be shared. */
bool dpif_xdp_cls_lookup_batch(struct dpif_xdp_cls *,
                               struct dpif_xdp_cache *cache,
                               struct dpif_xdp_key *keys[], size_t n,
                               struct dpif_xdp_rule *rules[],
                               struct dpif_xdp_cls_stats *stats);

/* Sorts the masks by their use.  Meant to be called once a second. */
void dpif_xdp_cls_optimize(struct dpif_xdp_cls *);

/* Return the numbers of distinct masks, and of rules. */
uint32_t dpif_xdp_cls_n_masks(const struct dpif_xdp_cls *);
uint32_t dpif_xdp_cls_n_rules(const struct dpif_xdp_cls *);

/* Extracts '*key' from 'packet', whose metadata must be valid, and sets the
 * packet's layer offsets and, if it has none, its RSS hash. */
void dpif_xdp_key_from_packet(struct dp_packet *packet,
                              struct dpif_xdp_key *key,
                              uint32_t recirc_depth);
void dpif_xdp_key_from_flow(const struct flow *, struct dpif_xdp_key *);

/* Returns a cache for one thread and one struct dpif_xdp_cls, to be freed by
 * the caller.  It starts small and grows up to 'max_entries', rounded up to a
 * power of 2, of 8 bytes each.  Returns NULL, which stands for no cache, if
 * 'max_entries' is 0. */
struct dpif_xdp_cache *dpif_xdp_cache_create(size_t max_entries);
void dpif_xdp_cache_destroy(struct dpif_xdp_cache *);

/* Adds '*src', to which its thread may be counting, to '*dst', to which
 * others may be adding. */
void dpif_xdp_cls_stats_add(struct dpif_xdp_cls_stats *dst,
                            const struct dpif_xdp_cls_stats *src);

#endif /* ovs/lookup/lookup.h */
