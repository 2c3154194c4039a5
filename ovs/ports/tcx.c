/* SPDX-License-Identifier: Apache-2.0 */
/* Ports whose packets programs take at tcx, and the upcall pair.
 *
 * What comes up passes through a veth pair of the datapath
 * (core/programs/tcx.h), whose peer the engine receives from as from a port:
 * the record before each frame says from which port it came. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>

#include "core/kernel/device.h"
#include "core/programs/tcx.h"
#include "netdev-provider.h"
#include "ovs/netdev/netdev_xdp.h"
#include "odp-util.h"
#include "openvswitch/vlog.h"
#include "util.h"
#include "core/xsk/sock.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_tcx);

#define UPCALL_QUEUES 1

static int open_upcalls(struct dpif_xdp_dp *, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

int
dpif_xdp_port_add_tcx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                      char **errorp)
{
    bool has_xdp = dpif_xdp_hook_has_xdp(dpif_xdp_port_get_hook(port));
    int error = open_upcalls(dp, errorp);

    error = error ? error : dpif_xdp_sender_prepare(dp, errorp);
    if (error) {
        return error;
    }
    if (has_xdp) {
        error = -oxdp_tcx_attach_behind(dp->progs, port->device.ifindex,
                                        errorp);
    } else {
        error = -oxdp_tcx_attach(dp->progs, port->device.ifindex,
                                 odp_to_u32(port->port_no),
                                 port->device.peer_xdp, errorp);
    }
    if (error) {
        return error;
    }
    VLOG_INFO("%s: tcx", netdev_get_name(port->dev));
    if (has_xdp) {
        dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_BOTH);
    } else {
        port->native = true;
        oxdp_offloads_serve(netdev_get_name(port->dev), &port->offloads);
        dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_TCX);
    }
    return 0;
}

int
dpif_xdp_port_add_tunnel(struct dpif_xdp_dp *dp,
                         const struct dpif_xdp_port *port, int ifindex,
                         char **errorp)
{
    int error = open_upcalls(dp, errorp);

    return error ? error : -oxdp_tcx_attach_tunnel(dp->progs, ifindex,
                                                   odp_to_u32(port->port_no),
                                                   errorp);
}

void
dpif_xdp_port_leave_tcx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_XDP);
    oxdp_tcx_leave(dp->progs, port->device.ifindex);
    VLOG_INFO("%s: XDP", netdev_get_name(port->dev));
}

void
dpif_xdp_port_set_tcx_output(struct dpif_xdp_dp *dp,
                             struct dpif_xdp_port *port, bool on)
{
    if (dpif_xdp_upcalls_port(dp) && port->is_device) {
        int error = -oxdp_tcx_set_output(dp->progs, odp_to_u32(port->port_no),
                                         on ? port->device.ifindex : 0);

        if (error) {
            VLOG_ERR("%s: the engine sends what goes to this port, tcx cannot "
                     "(%s)", netdev_get_name(port->dev),
                     ovs_strerror(error));
        } else if (on) {
            dpif_xdp_flow_lock(dp);
            dpif_xdp_fastpath_port_opened(dp);
            dpif_xdp_flow_unlock(dp);
            dpif_xdp_port_follow_shortcut(dp, port);
        }
    }
}

static void
free_upcalls(struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_rxq *rxqs = dpif_xdp_port_set_rxqs(port, NULL, 0);

    dpif_xdp_port_close_sockets(rxqs, UPCALL_QUEUES);
    free(rxqs);
    netdev_close(port->dev);
    ovs_rwlock_destroy(&port->tx_rwlock);
    free(port);
}

static int
make_upcalls(struct dpif_xdp_dp *dp, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_rxq *rxqs;
    struct dpif_xdp_port *port;
    int error = -oxdp_tcx_open(dp->progs, dp->name, UPCALL_QUEUES, errorp);

    if (error) {
        return error;
    }

    port = xzalloc(sizeof *port);
    port->port_no = ODPP_NONE;
    ovs_rwlock_init(&port->tx_rwlock);
    rxqs = xcalloc(UPCALL_QUEUES, sizeof *rxqs);
    dpif_xdp_port_set_rxqs(port, rxqs, UPCALL_QUEUES);
    error = netdev_open(oxdp_tcx_upcall_device(dp->progs), "system",
                        &port->dev);
    error = error ? error : -oxdp_device_get(netdev_get_name(port->dev),
                                             &port->device);
    error = error ? error : dpif_xdp_port_open_sockets(
        dp, port, OXDP_MODE_NATIVE, rxqs, 0, UPCALL_QUEUES, errorp);
    for (uint32_t q = 0; !error && q < UPCALL_QUEUES; q++) {
        error = -oxdp_tcx_set_upcall_socket(dp->progs, q, rxqs[q].fd);
    }
    if (!error) {
        error = dpif_xdp_threads_add_port(dp, port, errorp);
    }
    if (error) {
        free_upcalls(port);
        oxdp_tcx_close(dp->progs);
        return error;
    }
    dpif_xdp_set_upcalls_port(dp, port);
    return 0;
}

/* Makes the upcall pair, for the first port with tcx; after a failure only
 * when some time has passed. */
static int
open_upcalls(struct dpif_xdp_dp *dp, char **errorp)
{
    bool had_failed = dp->ports.tcx_side.error;
    struct dpif_xdp_port *port;
    int error;

    if (dpif_xdp_upcalls_port(dp)) {
        return 0;
    }
    if (dpif_xdp_backoff_waits(&dp->ports.tcx_side, &error, errorp)) {
        return error;
    }
    error = make_upcalls(dp, errorp);
    dpif_xdp_backoff_note(&dp->ports.tcx_side, error, *errorp);
    if (error) {
        return error;
    }
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (port->is_device && port->device.ifindex) {
            dpif_xdp_port_set_tcx_output(dp, port, true);
        }
    }
    if (had_failed) {
        dpif_xdp_ports_retry(dp);
    }
    return 0;
}

void
dpif_xdp_upcalls_close(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port = dpif_xdp_upcalls_port(dp);

    if (port) {
        dpif_xdp_threads_remove_port(port);
        free_upcalls(port);
        dpif_xdp_set_upcalls_port(dp, NULL);
    }
}
