/* SPDX-License-Identifier: Apache-2.0 */
/* A restart without a gap: the programs that a previous instance left on the
 * devices run its flows until this one is ready for their packets. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>

#include "ovs/netdev/netdev_internal.h"
#include "ovs/netdev/netdev_xdp.h"
#include "ovs/engine/engine.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs/state/ct.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_take_over);

/* Rounds of run() between the moment when ofproto enables upcalls and the
 * take-over: in the first of them ofproto does not know the new ports yet. */
#define ROUNDS 2

/* Whether there is something to do.  ofproto is ready when it answers upcalls:
 * after a start with other_config:flow-restore-wait, that is when it has its
 * OpenFlow rules. */
static bool
is_due(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    return (dpif_xdp_upcalls_began(dp) && dp->progs
            && !dp->ports.taken_over);
}

/* 'port' was left without a program.  Opens it anew, which attaches one.  If
 * that fails, too, it is repeated, and the Interface's error says why. */
static void
open_again(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port, int error)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    if (error == ENODEV) {
        VLOG_INFO("%s: the device was removed while it was taken over from "
                  "the previous instance", netdev_get_name(port->dev));
    } else {
        VLOG_WARN("%s: the device does not replace the previous instance's "
                  "program (%s), the port is opened again",
                  netdev_get_name(port->dev), ovs_strerror(error));
    }
    dpif_xdp_port_close(dp, port);
    port->retry = 0;                    /* Opens it anew. */
}

/* Whether a tunnel of 'dp' uses the device of 'kind' to 'udp_port' for 'use'.
 * If that is GRO, then the tunnel's port knows now that frames are merged. */
static bool
uses_tunnel_device(enum oxdp_tunnel_use use, enum oxdp_tunnel_kind kind,
                   uint16_t udp_port, void *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_port *port;

    DPIF_XDP_FOR_EACH_PORT (port, (const struct dpif_xdp_dp *) dp) {
        enum oxdp_tunnel_kind its_kind;
        uint16_t its_port;

        if (dpif_xdp_port_tunnel_kind(port, &its_kind, &its_port)
            && its_kind == kind && its_port == udp_port) {
            if (use == OXDP_TUNNEL_HOST) {
                return dpif_xdp_host_tunnel_is(port);
            }
            port->merges = true;
            return true;
        }
    }
    return false;
}

static void
sweep_tunnel_devices(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    unsigned int n = oxdp_tunnel_devices_sweep(uses_tunnel_device, dp);

    if (n) {
        VLOG_INFO("removed %u tunnel device%s that a previous instance left",
                  n, n == 1 ? "" : "s");
    }
}

void
dpif_xdp_take_over_run(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;
    uint32_t n;

    if (!is_due(dp) || dp->ports.take_over_rounds++ < ROUNDS) {
        return;
    }
    dpif_xdp_ct_catch_up(dp->ct);
    n = oxdp_progs_take_over(dp->progs);
    if (n) {
        VLOG_INFO("%s: took over %"PRIu32" devices from the previous instance",
                  dp->name, n);
    }
    dp->ports.taken_over = true;
    dpif_xdp_meters_taken_over(&dp->meters);
    dpif_xdp_ct_taken_over(dp->ct);
    dpif_xdp_internal_sweep();
    sweep_tunnel_devices(dp);
    dpif_xdp_detour_taken_over(dp);
    dpif_xdp_order_taken_over(dp);
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (port->is_device
            && dpif_xdp_port_get_hook(port) != DPIF_XDP_HOOK_NONE) {
            int error = -oxdp_progs_error(dp->progs, port->device.ifindex);

            if (error) {
                open_again(dp, port, error);
            } else {
                dpif_xdp_netdev_count_start(port->dev, dp->progs,
                                            &port->device);
            }
        }
    }
}

void
dpif_xdp_take_over_wait(struct dpif_xdp_dp *dp)
{
    if (is_due(dp)) {
        poll_immediate_wake();
    }
}
