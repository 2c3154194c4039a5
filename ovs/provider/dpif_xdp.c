/* SPDX-License-Identifier: Apache-2.0 */
/* The datapath type "xdp": the class that Open vSwitch calls, and the life
 * cycle of datapaths.  lib/dpif-provider.h documents each callback. */
#include <config.h>

#include "ovs/provider/dpif_xdp.h"
#include "ovs/datapath/datapath.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dpif.h"
#include "hash.h"
#include "odp-util.h"
#include "ovs/netdev/netdev_internal.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/vlog.h"
#include "ovs/provider/drop_coverage.h"
#include "timeval.h"
#include "tnl-neigh-cache.h"
#include "tnl-ports.h"
#include "core/privilege.h"
#include "core/programs/progs.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/flows/flows.h"
#include "ovs/ports/ports.h"
#include "ovs/state/ct.h"
#include "ovs/provider/ct_commands.h"
#include "ovs/provider/ct_dpif.h"
#include "ovs/provider/provider_private.h"
#include "ovs/provider/sole.h"
#include "ovs/provider/trace.h"
#include "seq.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp);

#define OPTIMIZE_INTERVAL_MS 1000
#define TUN "/dev/net/tun"

static int create_dp(const struct dpif_class *, const char *name,
                     struct dpif_xdp_dp **)
    OVS_REQUIRES(dpif_xdp_registry_mutex);
static void unref_dp(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_registry_mutex);

static int
dpif_xdp_init(void)
{
    dpif_xdp_appctl_init();
    return 0;
}

/* 'system' devices get AF_XDP sockets and options of ours, and so do those
 * that a user had as 'afxdp'; 'internal' ports are pairs of ours.  Under
 * another class (Open vSwitch's unit tests) there are only dummy devices. */
static const char *
dpif_xdp_port_open_type(const struct dpif_class *class, const char *type)
{
    if (class->type != dpif_xdp_type) {
        return strcmp(type, "internal") ? type : "dummy-internal";
    }
    return (!strcmp(type, "internal") ? dpif_xdp_internal_type()
            : (!strcmp(type, "system") || !strcmp(type, "afxdp")
               || !strcmp(type, "afxdp-nonpmd")) ? "xdp"
            : type);
}

static int
dpif_xdp_open(const struct dpif_class *class, const char *name, bool create,
              struct dpif **dpifp)
{
    struct dpif_xdp_dp *dp;
    int error = 0;

    ovs_mutex_lock(&dpif_xdp_registry_mutex);
    dp = dpif_xdp_registry_find(name);
    if (!dp) {
        error = create ? create_dp(class, name, &dp) : ENODEV;
    } else if (dp->class != class) {
        error = EINVAL;
    } else if (create) {
        error = EEXIST;
    }
    if (!error) {
        struct dpif_xdp *dpif = xzalloc(sizeof *dpif);
        uint16_t netflow_id = hash_string(name, 0);

        ovs_refcount_ref(&dp->ref_cnt);
        dpif_init(&dpif->dpif, class, name, netflow_id >> 8, netflow_id);
        dpif->dp = dp;
        dpif->last_port_seq = seq_read(dpif_xdp_ports_seq(dp));
        *dpifp = &dpif->dpif;
    }
    ovs_mutex_unlock(&dpif_xdp_registry_mutex);
    return error;
}

static void
dpif_xdp_close(struct dpif *dpif)
{
    ovs_mutex_lock(&dpif_xdp_registry_mutex);
    unref_dp(dpif_xdp_dp_cast(dpif));
    ovs_mutex_unlock(&dpif_xdp_registry_mutex);
    free(CONTAINER_OF(dpif, struct dpif_xdp, dpif));
}

/* The datapath goes with its last user. */
static int
dpif_xdp_destroy(struct dpif *dpif)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);

    dpif_xdp_ct_commands_end();
    ovs_mutex_lock(&dpif_xdp_registry_mutex);
    if (!dp->destroyed) {
        dp->destroyed = true;
        unref_dp(dp);
    }
    ovs_mutex_unlock(&dpif_xdp_registry_mutex);
    return 0;
}

