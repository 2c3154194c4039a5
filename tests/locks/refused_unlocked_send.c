/* SPDX-License-Identifier: Apache-2.0 */
/* What senders look at, without their lock. */
/* clang: reading variable 'shaped' requires holding mutex 'dpif_xdp_tx_rwlock' */
#include <config.h>

#include "ovs/datapath/datapath.h"

bool unlocked_send(const struct dpif_xdp_port *port);

bool
unlocked_send(const struct dpif_xdp_port *port)
{
    return port->shaped;
}
