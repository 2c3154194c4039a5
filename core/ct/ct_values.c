/* SPDX-License-Identifier: Apache-2.0 */
/* Timeout policies and limits of connections: what the control plane sets. */
#include <string.h>

#include "core/ct/ct_private.h"
#include "dp/ct.h"

uint32_t oxdp_ct_to_ticks(const struct oxdp_ct *ct, uint32_t seconds)
{
    uint64_t ticks = (uint64_t) seconds * ct->config.hz;

    return ticks < DP_CT_TICKS_MAX ? ticks : DP_CT_TICKS_MAX;
}

/* Finds the policies that connections have. */
static void find_used(const struct oxdp_ct *ct, bool used[OXDP_CT_POLICIES])
{
    memset(used, 0, OXDP_CT_POLICIES * sizeof *used);
    for (uint32_t i = 0; i < ct->mem.n_keys; i++) {
        if (__atomic_load_n(&ct->mem.keys[i].flags, __ATOMIC_ACQUIRE) & DP_CT_KEY_USED) {
            used[ct->mem.keys[i].policy % OXDP_CT_POLICIES] = true;
        }
    }
}

uint16_t oxdp_ct_policy_get(struct oxdp_ct *ct, const uint32_t ticks[DP_CT_N_TIMEOUTS])
{
    bool used[OXDP_CT_POLICIES];
    uint32_t i, unused = 0;

    oxdp_ct_lock(ct);
    for (i = 1; i < OXDP_CT_POLICIES; i++) {
        if (!memcmp(ct->mem.policies[i].ticks, ticks, sizeof ct->mem.policies[i].ticks)) {
            break;
        }
    }
    if (i == OXDP_CT_POLICIES) {
        find_used(ct, used);
        for (i = 1; i < OXDP_CT_POLICIES && !unused; i++) {
            unused = !used[i] && !ct->policy_holders[i] ? i : 0;
        }
        i = unused;
        if (i) {
            memcpy(ct->mem.policies[i].ticks, ticks, sizeof ct->mem.policies[i].ticks);
            oxdp_ct_paths_refresh(ct);
        }
    }
    if (i) {
        ct->policy_holders[i]++;
    }
    oxdp_ct_unlock(ct);
    return i;
}

void oxdp_ct_policy_hold(struct oxdp_ct *ct, uint16_t i)
{
    oxdp_ct_lock(ct);
    ct->policy_holders[i] += i != 0;
    oxdp_ct_unlock(ct);
}

void oxdp_ct_policy_put(struct oxdp_ct *ct, uint16_t i)
{
    oxdp_ct_lock(ct);
    if (i && ct->policy_holders[i]) {
        ct->policy_holders[i]--;
    }
    oxdp_ct_unlock(ct);
}

void oxdp_ct_set_default_policy(struct oxdp_ct *ct, const uint32_t ticks[DP_CT_N_TIMEOUTS])
{
    for (int i = 0; i < DP_CT_N_TIMEOUTS; i++) {
        DP_WRITE_ONCE(ct->mem.policies[0].ticks[i], ticks[i]);
    }
    oxdp_ct_paths_refresh(ct);
}

uint32_t oxdp_ct_seconds_left(struct oxdp_ct *ct, uint32_t index, uint32_t now)
{
    const struct dp_ct_life *life = &ct->mem.lives[index];
    uint32_t class = DP_CT_CLASS(DP_READ_ONCE(life->state));
    const struct dp_ct_policy *policy = &ct->mem.policies[ct->mem.keys[index].policy % OXDP_CT_POLICIES];
    int64_t left = class < DP_CT_N_TIMEOUTS
        ? policy->ticks[class] - (int64_t) (int32_t) (now - DP_READ_ONCE(life->used)) : 0;

    return left > 0 ? left / ct->config.hz : 0;
}

void oxdp_ct_limit_set(struct oxdp_ct *ct, uint32_t zone, uint32_t limit)
{
    struct dp_ct_zone *z = &ct->mem.zones[zone];

    oxdp_ct_lock(ct);
    DP_WRITE_ONCE(z->limit, limit);
    if (!(z->flags & DP_CT_ZONE_LIMITED)) {
        z->seq++;
        z->count = 0;
        __atomic_store_n(&z->flags, z->flags | DP_CT_ZONE_LIMITED, __ATOMIC_RELEASE);
    }
    oxdp_ct_unlock(ct);
}

void oxdp_ct_limit_delete(struct oxdp_ct *ct, uint32_t zone)
{
    struct dp_ct_zone *z = &ct->mem.zones[zone];

    oxdp_ct_lock(ct);
    DP_WRITE_ONCE(z->flags, z->flags & ~DP_CT_ZONE_LIMITED);
    oxdp_ct_unlock(ct);
}

bool oxdp_ct_limit_get(struct oxdp_ct *ct, uint32_t zone, uint32_t *limit, uint32_t *count)
{
    const struct dp_ct_zone *z = &ct->mem.zones[zone];

    *limit = DP_READ_ONCE(z->limit);
    *count = DP_READ_ONCE(z->count);
    return DP_READ_ONCE(z->flags) & DP_CT_ZONE_LIMITED;
}

bool oxdp_ct_expect(struct oxdp_ct *ct, uint16_t zone, int change)
{
    struct dp_ct_zone *z = &ct->mem.zones[zone];

    if (change < 0 ? !z->n_expected : z->n_expected == UINT16_MAX) {
        return false;
    }
    DP_WRITE_ONCE(z->n_expected, z->n_expected + change);
    return true;
}
