/* SPDX-License-Identifier: Apache-2.0 */
/* Whether XDP may redirect to a port: it cannot while the device has no
 * carrier, or does not take redirected frames. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "core/kernel/device.h"
#include "core/kernel/redirect.h"
#include "netdev-provider.h"
#include "openvswitch/vlog.h"
#include "ovs/fastpath/fastpath.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_target);

/* A device without our XDP program is prepared only if there are programs that
 * redirect. */
static bool
can_be_target(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    if (!dpif_xdp_hook_is_tcx(dpif_xdp_port_get_hook(port))
        || port->prepared) {
        return true;
    }
    if (dp->ports.n_xdp_ports) {
        oxdp_offloads_poll(netdev_get_name(port->dev), &port->offloads);
        port->prepared = true;
    }
    return port->prepared;
}

/* Makes the engine send packets for 'port'. */
static void
stop_output(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    oxdp_progs_retire_output(dp->progs, odp_to_u32(port->port_no));
    port->redirects = false;
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_port_closed(dp, port->port_no);
    dpif_xdp_flow_unlock(dp);
    oxdp_progs_set_output(dp->progs, odp_to_u32(port->port_no), 0);
}

/* Reinstalls flows that wait for this port. */
static void
output_changed(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    dpif_xdp_flow_lock(dp);
    dpif_xdp_fastpath_reclaim(dp);
    dpif_xdp_fastpath_port_opened(dp);
    dpif_xdp_flow_unlock(dp);
}

void
dpif_xdp_port_set_absent(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    if (dp->progs) {
        oxdp_progs_set_absent(dp->progs, odp_to_u32(port->port_no));
        port->redirects = false;
        output_changed(dp);
    }
}

static void
follow_carrier(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *name = netdev_get_name(port->dev);
    uint32_t port_no = odp_to_u32(port->port_no);
    bool up = netdev_get_carrier(port->dev);
    bool wanted = (port->native && up && !dpif_xdp_port_is_shaped(port)
                   && can_be_target(dp, port)
                   && (!port->redirects || oxdp_redirect_works(name)));
    bool absent = port->native && !up && !dpif_xdp_port_is_shaped(port);
    bool was_absent = oxdp_progs_is_absent(dp->progs, port_no);
    int error;

    if (wanted == port->redirects && absent == was_absent) {
        return;
    }
    if (absent) {
        dpif_xdp_port_set_absent(dp, port);
        return;
    }
    if (!wanted) {
        if (port->redirects && up && !dpif_xdp_port_is_shaped(port)) {
            VLOG_INFO("%s: the device does not take redirected frames any "
                      "more, the engine sends packets for this port", name);
        }
        stop_output(dp, port);
        return;
    }

    if (port->peer_unset
        && dpif_xdp_hook_has_xdp(dpif_xdp_port_get_hook(port))) {
        port->peer_unset = oxdp_offloads_off(name, &port->offloads);
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

void
dpif_xdp_port_follow_carrier(struct dpif_xdp_dp *dp,
                             struct dpif_xdp_port *port)
{
    if (dp->progs) {
        follow_carrier(dp, port);
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
