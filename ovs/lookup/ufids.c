/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/lookup/ufids.h"

#include <stdint.h>
#include <stdlib.h>

#include "util.h"
#include "ovs/lookup/flow_table.h"

#define MIN_SLOTS 64

struct dpif_xdp_ufid_slot {
    uint64_t lo;                        /* Half of the flow's identifier. */
    struct dpif_xdp_flow *flow;         /* NULL: free. */
};

static void resize(struct dpif_xdp_ufids *, size_t n_slots);

void
dpif_xdp_ufids_init(struct dpif_xdp_ufids *ufids)
{
    ufids->slots = xcalloc(MIN_SLOTS, sizeof *ufids->slots);
    ufids->mask = MIN_SLOTS - 1;
    ufids->n = 0;
}

void
dpif_xdp_ufids_destroy(struct dpif_xdp_ufids *ufids)
{
    free(ufids->slots);
}

/* An identifier need not be random: dpctl takes any. */
static size_t
first_slot(const struct dpif_xdp_ufids *ufids, uint64_t lo)
{
    return (lo * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & ufids->mask;
}

static void
put(struct dpif_xdp_ufids *ufids, struct dpif_xdp_ufid_slot slot)
{
    size_t i = first_slot(ufids, slot.lo);

    while (ufids->slots[i].flow) {
        i = (i + 1) & ufids->mask;
    }
    ufids->slots[i] = slot;
}

void
dpif_xdp_ufids_insert(struct dpif_xdp_ufids *ufids, struct dpif_xdp_flow *flow)
{
    if (++ufids->n > (ufids->mask + 1) / 8 * 5) {
        resize(ufids, 2 * (ufids->mask + 1));
    }
    put(ufids, (struct dpif_xdp_ufid_slot) { flow->ufid.u64.lo, flow });
}

void
dpif_xdp_ufids_remove(struct dpif_xdp_ufids *ufids,
                      const struct dpif_xdp_flow *flow)
{
    size_t hole = first_slot(ufids, flow->ufid.u64.lo);
    size_t i;

    while (ufids->slots[hole].flow != flow) {
        hole = (hole + 1) & ufids->mask;
    }

    /* Flows behind the hole move into it unless that is before their first
     * slot. */
    for (i = hole; ufids->slots[i = (i + 1) & ufids->mask].flow;) {
        size_t first = first_slot(ufids, ufids->slots[i].lo);

        if (((i - first) & ufids->mask) >= ((i - hole) & ufids->mask)) {
            ufids->slots[hole] = ufids->slots[i];
            hole = i;
        }
    }
    ufids->slots[hole].flow = NULL;
    if (--ufids->n < ufids->mask / 8 && ufids->mask >= MIN_SLOTS) {
        resize(ufids, (ufids->mask + 1) / 2);
    }
}

static void
resize(struct dpif_xdp_ufids *ufids, size_t n_slots)
{
    struct dpif_xdp_ufid_slot *old = ufids->slots;
    size_t n_old = ufids->mask + 1;

    ufids->slots = xcalloc(n_slots, sizeof *ufids->slots);
    ufids->mask = n_slots - 1;
    for (size_t i = 0; i < n_old; i++) {
        if (old[i].flow) {
            put(ufids, old[i]);
        }
    }
    free(old);
}

static struct dpif_xdp_ufid_slot *
find_half(const struct dpif_xdp_ufids *ufids, size_t i, uint64_t lo)
{
    while (ufids->slots[i].flow && ufids->slots[i].lo != lo) {
        i = (i + 1) & ufids->mask;
    }
    return &ufids->slots[i];
}

struct dpif_xdp_flow *
dpif_xdp_ufids_find(const struct dpif_xdp_ufids *ufids, const ovs_u128 *ufid)
{
    size_t i = first_slot(ufids, ufid->u64.lo);

    for (;;) {
        struct dpif_xdp_ufid_slot *slot = find_half(ufids, i, ufid->u64.lo);

        if (!slot->flow || ovs_u128_equals(slot->flow->ufid, *ufid)) {
            return slot->flow;
        }
        i = (slot - ufids->slots + 1) & ufids->mask;
    }
}

void
dpif_xdp_ufids_prefetch(const struct dpif_xdp_ufids *ufids,
                        const ovs_u128 *ufid)
{
    OVS_PREFETCH(&ufids->slots[first_slot(ufids, ufid->u64.lo)]);
}

void
dpif_xdp_ufids_prefetch_flow(const struct dpif_xdp_ufids *ufids,
                             const ovs_u128 *ufid)
{
    size_t i = first_slot(ufids, ufid->u64.lo);
    struct dpif_xdp_flow *flow = find_half(ufids, i, ufid->u64.lo)->flow;

    if (flow) {
        dpif_xdp_flow_prefetch(flow);
    }
}