static bool
dpif_xdp_run(struct dpif *dpif)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    uint64_t tnl_seq;

    dpif_xdp_ports_run(dp);
    dpif_xdp_trace_run(dp);
    dpif_xdp_coverage_count_engine(dp);
    if (time_msec() >= dp->provider.next_optimize) {
        dp->provider.next_optimize = time_msec() + OPTIMIZE_INTERVAL_MS;
        dpif_xdp_flow_lock(dp);
        dpif_xdp_flows_optimize(&dp->flows);
        dpif_xdp_coverage_count_programs(dp);
        dpif_xdp_fastpath_run(dp);
        dpif_xdp_fastpath_reclaim(dp);
        dpif_xdp_flows_free(&dp->flows);
        dpif_xdp_flow_unlock(dp);
    }

    /* Revalidate when tunnels may leave by another way now. */
    tnl_neigh_cache_run();
    tnl_port_map_run();
    tnl_seq = seq_read(tnl_conf_seq);
    if (dp->provider.last_tnl_conf_seq != tnl_seq) {
        dp->provider.last_tnl_conf_seq = tnl_seq;
        return true;
    }
    return false;
}

static void
dpif_xdp_wait(struct dpif *dpif)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);

    dpif_xdp_ports_wait(dp);
    dpif_xdp_trace_wait(dp);
    seq_wait(tnl_conf_seq, dp->provider.last_tnl_conf_seq);
}

/* An upcall may ask for this: 'port_mutex' is out of bounds. */
static int
dpif_xdp_get_stats(const struct dpif *dpif, struct dpif_dp_stats *stats)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    uint64_t programs[DP_N_COUNTERS];
    struct dpif_xdp_cls_stats sum;

    memset(&sum, 0, sizeof sum);
    dpif_xdp_threads_get_stats(dp, &sum);
    if (dp->progs) {
        oxdp_progs_get_totals(dp->progs, programs);
        uint64_t mask_hits = programs[DP_COUNTER_MASK_HIT];
        uint64_t handed_over = oxdp_hits_for_engine(programs);
        uint64_t all = sum.n_cache_hit + oxdp_hits(programs);

        /* The engine counts packets whose flow a program found as cache hits;
         * some of them are still on their way. */
        sum.n_cache_hit = all - MIN(all, mask_hits + handed_over);
        sum.n_table_hit += mask_hits;
        sum.n_mask_walk += programs[DP_COUNTER_MASKS_WALKED];
    }

    memset(stats, 0, sizeof *stats);
    stats->n_hit = sum.n_cache_hit + sum.n_table_hit;
    stats->n_missed = sum.n_miss;
    stats->n_lost = dpif_xdp_get_lost(dp);
    stats->n_flows = dpif_xdp_flows_n(&dp->flows);
    if (dp->class->type == dpif_xdp_type) {
        stats->n_cache_hit = sum.n_cache_hit;
        stats->n_mask_hit = sum.n_mask_walk;
        stats->n_masks = dpif_xdp_flows_n_masks(&dp->flows);
    } else {
        stats->n_cache_hit = UINT64_MAX;
        stats->n_mask_hit = UINT64_MAX;
        stats->n_masks = UINT32_MAX;
    }
    return 0;
}

/* A queue's number travels as the packet's priority. */
static int
dpif_xdp_queue_to_priority(const struct dpif *dpif OVS_UNUSED,
                           uint32_t queue_id, uint32_t *priority)
{
    *priority = queue_id;
    return 0;
}

static char *
dpif_xdp_get_datapath_version(void)
{
    return xstrdup("OVS-XDP "OXDP_VERSION", Open vSwitch "VERSION);
}

static int
dpif_xdp_meter_set_cb(struct dpif *dpif, ofproto_meter_id id,
                      struct ofputil_meter_config *config)
{
    return dpif_xdp_meter_set(&dpif_xdp_dp_cast(dpif)->meters, id, config);
}

static int
dpif_xdp_meter_get_cb(const struct dpif *dpif, ofproto_meter_id id,
                      struct ofputil_meter_stats *stats, uint16_t n_bands)
{
    return dpif_xdp_meter_get(&dpif_xdp_dp_cast(dpif)->meters, id, stats,
                              n_bands);
}

/* While the daemon ends, ofproto deletes its meters.  Programs go on using
 * them, and the next daemon goes on from where they are. */
