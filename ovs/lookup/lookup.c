/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/lookup/lookup_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

static void search_subtable(struct search *, struct subtable *, bool count);
static struct dpif_xdp_rule *subtable_find(const struct subtable *,
                                            const struct slots *,
                                            const struct shape *,
                                            const struct dpif_xdp_key *,
                                            uint64_t hash);
static uint64_t hash_key(const struct subtable *, size_t n_words,
                         const struct shape *, const struct dpif_xdp_key *);
static void stats_count(struct dpif_xdp_cls_stats *,
                        const struct dpif_xdp_cls_stats *, bool shared);

bool
dpif_xdp_cls_lookup_batch(struct dpif_xdp_cls *cls,
                          struct dpif_xdp_cache *cache,
                          struct dpif_xdp_key *keys[], size_t n,
                          struct dpif_xdp_rule *rules[],
                          struct dpif_xdp_cls_stats *stats)
{
    struct dpif_xdp_cls_stats add = { .n_cache_hit = 0 };
    struct search search;
    struct shapes shapes;

    search.keys = keys;
    search.rules = rules;
    search.all = ovsrcu_get(struct dpif_xdp_rules *, &cls->rules);
    search.cache = cache;
    search.n = n;
    if (cache) {
        search.shapes = dpif_xdp_cache_shapes(cache);
        dpif_xdp_cache_search(&search);
        add.n_cache_hit = n - search.n;
    } else {
        shapes.n = 0;
        search.shapes = &shapes;
        for (size_t i = 0; i < n; i++) {
            search.todo[i] = i;
        }
    }

    if (search.n) {
        struct pvector_cursor cursor
            = pvector_cursor_init(&cls->subtables, 0, 0);
        bool count = !cache || dpif_xdp_cache_samples(cache);
        struct subtable *subtable;

        while (search.n
               && (subtable = pvector_cursor_next(&cursor, INT_MIN, 0, 0))) {
            add.n_mask_walk += search.n;
            search_subtable(&search, subtable, count);
        }
        for (size_t i = 0; i < search.n; i++) {
            rules[search.todo[i]] = NULL;
        }
    }

    add.n_miss = search.n;
    add.n_table_hit = n - add.n_cache_hit - add.n_miss;
    stats_count(stats, &add, !cache);
    return !add.n_miss;
}

struct dpif_xdp_rule *
dpif_xdp_cls_lookup(const struct dpif_xdp_cls *cls,
                    const struct dpif_xdp_key *key)
{
    struct subtable *subtable;
    struct shape shape;

    dpif_xdp_shape_init(&shape, &key->mf.map);
    PVECTOR_FOR_EACH (subtable, &cls->subtables) {
        const struct slots *slots = ovsrcu_get(struct slots *,
                                               &subtable->slots);
        uint64_t hash = hash_key(subtable, subtable->n_words, &shape, key);
        struct dpif_xdp_rule *rule = subtable_find(subtable, slots, &shape,
                                                     key, hash);

        if (rule) {
            return rule;
        }
    }
    return NULL;
}

/* Looks for the keys of 'search' among the rules with one mask and leaves
 * those without.  'n_words' is 'subtable->n_words', perhaps as a constant. */
static inline void ALWAYS_INLINE
search_subtable__(struct search *search, struct subtable *subtable,
                  size_t n_words, bool count)
{
    const struct slots *slots = ovsrcu_get(struct slots *, &subtable->slots);
    const struct shape *shapes[NETDEV_MAX_BURST];
    struct dpif_xdp_rule *found[NETDEV_MAX_BURST];
    uint64_t hashes[NETDEV_MAX_BURST];
    size_t n = search->n;

    for (size_t j = 0; j < n; j++) {
        const struct dpif_xdp_key *key = search->keys[search->todo[j]];

        shapes[j] = (j && flowmap_equal(shapes[j - 1]->map, key->mf.map)
                     ? shapes[j - 1]
                     : dpif_xdp_shape_find(search->shapes, key));
        hashes[j] = hash_key(subtable, n_words, shapes[j], key);
        OVS_PREFETCH(&slots->slots[slot_first(slots, hashes[j])]);
    }
    for (size_t j = 0; j < n; j++) {
        size_t i = slot_first(slots, hashes[j]);
        uint64_t hash;

        /* A removed rule may leave its hash in front of its successor. */
        found[j] = NULL;
        while (!found[j] && (hash = slot_hash(slots, i))) {
            if (hash == hashes[j]) {
                found[j] = ovsrcu_get(struct dpif_xdp_rule *,
                                      &slots->slots[i].rule);
            }
            i = slot_next(slots, i);
        }
        if (found[j]) {
            OVS_PREFETCH(found[j]);
        }
    }

    search->n = 0;
    for (size_t j = 0; j < n; j++) {
        struct dpif_xdp_rule *rule = found[j];
        size_t i = search->todo[j];
        const struct dpif_xdp_key *key = search->keys[i];

        if (rule && !rule_matches(rule, key)
            && !dpif_xdp_rule_matches_slowly(rule, shapes[j], key)) {
            rule = subtable_find(subtable, slots, shapes[j], key, hashes[j]);
        }
        if (rule) {
            search->rules[i] = rule;
            if (search->cache) {
                dpif_xdp_cache_insert(search->cache, search->all,
                                      key->hash, rule->index);
            }
        } else {
            search->todo[search->n++] = i;
        }
    }
    if (count && search->n < n) {
        unsigned int orig;

        atomic_add_relaxed(&subtable->hits, n - search->n, &orig);
    }
}

