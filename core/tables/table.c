/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tables/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "core/tables/buddy.h"
#include "core/tables/table_private.h"
#include "dp/seam_native.h"
#include "dp/hash.h"

static int allocate_memory(struct oxdp_table *);
static int init_head(struct oxdp_table *, const struct oxdp_table_config *);
static int insert_ops(struct oxdp_table *, const struct oxdp_flow *, uint32_t *ret_first,
                      enum oxdp_table_full *ret_full);
static void free_ops(struct oxdp_table *, uint32_t first, uint32_t n);
static uint32_t count_blobs(const struct dp_op *, uint32_t n);
static void free_flow(struct oxdp_table *, uint32_t index);
static void prefetch_bucket(const struct oxdp_table *, uint64_t region, uint32_t index);

int oxdp_table_insert(struct oxdp_table *t, const struct oxdp_flow *spec, uint32_t *ret_flow,
                      enum oxdp_table_full *ret_full)
{
    uint32_t ops = 0;
    int mask_index;

    *ret_full = OXDP_TABLE_FULL_FLOWS;
    if (!t->n_free_flows) {
        return -ENOSPC;
    }
    if (spec->n_ops && insert_ops(t, spec, &ops, ret_full)) {
        return -ENOSPC;
    }
    *ret_full = OXDP_TABLE_FULL_MASKS;
    mask_index = oxdp_table_mask_get(t, spec->mask, spec->hint);
    if (mask_index < 0) {
        if (mask_index == -E2BIG) {
            *ret_full = OXDP_TABLE_FULL_WORDS;
        }
        goto no_mask;
    }

    uint32_t index = t->free_flows[t->n_free_flows - 1];
    struct dp_flow *flow = &t->mem.flows[index];
    const struct dp_mask *mask = &t->mem.masks[mask_index];

    t->hashes[index] = oxdp_table_hash(t, mask_index, spec->key);
    prefetch_bucket(t, mask->region, index);
    flow->fate = spec->fate;
    flow->n_ops = spec->n_ops;
    flow->generation++;
    flow->ops = ops;
    flow->arg = spec->arg;
    memcpy(flow->hot, spec->key->w, sizeof flow->hot);
    memcpy(flow->warm, &spec->key->w[DP_HOT_WORDS], sizeof flow->warm);
    for (uint32_t i = 0; i < mask->n_cold; i++) {
        flow->cold[i] = spec->key->w[mask->cold_word[i]];
    }

    *ret_full = OXDP_TABLE_FULL_BUCKETS;
    if (oxdp_table_mask_link(t, mask_index, index)) {
        goto no_bucket;
    }
    __atomic_store_n(&flow->mask, mask_index, __ATOMIC_RELEASE);
    t->n_free_flows--;
    *ret_flow = index;
    *ret_full = OXDP_TABLE_FULL_NONE;
    return 0;

no_bucket:
    oxdp_table_mask_put(t, mask_index);
no_mask:
    free_ops(t, ops, spec->n_ops);
    return -ENOSPC;
}

void oxdp_table_unlink(struct oxdp_table *t, uint32_t index)
{
    struct dp_flow *flow = &t->mem.flows[index];
    uint32_t mask_index = flow->mask;

    oxdp_table_mask_unlink(t, mask_index, index);
    __atomic_store_n(&flow->mask, DP_MASK_ALL, __ATOMIC_RELEASE);
    oxdp_table_mask_put(t, mask_index);
    t->limbo_flows[t->n_limbo_flows++] = index;
}

void oxdp_table_prefetch(const struct oxdp_table *t, uint32_t index)
{
    __builtin_prefetch(&t->mem.flows[index], 1);
    __builtin_prefetch(&t->hashes[index]);
    for (uint32_t shard = 0; shard < t->mem.head->shards; shard++) {
        __builtin_prefetch(&t->mem.stats[shard * t->mem.n_flows + index], 1);
    }
}

void oxdp_table_prefetch_bucket(const struct oxdp_table *t, uint32_t index)
{
    prefetch_bucket(t, t->mem.masks[t->mem.flows[index].mask].region, index);
}

static void prefetch_bucket(const struct oxdp_table *t, uint64_t region, uint32_t index)
{
    uint32_t bucket = dp_hash_bucket(t->hashes[index], DP_REGION_LAST(region));

    __builtin_prefetch(&t->mem.buckets[DP_REGION_FIRST(region) + bucket], 1);
}

