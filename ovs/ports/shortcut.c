/* SPDX-License-Identifier: Apache-2.0 */
/* Whether programs at tcx may redirect packets for a port, a veth, into its
 * peer (core/kernel/shortcut.h). */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "core/kernel/shortcut.h"
#include "core/programs/tcx.h"
#include "netdev-provider.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_shortcut);

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
           : !dpif_xdp_netdev_watch() ? "the kernel does not report changes"
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

/* Programs use peer redirect for PERMIT_MS after this process last extended
 * the permit.  The kernel reports most changes at once.  For programs at tcx
 * this process looks at the ports every LOOK_MS, for LOOK_AT_MOST_MS (each
 * look takes the lock of all devices), and goes on with the next port next
 * time. */
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
    if (!dpif_xdp_upcalls_port(dp)
        || time_msec() < dp->ports.next_shortcut_look) {
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
