/* SPDX-License-Identifier: Apache-2.0 */
/* A function that is called without the lock that it wants. */
/* clang: calling function 'dpif_xdp_flows_optimize' requires holding mutex 'dpif_xdp_flow_mutex' */
#include <config.h>

#include "ovs/datapath/datapath.h"

void unlocked_call(struct dpif_xdp_dp *dp);

void
unlocked_call(struct dpif_xdp_dp *dp)
{
    dpif_xdp_flows_optimize(&dp->flows);
}
