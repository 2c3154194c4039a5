/* SPDX-License-Identifier: Apache-2.0 */
/* Programs begin to track connections: core/programs/track.h.  Until then, and
 * if the kernel refuses such programs, flows with ct() run in the engine. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "core/programs/progs.h"
#include "core/programs/track.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/state/ct.h"
#include "seq.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_track);

/* Whether there are programs that can track, and do not. */
static bool
is_due(const struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    return (dp->progs && dp->fastpath && !oxdp_progs_bare(dp->progs)
            && dpif_xdp_ct_maps(dp->ct) && !oxdp_track_is_on(dp->progs));
}

static void
end(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    bool had_failed = dp->ports.track_side.error;
    char *text = NULL;
    int error = -oxdp_track_end(dp->progs, &text);

    if (error && !had_failed) {
        VLOG_WARN("%s: flows with ct() run in the engine: %s", dp->name,
                  text ? text : ovs_strerror(error));
    }
    dpif_xdp_backoff_note(&dp->ports.track_side, error, text);
    free(text);
    if (!error) {
        VLOG_INFO("%s: programs track connections now", dp->name);
        dpif_xdp_flow_lock(dp);
        dpif_xdp_fastpath_tracks(dp);
        dpif_xdp_flow_unlock(dp);
    }
}

void
dpif_xdp_track_run(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_backoff *backoff = &dp->ports.track_side;
    int error;

    dp->ports.track_seq = seq_read(dpif_xdp_ct_news(dp->ct));
    if (dp->progs && oxdp_track_has_begun(dp->progs)) {
        if (oxdp_track_is_done(dp->progs)) {
            end(dp);
        }
    } else if (is_due(dp)
               && (!backoff->error || time_msec() >= backoff->until)) {
        error = -oxdp_track_begin(dp->progs, dpif_xdp_ct_maps(dp->ct),
                                  dpif_xdp_ct_tell, dp->ct);
        if (error) {
            dpif_xdp_backoff_note(backoff, error, ovs_strerror(error));
        }
    }
}

void
dpif_xdp_track_wait(const struct dpif_xdp_dp *dp)
{
    seq_wait(dpif_xdp_ct_news(dp->ct), dp->ports.track_seq);
    if (is_due(dp) && !oxdp_track_has_begun(dp->progs)) {
        poll_timer_wait_until(dp->ports.track_side.until);
    }
}
