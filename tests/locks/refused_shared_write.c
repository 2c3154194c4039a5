/* SPDX-License-Identifier: Apache-2.0 */
/* A write under a lock that is held for reading. */
/* clang: writing variable 'open' requires holding mutex 'dpif_xdp_tx_rwlock' exclusively */
#include <config.h>

#include "ovs/datapath/datapath.h"

void shared_write(struct dpif_xdp_port *port);

void
shared_write(struct dpif_xdp_port *port)
{
    dpif_xdp_tx_rdlock(port);
    port->open = true;
    dpif_xdp_tx_unlock(port);
}
