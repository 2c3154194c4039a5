/* SPDX-License-Identifier: Apache-2.0 */
/* Which hook takes the packets of a port, and changing it while the port is
 * open: the new one is there before the old one goes, and in between flows are
 * such that either runs them, so that no packet is lost. */
#include <config.h>

#include "ovs/ports/ports.h"

#include <errno.h>
#include <poll.h>

#include "core/programs/tcx.h"
#include "netdev-provider.h"
#include "ovs/netdev/netdev_internal.h"
#include "ovs/netdev/netdev_xdp.h"
#include "openvswitch/vlog.h"
#include "timeval.h"
#include "util.h"
#include "core/xsk/sock.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_hook);

#define DRAIN_MS 100

/* What is unfinished should stay whole.  Whoever asks for a mode or a program of XDP wants XDP.
 * Internal ports have no options: the host wants its offloads. */
enum dpif_xdp_hook
dpif_xdp_port_choose_hook(const struct dpif_xdp_dp *dp,
                          const struct dpif_xdp_port *port,
                          const struct dpif_xdp_netdev_config *config)
{
    enum dpif_xdp_hook hook = (config->hook == DPIF_XDP_HOOK_AUTO
                               ? dp->ports.hook : config->hook);

    return (dpif_xdp_internal_is(port->netdev) ? DPIF_XDP_HOOK_TCX
            : hook != DPIF_XDP_HOOK_AUTO ? hook
            : config->mode == OXDP_MODE_BEST_EFFORT && !config->has_obj
              && oxdp_device_sends_unfinished(&port->device)
            ? DPIF_XDP_HOOK_TCX : DPIF_XDP_HOOK_XDP);
}

void
dpif_xdp_port_set_hook(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
                       enum dpif_xdp_hook hook)
{
    atomic_store(&port->hook, (int) hook);
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_hook_changed(dp, port->port_no);
    dpif_xdp_flow_unlock(dp);
}

static int
move_to_xdp(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
            const char **mode_text, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    int error;

    dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_BOTH);
    oxdp_offloads_off(netdev_get_name(port->dev), &port->offloads);
    dpif_xdp_sender_stop(dp, port);
    error = dpif_xdp_port_open_xdp(dp, port, OXDP_MODE_BEST_EFFORT, mode_text,
                                   errorp);
    error = error ? error : dpif_xdp_threads_add_port(dp, port, errorp);
    if (error) {
        atomic_store(&port->hook, DPIF_XDP_HOOK_TCX);
        return error;
    }
    dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_XDP);
    oxdp_tcx_leave(dp->progs, port->device.ifindex);
    if (!dp->ports.n_xdp_ports++) {
        dpif_xdp_ports_follow_xdp(dp);
    }
    return 0;
}

/* Waits until engine threads have received what the sockets of 'port' have. */
static void
drain(const struct dpif_xdp_port *port)
{
    long long int end = time_msec() + DRAIN_MS;

    for (size_t i = 0; i < port->n_rxqs; i++) {
        struct pollfd pfd = { .fd = port->rxqs[i].fd, .events = POLLIN };

        while (poll(&pfd, 1, 0) > 0 && time_msec() < end) {
            xnanosleep(1000 * 1000);
        }
    }
}

static void
close_sockets(struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_rxq *rxqs = port->rxqs;
    size_t n = port->n_rxqs;

    drain(port);
    dpif_xdp_threads_remove_port(port);
    ovs_rwlock_wrlock(&port->tx_rwlock);
    port->rxqs = NULL;
    port->n_rxqs = 0;
    ovs_rwlock_unlock(&port->tx_rwlock);
    for (size_t i = 0; i < n; i++) {
        oxdp_sock_close_later(rxqs[i].sock);
    }
    free(rxqs);
}