uint32_t oxdp_table_reclaim(struct oxdp_table *t)
{
    if (!oxdp_table_reclaim_begin(t)) {
        return 0;
    }
    t->callbacks.grace(t->callbacks.aux);
    return oxdp_table_reclaim_end(t);
}

bool oxdp_table_reclaim_begin(struct oxdp_table *t)
{
    t->waiting.flows = t->n_limbo_flows;
    t->waiting.regions = t->n_limbo_regions;
    t->waiting.masks = t->n_limbo_masks;
    return t->waiting.flows || t->waiting.regions || t->waiting.masks;
}

uint32_t oxdp_table_reclaim_end(struct oxdp_table *t)
{
    uint32_t n = t->waiting.flows;

    for (uint32_t i = 0; i < n; i++) {
        free_flow(t, t->limbo_flows[i]);
    }
    t->n_limbo_flows -= n;
    memmove(t->limbo_flows, t->limbo_flows + n, t->n_limbo_flows * sizeof *t->limbo_flows);
    oxdp_table_masks_reclaim(t);
    return n;
}

void oxdp_table_on_reclaim(struct oxdp_table *t,
                           void (*reclaimed)(void *aux, uint32_t flow, const struct dp_stats *final), void *aux)
{
    t->callbacks.reclaimed = reclaimed;
    t->callbacks.aux = aux;
}

static void free_flow(struct oxdp_table *t, uint32_t index)
{
    struct dp_flow *flow = &t->mem.flows[index];
    struct dp_stats final;

    oxdp_table_stats(t, index, &final);
    for (uint32_t shard = 0; shard < t->mem.head->shards; shard++) {
        memset(&t->mem.stats[shard * t->mem.n_flows + index], 0, sizeof *t->mem.stats);
    }
    if (t->callbacks.reclaimed) {
        t->callbacks.reclaimed(t->callbacks.aux, index, &final);
    }
    free_ops(t, flow->ops, flow->n_ops);
    t->free_flows[t->n_free_flows++] = index;
}

/* Copies a program; each operation also says what it and its followers need. */
static int insert_ops(struct oxdp_table *t, const struct oxdp_flow *spec, uint32_t *ret_first,
                      enum oxdp_table_full *ret_full)
{
    uint32_t first = oxdp_buddy_alloc(t->ops, spec->n_ops);
    uint32_t n_blobs = count_blobs(spec->ops, spec->n_ops);
    uint32_t blob = 0;
    uint32_t needs = 0;
    uint16_t growth = 0;
    uint64_t codes = 0;

    *ret_full = OXDP_TABLE_FULL_OPS;
    if (first == OXDP_BUDDY_NONE) {
        return -ENOSPC;
    }
    if (n_blobs) {
        blob = oxdp_buddy_alloc(t->blobs, n_blobs);
        if (blob == OXDP_BUDDY_NONE) {
            *ret_full = OXDP_TABLE_FULL_BLOBS;
            oxdp_buddy_free(t->ops, first, spec->n_ops);
            return -ENOSPC;
        }
        memcpy(&t->mem.blobs[blob], spec->blobs, n_blobs * sizeof *spec->blobs);
        blob += n_blobs;
    }
    for (uint32_t i = spec->n_ops; i-- > 0;) {
        struct dp_op *op = &t->mem.ops[first + i];

        *op = spec->ops[i];
        needs |= op->needs;
        growth += op->growth;
        op->needs = needs;
        op->growth = growth;
        codes |= UINT64_C(1) << op->code;
        op->codes = codes;
        if (op->n_blobs) {
            blob -= op->n_blobs;
            op->u.blob = blob;
        }
    }
    *ret_first = first;
    return 0;
}

/* Frees what insert_ops() allocated for 'n' operations: nothing if 'n' is 0. */
static void free_ops(struct oxdp_table *t, uint32_t first, uint32_t n)
{
    const struct dp_op *ops = &t->mem.ops[first];
    uint32_t n_blobs = count_blobs(ops, n);

    for (uint32_t i = 0; i < n && n_blobs; i++) {
        if (ops[i].n_blobs) {
            oxdp_buddy_free(t->blobs, ops[i].u.blob, n_blobs);
            break;
        }
    }
    if (n) {
        oxdp_buddy_free(t->ops, first, n);
    }
}

