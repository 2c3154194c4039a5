/* SPDX-License-Identifier: Apache-2.0 */
/* What the sources of lookup.h share.
 *
 *   lookup.c        a burst: cache, then masks; also keys and statistics
 *   lookup_cache.c  the signature cache of a thread
 *   lookup_shape.c  where the words of a key are, and what rules learn of it
 *   lookup_rules.c  writers: rules, tables, order of the masks
 *
 * Writers: struct subtable, slots and rules the one writer, in place and
 * atomically or through RCU; patterns the readers, once; everything else only
 * the thread that it belongs to. */
#ifndef DPIF_XDP_LOOKUP_PRIVATE_H
#define DPIF_XDP_LOOKUP_PRIVATE_H 1

#include "dp-packet.h"
#include "ovs/lookup/lookup.h"
#include "ovs-atomic.h"
#include "util.h"

/* One 64-bit word of a mask. */
struct mask_word {
    uint64_t mask;
    uint64_t secret;                    /* Random, for the hash. */
    size_t word;                        /* Index in struct flow. */
};

/* The rules with one mask. */
struct subtable {
    OVSRCU_TYPE(struct slots *) slots;
    size_t n_words;
    bool simple;                        /* dpif_xdp_rule_is_simple(). */

    struct hmap_node node;              /* In 'cls->by_mask'. */
    size_t n_used;                      /* Slots that are not free. */
    size_t n_rules;
    int priority;                       /* In 'cls->subtables'. */
    void *aux;                          /* dpif_xdp_rule_aux(). */
    struct flow_wildcards wc;

    OVS_ALIGNED_VAR(CACHE_LINE_SIZE) atomic_uint hits; /* Since last sort. */

    OVS_ALIGNED_VAR(CACHE_LINE_SIZE) struct mask_word words[];
};

/* An open-addressed hash table: a miss reads one cache line.  A slot gets its
 * rule before its hash, and when it loses its rule keeps its hash as long
 * as searches have to get past it. */
struct slots {
    size_t mask;                        /* Number of slots - 1. */
    struct slot {
        atomic_uint64_t hash;           /* 0: free, ends a search. */
        OVSRCU_TYPE(struct dpif_xdp_rule *) rule;
    } slots[];
};

/* All rules, by a number that caches can keep: unlike a stale pointer, a stale
 * number is harmless. */
struct dpif_xdp_rules {
    size_t n;
    OVSRCU_TYPE(struct dpif_xdp_rule *) rules[]; /* [0] is NULL. */
};

/* Where the words of struct flow are in a key.  Depends only on the map of
 * the key's miniflow, of which traffic has just a few. */
struct shape {
    struct flowmap map;
    uint8_t position[ROUND_UP(FLOW_U64S, 8)]; /* In words from the start of
                                               * struct dpif_xdp_key. */
};

struct shapes {
    size_t n;
    struct shape shapes[2 * NETDEV_MAX_BURST];
};

/* A rule's mask and values in the order of the miniflows of one shape, so
 * that a key can be compared from front to back, two words at a time. */
typedef uint64_t two_words __attribute__((vector_size(16), may_alias));
typedef uint64_t two_key_words
    __attribute__((vector_size(16), may_alias, aligned(8)));

#define PATTERN_MIN_PAIRS 4

struct pattern {
    struct pattern *next;
    size_t n;                           /* At least PATTERN_MIN_PAIRS. */
    struct {
        two_words mask, value;
    } pairs[];                          /* The miniflow's map comes first. */
};

/* The keys of a burst that are still looked for. */
struct search {
    struct dpif_xdp_key **keys;
    struct dpif_xdp_rule **rules;       /* Results. */
    struct shapes *shapes;
    const struct dpif_xdp_rules *all;
    struct dpif_xdp_cache *cache;       /* May be NULL. */
    size_t n;
    uint8_t todo[NETDEV_MAX_BURST];     /* Indexes in 'keys' and 'rules'. */
};

/* lookup_shape.c */
void dpif_xdp_shape_init(struct shape *, const struct flowmap *);
const struct shape *dpif_xdp_shape_find(struct shapes *,
                                        const struct dpif_xdp_key *);
bool dpif_xdp_rule_matches_slowly(struct dpif_xdp_rule *,
                                  const struct shape *,
                                  const struct dpif_xdp_key *);

/* lookup_cache.c */
struct shapes *dpif_xdp_cache_shapes(struct dpif_xdp_cache *);
bool dpif_xdp_cache_samples(struct dpif_xdp_cache *);
void dpif_xdp_cache_search(struct search *);
void dpif_xdp_cache_insert(struct dpif_xdp_cache *,
                           const struct dpif_xdp_rules *, uint32_t hash,
                           uint32_t index);

static inline uint64_t
key_word(const struct dpif_xdp_key *key, const struct shape *shape,
         const struct mask_word *word)
{
    return ((const uint64_t *) key)[shape->position[word->word]] & word->mask;
}

/* Compares 'key' with the patterns of 'rule'.  False may also mean that it
 * has none for keys like this. */
static inline bool
rule_matches(struct dpif_xdp_rule *rule, const struct dpif_xdp_key *key)
{
    const two_key_words *words = (const two_key_words *) &key->mf;
    const struct pattern *p;

#define DIFFERENCE(I) ((words[I] & p->pairs[I].mask) ^ p->pairs[I].value)
    atomic_read_explicit(&rule->patterns, &p, memory_order_consume);
    for (; p; p = p->next) {
        two_words difference = (DIFFERENCE(0) | DIFFERENCE(1)
                                | DIFFERENCE(2) | DIFFERENCE(3));

        for (size_t i = PATTERN_MIN_PAIRS; i < p->n; i++) {
            difference |= DIFFERENCE(i);
        }
        if (OVS_LIKELY(!(difference[0] | difference[1]))) {
            return true;
        }
    }
#undef DIFFERENCE
    return false;
}

static inline struct dpif_xdp_rule *
rule_at(const struct dpif_xdp_rules *all, uint32_t index)
{
    return (OVS_LIKELY(index < all->n)
            ? ovsrcu_get(struct dpif_xdp_rule *, &all->rules[index])
            : NULL);
}

/* The hash of the masked words of a key: a sum of products of halves, whose
 * multiplications do not wait for each other. */
static inline uint64_t
hash_word(uint64_t hash, uint64_t value, const struct mask_word *word)
{
    uint64_t x = value + word->secret;

    return hash + (x & UINT32_MAX) * (x >> 32);
}

static inline uint64_t
hash_end(uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return hash | 1;                    /* 0 means free. */
}

static inline size_t
slot_first(const struct slots *slots, uint64_t hash)
{
    return (hash >> 32) & slots->mask;
}

static inline size_t
slot_next(const struct slots *slots, size_t i)
{
    return (i + 1) & slots->mask;
}

static inline uint64_t
slot_hash(const struct slots *slots, size_t i)
{
    uint64_t hash;

    atomic_read_relaxed(&CONST_CAST(struct slots *, slots)->slots[i].hash,
                        &hash);
    return hash;
}

#endif /* ovs/lookup/lookup_private.h */
