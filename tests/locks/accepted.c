/* SPDX-License-Identifier: Apache-2.0 */
/* Locks in the right order, and members with their locks. */
#include <config.h>

#include "ovs/datapath/datapath.h"

size_t in_order(struct dpif_xdp_dp *dp);

size_t
in_order(struct dpif_xdp_dp *dp)
{
    size_t n;

    dpif_xdp_port_lock(dp);
    dpif_xdp_flow_lock(dp);
    n = dp->flows.n_deleted + dp->ports.n_xdp_ports;
    dpif_xdp_flow_unlock(dp);
    dpif_xdp_port_unlock(dp);
    return n;
}
