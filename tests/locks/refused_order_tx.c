/* SPDX-License-Identifier: Apache-2.0 */
/* A lock of writers of flows inside that of senders. */
/* clang: mutex 'dpif_xdp_flow_mutex' must be acquired before 'dpif_xdp_tx_rwlock' */
#include <config.h>

#include "ovs/datapath/datapath.h"

void order_tx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port);

void
order_tx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    dpif_xdp_tx_rdlock(port);
    dpif_xdp_flow_lock(dp);
    dpif_xdp_flow_unlock(dp);
    dpif_xdp_tx_unlock(port);
}
