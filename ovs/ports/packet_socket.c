/* SPDX-License-Identifier: Apache-2.0 */
/* A port without programs: the engine receives copies of what arrives through
 * a packet socket of Open vSwitch's own, as stock Open vSwitch does in
 * userspace.  For hosts without BPF or AF_XDP. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>

#include "core/kernel/device.h"
#include "netdev-linux-private.h"
#include "netdev-provider.h"
#include "ovs/engine/engine.h"
#include "util.h"

int
dpif_xdp_port_open_packet_socket(struct dpif_xdp_dp *dp,
                                 struct dpif_xdp_port *port, char **errorp)
{
    struct dpif_xdp_rxq *rxq = xcalloc(1, sizeof *rxq);
    int error = netdev_rxq_open(port->dev, &rxq->rxq, 0);

    if (error) {
        *errorp = xasprintf("cannot open a packet socket either (%s): run as "
                            "root, or with CAP_NET_RAW", ovs_strerror(error));
        free(rxq);
        return error;
    }
    rxq->port = port;
    rxq->fd = netdev_rxq_linux_cast(rxq->rxq)->fd;
    rxq->local_stack = port->device.local_stack;

    /* With these offloads a copy would be CHECKSUM_PARTIAL, or have GSO. */
    oxdp_offloads_off(netdev_get_name(port->dev), &port->offloads);
    error = dpif_xdp_port_resume_packet_socket(dp, port, rxq, errorp);
    if (error) {
        oxdp_offloads_restore(port->offloads);
        port->offloads = NULL;
        dpif_xdp_port_close_packet_socket(port, rxq);
    }
    return error;
}

struct dpif_xdp_rxq *
dpif_xdp_port_park_packet_socket(struct dpif_xdp_port *port)
{
    dpif_xdp_threads_remove_port(port);
    return dpif_xdp_port_set_rxqs(port, NULL, 0);
}

int
dpif_xdp_port_resume_packet_socket(struct dpif_xdp_dp *dp,
                                   struct dpif_xdp_port *port,
                                   struct dpif_xdp_rxq *parked, char **errorp)
{
    int error;

    dpif_xdp_tx_wrlock(port);
    port->packet_socket = true;
    dpif_xdp_tx_unlock(port);
    dpif_xdp_port_set_rxqs(port, parked, 1);
    error = dpif_xdp_threads_add_port(dp, port, errorp);
    if (error) {
        dpif_xdp_port_park_packet_socket(port);
    }
    return error;
}

void
dpif_xdp_port_close_packet_socket(struct dpif_xdp_port *port,
                                  struct dpif_xdp_rxq *parked)
{
    dpif_xdp_tx_wrlock(port);
    port->packet_socket = false;
    dpif_xdp_tx_unlock(port);
    netdev_rxq_close(parked->rxq);
    free(parked);
}