static uint32_t count_blobs(const struct dp_op *ops, uint32_t n)
{
    uint32_t n_blobs = 0;

    for (uint32_t i = 0; i < n; i++) {
        n_blobs += ops[i].n_blobs;
    }
    return n_blobs;
}

uint64_t oxdp_table_predicted(const struct oxdp_table *t)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < t->mem.n_predictions; i++) {
        sum += DP_READ_ONCE(t->mem.predictions[i].hits);
    }
    return sum;
}

void oxdp_table_stats(const struct oxdp_table *t, uint32_t index, struct dp_stats *ret)
{
    memset(ret, 0, sizeof *ret);
    for (uint32_t shard = 0; shard < t->mem.head->shards; shard++) {
        const struct dp_stats *s = &t->mem.stats[shard * t->mem.n_flows + index];
        uint64_t used = __atomic_load_n(&s->used, __ATOMIC_RELAXED);

        ret->packets += __atomic_load_n(&s->packets, __ATOMIC_RELAXED);
        ret->bytes += __atomic_load_n(&s->bytes, __ATOMIC_RELAXED);
        ret->tcp_flags |= __atomic_load_n(&s->tcp_flags, __ATOMIC_RELAXED);
        if (used > ret->used) {
            ret->used = used;
        }
    }
}

void oxdp_table_packets_of(const struct oxdp_table *t, uint32_t first, uint32_t n, uint64_t ret_packets[])
{
    memset(ret_packets, 0, n * sizeof *ret_packets);
    for (uint32_t shard = 0; shard < t->mem.head->shards; shard++) {
        const struct dp_stats *s = &t->mem.stats[shard * t->mem.n_flows + first];

        for (uint32_t i = 0; i < n; i++) {
            ret_packets[i] += __atomic_load_n(&s[i].packets, __ATOMIC_RELAXED);
        }
    }
}

uint64_t oxdp_table_packets(const struct oxdp_table *t, uint32_t index)
{
    uint64_t packets;

    oxdp_table_packets_of(t, index, 1, &packets);
    return packets;
}

void oxdp_table_usage(const struct oxdp_table *t, struct oxdp_table_usage *ret)
{
    ret->flows = t->mem.n_flows - t->n_free_flows - t->n_limbo_flows;
    ret->unlinked = t->n_limbo_flows;
    ret->masks = DP_MASKS_N(t->mem.head->masks_now);
    ret->free_buckets = oxdp_buddy_n_free(t->buckets);
    ret->free_ops = oxdp_buddy_n_free(t->ops);
    ret->free_blobs = oxdp_buddy_n_free(t->blobs);
}

const char *oxdp_table_full_to_string(enum oxdp_table_full full)
{
    static const char *const texts[] = {
#define X(NAME, TEXT) [OXDP_TABLE_FULL_##NAME] = TEXT,
        OXDP_TABLE_FULL(X)
#undef X
    };

    return texts[full];
}

static uint32_t power_of_two(uint32_t n)
{
    return n > 1 ? 1u << (32 - __builtin_clz(n - 1)) : 1;
}

struct oxdp_table_config oxdp_table_config(uint32_t n_flows, uint32_t n_cpus)
{
    /* A region doubles while its old half still stands: half of the buckets are for that. */
    uint32_t n_buckets = 2 * power_of_two(2 * (n_flows / DP_BUCKET_SLOTS + 1));

    return (struct oxdp_table_config) {
        .n_flows = n_flows,
        .n_buckets = n_buckets < 1024 ? 1024 : n_buckets,
        .n_ops = n_flows / 4 + 256,
        .n_blobs = n_flows / 16 + 256,
        .n_cache = 1 << 16,
        .n_meters = 1024,
        .n_shards = n_cpus < 4 ? n_cpus : 4,
        .n_cpus = n_cpus,
        .vlan_limit = 1,
    };
}

void oxdp_table_sizes(const struct oxdp_table_config *config, struct dp_tables *tables)
{
    tables->n_head = 1;
    tables->n_masks = DP_MAX_MASKS + 1;
    tables->n_flows = config->n_flows;
    tables->n_stats = config->n_flows * config->n_shards;
    tables->n_buckets = config->n_buckets;
    tables->n_cache = config->n_cache;
    tables->n_predictions = config->n_cpus * DP_PREDICTIONS;
    tables->n_ops = config->n_ops;
    tables->n_blobs = config->n_blobs;
    tables->n_meters = config->n_meters;
    tables->n_sequence = 1;
}

