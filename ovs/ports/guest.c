/* SPDX-License-Identifier: Apache-2.0 */
/* Guests behind taps that send packets with CHECKSUM_PARTIAL and GSO, which
 * XDP cannot handle (docs/decisions/0015-guests.md,
 * 0023-what-a-guest-sends.md).
 *
 * The features of the tap show which offloads a guest takes
 * (core/kernel/device.h), but not which it sends with.  While such a packet
 * may come, XDP leaves it to tcx and counts it.  If many come, the port stays
 * at tcx for HOLD_MS; then XDP looks again.  If they come again, tcx has the
 * port for twice as long. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "netdev-provider.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_guest);

#define LOOK_MS 1000
#define HOLD_MS 10000
#define MAX_HOLD_MS (600 * 1000)

/* One packet in FEW must be unfinished.  A complete checksum looks unfinished
 * by chance, one in 65,536. */
#define FEW 64

#define XDP_WARNING \
    "the guest behind this tap has offloads, but XDP has not: " \
    "packets that it sends with GSO are dropped (xdp/stats counts " \
    "them), and its checksums are completed by the engine, slowly. " ADVICE
#define BOTH_WARNING \
    "the guest behind this tap has offloads: because of XDP " \
    "the kernel copies packets that it sends with GSO into one piece " \
    "before tcx takes them, slowly. " ADVICE
#define GENERIC_WARNING \
    "the guest behind this tap has offloads, but generic XDP has not: " \
    "packets that it sends with GSO are dropped, also with " \
    "xdp-hook=both (xdp/stats counts them). " ADVICE
#define ADVICE \
    "Remove xdp-hook, xdp-mode and xdp-obj, so that the hook follows " \
    "the guest, or give the guest a device without offloads (QEMU's " \
    "csum=off and guest_csum=off)"

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

/* Whether packets to be finished came to XDP since the last call. */
static bool
have_come(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_guest *guest = &port->guest;
    uint64_t n[DP_N_COUNTERS], received, unfinished;
    bool come;

    if (oxdp_progs_get_counters(dp->progs, port->device.ifindex, n)) {
        return false;
    }
    received = oxdp_received(n) - guest->n_received;
    unfinished = n[DP_COUNTER_UNFINISHED] - guest->n_unfinished;
    come = guest->counted && unfinished && unfinished >= received / FEW;
    guest->n_received += received;
    guest->n_unfinished += unfinished;
    guest->counted = true;
    return come;
}

/* Whether the reader of a tap at XDP has opened more queues: the kernel does
 * not report that. */
static bool
has_more_queues(const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    return (port->device.max_rx_queues > 1 && has_xdp(port)
            && (oxdp_device_rx_queues(netdev_get_name(port->dev))
                > port->device.n_rx_queues));
}

bool
dpif_xdp_port_look_at_guest(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    struct dpif_xdp_guest *guest = &port->guest;
    long long int now = time_msec();
    bool before = guest->seen_unfinished;

    if (!is_tap(port) || now < guest->next_look) {
        return false;
    }
    if (!has_xdp(port)) {
        guest->counted = false;
        guest->seen_unfinished = before && now < guest->until;
    } else if (have_come(dp, port)) {
        if (!before) {
            bool anew = (!guest->hold_ms
                         || now > guest->until + MAX_HOLD_MS);

            guest->hold_ms = (anew ? HOLD_MS
                              : MIN(2 * guest->hold_ms, MAX_HOLD_MS));
        }
        guest->until = now + guest->hold_ms;
        guest->seen_unfinished = true;
    } else {
        guest->seen_unfinished = before && now < guest->until;
    }
    guest->next_look = dpif_xdp_next_look(now, LOOK_MS);
    return guest->seen_unfinished != before || has_more_queues(port);
}

void
dpif_xdp_port_wait_for_guest(const struct dpif_xdp_port *port)
{
    if (is_tap(port) && (has_xdp(port) || port->guest.seen_unfinished)) {
        poll_timer_wait_until(port->guest.next_look);
    }
}

void
dpif_xdp_port_ask_about_guest(struct dpif_xdp_port *port)
{
    const char *name = netdev_get_name(port->dev);
    struct dpif_xdp_guest *guest = &port->guest;
    bool takes = is_tap(port) && oxdp_device_has_guest_offloads(name);
    bool took = port->device.guest_offloads;

    /* Another driver has the device, or none. */
    if (is_tap(port) && (takes != took || !netdev_get_carrier(port->dev))) {
        memset(guest, 0, sizeof *guest);
    }
    if (takes != took) {
        VLOG_INFO("%s: the guest turned its offloads %s", name,
                  took ? "off" : "on");
    }
    if (guest->seen_unfinished != guest->sends_unfinished) {
        VLOG_INFO("%s: the guest %s packets with GSO or CHECKSUM_PARTIAL",
                  name, guest->seen_unfinished ? "sends" : "sent no more");
    }
    port->device.guest_offloads = takes;
    guest->sends_unfinished = guest->seen_unfinished;
}

/* Warns of what a hook that the user set costs. */
static void
warn(const struct dpif_xdp_port *port)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    bool warn = (port->device.guest_offloads || port->guest.sends_unfinished);
    bool has_tcx = dpif_xdp_hook_has_tcx(dpif_xdp_port_get_hook(port));

    dpif_xdp_netdev_set_warning(
        port->dev, DPIF_XDP_WARNING_GUEST,
        !warn || !has_xdp(port) ? NULL
        : !has_tcx ? XDP_WARNING
        : port->native ? BOTH_WARNING
        : GENERIC_WARNING);
}

void
dpif_xdp_port_follow_guest(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    if (has_xdp(port)) {
        oxdp_progs_follow_mtu(dp->progs, port->device.ifindex);
    }
    warn(port);
}
