/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of keys, and what rules learn about keys of one. */
#include <config.h>

#include "ovs/lookup/lookup_private.h"

#include <string.h>

/* Patterns of a rule, for keys of that many different shapes. */
#define MAX_PATTERNS 4

/* Adds a pattern for 'shape' to 'rule', which matches a key of it. */
static void
rule_learn(struct dpif_xdp_rule *rule, const struct shape *shape)
{
    const struct subtable *subtable = rule->subtable;
    const size_t first = offsetof(struct dpif_xdp_key, mf) / sizeof(uint64_t);
    size_t n_words = (sizeof(struct miniflow) / sizeof(uint64_t)
                      + flowmap_n_1bits(shape->map));
    size_t n = MAX(PATTERN_MIN_PAIRS, DIV_ROUND_UP(n_words, 2));
    struct pattern *old, *new;
    size_t n_old = 0;

    BUILD_ASSERT_DECL(sizeof shape->map == sizeof(two_words));

    atomic_read_explicit(&rule->patterns, &old, memory_order_consume);
    for (const struct pattern *p = old; p; p = p->next) {
        if (++n_old >= MAX_PATTERNS
            || !memcmp(&p->pairs[0].value, &shape->map, sizeof shape->map)) {
            return;
        }
    }

    new = xzalloc_cacheline(sizeof *new + n * sizeof new->pairs[0]);
    new->next = old;
    new->n = n;
    memset(&new->pairs[0].mask, 0xff, sizeof shape->map);
    memcpy(&new->pairs[0].value, &shape->map, sizeof shape->map);
    for (size_t i = 0; i < subtable->n_words; i++) {
        size_t position = shape->position[subtable->words[i].word];

        if (position) {
            position -= first;
            new->pairs[position / 2].mask[position % 2]
                = subtable->words[i].mask;
            new->pairs[position / 2].value[position % 2] = rule->values[i];
        }
    }
    if (!atomic_compare_exchange_strong_explicit(&rule->patterns, &old, new,
                                                 memory_order_release,
                                                 memory_order_relaxed)) {
        free_cacheline(new);
    }
}

/* Compares 'key', whose shape is 'shape', word by word with 'rule', so that
 * rule_matches() can do it next time. */
bool
dpif_xdp_rule_matches_slowly(struct dpif_xdp_rule *rule,
                              const struct shape *shape,
                              const struct dpif_xdp_key *key)
{
    const struct subtable *subtable = rule->subtable;

    for (size_t i = 0; i < subtable->n_words; i++) {
        if (key_word(key, shape, &subtable->words[i]) != rule->values[i]) {
            return false;
        }
    }
    rule_learn(rule, shape);
    return true;
}

void
dpif_xdp_shape_init(struct shape *shape, const struct flowmap *map)
{
    size_t position = offsetof(struct dpif_xdp_key, buf) / sizeof(uint64_t);
    size_t word;

    BUILD_ASSERT_DECL(offsetof(struct dpif_xdp_key, zero) == 0);
    BUILD_ASSERT_DECL(offsetof(struct dpif_xdp_key, buf)
                      == offsetof(struct dpif_xdp_key, mf)
                         + sizeof(struct miniflow));
    BUILD_ASSERT_DECL(sizeof(struct dpif_xdp_key) / sizeof(uint64_t)
                      <= UINT8_MAX);

    shape->map = *map;
    memset(shape->position, 0, sizeof shape->position);
    FLOWMAP_FOR_EACH_INDEX (word, *map) {
        shape->position[word] = position++;
    }
}

const struct shape *
dpif_xdp_shape_find(struct shapes *shapes, const struct dpif_xdp_key *key)
{
    size_t i;

    for (i = 0; i < shapes->n; i++) {
        if (flowmap_equal(shapes->shapes[i].map, key->mf.map)) {
            return &shapes->shapes[i];
        }
    }
    shapes->n++;
    dpif_xdp_shape_init(&shapes->shapes[i], &key->mf.map);
    return &shapes->shapes[i];
}