int oxdp_table_create(const struct oxdp_table_config *config, const struct dp_tables *memory,
                      const struct oxdp_table_callbacks *callbacks, struct oxdp_table **ret_table)
{
    if (!config->n_flows || !config->n_shards || config->n_cache & (config->n_cache - 1)
        || !config->n_cache || config->vlan_limit > 2 || !config->n_cpus
        || (uint64_t) config->n_flows * config->n_shards > UINT32_MAX / 2) {
        return -EINVAL;
    }

    struct oxdp_table *t = calloc(1, sizeof *t);
    int error = -ENOMEM;

    if (!t) {
        return -ENOMEM;
    }
    t->callbacks = *callbacks;
    if (memory) {
        t->mem = *memory;
    } else {
        oxdp_table_sizes(config, &t->mem);
        t->own_memory = true;
        if (allocate_memory(t)) {
            goto error;
        }
    }
    t->buckets = oxdp_buddy_create(t->mem.n_buckets);
    t->ops = oxdp_buddy_create(t->mem.n_ops);
    t->blobs = oxdp_buddy_create(t->mem.n_blobs);
    t->hashes = malloc(t->mem.n_flows * sizeof *t->hashes);
    t->free_flows = malloc(t->mem.n_flows * sizeof *t->free_flows);
    t->limbo_flows = malloc(t->mem.n_flows * sizeof *t->limbo_flows);
    if (!t->buckets || !t->ops || !t->blobs || !t->hashes || !t->free_flows || !t->limbo_flows) {
        goto error;
    }
    for (uint32_t i = 0; i < t->mem.n_flows; i++) {
        t->free_flows[i] = t->mem.n_flows - 1 - i;
    }
    t->n_free_flows = t->mem.n_flows;
    error = init_head(t, config);
    if (error) {
        goto error;
    }
    *ret_table = t;
    return 0;

error:
    oxdp_table_destroy(t);
    return error;
}

void oxdp_table_destroy(struct oxdp_table *t)
{
    if (!t) {
        return;
    }
    if (t->own_memory) {
#define X(NAME, TYPE)                                                       \
        if (t->mem.NAME) {                                                  \
            munmap(t->mem.NAME, (size_t) t->mem.n_##NAME * sizeof(TYPE));   \
        }
        DP_TABLES(X)
#undef X
    }
    oxdp_buddy_destroy(t->buckets);
    oxdp_buddy_destroy(t->ops);
    oxdp_buddy_destroy(t->blobs);
    free(t->limbo_regions);
    free(t->hashes);
    free(t->free_flows);
    free(t->limbo_flows);
    free(t);
}

struct dp_tables *oxdp_table_memory(struct oxdp_table *t)
{
    return &t->mem;
}

static int allocate_memory(struct oxdp_table *t)
{
#define X(NAME, TYPE)                                                                                   \
    t->mem.NAME = mmap(NULL, (size_t) t->mem.n_##NAME * sizeof(TYPE), PROT_READ | PROT_WRITE,           \
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);                             \
    if (t->mem.NAME == MAP_FAILED) {                                                                    \
        t->mem.NAME = NULL;                                                                             \
        return -ENOMEM;                                                                                 \
    }
    DP_TABLES(X)
#undef X
    return 0;
}

static int init_head(struct oxdp_table *t, const struct oxdp_table_config *config)
{
    struct dp_head *head = t->mem.head;

    head->version = DP_TABLE_VERSION;
    head->n_flows = t->mem.n_flows;
    head->n_buckets = t->mem.n_buckets;
    head->n_ops = t->mem.n_ops;
    head->cache_last = t->mem.n_cache - 1;
    head->shards = config->n_shards;
    head->shared_shards = config->n_cpus > config->n_shards;
    head->vlan_limit = config->vlan_limit;
    head->masks_now = 0;
    if (getrandom(head->hash_key, sizeof head->hash_key, 0) != sizeof head->hash_key) {
        return -EIO;
    }
    for (int i = 0; i < DP_KEY_WORDS; i++) {
        head->hash_key[i] |= 1;
    }
    __atomic_store_n(&head->magic, DP_TABLE_MAGIC, __ATOMIC_RELEASE);
    return 0;
}
