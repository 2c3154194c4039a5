/* SPDX-License-Identifier: Apache-2.0 */
/* Detours of packets that get a tunnel header with a checksum at tcx
 * (bpf/detour.h).  Their devices are made when the first such packet comes,
 * and again when someone has removed them or set them down.  Until then the
 * engine gets the packets. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "core/programs/detour.h"
#include "openvswitch/vlog.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_detour);

static void
open_detour(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    dpif_xdp_backoff_open(&dp->ports.detour_side, oxdp_detour_open, dp,
                          "programs at tcx push tunnel headers with checksums",
                          "the engine pushes tunnel headers with checksums "
                          "before the packets of containers, programs at tcx "
                          "cannot");
}

/* Packets did not come back. */
static void
look_at_losses(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 1);
    const char *device;
    uint32_t n = oxdp_detour_lost(dp->progs, &device);

    if (n == dp->ports.n_detours_lost) {
        return;
    }
    if (device && !oxdp_detour_is_whole(dp->progs)) {
        VLOG_WARN_RL(&rl, "%s: %s, which packets with tunnel headers pass, "
                     "was removed or set down: making it anew", dp->name,
                     device);
        oxdp_detour_close(dp->progs);
        open_detour(dp);
    } else if (device) {
        VLOG_WARN_RL(&rl, "%s: the host dropped %"PRIu32" packets with tunnel "
                     "headers on their way through %s, and the engine gets "
                     "such packets for a while: does a rule of netfilter "
                     "drop, redirect or queue what is sent to 192.0.0.8?",
                     dp->name, n - dp->ports.n_detours_lost, device);
    }
    dp->ports.n_detours_lost = n;
}

void
dpif_xdp_detour_run(struct dpif_xdp_dp *dp)
{
    if (dp->progs) {
        look_at_losses(dp);
        if (oxdp_detour_is_wanted(dp->progs)) {
            open_detour(dp);
        }
    }
}

void
dpif_xdp_detour_taken_over(struct dpif_xdp_dp *dp)
{
    unsigned int n = oxdp_detour_forget_old(dp->progs, dp->name);

    if (n) {
        VLOG_INFO("%s: removed %u devices that a previous instance left",
                  dp->name, n);
    }
}