static int
dpif_xdp_meter_del_cb(struct dpif *dpif, ofproto_meter_id id,
                      struct ofputil_meter_stats *stats, uint16_t n_bands)
{
    struct dpif_xdp_meters *meters = &dpif_xdp_dp_cast(dpif)->meters;

    return (dpif_xdp_is_leaving()
            ? dpif_xdp_meter_get(meters, id, stats, n_bands)
            : dpif_xdp_meter_del(meters, id, stats, n_bands));
}

static int
dpif_xdp_bond_add_cb(struct dpif *dpif, uint32_t bond_id,
                     odp_port_t *member_map)
{
    return dpif_xdp_bond_add(&dpif_xdp_dp_cast(dpif)->bonds, bond_id,
                             member_map);
}

static int
dpif_xdp_bond_del_cb(struct dpif *dpif, uint32_t bond_id)
{
    return dpif_xdp_bond_del(&dpif_xdp_dp_cast(dpif)->bonds, bond_id);
}

static int
dpif_xdp_bond_stats_get_cb(struct dpif *dpif, uint32_t bond_id,
                           uint64_t *n_bytes)
{
    return dpif_xdp_bond_stats_get(&dpif_xdp_dp_cast(dpif)->bonds, bond_id,
                                   n_bytes);
}

const struct dpif_class dpif_xdp_class = {
    .type = dpif_xdp_type,
    .cleanup_required = false,          /* Flows go on without the daemon. */
    .init = dpif_xdp_init,
    .enumerate = dpif_xdp_enumerate,
    .port_open_type = dpif_xdp_port_open_type,
    .open = dpif_xdp_open,
    .close = dpif_xdp_close,
    .destroy = dpif_xdp_destroy,
    .run = dpif_xdp_run,
    .wait = dpif_xdp_wait,
    .get_stats = dpif_xdp_get_stats,
    .port_add = dpif_xdp_port_add,
    .port_del = dpif_xdp_port_del,
    .port_set_config = dpif_xdp_port_set_config,
    .port_query_by_number = dpif_xdp_port_query_by_number,
    .port_query_by_name = dpif_xdp_port_query_by_name,
    .port_dump_start = dpif_xdp_port_dump_start,
    .port_dump_next = dpif_xdp_port_dump_next,
    .port_dump_done = dpif_xdp_port_dump_done,
    .port_poll = dpif_xdp_port_poll,
    .port_poll_wait = dpif_xdp_port_poll_wait,
    .flow_flush = dpif_xdp_flow_flush,
    .flow_dump_create = dpif_xdp_flow_dump_create,
    .flow_dump_destroy = dpif_xdp_flow_dump_destroy,
    .flow_dump_thread_create = dpif_xdp_flow_dump_thread_create,
    .flow_dump_thread_destroy = dpif_xdp_flow_dump_thread_destroy,
    .flow_dump_next = dpif_xdp_flow_dump_next,
    .operate = dpif_xdp_operate,
    .set_config = dpif_xdp_set_config,
    .queue_to_priority = dpif_xdp_queue_to_priority,
    .register_upcall_cb = dpif_xdp_register_upcall_cb,
    .enable_upcall = dpif_xdp_enable_upcall,
    .disable_upcall = dpif_xdp_disable_upcall,
    .get_datapath_version = dpif_xdp_get_datapath_version,
    .ct_dump_start = dpif_xdp_ct_dump_start,
    .ct_dump_next = dpif_xdp_ct_command_dump_next,
    .ct_dump_done = dpif_xdp_ct_dump_done,
#if OXDP_OVS >= 302
    .ct_exp_dump_start = dpif_xdp_ct_exp_dump_start,
    .ct_exp_dump_next = dpif_xdp_ct_exp_dump_next,
    .ct_exp_dump_done = dpif_xdp_ct_exp_dump_done,
#endif
    .ct_flush = dpif_xdp_ct_command_flush,
    .ct_set_maxconns = dpif_xdp_ct_set_maxconns,
    .ct_get_maxconns = dpif_xdp_ct_get_maxconns,
    .ct_get_nconns = dpif_xdp_ct_get_nconns,
#if OXDP_OVS >= 302
    .ct_set_sweep_interval = dpif_xdp_ct_set_sweep_interval,
    .ct_get_sweep_interval = dpif_xdp_ct_get_sweep_interval,
#endif
    .ct_set_tcp_seq_chk = dpif_xdp_ct_set_tcp_seq_chk,
    .ct_get_tcp_seq_chk = dpif_xdp_ct_get_tcp_seq_chk,
    .ct_set_limits = dpif_xdp_ct_set_limits,
    .ct_get_limits = dpif_xdp_ct_get_limits,
    .ct_del_limits = dpif_xdp_ct_del_limits,
    .ct_set_timeout_policy = dpif_xdp_ct_set_timeout_policy,
    .ct_get_timeout_policy = dpif_xdp_ct_get_timeout_policy,
    .ct_del_timeout_policy = dpif_xdp_ct_del_timeout_policy,
    .ct_get_timeout_policy_name = dpif_xdp_ct_get_timeout_policy_name,
    .ct_get_features = dpif_xdp_ct_get_features,
    .ipf_set_enabled = dpif_xdp_ipf_set_enabled,
    .ipf_set_min_frag = dpif_xdp_ipf_set_min_frag,
    .ipf_set_max_nfrags = dpif_xdp_ipf_set_max_nfrags,
    .ipf_get_status = dpif_xdp_ipf_get_status,
    .ipf_dump_start = dpif_xdp_ipf_dump_start,
    .ipf_dump_next = dpif_xdp_ipf_dump_next,
    .ipf_dump_done = dpif_xdp_ipf_dump_done,
    .meter_get_features = dpif_xdp_meter_get_features,
    .meter_set = dpif_xdp_meter_set_cb,
    .meter_get = dpif_xdp_meter_get_cb,
    .meter_del = dpif_xdp_meter_del_cb,
    .bond_add = dpif_xdp_bond_add_cb,
    .bond_del = dpif_xdp_bond_del_cb,
    .bond_stats_get = dpif_xdp_bond_stats_get_cb,
    .cache_get_supported_levels = dpif_xdp_cache_get_supported_levels,
    .cache_get_name = dpif_xdp_cache_get_name,
    .cache_get_size = dpif_xdp_cache_get_size,
    .cache_set_size = dpif_xdp_cache_set_size,
};

