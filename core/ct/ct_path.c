/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the path cache (dp/path_table.h): making them, and freeing what is out of date. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "core/ct/ct_private.h"
#include "dp/path.h"

#define LOOKED_AT_ONCE (1u << 18)       /* Microflows in one round of the sweeper. */

/* Rounds through all microflows after which a path that is out of date is free: in the first, programs end that were
 * learning it; the second finds all microflows that have it. */
#define PATH_ROUNDS 3

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static int init(struct oxdp_ct *ct)
{
    struct dp_path_head *head = ct->paths.path_head;

    if (getrandom(head->hash_key, sizeof head->hash_key, 0) != sizeof head->hash_key) {
        return -EIO;
    }
    for (int i = 0; i < DP_PATH_HASH_WORDS; i++) {
        head->hash_key[i] |= 1;
    }
    head->micro_most = ct->paths.n_micros - 1;
    head->micro_last = least(head->micro_most, DP_MICRO_LEAST - 1);
    ct->ctx.paths = &ct->paths;
    oxdp_ct_paths_refresh(ct);
    return 0;
}

/* Elements of each table. */
static void set_sizes(uint32_t n, struct dp_path_tables *t)
{
    t->n_path_head = 1;
    t->n_micros = t->n_micros6 = oxdp_ct_memory_buckets(n);
    t->n_paths = DP_PATH_MAX;
}

void oxdp_ct_paths_init(struct oxdp_ct *ct)
{
    for (int i = 0; i < OXDP_PATH_N_TABLES; i++) {
        ct->path_fd[i] = -1;
    }
}

