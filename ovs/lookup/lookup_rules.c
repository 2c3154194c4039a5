/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/lookup/lookup_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "random.h"

static struct subtable *subtable_get(struct dpif_xdp_cls *,
                                     const struct flow_wildcards *);
static uint32_t wc_hash(const struct flow_wildcards *);
static void subtable_insert(struct subtable *, struct dpif_xdp_rule *);
static void subtable_remove(struct subtable *, const struct dpif_xdp_rule *);
static void subtable_destroy(struct dpif_xdp_cls *, struct subtable *);
static struct dpif_xdp_rule *rule_find(const struct subtable *, uint64_t hash,
                                       const uint64_t values[]);
static void add_rules(struct dpif_xdp_cls *, uint32_t n);
static uint32_t index_alloc(struct dpif_xdp_cls *);
static bool is_simple(const struct flow_wildcards *);

void
dpif_xdp_cls_init(struct dpif_xdp_cls *cls)
{
    pvector_init(&cls->subtables);
    hmap_init(&cls->by_mask);
    ovsrcu_init(&cls->rules, NULL);
    atomic_init(&cls->n_rules, 0);
    cls->last = NULL;
    cls->generation = 0;
    cls->free_indexes = NULL;
    cls->n_free = 0;
    index_alloc(cls);
}

void
dpif_xdp_cls_destroy(struct dpif_xdp_cls *cls)
{
    ovs_assert(hmap_is_empty(&cls->by_mask));
    pvector_destroy(&cls->subtables);
    hmap_destroy(&cls->by_mask);
    free(cls->free_indexes);
    ovsrcu_postpone(free, ovsrcu_get_protected(struct dpif_xdp_rules *,
                                               &cls->rules));
}

struct subtable *
dpif_xdp_cls_subtable(struct dpif_xdp_cls *cls,
                      const struct flow_wildcards *wc)
{
    struct flow_wildcards exact;

    if (odp_to_u32(wc->masks.in_port.odp_port) != UINT32_MAX) {
        exact = *wc;
        WC_MASK_FIELD(&exact, in_port);
        wc = &exact;
    }
    return subtable_get(cls, wc);
}

struct dpif_xdp_rule *
dpif_xdp_cls_place(struct subtable *subtable, const struct flow *flow,
                   struct dpif_xdp_place *place)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < subtable->n_words; i++) {
        const struct mask_word *word = &subtable->words[i];

        place->values[i] = flow_u64_value(flow, word->word) & word->mask;
        hash = hash_word(hash, place->values[i], word);
    }
    place->subtable = subtable;
    place->hash = hash_end(hash);
    place->n_values = subtable->n_words;
    return rule_find(subtable, place->hash, place->values);
}

void
dpif_xdp_cls_insert(struct dpif_xdp_cls *cls, struct dpif_xdp_rule *rule,
                    const struct dpif_xdp_place *place, uint64_t *values)
{
    uint32_t index = index_alloc(cls);
    struct dpif_xdp_rules *all
        = ovsrcu_get_protected(struct dpif_xdp_rules *, &cls->rules);

    memcpy(values, place->values, place->n_values * sizeof values[0]);
    rule->values = values;
    rule->hash = place->hash;
    rule->subtable = place->subtable;
    rule->index = index;
    atomic_init(&rule->patterns, NULL);
    ovsrcu_set(&all->rules[index], rule);
    subtable_insert(place->subtable, rule);
    add_rules(cls, 1);
}

void
dpif_xdp_cls_remove(struct dpif_xdp_cls *cls, struct dpif_xdp_rule *rule)
{
    struct dpif_xdp_rules *all
        = ovsrcu_get_protected(struct dpif_xdp_rules *, &cls->rules);
    struct subtable *subtable = rule->subtable;

    ovsrcu_set(&all->rules[rule->index], NULL);
    cls->free_indexes[cls->n_free++] = rule->index;
    subtable_remove(subtable, rule);
    if (!subtable->n_rules) {
        subtable_destroy(cls, subtable);
    }
    add_rules(cls, -1);
}

static void
add_rules(struct dpif_xdp_cls *cls, uint32_t n)
{
    atomic_store_relaxed(&cls->n_rules, dpif_xdp_cls_n_rules(cls) + n);
}

void
dpif_xdp_rule_prefetch(const struct dpif_xdp_cls *cls,
                       const struct dpif_xdp_rule *rule)
{
    const struct dpif_xdp_rules *all
        = ovsrcu_get_protected(struct dpif_xdp_rules *, &cls->rules);
    const struct slots *slots
        = ovsrcu_get_protected(struct slots *, &rule->subtable->slots);

    OVS_PREFETCH_WRITE(&slots->slots[slot_first(slots, rule->hash)]);
    OVS_PREFETCH_WRITE(&all->rules[rule->index]);
}

