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

    CMAP_FOR_EACH_WITH_HASH (port, node, hash_port_no(port_no),
                             &dp->port_table.by_number) {
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

    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (!strcmp(netdev_get_name(port->netdev), devname)) {
            return port;
        }
    }
    return NULL;
}

bool
dpif_xdp_host_tunnel_is(const struct dpif_xdp_port *port)
{
    int ifindex;

    atomic_read_relaxed(
        &CONST_CAST(struct dpif_xdp_port *, port)->host_tunnel.ifindex,
        &ifindex);
    return ifindex;
}

void
dpif_xdp_port_table_insert(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    cmap_insert(&dp->port_table.by_number, &port->node,
                hash_port_no(port->port_no));
    seq_change(dp->port_table.seq);
}

void
dpif_xdp_port_table_remove(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    cmap_remove(&dp->port_table.by_number, &port->node,
                hash_port_no(port->port_no));
    seq_change(dp->port_table.seq);
}

bool
dpif_xdp_port_is_open(const struct dpif_xdp_port *port)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    return port->open;
}

bool
dpif_xdp_port_is_shaped(const struct dpif_xdp_port *port)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    return port->shaped;
}

bool
dpif_xdp_port_has_packet_socket(const struct dpif_xdp_port *port)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    return port->packet_socket;
}

size_t
dpif_xdp_port_n_rxqs(const struct dpif_xdp_port *port)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    return port->n_rxqs;
}

struct dpif_xdp_rxq *
dpif_xdp_port_rxq(const struct dpif_xdp_port *port, size_t i)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    return &port->rxqs[i];
}

struct dpif_xdp_rxq *
dpif_xdp_port_set_rxqs(struct dpif_xdp_port *port, struct dpif_xdp_rxq *rxqs,
                       size_t n)
{
    struct dpif_xdp_rxq *old;

    dpif_xdp_tx_wrlock(port);
    old = port->rxqs;
    port->rxqs = rxqs;
    port->n_rxqs = n;
    port->n_txqs = MIN(n, MAX(port->device.n_tx_queues, 1));
    dpif_xdp_tx_unlock(port);
    return old;
}

struct dpif_xdp_port *
dpif_xdp_port_next(const struct dpif_xdp_dp *dp,
                   struct cmap_position *position)
{
    struct cmap_node *node = cmap_next_position(&dp->port_table.by_number,
                                                position);

    return node ? CONTAINER_OF(node, struct dpif_xdp_port, node) : NULL;
}

size_t
dpif_xdp_n_ports(const struct dpif_xdp_dp *dp)
{
    return cmap_count(&dp->port_table.by_number);
}

struct seq *
dpif_xdp_ports_seq(const struct dpif_xdp_dp *dp)
{
    return dp->port_table.seq;
}

struct dpif_xdp_port *
dpif_xdp_upcalls_port(const struct dpif_xdp_dp *dp)
{
    return dp->port_table.upcalls;
}

void
dpif_xdp_set_upcalls_port(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    dp->port_table.upcalls = port;
}

void
dpif_xdp_port_table_init(struct dpif_xdp_port_table *table)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    cmap_init(&table->by_number);
    table->seq = seq_create();
    table->upcalls = NULL;
}

void
dpif_xdp_port_table_destroy(struct dpif_xdp_port_table *table)
{
    cmap_destroy(&table->by_number);
    seq_destroy(table->seq);
}
