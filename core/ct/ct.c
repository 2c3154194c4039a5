/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ct/ct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/ct/ct_private.h"
#include "dp/ct_new.h"

#define AT_ONCE 4096            /* Entries looked at, or freed, before others get the mutex. */
#define TAKEN_OUT_AT_ONCE 512   /* Connections whose buckets, which lie anywhere, are looked for. */

static int init_head(struct oxdp_ct *);
static int inherit(struct oxdp_ct *, const int old_fd[OXDP_CT_N_TABLES]);
static void forget_old(struct oxdp_ct *);

int oxdp_ct_create(const struct oxdp_ct_config *config, const int old_fd[OXDP_CT_N_TABLES], struct oxdp_ct **ret)
    OXDP_NO_LOCK_ANALYSIS       /* Not shared yet. */
{
    struct oxdp_ct *ct = calloc(1, sizeof *ct);
    bool has_old = config->maps && old_fd;
    int err;

    if (!ct) {
        return -ENOMEM;
    }
    ct->config = *config;
    ct->ctx.ct = &ct->mem;
    oxdp_ct_paths_init(ct);
    pthread_mutex_init(&ct->mutex, NULL);
    ct->adopted = has_old && !config->layout && oxdp_ct_memory_n(old_fd) == config->n
        && !oxdp_ct_memory_create(config->n, true, old_fd, &ct->mem, ct->fd);
    err = ct->adopted ? 0 : oxdp_ct_memory_create(config->n, config->maps, NULL, &ct->mem, ct->fd);
    if (err) {
        goto error;
    }
    ct->ended = oxdp_ct_memory_numbers(config->n);
    ct->limbo = oxdp_ct_memory_numbers(config->n);
    err = !ct->ended || !ct->limbo ? -ENOMEM : ct->adopted ? 0 : init_head(ct);
    err = err ? err : oxdp_ct_marks_create(ct);
    err = err ? err : ct->adopted ? oxdp_ct_adopt(ct) : has_old ? inherit(ct, old_fd) : 0;
    if (err) {
        goto error;
    }
    err = config->maps ? oxdp_ct_paths_create(ct) : 0;
    if (err) {
        goto error;
    }
    oxdp_ct_marks_rebuild(ct);
    if (has_old) {
        oxdp_ct_list_free(ct);
    }
    __atomic_store_n(&ct->mem.head->frozen, 0, __ATOMIC_RELEASE);
    *ret = ct;
    return 0;

error:
    oxdp_ct_destroy(ct);
    return err;
}

void oxdp_ct_destroy(struct oxdp_ct *ct)
    OXDP_NO_LOCK_ANALYSIS       /* Not shared any more. */
{
    if (ct) {
        oxdp_ct_memory_destroy(&ct->mem, ct->fd);
        oxdp_ct_paths_destroy(ct);
        oxdp_ct_marks_destroy(ct);
        forget_old(ct);
        oxdp_ct_memory_free_numbers(ct->ended, ct->config.n);
        oxdp_ct_memory_free_numbers(ct->limbo, ct->config.n);
        free(ct->inherited);
        pthread_mutex_destroy(&ct->mutex);
        free(ct);
    }
}

/* Of empty tables. */
static int init_head(struct oxdp_ct *ct)
{
    static const uint32_t seconds[DP_CT_N_TIMEOUTS] = {
#define X(NAME, SECONDS) SECONDS,
        DP_CT_TIMEOUTS(X)
#undef X
    };
    struct dp_ct_head *head = ct->mem.head;
    uint32_t ticks[DP_CT_N_TIMEOUTS];

    head->version = DP_CT_VERSION;
    head->n = ct->config.n;
    head->free = DP_CT_FREE(1, 0);      /* And so on: dp_ct_next_free(). */
    head->bucket_last = ct->mem.n_buckets - 1;
    head->n_marks = ct->mem.n_marks;
    head->n_policies = ct->mem.n_policies;
    head->maxconns = OXDP_CT_DEFAULT_MAXCONNS;
    if (getrandom(head->hash_key, sizeof head->hash_key, 0) != sizeof head->hash_key) {
        return -EIO;
    }
    for (int i = 0; i < DP_CT_HASH_WORDS; i++) {
        head->hash_key[i] |= 1;
    }
    for (int i = 0; i < DP_CT_N_TIMEOUTS; i++) {
        ticks[i] = oxdp_ct_to_ticks(ct, seconds[i]);
    }
    oxdp_ct_set_default_policy(ct, ticks);
    __atomic_store_n(&head->magic, DP_CT_MAGIC, __ATOMIC_RELEASE);
    return 0;
}

