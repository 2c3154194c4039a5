/* SPDX-License-Identifier: Apache-2.0 */
/* A member without its lock. */
/* clang: reading variable 'n_xdp_ports' requires holding mutex 'dpif_xdp_port_mutex' */
#include <config.h>

#include "ovs/datapath/datapath.h"

size_t unguarded(const struct dpif_xdp_dp *dp);

size_t
unguarded(const struct dpif_xdp_dp *dp)
{
    return dp->ports.n_xdp_ports;
}
