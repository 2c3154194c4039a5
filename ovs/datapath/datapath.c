/* SPDX-License-Identifier: Apache-2.0 */
/* The base of a datapath: finding it by name, and its counters. */
#include <config.h>

#include "ovs/datapath/datapath.h"

#include "dpif-provider.h"
#include "openvswitch/shash.h"
#include "sset.h"
#include "util.h"

const char dpif_xdp_type[] = "xdp";

struct ovs_mutex dpif_xdp_registry_mutex = OVS_MUTEX_INITIALIZER;
static struct shash all_dps OVS_GUARDED_BY(dpif_xdp_registry_mutex)
    = SHASH_INITIALIZER(&all_dps);

void
dpif_xdp_port_lock(const struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&dp->port_mutex);
}

void
dpif_xdp_port_unlock(const struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&dp->port_mutex);
}

void
dpif_xdp_flow_lock(const struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&dp->flow_mutex);
}

void
dpif_xdp_flow_unlock(const struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&dp->flow_mutex);
}

void
dpif_xdp_registry_add(struct dpif_xdp_dp *dp)
{
    shash_add(&all_dps, dp->name, dp);
}

void
dpif_xdp_registry_remove(struct dpif_xdp_dp *dp)
{
    shash_find_and_delete(&all_dps, dp->name);
}

struct dpif_xdp_dp *
dpif_xdp_registry_find(const char *name)
{
    return shash_find_data(&all_dps, name);
}

int
dpif_xdp_enumerate(struct sset *names, const struct dpif_class *class)
{
    struct shash_node *node;

    ovs_mutex_lock(&dpif_xdp_registry_mutex);
    SHASH_FOR_EACH (node, &all_dps) {
        const struct dpif_xdp_dp *dp = node->data;

        if (dp->class == class) {
            sset_add(names, node->name);
        }
    }
    ovs_mutex_unlock(&dpif_xdp_registry_mutex);
    return 0;
}

void
dpif_xdp_for_each(void (*cb)(struct dpif_xdp_dp *, void *aux), void *aux)
{
    struct shash_node *node;

    ovs_mutex_lock(&dpif_xdp_registry_mutex);
    SHASH_FOR_EACH (node, &all_dps) {
        cb(node->data, aux);
    }
    ovs_mutex_unlock(&dpif_xdp_registry_mutex);
}

struct dpif_xdp_dp *
dpif_xdp_dp_cast(const struct dpif *dpif)
{
    return CONTAINER_OF(dpif, struct dpif_xdp, dpif)->dp;
}

struct dpif_xdp_ct *
dpif_xdp_ct_of(const struct dpif *dpif)
{
    return dpif_xdp_dp_cast(dpif)->ct;
}

void
dpif_xdp_count_drops(struct dpif_xdp_dp *dp, enum dpif_xdp_drop drop,
                     size_t n)
{
    uint64_t orig;

    atomic_add_relaxed(&dp->counts.drops[drop], n, &orig);
    if (dpif_xdp_is_traced()) {
        dpif_xdp_trace_note_drop(dp, dpif_xdp_drop_text(drop));
    }
}

void
dpif_xdp_count_lost(struct dpif_xdp_dp *dp)
{
    uint64_t orig;

    atomic_add_relaxed(&dp->counts.lost, 1, &orig);
}

uint64_t
dpif_xdp_get_drops(const struct dpif_xdp_dp *dp_, enum dpif_xdp_drop drop)
{
    struct dpif_xdp_dp *dp = CONST_CAST(struct dpif_xdp_dp *, dp_);
    uint64_t n;

    atomic_read_relaxed(&dp->counts.drops[drop], &n);
    return n;
}

uint64_t
dpif_xdp_get_lost(const struct dpif_xdp_dp *dp_)
{
    struct dpif_xdp_dp *dp = CONST_CAST(struct dpif_xdp_dp *, dp_);
    uint64_t n;

    atomic_read_relaxed(&dp->counts.lost, &n);
    return n;
}

const char *
dpif_xdp_drop_name(enum dpif_xdp_drop drop)
{
    static const char *const names[DPIF_XDP_N_DROPS] = {
#define X(NAME, TEXT) [DPIF_XDP_DROP_##NAME] = #NAME,
        DPIF_XDP_DROPS(X)
#undef X
    };

    return names[drop];
}

const char *
dpif_xdp_drop_text(enum dpif_xdp_drop drop)
{
    static const char *const texts[DPIF_XDP_N_DROPS] = {
#define X(NAME, TEXT) [DPIF_XDP_DROP_##NAME] = TEXT,
        DPIF_XDP_DROPS(X)
#undef X
    };

    return texts[drop];
}
