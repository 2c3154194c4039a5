/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "lookup_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "openvswitch/match.h"
#include "random.h"

static struct subtable *subtable_get(struct dpif_xdp_cls *,
                                     const struct flow_wildcards *);
static uint32_t wc_hash(const struct flow_wildcards *);
static void subtable_insert(struct subtable *, struct dpif_xdp_entry *);
static void subtable_remove(struct subtable *, const struct dpif_xdp_entry *);
static void subtable_destroy(struct dpif_xdp_cls *, struct subtable *);
static struct dpif_xdp_entry *entry_find(const struct subtable *,
                                         uint64_t hash,
                                         const uint64_t values[]);
static struct dpif_xdp_entry *entry_create(struct subtable *,
                                           struct dpif_xdp_rule *,
                                           uint64_t hash,
                                           const uint64_t values[]);
static uint32_t index_alloc(struct dpif_xdp_cls *);
static bool is_simple(const struct flow_wildcards *);

void
dpif_xdp_cls_init(struct dpif_xdp_cls *cls)
{
    pvector_init(&cls->subtables);
    hmap_init(&cls->by_mask);
    ovsrcu_init(&cls->entries, NULL);
    cls->last = NULL;
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
    ovsrcu_postpone(free, ovsrcu_get_protected(struct dpif_xdp_entries *,
                                               &cls->entries));
}

struct dpif_xdp_rule *
dpif_xdp_cls_insert(struct dpif_xdp_cls *cls, struct dpif_xdp_rule *rule,
                    const struct match *match)
{
    struct flow_wildcards wc = match->wc;
    struct dpif_xdp_entries *entries;
    struct dpif_xdp_entry *entry;
    struct subtable *subtable;
    uint64_t values[FLOW_U64S];
    uint64_t hash = 0;

    WC_MASK_FIELD(&wc, in_port);
    subtable = subtable_get(cls, &wc);
    for (size_t i = 0; i < subtable->n_words; i++) {
        const struct mask_word *word = &subtable->words[i];

        values[i] = flow_u64_value(&match->flow, word->word) & word->mask;
        hash = hash_word(hash, values[i], word);
    }
    hash = hash_end(hash);
    entry = entry_find(subtable, hash, values);
    if (entry) {
        return entry->rule;
    }

    entry = entry_create(subtable, rule, hash, values);
    entry->index = index_alloc(cls);
    entries = ovsrcu_get_protected(struct dpif_xdp_entries *, &cls->entries);
    ovsrcu_set(&entries->entries[entry->index], entry);
    rule->entry = entry;
    subtable_insert(subtable, entry);
    return NULL;
}

void
dpif_xdp_cls_remove(struct dpif_xdp_cls *cls, struct dpif_xdp_rule *rule)
{
    struct dpif_xdp_entries *entries
        = ovsrcu_get_protected(struct dpif_xdp_entries *, &cls->entries);
    struct dpif_xdp_entry *entry = rule->entry;
    struct subtable *subtable = entry->subtable;

    ovsrcu_set(&entries->entries[entry->index], NULL);
    cls->free_indexes[cls->n_free++] = entry->index;
    subtable_remove(subtable, entry);
    if (!subtable->n_rules) {
        subtable_destroy(cls, subtable);
    }
}

void
dpif_xdp_rule_prefetch(const struct dpif_xdp_rule *rule)
{
    OVS_PREFETCH(rule->entry);
}

void
dpif_xdp_rule_prefetch_slot(const struct dpif_xdp_cls *cls,
                            const struct dpif_xdp_rule *rule)
{
    const struct dpif_xdp_entries *entries
        = ovsrcu_get_protected(struct dpif_xdp_entries *, &cls->entries);
    const struct dpif_xdp_entry *entry = rule->entry;
    const struct slots *slots
        = ovsrcu_get_protected(struct slots *, &entry->subtable->slots);

    OVS_PREFETCH_WRITE(&slots->slots[slot_first(slots, entry->hash)]);
    OVS_PREFETCH_WRITE(&entries->entries[entry->index]);
}

void
dpif_xdp_rule_uninit(struct dpif_xdp_rule *rule)
{
    struct pattern *pattern, *next;

    atomic_read_relaxed(&rule->entry->patterns, &pattern);
    for (; pattern; pattern = next) {
        next = pattern->next;
        free_cacheline(pattern);
    }
    free_cacheline(rule->entry);
}

void
dpif_xdp_rule_mask(const struct dpif_xdp_rule *rule, struct flow_wildcards *wc)
{
    *wc = rule->entry->subtable->wc;
}