/* Copies the connections of maps of another size or layout, if it can read them. */
static int inherit(struct oxdp_ct *ct, const int old_fd[OXDP_CT_N_TABLES])
{
    if (ct->config.layout) {
        ct->unreadable = oxdp_ct_other_open(ct, old_fd, ct->config.layout);
        ct->config.layout = NULL;       /* It is the caller's. */
    } else {
        uint32_t n = oxdp_ct_memory_n(old_fd);

        ct->unreadable = !n || oxdp_ct_memory_create(n, true, old_fd, &ct->old, ct->old_fd);
        if (!ct->unreadable) {
            oxdp_ct_freeze(ct, ct->old.head);
        }
    }
    return ct->unreadable ? 0 : oxdp_ct_copy(ct);
}

static void forget_old(struct oxdp_ct *ct)
{
    if (ct->old.head) {
        oxdp_ct_memory_destroy(&ct->old, ct->old_fd);
    }
    oxdp_ct_other_close(ct);
    free(ct->copied);
    ct->copied = NULL;
}

void oxdp_ct_taken_over(struct oxdp_ct *ct)
{
    if (ct->copied && ct->config.grace) {
        ct->config.grace(ct->config.aux);
    }
    oxdp_ct_lock(ct);
    oxdp_ct_copy_end(ct);
    for (uint32_t i = 0; ct->inherited && i < ct->mem.n_marks; i++) {
        if (ct->inherited[i]) {
            oxdp_ct_marks_put(ct, i);
        }
    }
    for (uint32_t i = 1; ct->inherited && i < OXDP_CT_POLICIES; i++) {
        ct->policy_holders[i]--;
    }
    free(ct->inherited);
    ct->inherited = NULL;
    forget_old(ct);
    oxdp_ct_unlock(ct);
}

struct dp_ct_tables *oxdp_ct_tables(struct oxdp_ct *ct)
{
    return &ct->mem;
}

int oxdp_ct_fd(const struct oxdp_ct *ct, enum oxdp_ct_table i)
{
    return ct->fd[i];
}

bool oxdp_ct_adopted(const struct oxdp_ct *ct)
{
    return ct->adopted;
}

bool oxdp_ct_unreadable(const struct oxdp_ct *ct)
{
    return ct->unreadable;
}

void oxdp_ct_inherited(const struct oxdp_ct *ct, uint32_t *kept, uint32_t *lost)
{
    *kept = ct->kept;
    *lost = ct->lost;
}

/* Its buckets are left to reclaiming, because who flushes a zone waits: they are what takes time. */
void oxdp_ct_leave(struct oxdp_ct *ct, uint32_t index)
{
    struct dp_ct_key *key = &ct->mem.keys[index];
    uint8_t flags = key->flags;

    if (ct->config.left && flags & DP_CT_KEY_ENGINE) {
        ct->config.left(ct->config.aux, index);
    }
    dp_ct_kill(&ct->ctx, index);
    dp_ct_discount(&ct->ctx, ct->mem.head, key->zone, key->limit_seq, flags);
    DP_WRITE_ONCE(key->flags, flags & ~DP_CT_KEY_USED);
    ct->ended[ct->n_ended++] = index;
}

/* The entries in use are mostly the first ones, because free ones are used last in, first out: a round ends when it has
 * seen as many as there were. */
bool oxdp_ct_sweep(struct oxdp_ct *ct, uint32_t now, uint32_t max)
{
    uint32_t last = ct->mem.n_keys;
    bool ended;

    oxdp_ct_lock(ct);
    ct->swept_at = now;
    if (!ct->sweep_next) {
        ct->sweep_wanted = DP_READ_ONCE(ct->mem.head->n_conns);
        ct->sweep_seen = 0;
    }
    if (max < last - ct->sweep_next) {
        last = ct->sweep_next + max;
    }
    for (; ct->sweep_next < last && ct->sweep_seen < ct->sweep_wanted; ct->sweep_next++) {
        const struct dp_ct_key *key = &ct->mem.keys[ct->sweep_next];

        if (__atomic_load_n(&key->flags, __ATOMIC_ACQUIRE) & DP_CT_KEY_USED) {
            ct->sweep_seen++;
            if (dp_ct_expired(&ct->ctx, key, &ct->mem.lives[ct->sweep_next], now)) {
                oxdp_ct_leave(ct, ct->sweep_next);
            }
        }
    }
    ended = ct->sweep_next == ct->mem.n_keys || ct->sweep_seen >= ct->sweep_wanted;
    if (ended) {
        ct->sweep_next = 0;
    }
    oxdp_ct_unlock(ct);
    return ended;
}

static void let_others(struct oxdp_ct *ct)
    OXDP_REQUIRES(oxdp_ct_mutex)
{
    oxdp_ct_unlock(ct);
    oxdp_ct_lock(ct);
}

/* Takes connections that ended out of their buckets. */
static void take_out(struct oxdp_ct *ct)
    OXDP_REQUIRES(oxdp_ct_mutex)
{
    for (uint32_t i = 0; i < TAKEN_OUT_AT_ONCE && ct->n_ended; i++) {
        uint32_t index = ct->ended[--ct->n_ended];

        dp_ct_unpublish(&ct->ctx, index, 0);
        dp_ct_unpublish(&ct->ctx, index, 1);
        ct->limbo[ct->n_limbo++] = index;
    }
}

