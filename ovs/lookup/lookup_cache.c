/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/lookup/lookup_private.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "hash.h"

/* Entries of a new cache. */
#define INITIAL_ENTRIES 4096

/* Above these, data is fetched for the whole burst before it is used. */
#define PREFETCH_MIN_SETS 2048
#define PREFETCH_MIN_RULES 4096

/* In a cache that cannot grow, one of that many new entries replaces another,
 * so that short flows do not push out the long ones. */
#define REPLACE_INTERVAL 4

/* One in that many bursts counts towards the order of the masks. */
#define SAMPLE_INTERVAL 16

/* Keys whose hashes end alike. */
#define WAYS 4
struct cache_set {
    OVS_ALIGNED_VAR(16) uint32_t signatures[WAYS]; /* Hashes. */
    uint32_t indexes[WAYS];             /* In 'cls->rules'; 0: free. */
};

struct dpif_xdp_cache {
    struct cache_set *sets;
    size_t mask;                        /* Number of sets - 1. */
    size_t max_mask;
    size_t n_full;                      /* Sets found full since growing. */
    uint32_t random;
    uint32_t n_bursts;
    struct shapes shapes;
};

static void prefetch(const struct search *);
static struct dpif_xdp_rule *find_slowly(const struct search *,
                                          const struct cache_set *,
                                          unsigned int ways,
                                          const struct dpif_xdp_key *);
static void grow(struct dpif_xdp_cache *, const struct dpif_xdp_rules *);

struct dpif_xdp_cache *
dpif_xdp_cache_create(size_t max_entries)
{
    struct dpif_xdp_cache *cache;
    size_t max_sets, n_sets;

    if (!max_entries) {
        return NULL;
    }
    max_sets = DIV_ROUND_UP(ROUND_UP_POW2(max_entries), WAYS);
    n_sets = MIN(max_sets, INITIAL_ENTRIES / WAYS);

    cache = xzalloc_cacheline(sizeof *cache);
    cache->sets = xzalloc_cacheline(n_sets * sizeof *cache->sets);
    cache->mask = n_sets - 1;
    cache->max_mask = max_sets - 1;
    return cache;
}

void
dpif_xdp_cache_destroy(struct dpif_xdp_cache *cache)
{
    if (cache) {
        free_cacheline(cache->sets);
        free_cacheline(cache);
    }
}

/* Returns shapes with room for those of a burst. */
struct shapes *
dpif_xdp_cache_shapes(struct dpif_xdp_cache *cache)
{
    struct shapes *shapes = &cache->shapes;

    if (shapes->n > ARRAY_SIZE(shapes->shapes) - NETDEV_MAX_BURST) {
        shapes->n = 0;
    }
    return shapes;
}

/* Shall this burst count towards the order of the masks?  Threads share the
 * counters, so that counting all would slow them down. */
bool
dpif_xdp_cache_samples(struct dpif_xdp_cache *cache)
{
    return cache->n_bursts++ % SAMPLE_INTERVAL == 0;
}

static inline struct cache_set *
cache_set(const struct dpif_xdp_cache *cache, uint32_t hash)
{
    return &cache->sets[hash & cache->mask];
}

/* Returns a bit for each way of 'set' with signature 'hash'. */
static inline unsigned int
cache_set_ways(const struct cache_set *set, uint32_t hash)
{
    const uint32_t *s = set->signatures;

    BUILD_ASSERT_DECL(WAYS == 4);
#ifdef __SSE2__
    __m128i equal = _mm_cmpeq_epi32(_mm_load_si128((const __m128i *) s),
                                    _mm_set1_epi32(hash));

    return _mm_movemask_ps(_mm_castsi128_ps(equal));
#else
    return ((s[0] == hash) | (s[1] == hash) << 1
            | (s[2] == hash) << 2 | (s[3] == hash) << 3);
#endif
}