static void
search_subtable(struct search *search, struct subtable *subtable, bool count)
{
    switch (subtable->n_words) {
#define CASE(N)                                                     \
    case N:                                                         \
        search_subtable__(search, subtable, N, count);              \
        break
    CASE(1);
    CASE(2);
    CASE(3);
    CASE(4);
    CASE(5);
    CASE(6);
    CASE(7);
    CASE(8);
    CASE(9);
    CASE(10);
    default:
        search_subtable__(search, subtable, subtable->n_words, count);
        break;
#undef CASE
    }
}

static struct dpif_xdp_rule *
subtable_find(const struct subtable *subtable, const struct slots *slots,
              const struct shape *shape, const struct dpif_xdp_key *key,
              uint64_t hash)
{
    size_t i = slot_first(slots, hash);
    uint64_t found;

    while ((found = slot_hash(slots, i))) {
        if (found == hash) {
            struct dpif_xdp_rule *rule
                = ovsrcu_get(struct dpif_xdp_rule *, &slots->slots[i].rule);

            if (rule && dpif_xdp_rule_matches_slowly(rule, shape, key)) {
                return rule;
            }
        }
        i = slot_next(slots, i);
    }
    return NULL;
}

static inline uint64_t
hash_key(const struct subtable *subtable, size_t n_words,
         const struct shape *shape, const struct dpif_xdp_key *key)
{
    const struct mask_word *words = subtable->words;
    uint64_t hash = 0;

    for (size_t i = 0; i < n_words; i++) {
        hash = hash_word(hash, key_word(key, shape, &words[i]), &words[i]);
    }
    return hash_end(hash);
}

/* Hash of what is neither IP nor ARP by miniflow_hash_5tuple(). */
#define NO_TUPLE_HASH hash_finish(0, 42)

static void
key_init(struct dpif_xdp_key *key, uint32_t hash)
{
    if (OVS_UNLIKELY(hash == NO_TUPLE_HASH)) {
        hash = hash_add64(hash, miniflow_get(&key->mf,
                                             FLOW_U64_OFFSET(dl_dst)));
        hash = hash_add64(hash, miniflow_get(&key->mf,
                                             FLOW_U64_OFFSET(dl_type)));
        hash = hash_finish(hash, 42);
    }
    key->zero = 0;
    key->hash = hash;
    key->pad = 0;
}

void
dpif_xdp_key_from_packet(struct dp_packet *packet, struct dpif_xdp_key *key,
                         uint32_t recirc_depth)
{
    uint32_t hash;

    miniflow_extract(packet, &key->mf);
    /* The hash of a packet that comes again is that of the headers that it has
     * now, as in programs: by it, groups choose buckets (dp/rss.h). */
    if (OVS_LIKELY(dp_packet_rss_valid(packet) && !recirc_depth)) {
        hash = dp_packet_get_rss_hash(packet);
    } else {
        hash = miniflow_hash_5tuple(&key->mf, 0);
        dp_packet_set_rss_hash(packet, hash);
    }
    key_init(key, recirc_depth ? hash_finish(hash, recirc_depth) : hash);
}

void
dpif_xdp_key_from_flow(const struct flow *flow, struct dpif_xdp_key *key)
{
    miniflow_map_init(&key->mf, flow);
    miniflow_init(&key->mf, flow);
    key_init(key, miniflow_hash_5tuple(&key->mf, 0));
}

static void
stats_count(struct dpif_xdp_cls_stats *dst,
            const struct dpif_xdp_cls_stats *src, bool shared)
{
    uint64_t *d = (uint64_t *) dst;
    const uint64_t *s = (const uint64_t *) src;

    for (size_t i = 0; i < sizeof *dst / sizeof *d; i++) {
        uint64_t n = __atomic_load_n(&s[i], __ATOMIC_RELAXED);

        if (shared) {
            __atomic_fetch_add(&d[i], n, __ATOMIC_RELAXED);
        } else {
            __atomic_store_n(&d[i], d[i] + n, __ATOMIC_RELAXED);
        }
    }
}

void
dpif_xdp_cls_stats_add(struct dpif_xdp_cls_stats *dst,
                       const struct dpif_xdp_cls_stats *src)
{
    stats_count(dst, src, true);
}
