/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that is not released. */
/* clang: mutex 'dpif_xdp_flow_mutex' is still held at the end of function */
#include <config.h>

#include "ovs/datapath/datapath.h"

void kept(struct dpif_xdp_dp *dp);

void
kept(struct dpif_xdp_dp *dp)
{
    dpif_xdp_flow_lock(dp);
}
