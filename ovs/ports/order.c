/* SPDX-License-Identifier: Apache-2.0 */
/* Order of TCP's packets at tcx (bpf/order.h).  Its device is made when the
 * first packet is early, and again when someone has removed it or set it
 * down. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "core/programs/order.h"
#include "openvswitch/vlog.h"
#include "ovs/base/report.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_order);

#define LOOK_MS 1000            /* Between two looks at the device. */

static void
open_order(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    dpif_xdp_backoff_open(&dp->ports.order_side, oxdp_order_open, dp,
                          "programs at tcx keep TCP's packets in order",
                          "programs at tcx cannot keep TCP's packets in "
                          "order, which makes single connections of "
                          "containers slower");
}

/* The kernel sends no message about a device that is no port's. */
static void
look_at_device(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);
    const char *device;

    oxdp_order_n_moved(dp->progs, &device);
    if (device && time_msec() >= dp->ports.order_due) {
        dp->ports.order_due = time_msec() + LOOK_MS;
        if (!oxdp_order_is_whole(dp->progs)) {
            VLOG_WARN_RL(&rl, "%s: %s, which packets of TCP pass, was removed "
                         "or set down: making it anew", dp->name, device);
            oxdp_order_close(dp->progs);
            open_order(dp);
        }
    }
}

void
dpif_xdp_order_run(struct dpif_xdp_dp *dp)
{
    if (dp->progs) {
        look_at_device(dp);
        if (oxdp_order_is_wanted(dp->progs)) {
            open_order(dp);
        }
    }
}

void
dpif_xdp_order_report(struct dpif_xdp_dp *dp, struct json *report)
{
    const char *error = dp->ports.order_side.text;
    const char *device = NULL;
    uint64_t n_moved = 0, n_lost = 0;
    struct json *order;

    if (dp->progs) {
        n_moved = oxdp_order_n_moved(dp->progs, &device);
        n_lost = oxdp_order_n_lost(dp->progs);
    }
    if (device || error) {
        order = dpif_xdp_report_object(report, "order");
        dpif_xdp_report_text(order, "device", device);
        dpif_xdp_report_text(order, "error", device ? NULL : error);
        dpif_xdp_report_int(order, "moved", n_moved);
        dpif_xdp_report_int(order, "lost", n_lost);
    }
}

void
dpif_xdp_order_taken_over(struct dpif_xdp_dp *dp)
{
    unsigned int n = oxdp_order_forget_old(dp->progs, dp->name);

    if (n) {
        VLOG_INFO("%s: done with %u devices for order that a previous "
                  "instance left", dp->name, n);
    }
}