void
dpif_xdp_register(void)
{
    dp_register_provider(&dpif_xdp_class);
}

static void
destroy_dp(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_registry_mutex)
{
    dpif_xdp_registry_remove(dp);
    dpif_xdp_trace_forget(dp);

    /* ofproto answers no upcalls any more.  They are disabled, that is,
     * locked, and the engine's threads need the lock to end. */
    dpif_xdp_upcall_stop(dp);

    dpif_xdp_flows_flush(dp);
    dpif_xdp_ports_destroy(dp);
    dpif_xdp_port_lock(dp);
    dpif_xdp_upcalls_close(dp);
    dpif_xdp_threads_stop(dp);
    dpif_xdp_sampler_stop(dp);
    dpif_xdp_port_unlock(dp);

    /* No thread handles packets any more.  What readers still hold is freed
     * after they quiesce. */
    dpif_xdp_coverage_count_engine(dp);
    dpif_xdp_flow_lock(dp);
    dpif_xdp_coverage_count_programs(dp);
    dpif_xdp_flow_unlock(dp);
    dpif_xdp_coverage_destroy(dp->provider.coverage);
    dpif_xdp_fastpath_destroy(dp->fastpath);
    dpif_xdp_ct_stop(dp->ct);
    oxdp_progs_unload(dp->progs);
    dpif_xdp_senders_destroy(dp);
    dpif_xdp_ct_destroy(dp->ct);
    ovsrcu_synchronize();
    dpif_xdp_packets_destroy(dp->packets);

    dpif_xdp_flows_destroy(&dp->flows);
    dpif_xdp_port_table_destroy(&dp->port_table);
    dpif_xdp_meters_destroy(&dp->meters);
    dpif_xdp_bonds_destroy(&dp->bonds);
    dpif_xdp_trace_destroy(&dp->trace);
    dpif_xdp_upcall_destroy(dp);
    ovs_mutex_destroy(&dp->port_mutex);
    dpif_xdp_engine_destroy(dp);
    dpif_xdp_config_destroy(dp);
    ovs_mutex_destroy(&dp->flow_mutex);
    if (dp->class->type == dpif_xdp_type) {
        dpif_xdp_sole_end();
    }
    free(CONST_CAST(char *, dp->name));
    free(dp);
}

