/* SPDX-License-Identifier: Apache-2.0 */
/* Reacts to changes of ports' devices. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <limits.h>

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

/* Whether all that 'port' has in the kernel still has its device. */
static bool
is_alive(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    enum dpif_xdp_hook hook = dpif_xdp_port_get_hook(port);

    for (size_t i = 0; i < dpif_xdp_port_n_rxqs(port); i++) {
        const struct dpif_xdp_rxq *rxq = dpif_xdp_port_rxq(port, i);

        if (rxq->sock && !oxdp_sock_alive(rxq->sock)) {
            return false;
        }
    }
    return (dpif_xdp_sender_is_alive(port)
            && (!dpif_xdp_hook_has_tcx(hook)
                || oxdp_tcx_is_attached(dp->progs, port->device.ifindex))
            && (!dp->progs
                || !oxdp_progs_lost_output(dp->progs,
                                           odp_to_u32(port->port_no))));
}

/* How often to look for foreign programs. */
#define LOOK_MS 5000

/* The kernel does not report the end of everything that keeps a port from
 * being opened. */
void
dpif_xdp_port_try_later(struct dpif_xdp_port *port)
{
    port->retry_ms = dpif_xdp_backoff_next(port->retry_ms);
    port->retry = time_msec() + port->retry_ms;
}

/* The interface of an internal port was deleted, perhaps with its network
 * namespace.  The kernel reports the new one, which then is opened. */
static void
restore(struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    char *text = NULL;
    int error = dpif_xdp_internal_restore(port->netdev, &text);

    if (error) {
        if (dpif_xdp_netdev_set_status(port->dev, "none", "none", NULL,
                                       text)) {
            VLOG_ERR("%s: the interface was deleted and does not come back: "
                     "%s", netdev_get_name(port->netdev), text);
        }
        dpif_xdp_port_try_later(port);
    } else {
        VLOG_INFO("%s: the interface was deleted, made it again: without "
                  "addresses, and down", netdev_get_name(port->netdev));
    }
    free(text);
}

/* Opens 'port', whose device is there, or notes to try it again. */
static void
open_again(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    if (dpif_xdp_port_open(dp, port)) {
        dpif_xdp_port_try_later(port);
    } else {
        dpif_xdp_netdev_set_promiscuous(port->dev, true);
    }
}

/* Whether nothing happened since 'port' was looked at. */
static bool
is_quiet(const struct dpif_xdp_port *port, uint64_t change_seq)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_netdev_config config;

    dpif_xdp_netdev_get_config(port->dev, &config);
    return (change_seq == port->change_seq && config.seq == port->config_seq
            && config.obj_seq == port->obj_seq && time_msec() < port->retry);
}

/* Opens 'port' anew if its device is another one now, or if opening failed a
 * while ago; closes it if the device is gone; else has it served as its device
 * and its options are now. */
void
dpif_xdp_port_follow(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    uint64_t change_seq = netdev_get_change_seq(port->dev);
    int ifindex;

    if (time_msec() >= port->next_look) {
        port->next_look = dpif_xdp_next_look(time_msec(), LOOK_MS);
        dpif_xdp_netdev_follow_others(port->dev);
    }
    if (!dpif_xdp_port_look_at_guest(dp, port)
        && !dpif_xdp_port_look_at_underlay(dp, port)
        && is_quiet(port, change_seq)) {
        return;
    }
    port->change_seq = change_seq;

    ifindex = netdev_get_ifindex(port->dev);
    if (port->device.ifindex
        && (ifindex != port->device.ifindex || !is_alive(dp, port))) {
        VLOG_INFO("%s: %s", netdev_get_name(port->dev),
                  ifindex > 0 ? "another device, opening again"
                  : "device is gone, waiting for it to come back");
        dpif_xdp_port_close(dp, port);
        port->retry_ms = 0;
    }
    if (port->device.ifindex) {
        dpif_xdp_port_update(dp, port);
        return;
    }
    port->retry = LLONG_MAX;
    if (ifindex > 0) {
        open_again(dp, port);
    } else if (dpif_xdp_internal_is(port->netdev)) {
        restore(port);
    } else {
        dpif_xdp_port_set_absent(dp, port);
    }
}
