/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/state/bond.h"

#include <errno.h>
#include <string.h>

#include "hash.h"
#include "odp-util.h"
#include "dpif.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "ovs/base/report.h"
#include "util.h"

/* What was sent, by hash value.  A bond that replaces another takes it over,
 * so that nothing is lost that threads still count through the old one. */
struct bond_stats {
    atomic_uint64_t n_packets[BOND_BUCKETS];
    atomic_uint64_t n_bytes[BOND_BUCKETS];
};

struct bond {
    struct cmap_node node;
    uint32_t id;
    odp_port_t ports[BOND_BUCKETS];     /* By hash value. */
    struct bond_stats *stats;
};

static void
bonds_lock(struct dpif_xdp_bonds *bonds)
    OVS_ACQUIRES(dpif_xdp_bonds_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&bonds->mutex);
}

static void
bonds_unlock(struct dpif_xdp_bonds *bonds)
    OVS_RELEASES(dpif_xdp_bonds_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&bonds->mutex);
}

static struct bond *
find_bond(const struct dpif_xdp_bonds *bonds, uint32_t id)
{
    struct bond *bond;

    CMAP_FOR_EACH_WITH_HASH (bond, node, hash_int(id, 0), &bonds->map) {
        if (bond->id == id) {
            return bond;
        }
    }
    return NULL;
}

void
dpif_xdp_bonds_init(struct dpif_xdp_bonds *bonds)
{
    ovs_mutex_init(&bonds->mutex);
    cmap_init(&bonds->map);
}

void
dpif_xdp_bonds_destroy(struct dpif_xdp_bonds *bonds)
{
    struct bond *bond;

    CMAP_FOR_EACH (bond, node, &bonds->map) {
        dpif_xdp_bond_del(bonds, bond->id);
    }
    cmap_destroy(&bonds->map);
    ovs_mutex_destroy(&bonds->mutex);
}

int
dpif_xdp_bond_add(struct dpif_xdp_bonds *bonds, uint32_t id,
                  const odp_port_t *members)
{
    struct bond *bond = xmalloc(sizeof *bond);
    struct bond *old;

    bond->id = id;
    memcpy(bond->ports, members, sizeof bond->ports);
    bonds_lock(bonds);
    old = find_bond(bonds, id);
    if (old) {
        bond->stats = old->stats;
        cmap_replace(&bonds->map, &old->node, &bond->node, hash_int(id, 0));
        ovsrcu_postpone(free, old);
    } else {
        bond->stats = xzalloc(sizeof *bond->stats);
        cmap_insert(&bonds->map, &bond->node, hash_int(id, 0));
    }
    bonds_unlock(bonds);
    return 0;
}

int
dpif_xdp_bond_del(struct dpif_xdp_bonds *bonds, uint32_t id)
{
    struct bond *bond;

    bonds_lock(bonds);
    bond = find_bond(bonds, id);
    if (bond) {
        cmap_remove(&bonds->map, &bond->node, hash_int(id, 0));
        ovsrcu_postpone(free, bond->stats);
        ovsrcu_postpone(free, bond);
    }
    bonds_unlock(bonds);
    return bond ? 0 : ENOENT;
}

int
dpif_xdp_bond_stats_get(struct dpif_xdp_bonds *bonds, uint32_t id,
                        uint64_t n_bytes[])
{
    struct bond *bond = find_bond(bonds, id);

    if (!bond) {
        return ENOENT;
    }
    for (size_t i = 0; i < BOND_BUCKETS; i++) {
        atomic_read_relaxed(&bond->stats->n_bytes[i], &n_bytes[i]);
    }
    return 0;
}

bool
dpif_xdp_bond_select(const struct dpif_xdp_bonds *bonds, uint32_t id,
                     uint32_t hash, odp_port_t *port_no)
{
    const struct bond *bond = find_bond(bonds, id);

    if (bond) {
        *port_no = bond->ports[hash & BOND_MASK];
    }
    return bond != NULL;
}

void
dpif_xdp_bond_account(struct dpif_xdp_bonds *bonds, uint32_t id, uint32_t hash,
                      uint32_t n_bytes)
{
    struct bond *bond = find_bond(bonds, id);

    if (bond) {
        size_t i = hash & BOND_MASK;
        uint64_t orig;

        atomic_add_relaxed(&bond->stats->n_packets[i], 1, &orig);
        atomic_add_relaxed(&bond->stats->n_bytes[i], n_bytes, &orig);
    }
}

void
dpif_xdp_bonds_report(const struct dpif_xdp_bonds *bonds, struct json *report)
{
    struct json *array = dpif_xdp_report_array(report, "bonds");
    struct bond *bond;

    CMAP_FOR_EACH (bond, node, &bonds->map) {
        struct json *entry = dpif_xdp_report_element(array);
        struct json *buckets;

        dpif_xdp_report_int(entry, "bond", bond->id);
        buckets = dpif_xdp_report_array(entry, "buckets");
        for (size_t i = 0; i < BOND_BUCKETS; i++) {
            struct json *bucket = dpif_xdp_report_element(buckets);
            uint64_t n_packets, n_bytes;

            atomic_read_relaxed(&bond->stats->n_packets[i], &n_packets);
            atomic_read_relaxed(&bond->stats->n_bytes[i], &n_bytes);
            dpif_xdp_report_int(bucket, "bucket", i);
            dpif_xdp_report_int(bucket, "port", odp_to_u32(bond->ports[i]));
            dpif_xdp_report_int(bucket, "packets", n_packets);
            dpif_xdp_report_int(bucket, "bytes", n_bytes);
        }
    }
}
