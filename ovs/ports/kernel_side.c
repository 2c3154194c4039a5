/* SPDX-License-Identifier: Apache-2.0 */
/* What all ports with programs share: the packet memory, the BPF programs and
 * their tables.  Made for the first port that needs it.
 *
 * A failed try is repeated when a port needs it, but not before a waiting time
 * has passed, which doubles with each failure.  Until then ports report the
 * reason of the last failure.  The same goes for the flow tables, if the
 * kernel takes only a program without them, and for pins, if there is no
 * bpffs. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include <errno.h>
#include <limits.h>

#include "core/programs/progs.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs-rcu.h"
#include "ovs/engine/engine.h"
#include "ovs/engine/packet.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/state/ct.h"
#include "timeval.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_kernel_side);

#define FIRST_RETRY_MS 1000
#define LAST_RETRY_MS 60000

unsigned int
dpif_xdp_backoff_next(unsigned int ms)
{
    return ms ? MIN(2 * ms, LAST_RETRY_MS) : FIRST_RETRY_MS;
}

bool
dpif_xdp_backoff_waits(const struct dpif_xdp_backoff *backoff, int *error,
                       char **errorp)
{
    if (!backoff->error || time_msec() >= backoff->until) {
        return false;
    }
    *error = backoff->error;
    *errorp = nullable_xstrdup(backoff->text);
    return true;
}

void
dpif_xdp_backoff_note(struct dpif_xdp_backoff *backoff, int error,
                      const char *text)
{
    free(backoff->text);
    backoff->text = error ? nullable_xstrdup(text) : NULL;
    backoff->error = error;
    backoff->ms = error ? dpif_xdp_backoff_next(backoff->ms) : 0;
    backoff->until = time_msec() + backoff->ms;
}

void
dpif_xdp_backoff_open(struct dpif_xdp_backoff *backoff,
                      int (*open)(struct oxdp_progs *, const char *name,
                                  char **),
                      struct dpif_xdp_dp *dp, const char *done,
                      const char *failed)
{
    bool had_failed = backoff->error;
    char *text = NULL;
    int error;

    if (dpif_xdp_backoff_waits(backoff, &error, &text)) {
        free(text);
        return;
    }
    error = -open(dp->progs, dp->name, &text);
    dpif_xdp_backoff_note(backoff, error, text);
    if (!error) {
        VLOG_INFO("%s: %s", dp->name, done);
    } else if (!had_failed) {
        VLOG_INFO("%s: %s: %s", dp->name, failed,
                  text ? text : ovs_strerror(error));
    }
    free(text);
}

void
dpif_xdp_ports_retry(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_port *port;

    dp->ports.kernel_side.until = 0;
    dp->ports.tcx_side.until = 0;
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        if (port->retry != LLONG_MAX) {
            port->retry = 0;
        }
    }
}

static int
make_packets(struct dpif_xdp_dp *dp, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    int error = dpif_xdp_packets_create(dp->ports.n_frames, &dp->packets);

    if (error == EPERM || error == EACCES) {
        *errorp = xasprintf("AF_XDP is not permitted: run as root, or with "
                            "CAP_NET_RAW");
    } else if (error == EAFNOSUPPORT) {
        *errorp = xasprintf("this kernel has no AF_XDP sockets: it needs "
                            "CONFIG_XDP_SOCKETS");
    } else if (error) {
        *errorp = xasprintf("cannot create a UMEM of %"PRIu32" frames (%s): "
                            "lower other_config:xdp-umem-frames or raise the "
                            "limit on locked memory (\"ulimit -l\", "
                            "LimitMEMLOCK of systemd)", dp->ports.n_frames,
                            ovs_strerror(error));
    }
    return error;
}

/* The thread that loads programs is quiescent, and uses RCU for a moment. */
static void
adopt_connections(void *dp_, struct oxdp_progs *progs)
{
    struct dpif_xdp_dp *dp = dp_;

    ovsrcu_quiesce_end();
    dpif_xdp_ct_adopt(dp->ct, progs);
    ovsrcu_quiesce_start();
}