bool oxdp_ct_reclaim_begin(struct oxdp_ct *ct)
{
    bool any = oxdp_ct_paths_sweep(ct);

    oxdp_ct_lock(ct);
    while (ct->n_ended) {
        take_out(ct);
        let_others(ct);
    }
    ct->n_waiting = ct->n_limbo;
    any |= oxdp_ct_marks_reclaim_begin(ct) || ct->n_waiting;
    oxdp_ct_unlock(ct);
    return any;
}

/* Frees the first 'n' of those that reclaiming began with. */
static void free_first(struct oxdp_ct *ct, uint32_t n)
    OXDP_REQUIRES(oxdp_ct_mutex)
{
    for (uint32_t i = 0; i < n; i++) {
        struct dp_ct_key *key = &ct->mem.keys[ct->limbo[i]];

        oxdp_ct_marks_put(ct, key->marks);      /* Which a program may have given it after it left. */
        key->marks = 0;
        ct->mem.cold[ct->limbo[i]] = (struct dp_ct_cold) { 0 };
        dp_ct_free(&ct->ctx, ct->limbo[i]);
    }
    ct->n_limbo -= n;
    ct->n_waiting -= n;
    memmove(ct->limbo, ct->limbo + n, ct->n_limbo * sizeof *ct->limbo);
}

void oxdp_ct_reclaim_end(struct oxdp_ct *ct)
{
    oxdp_ct_lock(ct);
    while (ct->n_waiting) {
        free_first(ct, ct->n_waiting < AT_ONCE ? ct->n_waiting : AT_ONCE);
        let_others(ct);
    }
    oxdp_ct_marks_reclaim_end(ct);
    oxdp_ct_unlock(ct);
}

uint32_t oxdp_ct_flush(struct oxdp_ct *ct, int zone)
{
    uint32_t n = 0;

    oxdp_ct_lock(ct);
    for (uint32_t i = 0; i < ct->mem.n_keys; i++) {
        const struct dp_ct_key *key = &ct->mem.keys[i];

        if (__atomic_load_n(&key->flags, __ATOMIC_ACQUIRE) & DP_CT_KEY_USED && (zone < 0 || key->zone == zone)) {
            oxdp_ct_leave(ct, i);
            n++;
        }
        if (i % AT_ONCE == AT_ONCE - 1) {
            let_others(ct);
        }
    }
    oxdp_ct_unlock(ct);
    return n;
}

void oxdp_ct_remove(struct oxdp_ct *ct, uint32_t index, uint32_t generation)
{
    const struct dp_ct_key *key = &ct->mem.keys[index];
    uint8_t flags;

    oxdp_ct_lock(ct);
    flags = __atomic_load_n(&key->flags, __ATOMIC_ACQUIRE);
    if (flags & DP_CT_KEY_USED && DP_READ_ONCE(key->generation) == generation) {
        oxdp_ct_leave(ct, index);
    }
    oxdp_ct_unlock(ct);
}

bool oxdp_ct_next(struct oxdp_ct *ct, uint32_t now, int zone, uint32_t *position, uint32_t *index)
{
    while (*position < ct->mem.n_keys) {
        uint32_t i = (*position)++;
        const struct dp_ct_key *key = &ct->mem.keys[i];

        if (__atomic_load_n(&key->flags, __ATOMIC_ACQUIRE) & DP_CT_KEY_USED && (zone < 0 || key->zone == zone)
            && !dp_ct_expired(&ct->ctx, key, &ct->mem.lives[i], now)) {
            *index = i;
            return true;
        }
    }
    return false;
}

bool oxdp_ct_pair_get(struct oxdp_ct *ct, uint32_t mark, const uint64_t label[2], uint32_t *ret)
{
    oxdp_ct_lock(ct);
    *ret = oxdp_ct_marks_get(ct, mark, label);
    oxdp_ct_unlock(ct);
    return *ret || !(mark || label[0] || label[1]);
}

void oxdp_ct_pair_put(struct oxdp_ct *ct, uint32_t pair)
{
    oxdp_ct_lock(ct);
    oxdp_ct_marks_put(ct, pair);
    oxdp_ct_unlock(ct);
}

bool oxdp_ct_remark(struct oxdp_ct *ct, uint32_t ref, uint32_t mark, const uint64_t label[2])
{
    const struct dp_ct_key *key = &ct->mem.keys[DP_CT_REF_INDEX(ref)];
    bool fits = true;

    oxdp_ct_lock(ct);
    if (DP_READ_ONCE(key->flags) & DP_CT_KEY_USED) {
        uint32_t i = oxdp_ct_marks_get(ct, mark, label);

        fits = i || !(mark || label[0] || label[1]);
        if (fits) {
            oxdp_ct_marks_put(ct, dp_ct_remark(&ct->ctx, ref, i));
        }
    }
    oxdp_ct_unlock(ct);
    return fits;
}