int oxdp_ct_paths_create(struct oxdp_ct *ct)
{
    struct dp_path_tables *t = &ct->paths;
    int err = 0;

    set_sizes(ct->config.n, t);
#define X(NAME, TYPE)                                                                       \
    if (!err) {                                                                             \
        err = oxdp_ct_memory_table(t->n_##NAME * sizeof(TYPE), true, -1, (void **) &t->NAME,    \
                                   &ct->path_fd[OXDP_PATH_##NAME]);                         \
    }
    DP_PATH_TABLES(X)
#undef X
    return err ? err : init(ct);
}

void oxdp_ct_paths_destroy(struct oxdp_ct *ct)
{
#define X(NAME, TYPE) \
    oxdp_ct_memory_unmap(ct->paths.NAME, ct->paths.n_##NAME * sizeof(TYPE), ct->path_fd[OXDP_PATH_##NAME]);
    DP_PATH_TABLES(X)
#undef X
}

size_t oxdp_ct_path_bytes(uint32_t n)
{
    struct dp_path_tables t;
    size_t bytes = 0;

    set_sizes(n, &t);
#define X(NAME, TYPE) bytes += t.n_##NAME * sizeof(TYPE);
    DP_PATH_TABLES(X)
#undef X
    return bytes;
}

const struct dp_path_tables *oxdp_ct_paths(const struct oxdp_ct *ct)
{
    return ct->ctx.paths;
}

int oxdp_ct_path_fd(const struct oxdp_ct *ct, enum oxdp_path_table i)
{
    return ct->path_fd[i];
}

/* Whether an entry of policies[] was ever one. */
static bool is_policy(const struct dp_ct_policy *policy)
{
    uint32_t any = 0;

    for (int i = 0; i < DP_CT_N_TIMEOUTS; i++) {
        any |= policy->ticks[i];
    }
    return any;
}

void oxdp_ct_paths_refresh(struct oxdp_ct *ct)
{
    uint32_t fresh = DP_CT_TICKS_MAX;

    for (uint32_t i = 0; ct->ctx.paths && i < OXDP_CT_POLICIES; i++) {
        const struct dp_ct_policy *policy = &ct->mem.policies[i];

        if (is_policy(policy)) {
            fresh = least(fresh, least(policy->ticks[DP_CT_TM_TCP_ESTABLISHED], policy->ticks[DP_CT_TM_OTHER_BIDIR]));
        }
    }
    if (ct->ctx.paths) {
        DP_WRITE_ONCE(ct->paths.path_head->fresh, fresh);
    }
}

/* A round through all microflows begins: frees paths that have been out of date for long enough.  Returns whether
 * others are. */
static bool look_at_paths(struct oxdp_ct *ct)
{
    bool any = false;

    for (uint32_t i = 0; i < DP_PATH_MAX; i++) {
        struct dp_path *path = &ct->paths.paths[i];

        if (DP_READ_ONCE(path->status) != DP_PATH_STALE) {
            continue;
        }
        if (++ct->path_rounds[i] < PATH_ROUNDS) {
            any = true;
            continue;
        }
        ct->path_rounds[i] = 0;
        __sync_fetch_and_add(&ct->paths.path_head->n_paths, -1);
        __atomic_store_n(&path->status, DP_PATH_FREE, __ATOMIC_RELEASE);
    }
    return any;
}

/* Whether packets of the microflow make their passes anyway: dp_path_judge(). */
static bool is_idle(const struct oxdp_ct *ct, const struct dp_micro *micro)
{
    const struct dp_ct_life *life = &ct->mem.lives[DP_CT_REF_INDEX(DP_READ_ONCE(micro->conn[0].ref))];

    return (int32_t) (ct->swept_at - DP_READ_ONCE(life->used)) >= (int32_t) ct->paths.path_head->fresh;
}

/* Whether nobody looks for microflow number 'i' there, since there is room for more. */
static bool is_misplaced(const struct oxdp_ct *ct, const struct dp_micro *micro, uint32_t word, uint32_t i)
{
    uint32_t key = DP_MICRO_KEY(word);

    return (dp_path_hash(ct->paths.path_head, key, DP_READ_ONCE(micro->addr), DP_READ_ONCE(micro->ports)) ^ i)
        >= DP_MICRO_PLACES;
}

/* Gives up microflow number 'i' if it is out of date, idle, or not where it is looked for.  A program may write it
 * meanwhile: then it may be given up without a reason, and is learned again. */
static void look_at_micro(struct oxdp_ct *ct, uint32_t i)
{
    struct dp_micro *micro = &ct->paths.micros[i];
    uint32_t word = __atomic_load_n(&micro->word, __ATOMIC_ACQUIRE);

    if (DP_MICRO_STATUS(word) != DP_PATH_READY) {
        return;
    }
    if (DP_READ_ONCE(ct->paths.paths[DP_MICRO_PATH(word)].status) != DP_PATH_READY
        || !dp_micro_is_current(&ct->ctx, micro) || is_idle(ct, micro) || is_misplaced(ct, micro, word, i)) {
        dp_micro_give_up(ct->paths.path_head, micro, word);
    } else {
        ct->port_seen[DP_MICRO_IN_PORT(word) % DP_PATH_PORTS] = true;
    }
}

/* A round has ended: nothing is looked for on ports without microflows.  If one was learned behind the sweeper's back,
 * the next packet finds that out: dp_path_has_no_place(). */
static void forget_ports(struct oxdp_ct *ct)
{
    struct dp_path_head *head = ct->paths.path_head;

    for (int i = 0; i < DP_PATH_PORTS; i++) {
        if (!ct->port_seen[i] && DP_READ_ONCE(head->port[i])) {
            DP_WRITE_ONCE(head->port[i], 0);
        }
        ct->port_seen[i] = false;
    }
}

bool oxdp_ct_paths_sweep(struct oxdp_ct *ct)
{
    struct dp_path_head *head = ct->paths.path_head;

    if (!ct->ctx.paths || !(DP_READ_ONCE(head->n_micros) | DP_READ_ONCE(head->n_paths))) {
        return false;
    }
    if (!ct->micro_next) {
        ct->paths_wait = look_at_paths(ct);
    }
    for (uint32_t i = 0; i < LOOKED_AT_ONCE && ct->micro_next <= DP_READ_ONCE(head->micro_last); i++) {
        look_at_micro(ct, ct->micro_next++);
    }
    if (ct->micro_next > DP_READ_ONCE(head->micro_last)) {
        ct->micro_next = 0;
        forget_ports(ct);
    }
    return ct->paths_wait;
}