/* Says what makes the device of the datapath 'name', a tap, possible, which
 * was not made because of 'error'. */
static void
log_no_device(const char *name, int error)
{
    char advice[OXDP_PRIVILEGE_ADVICE];
    struct ds why = DS_EMPTY_INITIALIZER;
    int fd = open(TUN, O_RDWR | O_CLOEXEC);
    int refused = fd < 0 ? errno : 0;
    struct stat s;

    if (refused == EACCES && !stat(TUN, &s)
        && faccessat(AT_FDCWD, TUN, R_OK | W_OK, AT_EACCESS)) {
        ds_put_format(&why, "user %u may not open "TUN", which has the mode "
                      "%04o, owner %u and group %u: \"chmod 666 "TUN"\", as "
                      "udev does",
                      geteuid(), s.st_mode & 07777, s.st_uid, s.st_gid);
    } else if (refused == EACCES || refused == EPERM) {
        ds_put_cstr(&why, TUN" may not be opened: give the container that "
                    "device; or it is on a file system that is mounted with "
                    "\"nodev\", or a security module forbids it");
    } else if (error == EPERM || error == EACCES) {
        ds_put_cstr(&why, oxdp_privilege_advice(advice));
    } else if (error == ENOENT || error == ENXIO || error == ENODEV) {
        ds_put_cstr(&why, "it needs "TUN": load the module tun, or give the "
                    "container that device");
    }
    if (why.length) {
        VLOG_ERR("%s: cannot make the datapath's device, nor serve any bridge "
                 "(%s): %s", name, ovs_strerror(error), ds_cstr(&why));
    }
    ds_destroy(&why);
    if (fd >= 0) {
        close(fd);
    }
}

static int
create_dp(const struct dpif_class *class, const char *name,
          struct dpif_xdp_dp **dpp)
{
    struct dpif_xdp_dp *dp;
    int error;

    error = class->type == dpif_xdp_type ? dpif_xdp_sole_begin() : 0;
    if (error) {
        return error;
    }
    dp = xzalloc(sizeof *dp);
    *CONST_CAST(const struct dpif_class **, &dp->class) = class;
    *CONST_CAST(const char **, &dp->name) = xstrdup(name);
    ovs_refcount_init(&dp->ref_cnt);
    dpif_xdp_registry_add(dp);

    ovs_mutex_init(&dp->port_mutex);
    dpif_xdp_engine_init(dp);
    ovs_mutex_init(&dp->flow_mutex);
    dpif_xdp_port_table_init(&dp->port_table);
    dpif_xdp_senders_init(dp);
    dpif_xdp_flows_init(&dp->flows);
    dpif_xdp_meters_init(&dp->meters);
    dpif_xdp_bonds_init(&dp->bonds);
    dpif_xdp_trace_init(&dp->trace);
    dp->ct = dpif_xdp_ct_create(name);
    dpif_xdp_ports_init(dp);
    dpif_xdp_config_init(dp);
    dp->provider.last_tnl_conf_seq = seq_read(tnl_conf_seq);
    dp->provider.coverage = dpif_xdp_coverage_create();

    /* No upcalls until ofproto enables them. */
    dpif_xdp_upcall_init(dp);

    /* Every datapath has this port, but ofproto does not use it: bridges have
     * ports of their own.  A tap needs no programs. */
    dpif_xdp_port_lock(dp);
    error = dpif_xdp_port_create(dp, name,
                                 class->type == dpif_xdp_type ? "tap"
                                 : "dummy-internal", ODPP_LOCAL);
    dpif_xdp_port_unlock(dp);
    if (error) {
        log_no_device(name, error);
        destroy_dp(dp);
        return error;
    }
    *dpp = dp;
    return 0;
}

static void
unref_dp(struct dpif_xdp_dp *dp)
{
    if (ovs_refcount_unref_relaxed(&dp->ref_cnt) == 1) {
        destroy_dp(dp);
    }
}
