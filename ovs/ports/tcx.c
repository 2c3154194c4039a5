/* SPDX-License-Identifier: Apache-2.0 */
/* Ports whose packets programs take at tcx, and the way up from there.
 *
 * What comes up passes through a veth pair of the datapath (core/programs/tcx.h), whose
 * far end is received from as a port is, but is none: the record before each
 * frame says which port it came from. */
#include <config.h>

#include "ovs/ports/ports.h"

#include <errno.h>

#include "core/kernel/shortcut.h"
#include "core/programs/tcx.h"
#include "netdev-provider.h"
#include "ovs/netdev/netdev_xdp.h"
#include "odp-util.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "timeval.h"
#include "util.h"
#include "core/xsk/sock.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_tcx);

#define UPCALL_QUEUES 1

static int open_upcalls(struct dpif_xdp_dp *, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* What every port at tcx needs. */
static int
prepare(struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
        char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    if (port->device.mtu > OXDP_MAX_TCX_MTU) {
        *errorp = xasprintf("MTU %"PRIu32" is too large: set it to at most "
                            "%u", port->device.mtu, OXDP_MAX_TCX_MTU);
        return EINVAL;
    }
    return open_upcalls(dp, errorp);
}

int
dpif_xdp_port_add_tcx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                      char **errorp)
{
    int error = prepare(dp, port, errorp);

    return (error ? error
            : -oxdp_tcx_attach_behind(dp->progs, port->device.ifindex,
                                      errorp));
}

int
dpif_xdp_port_continue_at_tcx(struct dpif_xdp_dp *dp,
                              struct dpif_xdp_port *port, char **errorp)
{
    int error = dpif_xdp_port_add_tcx(dp, port, errorp);

    if (error) {
        oxdp_progs_detach(dp->progs, port->device.ifindex);
        dpif_xdp_port_close_sockets(port, port->n_rxqs);
        port->n_rxqs = 0;
        oxdp_offloads_restore(port->offloads);
        port->offloads = NULL;
    }
    return error;
}

int
dpif_xdp_port_open_tcx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                       char **errorp)
{
    int error = prepare(dp, port, errorp);

    error = error ? error : dpif_xdp_sender_prepare(dp, errorp);
    error = error ? error : -oxdp_tcx_attach(dp->progs, port->device.ifindex,
                                             odp_to_u32(port->port_no),
                                             port->device.peer_xdp, errorp);
    if (error) {
        return error;
    }
    port->native = true;
    oxdp_offloads_serve(netdev_get_name(port->dev), &port->offloads);
    VLOG_INFO("%s: tcx", netdev_get_name(port->dev));
    return 0;
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

void
dpif_xdp_port_follow_shortcut(struct dpif_xdp_dp *dp,
                              struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);
    uint32_t port_no = odp_to_u32(port->port_no);
    struct dpif_xdp_netdev_config config;
    struct oxdp_shortcut shortcut;
    const char *why;
    int error;

    if (!oxdp_tcx_can_output(dp->progs, port_no)) {
        return;
    }
    dpif_xdp_netdev_get_config(port->dev, &config);
    port->tcx_egress = oxdp_tcx_has_egress(port->device.ifindex);
    why = (config.no_peer ? "options:xdp-peer=false"
           : !dpif_xdp_netdev_watch() ? "the kernel does not tell of changes"
           : port->tcx_egress ? "it has programs at egress"
           : oxdp_shortcut_get(name, &shortcut));
    error = -oxdp_tcx_set_shortcut(dp->progs, port_no, why ? NULL : &shortcut);
    if (error) {
        VLOG_ERR("%s: cannot change how packets reach the port (%s)", name,
                 ovs_strerror(error));
    } else {
        port->no_shortcut = why;
    }
}

/* Programs believe in shortcuts as long as this process looks after them.  It
 * hears of most changes at once; for the others it looks that often, at all
 * ports or, where the kernel makes it wait (each look takes the lock of all
 * devices), at as many as that leaves time for: the others have their turn. */
#define LOOK_MS 1000
#define LOOK_AT_MOST_MS 10
#define PERMIT_MS 3000

static void
look_at_egress(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    long long int end = time_msec() + LOOK_AT_MOST_MS;

    for (size_t n = dpif_xdp_n_ports(dp) + 1; n && time_msec() < end; n--) {
        struct dpif_xdp_port *port
            = dpif_xdp_port_next(dp, &dp->ports.shortcut_turn);

        if (!port) {                    /* That was the last one. */
            dp->ports.shortcut_turn = (struct cmap_position) { 0 };
            continue;
        }
        if (port->is_device && port->device.peer_ifindex
            && (oxdp_tcx_has_egress(port->device.ifindex)
                != port->tcx_egress)) {
            dpif_xdp_port_follow_shortcut(dp, port);
        }
    }
}

void
dpif_xdp_shortcuts_run(struct dpif_xdp_dp *dp)
{
    if (!dpif_xdp_upcalls_port(dp) || time_msec() < dp->ports.next_shortcut_look) {
        return;
    }
    look_at_egress(dp);
    oxdp_tcx_permit_shortcuts(dp->progs, PERMIT_MS);
    dp->ports.next_shortcut_look = time_msec() + LOOK_MS;
}

void
dpif_xdp_shortcuts_wait(const struct dpif_xdp_dp *dp)
{
    if (dpif_xdp_upcalls_port(dp)) {
        poll_timer_wait_until(dp->ports.next_shortcut_look);
    }
}

static void
free_upcalls(struct dpif_xdp_port *port)
{
    dpif_xdp_port_close_sockets(port, UPCALL_QUEUES);
    free(port->rxqs);
    netdev_close(port->dev);
    free(port);
}

/* Makes the way up, for the first port with tcx. */
static int
open_upcalls(struct dpif_xdp_dp *dp, char **errorp)
{
    struct dpif_xdp_port *port, *other;
    int fds[UPCALL_QUEUES];
    int error;

    if (dpif_xdp_upcalls_port(dp)) {
        return 0;
    }
    error = -oxdp_tcx_open(dp->progs, dp->name, UPCALL_QUEUES, errorp);
    if (error) {
        return error;
    }

    port = xzalloc(sizeof *port);
    port->port_no = ODPP_NONE;
    port->rxqs = xcalloc(UPCALL_QUEUES, sizeof *port->rxqs);
    error = netdev_open(oxdp_tcx_upcall_device(dp->progs), "system",
                        &port->dev);
    error = error ? error : -oxdp_device_get(netdev_get_name(port->dev),
                                             &port->device);
    error = error ? error : dpif_xdp_port_open_sockets(
        dp, port, OXDP_MODE_NATIVE, UPCALL_QUEUES, fds, errorp);
    for (uint32_t q = 0; !error && q < UPCALL_QUEUES; q++) {
        error = -oxdp_tcx_set_upcall_socket(dp->progs, q, fds[q]);
    }
    if (!error) {
        port->n_rxqs = UPCALL_QUEUES;
        error = dpif_xdp_threads_add_port(dp, port, errorp);
    }
    if (error) {
        free_upcalls(port);
        oxdp_tcx_close(dp->progs);
        return error;
    }
    dpif_xdp_set_upcalls_port(dp, port);
    DPIF_XDP_FOR_EACH_PORT (other, dp) {
        if (other->is_device && other->device.ifindex) {
            dpif_xdp_port_set_tcx_output(dp, other, true);
        }
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
