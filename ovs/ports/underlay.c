/* SPDX-License-Identifier: Apache-2.0 */
/* Underlays: ports by which frames of tunnels come, because a flow of theirs
 * pops tunnel headers.
 *
 * At tcx the kernel has merged such frames (GRO), and containers get large
 * packets; XDP is faster where they leave as frames.  So such a port has tcx
 * if there are containers.
 *
 * GRO of tunnels in UDP needs a device of the kernel for each UDP port
 * (core/kernel/tunnel_device.h).  It is made as soon as such a port is at tcx,
 * and goes with the tunnels' port. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>
#include <stdio.h>

#include "core/kernel/device.h"
#include "core/kernel/tunnel_device.h"
#include "netdev-provider.h"
#include "netdev-vport.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs/netdev/netdev_internal.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_underlay);

static bool
pops_tunnels(const struct dpif_xdp_port *port)
{
    bool pops;

    atomic_read_relaxed(
        &CONST_CAST(struct dpif_xdp_port *, port)->pops_tunnels, &pops);
    return pops;
}

static bool
is_container(const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    return (port->is_device && !pops_tunnels(port)
            && !dpif_xdp_internal_is(port->netdev)
            && oxdp_device_sends_unfinished(&port->device));
}

bool
dpif_xdp_port_is_tunnel(const struct dpif_xdp_port *port)
{
    return (!port->is_device
            && netdev_vport_is_vport_class(netdev_get_class(port->netdev)));
}

/* Whether there are containers, and tunnels for them. */
static bool
serves_containers(const struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    bool containers = false, tunnels = false;
    const struct dpif_xdp_port *port;

    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        containers |= is_container(port);
        tunnels |= dpif_xdp_port_is_tunnel(port);
    }
    return containers && tunnels;
}

bool
dpif_xdp_port_is_underlay(const struct dpif_xdp_dp *dp,
                          const struct dpif_xdp_port *port)
{
    return pops_tunnels(port) && serves_containers(dp);
}

/* All ports are walked once, not for each underlay. */
void
dpif_xdp_underlays_look(struct dpif_xdp_dp *dp)
{
    const struct dpif_xdp_port *port;
    bool any = false;

    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        any |= pops_tunnels(port);
    }
    dp->ports.serves_containers = any && serves_containers(dp);
}

bool
dpif_xdp_port_look_at_underlay(const struct dpif_xdp_dp *dp,
                               const struct dpif_xdp_port *port)
{
    return ((pops_tunnels(port) && dp->ports.serves_containers)
            != port->underlay);
}

/* Whether 'port' is that of tunnels in UDP, and which. */
static bool
tunnel_of(const struct dpif_xdp_port *port, enum oxdp_tunnel_kind *kind,
          uint16_t *udp_port)
{
    return dpif_xdp_port_tunnel_kind(port, kind, udp_port) && *udp_port;
}

/* Has frames of the tunnels of 'port' merged. */
static void
merge(struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const char *name = netdev_get_name(port->netdev);
    char *before, *text = NULL;
    enum oxdp_tunnel_kind kind;
    uint16_t udp_port;
    int error;

    if (dpif_xdp_host_tunnel_is(port)) {
        port->merges = true;            /* That device merges them. */
        return;
    }
    if (!tunnel_of(port, &kind, &udp_port)
        || dpif_xdp_backoff_waits(&port->gro_side, &error, &text)) {
        free(text);
        return;
    }
    error = -oxdp_tunnel_gro_start(kind, udp_port, &text);
    before = nullable_xstrdup(port->gro_side.text);
    dpif_xdp_backoff_note(&port->gro_side, error, text);
    port->merges = !error;
    if (!error) {
        VLOG_INFO("%s: the kernel merges frames of these tunnels", name);
    } else if (!nullable_string_is_equal(before, text)) {
        VLOG_INFO("%s: the kernel does not merge frames of these tunnels, "
                  "containers get them one by one: %s", name, text);
    }
    free(before);
    free(text);
}

void
dpif_xdp_port_stop_merging(struct dpif_xdp_port *port)
{
    enum oxdp_tunnel_kind kind;
    uint16_t udp_port;

    if (port->merges && tunnel_of(port, &kind, &udp_port)) {
        oxdp_tunnel_gro_stop(kind, udp_port);
        port->merges = false;
    }
    dpif_xdp_backoff_note(&port->gro_side, 0, NULL);
}

void
dpif_xdp_underlays_run(struct dpif_xdp_dp *dp)
{
    bool any = false, at_tcx = false;
    struct dpif_xdp_port *port;

    /* With both hooks XDP pops the frames, before the kernel merges any. */
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (pops_tunnels(port)) {
            any = true;
            at_tcx |= dpif_xdp_hook_is_tcx(dpif_xdp_port_get_hook(port));
        }
    }
    if (!any) {
        return;
    }
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (!at_tcx) {
            dpif_xdp_port_stop_merging(port);
        } else if (!port->merges) {
            merge(port);
        }
    }
}
