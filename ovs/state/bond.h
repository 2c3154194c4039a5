/* SPDX-License-Identifier: Apache-2.0 */
/* Bonds that the datapath balances itself (action lb_output, see
 * other_config:lb-output-action of Open vSwitch's Port table). */
#ifndef DPIF_XDP_BOND_H
#define DPIF_XDP_BOND_H 1

#include "cmap.h"
#include "openvswitch/types.h"
#include "ovs-thread.h"
#include "ovs/base/locks.h"

struct json;

struct dpif_xdp_bonds {
    struct ovs_mutex mutex;             /* dpif_xdp_bonds_mutex: writers. */
    struct cmap map;                    /* Of struct bond, by id. */
};

void dpif_xdp_bonds_init(struct dpif_xdp_bonds *);
void dpif_xdp_bonds_destroy(struct dpif_xdp_bonds *);

/* Adds bond 'id', or replaces it keeping its statistics; 'members' is the
 * port of each of the BOND_BUCKETS hash values.  Returns 0. */
int dpif_xdp_bond_add(struct dpif_xdp_bonds *, uint32_t id,
                      const odp_port_t *members);

/* Removes bond 'id'.  Returns 0 or ENOENT. */
int dpif_xdp_bond_del(struct dpif_xdp_bonds *, uint32_t id);

/* Stores the bytes sent for each of the BOND_BUCKETS hash values.  Returns 0
 * or ENOENT. */
int dpif_xdp_bond_stats_get(struct dpif_xdp_bonds *, uint32_t id,
                            uint64_t n_bytes[]);

/* The port of bond 'id' for a packet with 'hash'.  False: no such bond. */
bool dpif_xdp_bond_select(const struct dpif_xdp_bonds *, uint32_t id,
                          uint32_t hash, odp_port_t *);

/* Accounts a packet of 'n_bytes' sent where dpif_xdp_bond_select() said. */
void dpif_xdp_bond_account(struct dpif_xdp_bonds *, uint32_t id,
                           uint32_t hash, uint32_t n_bytes);

/* Puts "bonds" into 'report'. */
void dpif_xdp_bonds_report(const struct dpif_xdp_bonds *, struct json *report);

#endif /* ovs/state/bond.h */