static int
move_to_tcx(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *name = netdev_get_name(port->dev);
    int error = dpif_xdp_sender_prepare(dp, errorp);

    error = error ? error : dpif_xdp_port_add_tcx(dp, port, errorp);
    if (error) {
        return error;
    }
    dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_BOTH);
    oxdp_offloads_serve(name, &port->offloads);
    oxdp_progs_leave_xdp(dp->progs, port->device.ifindex);
    oxdp_offloads_after_xdp(name, &port->offloads);
    dpif_xdp_port_set_hook(dp, port, DPIF_XDP_HOOK_TCX);
    close_sockets(port);
    port->native = true;
    port->prepared = true;              /* XDP has been sending to it. */
    port->local_stack = false;
    dp->ports.n_xdp_ports--;
    return 0;
}

/* What has changed about the device since 'port' was opened; but the hook is
 * chosen for the other end as it was seen, and chosen again if that has changed
 * by now: the kernel tells of it. */
static int
refresh_device(struct dpif_xdp_port *port)
{
    struct oxdp_device device;
    int error = -oxdp_device_get(netdev_get_name(port->dev), &device);

    if (error || device.ifindex != port->device.ifindex) {
        return error ? error : ENODEV;
    }
    device.peer_xdp = port->device.peer_xdp;
    device.guest_offloads = port->device.guest_offloads;
    port->device = device;
    return 0;
}

/* Takes 'port' from tcx to XDP or back, as 'wanted'.  On failure it is to be
 * closed. */
static int
change_hook(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
            enum dpif_xdp_hook wanted)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *name = netdev_get_name(port->dev);
    const char *mode_text = "none";
    char *text = NULL;
    int error = refresh_device(port);

    error = (error ? error
             : wanted == DPIF_XDP_HOOK_XDP
             ? move_to_xdp(dp, port, &mode_text, &text)
             : move_to_tcx(dp, port, &text));
    if (error) {
        VLOG_DBG("%s: cannot change the hook while the port is open: %s",
                 name, text ? text : ovs_strerror(error));
    } else {
        dpif_xdp_netdev_set_status(port->dev, mode_text,
                                   dpif_xdp_hook_to_string(wanted), port->obj,
                                   NULL);
        VLOG_INFO("%s: %s", name, wanted == DPIF_XDP_HOOK_XDP ? "XDP" : "tcx");
    }
    free(text);
    return error;
}

/* Looks at the other end of 'port' again, and returns whether it is otherwise
 * than it was. */
static bool
refresh_other_end(struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *name = netdev_get_name(port->dev);
    bool peer_xdp = oxdp_device_peer_has_xdp(name);
    bool guest_offloads = dpif_xdp_port_guest_has_offloads(port);
    bool changed = false;

    if (peer_xdp != port->device.peer_xdp) {
        VLOG_INFO("%s: an XDP program %s the other end", name,
                  peer_xdp ? "came to" : "went from");
        changed = true;
    }
    if (guest_offloads != port->device.guest_offloads) {
        VLOG_INFO("%s: the guest turned its offloads %s", name,
                  guest_offloads ? "on" : "off");
        changed = true;
    }
    port->device.peer_xdp = peer_xdp;
    port->device.guest_offloads = guest_offloads;
    return changed;
}

bool
dpif_xdp_port_follow_other_end(struct dpif_xdp_dp *dp,
                               struct dpif_xdp_port *port)
{
    struct dpif_xdp_netdev_config config;
    bool peer_xdp;
    enum dpif_xdp_hook wanted;
    int hook;

    if (!refresh_other_end(port)) {
        return true;
    }
    peer_xdp = port->device.peer_xdp;
    dpif_xdp_netdev_get_config(port->dev, &config);
    wanted = dpif_xdp_port_choose_hook(dp, port, &config);
    atomic_read(&port->hook, &hook);
    if ((int) wanted != hook) {
        return dp->ports.taken_over && !change_hook(dp, port, wanted);
    }
    if (hook == DPIF_XDP_HOOK_TCX
        && oxdp_tcx_set_from_xdp(dp->progs, port->device.ifindex, peer_xdp)) {
        return false;
    }
    oxdp_offloads_follow_peer(netdev_get_name(port->dev), peer_xdp,
                              &port->offloads);
    return true;
}