static int
load_programs(struct dpif_xdp_dp *dp, char **errorp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    const struct oxdp_progs_config config = {
        .max_ports = DPIF_XDP_MAX_PORTS,
        .max_sockets = DPIF_XDP_MAX_SOCKETS,
        .n_flows = dp->ports.n_fast_flows,
        .name = dp->name,
        .before_load = adopt_connections,
        .aux = dp,
    };
    int error;

    /* The kernel's verifier takes most of a second: this thread quiesces, so
     * that no RCU grace period has to wait for it. */
    ovsrcu_quiesce_start();
    error = -oxdp_progs_load(&config, &dp->progs, errorp);
    ovsrcu_quiesce_end();

    if (!error && oxdp_progs_unpinned(dp->progs)) {
        VLOG_INFO("%s: programs end with this process: %s", dp->name,
                  oxdp_progs_unpinned(dp->progs));
    }
    if (!error && oxdp_progs_restart_text(dp->progs)) {
        VLOG_INFO("%s: tables of the previous instance: %s", dp->name,
                  oxdp_progs_restart_text(dp->progs));
    }
    if (!error) {
        dpif_xdp_ct_set_programs(dp->ct, dp->progs);
    }
    if (!error && dp->ports.n_fast_flows) {
        dp->fastpath = dpif_xdp_fastpath_create(dp);
        dpif_xdp_sampler_start(dp);
    }
    return error;
}

/* Tries again, when that is due, to give programs the flow tables that the
 * kernel did not take them with. */
static void
complete_programs(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_port_mutex)
{
    struct dpif_xdp_port *port;
    char *text = NULL;
    int error;

    if (dpif_xdp_backoff_waits(&dp->ports.kernel_side, &error, &text)) {
        free(text);
        return;
    }
    ovsrcu_quiesce_start();
    error = -oxdp_progs_complete(dp->progs, &text);
    ovsrcu_quiesce_end();
    dpif_xdp_backoff_note(&dp->ports.kernel_side, error, text);
    free(text);
    if (error) {
        return;
    }
    VLOG_INFO("%s: programs have flow tables now", dp->name);
    dpif_xdp_flow_lock(dp);
    DPIF_XDP_FOR_EACH_PORT (port, dp) {
        dpif_xdp_fastpath_program_changed(dp, port->port_no);
    }
    dpif_xdp_flow_unlock(dp);
    dpif_xdp_ports_retry(dp);
}

int
dpif_xdp_kernel_side_prepare(struct dpif_xdp_dp *dp, char **errorp)
{
    bool had_failed = dp->ports.kernel_side.error;
    int error;

    if (dp->progs) {
        if (oxdp_progs_bare(dp->progs)) {
            complete_programs(dp);
        }
        return 0;
    }
    if (dpif_xdp_backoff_waits(&dp->ports.kernel_side, &error, errorp)) {
        return error;
    }
    error = dp->packets ? 0 : make_packets(dp, errorp);
    error = error ? error : load_programs(dp, errorp);
    dpif_xdp_backoff_note(&dp->ports.kernel_side, error, *errorp);
    if (!error && had_failed) {
        VLOG_INFO("%s: programs can be used now", dp->name);
        dpif_xdp_ports_retry(dp);
    }
    if (!error && oxdp_progs_bare(dp->progs)) {
        dpif_xdp_backoff_note(&dp->ports.kernel_side, EOPNOTSUPP,
                              oxdp_progs_bare(dp->progs));
    }
    return error;
}

void
dpif_xdp_kernel_side_run(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_backoff *backoff = &dp->ports.pin_side;
    int error;

    if (!dp->progs || !oxdp_progs_unpinned(dp->progs)
        || time_msec() < backoff->until) {
        return;
    }
    if (backoff->error) {
        error = -oxdp_progs_pin(dp->progs, dp->name);
        if (!error) {
            VLOG_INFO("%s: programs are pinned now, and survive this process",
                      dp->name);
        }
    } else {
        error = EAGAIN;                 /* dpif_xdp_kernel_side_prepare(). */
    }
    dpif_xdp_backoff_note(backoff, error, oxdp_progs_unpinned(dp->progs));
}

void
dpif_xdp_kernel_side_wait(const struct dpif_xdp_dp *dp)
{
    if (dp->progs && oxdp_progs_unpinned(dp->progs)) {
        poll_timer_wait_until(dp->ports.pin_side.until);
    }
}
