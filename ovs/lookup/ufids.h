/* SPDX-License-Identifier: Apache-2.0 */
/* Flows by unique identifier.  For writers: nothing here is thread-safe. */
#ifndef DPIF_XDP_UFIDS_H
#define DPIF_XDP_UFIDS_H 1

#include <stddef.h>

#include "openvswitch/types.h"

struct dpif_xdp_flow;

/* An open-addressed hash table.  Each flow is as near as possible behind the
 * slot that its identifier says, with no free slot in between. */
struct dpif_xdp_ufids {
    struct dpif_xdp_ufid_slot *slots;
    size_t mask;                        /* Number of slots - 1. */
    size_t n;                           /* Flows. */
};

void dpif_xdp_ufids_init(struct dpif_xdp_ufids *);
void dpif_xdp_ufids_destroy(struct dpif_xdp_ufids *);   /* Flows stay. */

/* 'flow' has its ufid already, which no other flow in '*ufids' has. */
void dpif_xdp_ufids_insert(struct dpif_xdp_ufids *ufids,
                           struct dpif_xdp_flow *flow);
void dpif_xdp_ufids_remove(struct dpif_xdp_ufids *,
                           const struct dpif_xdp_flow *);

/* Returns the flow with that identifier, or NULL. */
struct dpif_xdp_flow *dpif_xdp_ufids_find(const struct dpif_xdp_ufids *,
                                          const ovs_u128 *);

/* Prefetch what dpif_xdp_ufids_find() reads, and the flow: first the one for
 * several identifiers, then the other, which needs what the first fetched. */
void dpif_xdp_ufids_prefetch(const struct dpif_xdp_ufids *, const ovs_u128 *);
void dpif_xdp_ufids_prefetch_flow(const struct dpif_xdp_ufids *,
                                  const ovs_u128 *);

#endif /* ovs/lookup/ufids.h */
