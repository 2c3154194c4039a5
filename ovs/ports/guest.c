/* SPDX-License-Identifier: Apache-2.0 */
/* Guests behind taps that send packets with CHECKSUM_PARTIAL and GSO, which XDP
 * cannot handle (docs/decisions/0015-guests.md).
 *
 * The features of the tap show which offloads a guest takes
 * (core/kernel/device.h), but not which it sends with: a guest that runs an XDP
 * program of its own takes no GSO packets but sends some.  XDP drops and counts
 * them, and the port changes its hook as soon as that is noticed. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "netdev-provider.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_guest);

#define LOOK_MS 1000

#define XDP_WARNING "the guest behind this tap has offloads, but XDP has not: " \
    "packets that it sends with GSO are dropped (xdp/stats counts " \
    "them), and its checksums are completed by the engine, slowly. " ADVICE
#define BOTH_WARNING "the guest behind this tap has offloads: because of XDP " \
    "the kernel copies packets that it sends with GSO into one piece " \
    "before tcx takes them, slowly. " ADVICE
#define ADVICE "Remove xdp-hook, xdp-mode and xdp-obj, so that the hook follows " \
    "the guest, or give the guest a device without offloads (QEMU's csum=off " \
    "and guest_csum=off)"

static bool
is_tap(const struct dpif_xdp_port *port)
{
    return !strcmp(port->device.driver, "tun");
}

static bool
has_xdp(const struct dpif_xdp_port *port)
{
    return dpif_xdp_hook_has_xdp(dpif_xdp_port_get_hook(port));
}

bool
dpif_xdp_port_guest_has_offloads(struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);
    bool shown = is_tap(port) && oxdp_device_has_guest_offloads(name);

    /* Another driver has the device, or none. */
    if (shown || !netdev_get_carrier(port->dev)) {
        port->sends_segments = false;
    }
    return shown || port->sends_segments;
}

bool
dpif_xdp_port_look_at_guest(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    uint64_t n[DP_N_COUNTERS];
    bool more;

    if (!is_tap(port) || !has_xdp(port)
        || time_msec() < port->next_guest_look
        || oxdp_progs_get_counters(dp->progs, port->device.ifindex, n)) {
        return false;
    }
    port->next_guest_look = time_msec() + LOOK_MS;
    more = n[DP_COUNTER_SEGMENTS] > port->n_segments;
    port->n_segments = n[DP_COUNTER_SEGMENTS];
    if (!more || port->sends_segments || port->device.guest_offloads) {
        return false;
    }
    port->sends_segments = true;
    return true;
}

void
dpif_xdp_port_wait_for_guest(const struct dpif_xdp_port *port)
{
    if (is_tap(port) && has_xdp(port)) {
        poll_timer_wait_until(port->next_guest_look);
    }
}

static void
warn(const struct dpif_xdp_port *port)
{
    enum dpif_xdp_hook hook = dpif_xdp_port_get_hook(port);
    bool warn = port->device.guest_offloads;

    dpif_xdp_netdev_set_warning(
        port->dev, DPIF_XDP_WARNING_GUEST,
        warn && hook == DPIF_XDP_HOOK_XDP ? XDP_WARNING
        : warn && hook == DPIF_XDP_HOOK_BOTH ? BOTH_WARNING : NULL);
}

void
dpif_xdp_port_follow_guest(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    if (has_xdp(port)) {
        oxdp_progs_follow_mtu(dp->progs, port->device.ifindex);
    }
    warn(port);
}
