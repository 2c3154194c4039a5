/* SPDX-License-Identifier: Apache-2.0 */
/* Two locks in the wrong order. */
/* clang: mutex 'dpif_xdp_port_mutex' must be acquired before 'dpif_xdp_flow_mutex' */
#include <config.h>

#include "ovs/datapath/datapath.h"

void out_of_order(struct dpif_xdp_dp *dp);

void
out_of_order(struct dpif_xdp_dp *dp)
{
    dpif_xdp_flow_lock(dp);
    dpif_xdp_port_lock(dp);
    dpif_xdp_port_unlock(dp);
    dpif_xdp_flow_unlock(dp);
}
