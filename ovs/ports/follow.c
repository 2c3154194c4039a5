/* SPDX-License-Identifier: Apache-2.0 */
/* Following what happens to the devices of ports. */
#include <config.h>

#include "ovs/ports/ports.h"

#include <limits.h>

#include "core/kernel/redirect.h"
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
#include "seq.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_follow);

static void set_absent(struct dpif_xdp_dp *, struct dpif_xdp_port *)
    OVS_REQUIRES(dpif_xdp_port_mutex);

/* Whether nothing that 'port' has in the kernel has lost its device. */
static bool
is_alive(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    int hook;

    for (size_t i = 0; i < port->n_rxqs; i++) {
        if (port->rxqs[i].sock && !oxdp_sock_alive(port->rxqs[i].sock)) {
            return false;
        }
    }
    atomic_read(&port->hook, &hook);
    return (dpif_xdp_sender_is_alive(port)
            && (hook == DPIF_XDP_HOOK_XDP
                || oxdp_tcx_is_attached(dp->progs, port->device.ifindex))
            && !oxdp_progs_lost_output(dp->progs, odp_to_u32(port->port_no)));
}

/* Not everything that keeps a port from being opened is heard of when it
 * ends. */
#define RETRY_MS 5000

/* How often to look for programs of others. */
#define LOOK_MS 5000

/* Whether 'port' is open as its device and its options are now. */
static bool
is_current(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
           int ifindex, uint64_t config_seq)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    return (ifindex == port->device.ifindex && config_seq == port->config_seq
            && is_alive(dp, port));
}

/* Somebody has deleted the interface of an internal port, or its network
 * namespace.  The kernel tells of the new one, which then is opened. */
static void
restore(struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    char *text = NULL;
    int error = dpif_xdp_internal_restore(port->netdev, &text);

    if (error) {
        if (dpif_xdp_netdev_set_status(port->dev, "none", "tcx", NULL, text)) {
            VLOG_ERR("%s: the interface was deleted and does not come back: "
                     "%s", netdev_get_name(port->netdev), text);
        }
        port->retry = time_msec() + RETRY_MS;
    } else {
        VLOG_INFO("%s: the interface was deleted, made it again: without "
                  "addresses, and down", netdev_get_name(port->netdev));
    }
    free(text);
}

/* Opens 'port' anew if its device is another one now, or if its options
 * changed, or if a program that came to the other end of a veth or went makes
 * that necessary, or if opening failed a while ago; closes it if the device is
 * gone. */
void
dpif_xdp_port_follow(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    uint64_t change_seq = netdev_get_change_seq(port->dev);
    struct dpif_xdp_netdev_config config;
    int ifindex;

    if (time_msec() >= port->next_look) {
        port->next_look = time_msec() + LOOK_MS;
        dpif_xdp_netdev_follow_others(port->dev);
    }
    dpif_xdp_netdev_get_config(port->dev, &config);
    if (!dpif_xdp_port_look_at_guest(dp, port)
        && change_seq == port->change_seq && config.seq == port->config_seq
        && config.obj_seq == port->obj_seq && time_msec() < port->retry) {
        return;
    }
    port->change_seq = change_seq;
    port->retry = LLONG_MAX;

    ifindex = netdev_get_ifindex(port->dev);
    if (config.obj_seq != port->obj_seq && port->device.ifindex) {
        dpif_xdp_port_follow_obj(dp, port);
    }
    if (is_current(dp, port, ifindex, config.seq)
        && dpif_xdp_port_follow_other_end(dp, port)) {
        ovs_rwlock_wrlock(&port->tx_rwlock);
        port->shaped = config.shaped;
        ovs_rwlock_unlock(&port->tx_rwlock);
        dpif_xdp_port_follow_carrier(dp, port);
        dpif_xdp_port_follow_shortcut(dp, port);
        dpif_xdp_port_follow_guest(dp, port);
        return;
    }
    if (port->device.ifindex) {
        VLOG_INFO("%s: %s", netdev_get_name(port->dev),
                  ifindex > 0 ? "device or options changed, opening again"
                  : "device is gone, waiting for it to come back");
        dpif_xdp_port_close(dp, port);
    }
    if (ifindex <= 0 && dpif_xdp_internal_is(port->netdev)) {
        restore(port);
    } else if (ifindex > 0) {
        if (dpif_xdp_port_open(dp, port)) {
            port->retry = time_msec() + RETRY_MS;
        } else {
            dpif_xdp_netdev_set_promiscuous(port->dev, true);
        }
    } else if (dp->progs) {
        set_absent(dp, port);
    }
}

void
dpif_xdp_ports_follow_xdp(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;

    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (port->is_device && port->device.ifindex) {
            dpif_xdp_port_follow_carrier(dp, port);
        }
    }
}

/* A device without XDP of ours is prepared for it only when there is somebody
 * who redirects. */
static bool
can_be_target(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    int hook;

    atomic_read(&port->hook, &hook);
    if (hook != DPIF_XDP_HOOK_TCX || port->prepared) {
        return true;
    }
    if (dp->ports.n_xdp_ports) {
        oxdp_offloads_poll(netdev_get_name(port->dev), &port->offloads);
        port->prepared = true;
    }
    return port->prepared;
}

/* Has the engine send what goes to 'port'. */
static void
stop_output(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    oxdp_progs_set_output(dp->progs, odp_to_u32(port->port_no), 0);
    port->redirects = false;
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_port_closed(dp, port->port_no);
    dpif_xdp_flow_unlock(dp);
}

/* Has flows that wait for this port put again. */
static void
output_changed(struct dpif_xdp_dp *dp)
{
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_settle(dp);
    dpif_xdp_fastpath_port_opened(dp);
    dpif_xdp_flow_unlock(dp);
}

/* Nobody gets what goes to 'port' now, whoever sends it: XDP may run flows that
 * output there, too. */
static void
set_absent(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    oxdp_progs_set_absent(dp->progs, odp_to_u32(port->port_no));
    port->redirects = false;
    output_changed(dp);
}

/* Lets XDP send to 'port' while its device has a carrier and takes what is
 * redirected to it, unless that would pass by its queueing discipline. */
void
dpif_xdp_port_follow_carrier(struct dpif_xdp_dp *dp,
                             struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);
    uint32_t port_no = odp_to_u32(port->port_no);
    bool up = netdev_get_carrier(port->dev);
    bool wanted = (port->native && up && !port->shaped
                   && can_be_target(dp, port)
                   && (!port->redirects || oxdp_redirect_works(name)));
    bool absent = port->native && !up && !port->shaped;
    bool was_absent = oxdp_progs_is_absent(dp->progs, port_no);
    int error;

    if (wanted == port->redirects && absent == was_absent) {
        return;
    }
    if (absent) {
        set_absent(dp, port);
        return;
    }
    if (!wanted) {
        if (port->redirects && up && !port->shaped) {
            VLOG_INFO("%s: the device does not take redirected frames any "
                      "more, the engine sends what goes to this port", name);
        }
        stop_output(dp, port);
        return;
    }

    error = oxdp_redirect_prepare(name);
    if (!error) {
        error = oxdp_progs_set_output(dp->progs, port_no,
                                      port->device.ifindex);
    }
    if (error) {
        VLOG_DBG("%s: the engine sends what goes to this port, programs "
                 "cannot (%s)", name, ovs_strerror(-error));
        if (was_absent) {
            stop_output(dp, port);
        }
        return;
    }
    port->redirects = true;
    output_changed(dp);
}