/* Looks all keys of 'search' up and leaves those that are not cached. */
void
dpif_xdp_cache_search(struct search *search)
{
    const struct dpif_xdp_rules *all = search->all;
    const struct cache_set *sets = search->cache->sets;
    size_t mask = search->cache->mask;
    struct dpif_xdp_key **keys = search->keys;
    struct dpif_xdp_rule **rules = search->rules;
    struct dpif_xdp_rule *rule = NULL;
    uint32_t hash = 0;                  /* Of the key that led to 'rule'. */
    size_t n_todo = 0;

    if (mask >= PREFETCH_MIN_SETS || all->n >= PREFETCH_MIN_RULES) {
        prefetch(search);
    }
    for (size_t i = 0; i < search->n; i++) {
        const struct dpif_xdp_key *key = keys[i];
        const struct cache_set *set;
        unsigned int ways;

        /* Packets of a flow tend to follow each other. */
        if (rule && key->hash == hash && rule_matches(rule, key)) {
            rules[i] = rule;
            continue;
        }

        hash = key->hash;
        set = &sets[hash & mask];
        ways = cache_set_ways(set, hash);
        if (OVS_LIKELY(ways)) {
            rule = rule_at(all, set->indexes[raw_ctz(ways)]);
            if (OVS_LIKELY(rule) && OVS_LIKELY(rule_matches(rule, key))) {
                rules[i] = rule;
                continue;
            }
            rule = find_slowly(search, set, ways, key);
            if (rule) {
                rules[i] = rule;
                continue;
            }
        } else {
            rule = NULL;
        }
        search->todo[n_todo++] = i;
    }
    search->n = n_todo;
}

/* Each step fetches what the next one reads. */
static void
prefetch(const struct search *search)
{
    const struct dpif_xdp_rules *all = search->all;
    const struct dpif_xdp_cache *cache = search->cache;
    uint32_t indexes[NETDEV_MAX_BURST];

    for (size_t i = 0; i < search->n; i++) {
        OVS_PREFETCH(cache_set(cache, search->keys[i]->hash));
    }
    if (all->n < PREFETCH_MIN_RULES) {
        return;
    }
    for (size_t i = 0; i < search->n; i++) {
        uint32_t hash = search->keys[i]->hash;
        const struct cache_set *set = cache_set(cache, hash);
        unsigned int ways = cache_set_ways(set, hash);

        indexes[i] = ways ? set->indexes[raw_ctz(ways)] : 0;
        OVS_PREFETCH(&all->rules[indexes[i]]);
    }
    for (size_t i = 0; i < search->n; i++) {
        OVS_PREFETCH(rule_at(all, indexes[i]));
    }
}

static struct dpif_xdp_rule *
find_slowly(const struct search *search, const struct cache_set *set,
            unsigned int ways, const struct dpif_xdp_key *key)
{
    const struct shape *shape = dpif_xdp_shape_find(search->shapes, key);

    for (; ways; ways = zero_rightmost_1bit(ways)) {
        struct dpif_xdp_rule *rule
            = rule_at(search->all, set->indexes[raw_ctz(ways)]);

        if (rule && dpif_xdp_rule_matches_slowly(rule, shape, key)) {
            return rule;
        }
    }
    return NULL;
}

/* Remembers that the rule of 'index' matches a key with 'hash'. */
void
dpif_xdp_cache_insert(struct dpif_xdp_cache *cache,
                      const struct dpif_xdp_rules *all,
                      uint32_t hash, uint32_t index)
{
    struct cache_set *set = cache_set(cache, hash);
    size_t way = 0;

    /* A way whose rule was removed is as good as a free one. */
    while (way < WAYS && set->indexes[way]
           && !(set->signatures[way] == hash
                && !rule_at(all, set->indexes[way]))) {
        way++;
    }
    if (way == WAYS) {
        if (cache->mask < cache->max_mask) {
            if (++cache->n_full > cache->mask / 2) {
                grow(cache, all);
                dpif_xdp_cache_insert(cache, all, hash, index);
                return;
            }
        } else if (++cache->random % REPLACE_INTERVAL) {
            return;
        }
        cache->random = hash_finish(cache->random, hash);
        way = cache->random % WAYS;
    }
    set->signatures[way] = hash;
    set->indexes[way] = index;
}

/* Doubles the number of sets, dividing each among two. */
static void
grow(struct dpif_xdp_cache *cache, const struct dpif_xdp_rules *all)
{
    struct cache_set *old = cache->sets;
    size_t old_n = cache->mask + 1;

    cache->sets = xzalloc_cacheline(2 * old_n * sizeof *cache->sets);
    cache->mask = 2 * old_n - 1;
    cache->n_full = 0;
    for (size_t i = 0; i < old_n; i++) {
        for (size_t way = 0; way < WAYS; way++) {
            if (old[i].indexes[way]) {
                dpif_xdp_cache_insert(cache, all, old[i].signatures[way],
                                      old[i].indexes[way]);
            }
        }
    }
    free_cacheline(old);
}
