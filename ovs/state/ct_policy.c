/* SPDX-License-Identifier: Apache-2.0 */
/* Timeout policies.  Open vSwitch numbers them, and not in the same way after
 * a restart; the tables have them by value. */
#include <config.h>

#include "ovs/state/ct_private.h"

#include <errno.h>

#include "ct-dpif.h"
#include "hash.h"
#include "openvswitch/vlog.h"
#include "ovs-rcu.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_ct_policy);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(5, 5);

struct policy {
    struct cmap_node node;
    struct ct_dpif_timeout_policy policy;       /* As it was set. */
    uint16_t index;                     /* In the tables. */
};

/* What each timeout is called by Open vSwitch. */
static const enum ct_dpif_tp_attr attrs[DP_CT_N_TIMEOUTS] = {
    [DP_CT_TM_TCP_FIRST] = CT_DPIF_TP_ATTR_TCP_SYN_SENT,
    [DP_CT_TM_TCP_OPENING] = CT_DPIF_TP_ATTR_TCP_SYN_RECV,
    [DP_CT_TM_TCP_ESTABLISHED] = CT_DPIF_TP_ATTR_TCP_ESTABLISHED,
    [DP_CT_TM_TCP_CLOSING] = CT_DPIF_TP_ATTR_TCP_FIN_WAIT,
    [DP_CT_TM_TCP_FIN_WAIT] = CT_DPIF_TP_ATTR_TCP_TIME_WAIT,
    [DP_CT_TM_TCP_CLOSED] = CT_DPIF_TP_ATTR_TCP_CLOSE,
    [DP_CT_TM_OTHER_FIRST] = CT_DPIF_TP_ATTR_UDP_FIRST,
    [DP_CT_TM_OTHER_MULTIPLE] = CT_DPIF_TP_ATTR_UDP_SINGLE,
    [DP_CT_TM_OTHER_BIDIR] = CT_DPIF_TP_ATTR_UDP_MULTIPLE,
    [DP_CT_TM_ICMP_FIRST] = CT_DPIF_TP_ATTR_ICMP_FIRST,
    [DP_CT_TM_ICMP_REPLY] = CT_DPIF_TP_ATTR_ICMP_REPLY,
};

static const uint32_t default_seconds[DP_CT_N_TIMEOUTS] = {
#define X(NAME, SECONDS) SECONDS,
    DP_CT_TIMEOUTS(X)
#undef X
};

void
dpif_xdp_ct_policies_init(struct dpif_xdp_ct *ct)
{
    ovs_mutex_init(&ct->policy_mutex);
    atomic_count_init(&ct->policy_changes, 0);
    cmap_init(&ct->policies);
}

void
dpif_xdp_ct_policies_destroy(struct dpif_xdp_ct *ct)
{
    struct policy *p;

    CMAP_FOR_EACH (p, node, &ct->policies) {
        cmap_remove(&ct->policies, &p->node, hash_int(p->policy.id, 0));
        ovsrcu_postpone(free, p);
    }
    cmap_destroy(&ct->policies);
    ovs_mutex_destroy(&ct->policy_mutex);
}

static struct policy *
find(struct dpif_xdp_ct *ct, uint32_t id)
{
    struct policy *p;

    CMAP_FOR_EACH_WITH_HASH (p, node, hash_int(id, 0), &ct->policies) {
        if (p->policy.id == id) {
            return p;
        }
    }
    return NULL;
}

uint16_t
dpif_xdp_ct_policy_index(struct dpif_xdp_ct *ct, uint32_t id)
{
    const struct policy *p = id == DEFAULT_TP_ID ? NULL : find(ct, id);

    return p ? p->index : 0;
}

uint16_t
dpif_xdp_ct_policy_hold(struct dpif_xdp_ct *ct, uint32_t id)
{
    uint16_t index;

    dpif_xdp_ct_policies_lock(ct);
    index = dpif_xdp_ct_policy_index(ct, id);
    oxdp_ct_policy_hold(dpif_xdp_ct_tables(ct), index);
    dpif_xdp_ct_policies_unlock(ct);
    return index;
}

uint32_t
dpif_xdp_ct_policy_changes(const struct dpif_xdp_ct *ct)
{
    return atomic_count_get(&CONST_CAST(struct dpif_xdp_ct *, ct)
                            ->policy_changes);
}

static void
remove_policy(struct dpif_xdp_ct *ct, struct oxdp_ct *tables, struct policy *p)
    OVS_REQUIRES(dpif_xdp_policy_mutex)
{
    oxdp_ct_policy_put(tables, p->index);
    cmap_remove(&ct->policies, &p->node, hash_int(p->policy.id, 0));
    ovsrcu_postpone(free, p);
}

int
dpif_xdp_ct_policy_set(struct dpif_xdp_ct *ct,
                       const struct ct_dpif_timeout_policy *policy)
{
    struct oxdp_ct *tables = dpif_xdp_ct_need_tables(ct);
    uint32_t ticks[DP_CT_N_TIMEOUTS];
    struct policy *p, *old;

    if (!tables) {
        return ENOMEM;
    }
    for (int i = 0; i < DP_CT_N_TIMEOUTS; i++) {
        ticks[i] = oxdp_ct_to_ticks(tables, policy->present & 1u << attrs[i]
                                    ? policy->attrs[attrs[i]]
                                    : default_seconds[i]);
    }
    p = xzalloc(sizeof *p);
    p->policy = *policy;
    if (policy->id == DEFAULT_TP_ID) {
        oxdp_ct_set_default_policy(tables, ticks);
    } else {
        p->index = oxdp_ct_policy_get(tables, ticks);
        if (!p->index) {
            VLOG_WARN_RL(&rl, "%s: more than %d timeout policies are in use: "
                         "policy %"PRIu32" has the default timeouts", ct->name,
                         OXDP_CT_POLICIES - 1, policy->id);
        }
    }
    dpif_xdp_ct_policies_lock(ct);
    old = find(ct, policy->id);
    if (old) {
        remove_policy(ct, tables, old);
    }
    cmap_insert(&ct->policies, &p->node, hash_int(policy->id, 0));
    atomic_count_inc(&ct->policy_changes);
    dpif_xdp_ct_policies_unlock(ct);
    return 0;
}

int
dpif_xdp_ct_policy_get(struct dpif_xdp_ct *ct, uint32_t id,
                       struct ct_dpif_timeout_policy *policy)
{
    const struct policy *p = find(ct, id);

    if (!p) {
        return ENOENT;
    }
    *policy = p->policy;
    for (int i = 0; i < DP_CT_N_TIMEOUTS; i++) {
        if (!(policy->present & 1u << attrs[i])) {
            policy->attrs[attrs[i]] = default_seconds[i];
        }
    }
    return 0;
}

int
dpif_xdp_ct_policy_delete(struct dpif_xdp_ct *ct, uint32_t id)
{
    struct policy *p;

    dpif_xdp_ct_policies_lock(ct);
    p = find(ct, id);
    if (p) {
        remove_policy(ct, dpif_xdp_ct_tables(ct), p);
        atomic_count_inc(&ct->policy_changes);
    }
    dpif_xdp_ct_policies_unlock(ct);
    if (!p) {
        VLOG_WARN_RL(&rl, "Failed to delete a non-existent timeout policy: "
                     "id=%"PRIu32, id);
        return ENOENT;
    }
    return 0;
}