void
dpif_xdp_rule_uninit(struct dpif_xdp_rule *rule)
{
    struct pattern *pattern, *next;

    atomic_read_relaxed(&rule->patterns, &pattern);
    for (; pattern; pattern = next) {
        next = pattern->next;
        free_cacheline(pattern);
    }
}

const struct flow_wildcards *
dpif_xdp_rule_wc(const struct dpif_xdp_rule *rule)
{
    return &rule->subtable->wc;
}

void **
dpif_xdp_rule_aux(const struct dpif_xdp_rule *rule)
{
    return &rule->subtable->aux;
}

bool
dpif_xdp_rule_is_simple(const struct dpif_xdp_rule *rule)
{
    return rule->subtable->simple;
}

void
dpif_xdp_cls_optimize(struct dpif_xdp_cls *cls)
{
    struct subtable *subtable;

    HMAP_FOR_EACH (subtable, node, &cls->by_mask) {
        unsigned int hits;
        int priority;

        atomic_and_relaxed(&subtable->hits, 0, &hits);
        priority = MIN(subtable->priority / 2 + (uint64_t) hits, INT_MAX);
        if (priority != subtable->priority) {
            subtable->priority = priority;
            pvector_change_priority(&cls->subtables, subtable, priority);
        }
    }
    pvector_publish(&cls->subtables);
}

uint32_t
dpif_xdp_cls_n_masks(const struct dpif_xdp_cls *cls)
{
    return pvector_count(&cls->subtables);
}

uint32_t
dpif_xdp_cls_n_rules(const struct dpif_xdp_cls *cls)
{
    uint32_t n;

    atomic_read_relaxed(&CONST_CAST(struct dpif_xdp_cls *, cls)->n_rules, &n);
    return n;
}

struct dpif_xdp_rule *
dpif_xdp_cls_next(const struct dpif_xdp_cls *cls, uint32_t *position)
{
    const struct dpif_xdp_rules *all = ovsrcu_get(struct dpif_xdp_rules *,
                                                  &cls->rules);
    struct dpif_xdp_rule *rule = NULL;

    while (!rule && ++*position < all->n) {
        rule = rule_at(all, *position);
    }
    return rule;
}

/* Returns an index that no rule has.  The first one is 0 and not used. */
static uint32_t
index_alloc(struct dpif_xdp_cls *cls)
{
    if (!cls->n_free) {
        struct dpif_xdp_rules *old
            = ovsrcu_get_protected(struct dpif_xdp_rules *, &cls->rules);
        size_t old_n = old ? old->n : 0;
        size_t n = old_n ? 2 * old_n : 64;
        struct dpif_xdp_rules *new
            = xzalloc(sizeof *new + n * sizeof new->rules[0]);

        new->n = n;
        cls->free_indexes = xrealloc(cls->free_indexes,
                                     n * sizeof *cls->free_indexes);
        for (size_t i = 0; i < old_n; i++) {
            ovsrcu_init(&new->rules[i],
                        ovsrcu_get_protected(struct dpif_xdp_rule *,
                                             &old->rules[i]));
        }
        while (n > old_n) {
            cls->free_indexes[cls->n_free++] = --n;
        }
        ovsrcu_set(&cls->rules, new);
        if (old) {
            ovsrcu_postpone(free, old);
        }
    }
    return cls->free_indexes[--cls->n_free];
}

/* A sum whose terms do not wait for each other. */
static uint32_t
wc_hash(const struct flow_wildcards *wc)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < FLOW_U64S; i++) {
        uint64_t word = flow_u64_value(&wc->masks, i);

        hash += ((word ^ word >> 32)
                 * (UINT64_C(0x9e3779b97f4a7c15) * (2 * i + 1)));
    }
    return hash ^ hash >> 32;
}

static struct subtable *
subtable_get(struct dpif_xdp_cls *cls, const struct flow_wildcards *wc)
{
    struct subtable *subtable = cls->last;
    struct slots *slots;
    size_t n_words = 0;
    uint32_t hash;

    if (subtable && !memcmp(&subtable->wc, wc, sizeof *wc)) {
        return subtable;
    }
    hash = wc_hash(wc);
    HMAP_FOR_EACH_WITH_HASH (subtable, node, hash, &cls->by_mask) {
        if (!memcmp(&subtable->wc, wc, sizeof *wc)) {
            cls->last = subtable;
            return subtable;
        }
    }
    for (size_t i = 0; i < FLOW_U64S; i++) {
        n_words += flow_u64_value(&wc->masks, i) != 0;
    }
    subtable = xzalloc_cacheline(sizeof *subtable
                                 + n_words * sizeof subtable->words[0]);
    subtable->wc = *wc;
    for (size_t i = 0; i < FLOW_U64S; i++) {
        uint64_t mask = flow_u64_value(&wc->masks, i);

        if (mask) {
            struct mask_word *word = &subtable->words[subtable->n_words++];

            word->mask = mask;
            word->word = i;
            random_bytes(&word->secret, sizeof word->secret);
        }
    }
    subtable->simple = is_simple(wc);
    slots = xzalloc_cacheline(sizeof *slots + sizeof slots->slots[0]);
    ovsrcu_init(&subtable->slots, slots);
    hmap_insert(&cls->by_mask, &subtable->node, hash);
    pvector_insert(&cls->subtables, subtable, 0);
    pvector_publish(&cls->subtables);
    return subtable;
}