bool
dpif_xdp_rule_is_simple(const struct dpif_xdp_rule *rule)
{
    return rule->entry->subtable->simple;
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

/* Returns an index whose entry is free.  The first one is 0 and not used. */
static uint32_t
index_alloc(struct dpif_xdp_cls *cls)
{
    if (!cls->n_free) {
        struct dpif_xdp_entries *old
            = ovsrcu_get_protected(struct dpif_xdp_entries *, &cls->entries);
        size_t old_n = old ? old->n : 0;
        size_t n = old_n ? 2 * old_n : 64;
        struct dpif_xdp_entries *new
            = xzalloc(sizeof *new + n * sizeof new->entries[0]);

        new->n = n;
        cls->free_indexes = xrealloc(cls->free_indexes,
                                     n * sizeof *cls->free_indexes);
        for (size_t i = 0; i < old_n; i++) {
            ovsrcu_init(&new->entries[i],
                        ovsrcu_get_protected(struct dpif_xdp_entry *,
                                             &old->entries[i]));
        }
        while (n > old_n) {
            cls->free_indexes[cls->n_free++] = --n;
        }
        ovsrcu_set(&cls->entries, new);
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
    free_cacheline(subtable);
}

static void
subtable_destroy(struct dpif_xdp_cls *cls, struct subtable *subtable)
{
    hmap_remove(&cls->by_mask, &subtable->node);
    cls->last = NULL;
    pvector_remove(&cls->subtables, subtable);
    pvector_publish(&cls->subtables);
    ovsrcu_postpone(subtable_free, subtable);
}

static struct dpif_xdp_entry *
entry_find(const struct subtable *subtable, uint64_t hash,
           const uint64_t values[])
{
    const struct slots *slots = ovsrcu_get_protected(struct slots *,
                                                     &subtable->slots);

    for (size_t i = slot_first(slots, hash); slot_hash(slots, i);
         i = slot_next(slots, i)) {
        struct dpif_xdp_entry *entry
            = ovsrcu_get_protected(struct dpif_xdp_entry *,
                                   &slots->slots[i].entry);

        if (slot_hash(slots, i) == hash && entry
            && !memcmp(entry->values, values,
                       subtable->n_words * sizeof values[0])) {
            return entry;
        }
    }
    return NULL;
}

static struct dpif_xdp_entry *
entry_create(struct subtable *subtable, struct dpif_xdp_rule *rule,
             uint64_t hash, const uint64_t values[])
{
    size_t size = subtable->n_words * sizeof values[0];
    struct dpif_xdp_entry *entry = xmalloc_cacheline(sizeof *entry + size);

    memcpy(entry->values, values, size);
    entry->hash = hash;
    entry->rule = rule;
    entry->subtable = subtable;
    atomic_init(&entry->patterns, NULL);
    return entry;
}

/* 'hash' is that of 'entry', which may be far away in memory. */
static void
slots_insert(struct slots *slots, struct dpif_xdp_entry *entry, uint64_t hash)
{
    size_t i = slot_first(slots, hash);

    while (slot_hash(slots, i)) {
        i = slot_next(slots, i);
    }
    ovsrcu_set(&slots->slots[i].entry, entry);
    atomic_store_explicit(&slots->slots[i].hash, hash, memory_order_release);
}

static void
subtable_insert(struct subtable *subtable, struct dpif_xdp_entry *entry)
{
    struct slots *old = ovsrcu_get_protected(struct slots *, &subtable->slots);

    if (2 * (subtable->n_used + 1) > old->mask + 1) {
        size_t n = ROUND_UP_POW2(4 * (subtable->n_rules + 1));
        struct slots *new = xzalloc_cacheline(sizeof *new
                                              + n * sizeof new->slots[0]);

        new->mask = n - 1;
        for (size_t i = 0; i <= old->mask; i++) {
            struct dpif_xdp_entry *moved
                = ovsrcu_get_protected(struct dpif_xdp_entry *,
                                       &old->slots[i].entry);

            if (moved) {
                slots_insert(new, moved, slot_hash(old, i));
            }
        }
        ovsrcu_set(&subtable->slots, new);
        ovsrcu_postpone(free_cacheline, old);
        subtable->n_used = subtable->n_rules;
        old = new;
    }
    slots_insert(old, entry, entry->hash);
    subtable->n_used++;
    subtable->n_rules++;
}

static void
subtable_remove(struct subtable *subtable, const struct dpif_xdp_entry *entry)
{
    struct slots *slots = ovsrcu_get_protected(struct slots *,
                                               &subtable->slots);
    size_t i = slot_first(slots, entry->hash);

    while (ovsrcu_get_protected(struct dpif_xdp_entry *,
                                &slots->slots[i].entry) != entry) {
        i = slot_next(slots, i);
    }
    ovsrcu_set(&slots->slots[i].entry, NULL);
    subtable->n_rules--;

    /* No search has to get past slots that only a free one follows. */
    if (!slot_hash(slots, slot_next(slots, i))) {
        while (slot_hash(slots, i)
               && !ovsrcu_get_protected(struct dpif_xdp_entry *,
                                        &slots->slots[i].entry)) {
            atomic_store_relaxed(&slots->slots[i].hash, 0);
            subtable->n_used--;
            i = (i - 1) & slots->mask;
        }
    }
}
