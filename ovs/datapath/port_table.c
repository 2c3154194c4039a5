/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/datapath/port_table.h"

#include "hash.h"
#include "netdev.h"
#include "odp-util.h"
#include "ovs/datapath/datapath.h"
#include "seq.h"

static uint32_t
hash_port_no(odp_port_t port_no)
{
    return hash_int(odp_to_u32(port_no), 0);
}

struct dpif_xdp_port *
dpif_xdp_port_lookup(const struct dpif_xdp_dp *dp, odp_port_t port_no)
{
    struct dpif_xdp_port *port;

    CMAP_FOR_EACH_WITH_HASH (port, node, hash_port_no(port_no), &dp->ports) {
        if (port->port_no == port_no) {
            return port;
        }
    }
    return NULL;
}

struct dpif_xdp_port *
dpif_xdp_port_find_by_name(const struct dpif_xdp_dp *dp, const char *devname)
{
    struct dpif_xdp_port *port;

    CMAP_FOR_EACH (port, node, &dp->ports) {
        if (!strcmp(netdev_get_name(port->netdev), devname)) {
            return port;
        }
    }
    return NULL;
}

void
dpif_xdp_port_table_insert(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    cmap_insert(&dp->ports, &port->node, hash_port_no(port->port_no));
    seq_change(dp->port_seq);
}

void
dpif_xdp_port_table_remove(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    cmap_remove(&dp->ports, &port->node, hash_port_no(port->port_no));
    seq_change(dp->port_seq);
}