static bool
is_simple(const struct flow_wildcards *wc)
{
    struct flow_wildcards rest = *wc;

    rest.masks.recirc_id = 0;
    rest.masks.in_port.odp_port = 0;
    rest.masks.packet_type = 0;
    rest.masks.dl_type = 0;
    rest.masks.vlans[0].tci = 0;
    rest.masks.nw_frag = 0;
    return flow_wildcards_equal(&rest, &(struct flow_wildcards) { 0 });
}

static void
subtable_free(struct subtable *subtable)
{
    free_cacheline(ovsrcu_get_protected(struct slots *, &subtable->slots));
    free(subtable->aux);
    free_cacheline(subtable);
}

static void
subtable_destroy(struct dpif_xdp_cls *cls, struct subtable *subtable)
{
    hmap_remove(&cls->by_mask, &subtable->node);
    cls->last = NULL;
    cls->generation++;
    pvector_remove(&cls->subtables, subtable);
    pvector_publish(&cls->subtables);
    ovsrcu_postpone(subtable_free, subtable);
}

static struct dpif_xdp_rule *
rule_find(const struct subtable *subtable, uint64_t hash,
          const uint64_t values[])
{
    const struct slots *slots = ovsrcu_get_protected(struct slots *,
                                                     &subtable->slots);

    for (size_t i = slot_first(slots, hash); slot_hash(slots, i);
         i = slot_next(slots, i)) {
        struct dpif_xdp_rule *rule
            = ovsrcu_get_protected(struct dpif_xdp_rule *,
                                   &slots->slots[i].rule);

        if (slot_hash(slots, i) == hash && rule
            && !memcmp(rule->values, values,
                       subtable->n_words * sizeof values[0])) {
            return rule;
        }
    }
    return NULL;
}

/* 'hash' is that of 'rule', which may be far away in memory. */
static void
slots_insert(struct slots *slots, struct dpif_xdp_rule *rule, uint64_t hash)
{
    size_t i = slot_first(slots, hash);

    while (slot_hash(slots, i)) {
        i = slot_next(slots, i);
    }
    ovsrcu_set(&slots->slots[i].rule, rule);
    atomic_store_explicit(&slots->slots[i].hash, hash, memory_order_release);
}

static void
subtable_insert(struct subtable *subtable, struct dpif_xdp_rule *rule)
{
    struct slots *old = ovsrcu_get_protected(struct slots *, &subtable->slots);

    if (2 * (subtable->n_used + 1) > old->mask + 1) {
        size_t n = ROUND_UP_POW2(4 * (subtable->n_rules + 1));
        struct slots *new = xzalloc_cacheline(sizeof *new
                                              + n * sizeof new->slots[0]);

        new->mask = n - 1;
        for (size_t i = 0; i <= old->mask; i++) {
            struct dpif_xdp_rule *moved
                = ovsrcu_get_protected(struct dpif_xdp_rule *,
                                       &old->slots[i].rule);

            if (moved) {
                slots_insert(new, moved, slot_hash(old, i));
            }
        }
        ovsrcu_set(&subtable->slots, new);
        ovsrcu_postpone(free_cacheline, old);
        subtable->n_used = subtable->n_rules;
        old = new;
    }
    slots_insert(old, rule, rule->hash);
    subtable->n_used++;
    subtable->n_rules++;
}

static void
subtable_remove(struct subtable *subtable, const struct dpif_xdp_rule *rule)
{
    struct slots *slots = ovsrcu_get_protected(struct slots *,
                                               &subtable->slots);
    size_t i = slot_first(slots, rule->hash);

    while (ovsrcu_get_protected(struct dpif_xdp_rule *,
                                &slots->slots[i].rule) != rule) {
        i = slot_next(slots, i);
    }
    ovsrcu_set(&slots->slots[i].rule, NULL);
    subtable->n_rules--;

    /* No search has to get past slots that only a free one follows. */
    if (!slot_hash(slots, slot_next(slots, i))) {
        while (slot_hash(slots, i)
               && !ovsrcu_get_protected(struct dpif_xdp_rule *,
                                        &slots->slots[i].rule)) {
            atomic_store_relaxed(&slots->slots[i].hash, 0);
            subtable->n_used--;
            i = (i - 1) & slots->mask;
        }
    }
}
