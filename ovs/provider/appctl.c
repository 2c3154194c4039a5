/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-appctl xdp/...: what the datapath does, for people.
 *
 * docs/xdp-appctl.md describes the commands. */
#include <config.h>

#include "ovs/datapath/datapath.h"

#include "core/programs/tcx.h"
#include "dp/capability.h"
#include "ovs/netdev/netdev_xdp.h"
#include "openvswitch/dynamic-string.h"
#include "ovs-thread.h"
#include "smap.h"
#include "unixctl.h"

static void
show_port(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
          struct ds *ds)
{
    ds_put_format(ds, "  port %"PRIu32": %s (%s)",
                  odp_to_u32(port->port_no), netdev_get_name(port->netdev),
                  port->type);
    if (port->is_device) {
        struct smap status = SMAP_INITIALIZER(&status);

        netdev_get_status(port->dev, &status);
        ds_put_format(ds, " xdp-mode=%s%s",
                      smap_get_def(&status, "xdp-mode", "none"),
                      port->open ? "" : ", closed");
        ds_put_format(ds, " xdp-hook=%s queues=%"PRIuSIZE
                      " redirect-target=%s",
                      smap_get_def(&status, "xdp-hook", "none"), port->n_rxqs,
                      port->redirects ? "yes" : "no");
        if (port->obj) {
            ds_put_format(ds, " xdp-obj=%s", port->obj);
        }
        if (dp->progs && oxdp_tcx_can_output(dp->progs,
                                             odp_to_u32(port->port_no))) {
            ds_put_format(ds, " tcx-output=%s%s%s%s",
                          port->no_shortcut ? "device" : "peer",
                          port->no_shortcut ? " (" : "",
                          port->no_shortcut ? port->no_shortcut : "",
                          port->no_shortcut ? ")" : "");
        }
        smap_destroy(&status);
    }
    ds_put_char(ds, '\n');

    if (port->is_device && !port->n_rxqs && port->open) {
        uint64_t n_sent, n_dropped;
        bool has_sock = dpif_xdp_sender_get_stats(port, &n_sent, &n_dropped);

        ds_put_format(ds, "    engine: sent:%"PRIu64" send-drops:%"PRIu64
                      " through:%s\n", n_sent, n_dropped,
                      has_sock ? "AF_XDP" : "AF_PACKET");
    }
    for (size_t i = 0; i < port->n_rxqs; i++) {
        struct dpif_xdp_rxq *rxq = &port->rxqs[i];
        uint64_t n;

        atomic_read_relaxed(&rxq->n_packets, &n);
        ds_put_format(ds, "    queue %"PRIuSIZE": received:%"PRIu64, i, n);
        if (rxq->sock) {
            struct oxdp_sock_stats stats;

            oxdp_sock_get_stats(rxq->sock, &stats);
            ds_put_format(ds, " sent:%"PRIu64" send-drops:%"PRIu64
                          " ring-full:%"PRIu64" no-frames:%"PRIu64
                          " other-drops:%"PRIu64,
                          stats.tx_packets, stats.tx_dropped,
                          stats.rx_ring_full, stats.rx_fill_empty,
                          stats.rx_dropped);
        }
        ds_put_char(ds, '\n');
    }
}

/* Key groups and operations by their bits. */
static void
show_bits(uint32_t groups, uint64_t op_bits, const char *between,
          struct ds *ds)
{
    static const char *const key_groups[] = {
#define X(NAME, TEXT) TEXT,
        DP_KEY_GROUPS(X)
#undef X
    };
    static const char *const ops[] = {
#define X(NAME, NEEDS, TEXT) TEXT,
        DP_OPS(X)
#undef X
    };

    for (int i = 0; i < DP_N_KEY_GROUPS; i++) {
        if (groups & 1u << i) {
            ds_put_format(ds, "%s; ", key_groups[i]);
        }
    }
    if (between) {
        ds_chomp(ds, ' ');
        ds_chomp(ds, ';');
        ds_put_cstr(ds, between);
    }
    for (int i = 0; i < DP_N_OPS; i++) {
        if (op_bits & UINT64_C(1) << i) {
            ds_put_format(ds, "%s; ", ops[i]);
        }
    }
    ds_chomp(ds, ' ');
    ds_chomp(ds, ';');
    ds_put_char(ds, '\n');
}

/* What 'program' can parse and execute, and what of it is left out while it
 * runs because no flow needs it. */
static void
show_capability(const struct oxdp_prog_info *program,
                const struct dp_omit *omit, struct ds *ds)
{
    const struct dp_capability *capability = &program->capability;

    ds_put_cstr(ds, "    parses: ");
    show_bits(capability->key_groups, capability->ops, "\n    executes: ", ds);
    ds_put_format(ds, "    omits: %u of %u key words; ",
                  count_1bits(omit->words), DP_KEY_WORDS);
    show_bits(omit->parts & capability->key_groups,
              omit->ops & capability->ops, NULL, ds);
}

static void
show_programs(const struct dpif_xdp_dp *dp, struct ds *ds)
{
    struct oxdp_prog_info info;
    struct dp_omit omit;

    if (!dp->progs) {
        return;
    }
    omit = oxdp_progs_omitted(dp->progs);
    for (uint32_t i = 0; !oxdp_progs_get_info(dp->progs, i, &info); i++) {
        ds_put_format(ds, "  program: %s id %"PRIu32", %"PRIu32" bytes of "
                      "BPF, %"PRIu32" of machine code%s%s\n",
                      info.name, info.id, info.xlated_bytes, info.jited_bytes,
                      info.file ? ", of " : "", info.file ? info.file : "");
        if (dp->fastpath) {
            show_capability(&info, &omit, ds);
        }
    }
}

static void
show_dp(struct dpif_xdp_dp *dp, void *ds_)
{
    struct dpif_xdp_port *port;
    struct ds *ds = ds_;

    ds_put_format(ds, "%s@%s: %"PRIu32" flows\n", dp->class->type, dp->name,
                  dpif_xdp_cls_n_rules(&dp->cls));
    ovs_mutex_lock(&dp->port_mutex);
    if (dp->packets) {
        struct oxdp_umem *umem = dpif_xdp_packets_umem(dp->packets);

        ds_put_format(ds, "  umem: %"PRIu32" frames of %u bytes, "
                      "%"PRIu32" free\n", oxdp_umem_n_frames(umem),
                      OXDP_FRAME_SIZE, oxdp_umem_n_free(umem));
    }
    show_programs(dp, ds);
    ovs_mutex_lock(&dp->flow_mutex);
    dpif_xdp_fastpath_format(dp, ds);
    ovs_mutex_unlock(&dp->flow_mutex);
    dpif_xdp_threads_show(dp, ds);
    CMAP_FOR_EACH (port, node, &dp->ports) {
        show_port(dp, port, ds);
    }
    ovs_mutex_unlock(&dp->port_mutex);
}

/* Where lookups by programs, counted in 'n', found their flows. */
static void
stats_hits(const uint64_t n[DP_N_COUNTERS], const char *indent, struct ds *ds)
{
    ds_put_format(ds, "%shits without masks: %"PRIu64"\n"
                  "%smask hits: %"PRIu64"\n"
                  "%smasks walked: %"PRIu64"\n"
                  "%srecirculated: %"PRIu64"\n",
                  indent, oxdp_hits(n) - n[DP_COUNTER_MASK_HIT],
                  indent, n[DP_COUNTER_MASK_HIT],
                  indent, n[DP_COUNTER_MASKS_WALKED],
                  indent, n[DP_COUNTER_RECIRCULATED]);
}

static void
stats_port(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
           struct ds *ds)
{
    uint64_t n[DP_N_COUNTERS];

    if (!port->device.ifindex
        || oxdp_progs_get_counters(dp->progs, port->device.ifindex, n)) {
        return;
    }
    ds_put_format(ds, "  port %"PRIu32": %s\n", odp_to_u32(port->port_no),
                  netdev_get_name(port->netdev));
    for (int i = 0; i < DP_COUNTER_RECIRCULATED; i++) {
        ds_put_format(ds, "    %s: %"PRIu64"\n", oxdp_counter_text(i), n[i]);
    }
    stats_hits(n, "    ", ds);
}

static void
stats_dp(struct dpif_xdp_dp *dp, void *ds_)
{
    struct dpif_xdp_cls_stats engine;
    struct dpif_xdp_port *port;
    uint64_t n[DP_N_COUNTERS];
    struct ds *ds = ds_;

    memset(&engine, 0, sizeof engine);
    dpif_xdp_cls_stats_add(&engine, &dp->cls_stats);
    ds_put_format(ds, "%s@%s:\n", dp->class->type, dp->name);

    ovs_mutex_lock(&dp->port_mutex);
    dpif_xdp_threads_get_stats(dp, &engine);
    if (dp->progs) {
        oxdp_progs_get_totals(dp->progs, n);
        ds_put_cstr(ds, "  programs:\n");
        ovs_mutex_lock(&dp->flow_mutex);
        ds_put_format(ds, "    predicted: %"PRIu64"\n",
                      dpif_xdp_fastpath_predicted(dp));
        ovs_mutex_unlock(&dp->flow_mutex);
        stats_hits(n, "    ", ds);
    }
    ds_put_format(ds, "  engine:\n"
                  "    signature cache hits: %"PRIu64"\n"
                  "    mask hits: %"PRIu64"\n"
                  "    masks walked: %"PRIu64"\n"
                  "    misses: %"PRIu64"\n",
                  engine.n_cache_hit, engine.n_table_hit, engine.n_mask_walk,
                  engine.n_miss);
    for (int i = 0; i < DPIF_XDP_N_DROPS; i++) {
        uint64_t n_drops;

        atomic_read_relaxed(&dp->drops[i], &n_drops);
        ds_put_format(ds, "    dropped: %s: %"PRIu64"\n",
                      dpif_xdp_drop_text(i), n_drops);
    }
    CMAP_FOR_EACH (port, node, &dp->ports) {
        stats_port(dp, port, ds);
    }
    ovs_mutex_unlock(&dp->port_mutex);
}

static void
dump_masks_dp(struct dpif_xdp_dp *dp, void *ds_)
{
    struct ds *ds = ds_;

    ds_put_format(ds, "%s@%s:\n", dp->class->type, dp->name);
    ovs_mutex_lock(&dp->flow_mutex);
    dpif_xdp_fastpath_format_masks(dp, ds);
    ovs_mutex_unlock(&dp->flow_mutex);
}

static void
show_bonds(struct dpif_xdp_dp *dp, void *ds)
{
    dpif_xdp_bonds_format(&dp->bonds, ds);
}

static void
specialise_dp(struct dpif_xdp_dp *dp, void *ds_)
{
    struct ds *ds = ds_;
    int error = dp->fastpath ? -oxdp_progs_specialise(dp->progs) : 0;

    ds_put_format(ds, "%s@%s: %s\n", dp->class->type, dp->name,
                  error ? ovs_strerror(error) : "done");
}

/* 'cb' writes what a command says about one datapath. */
struct command {
    const char *name;
    void (*cb)(struct dpif_xdp_dp *, void *ds);
};

static const struct command commands[] = {
    { "xdp/show", show_dp },
    { "xdp/stats", stats_dp },
    { "xdp/dump-masks", dump_masks_dp },
    { "xdp/bond-show", show_bonds },
    { "xdp/specialise", specialise_dp },
};

static void
run_command(struct unixctl_conn *conn, int argc OVS_UNUSED,
            const char *argv[] OVS_UNUSED, void *command_)
{
    const struct command *command = command_;
    struct ds ds = DS_EMPTY_INITIALIZER;

    dpif_xdp_for_each(command->cb, &ds);
    unixctl_command_reply(conn, ds_cstr(&ds));
    ds_destroy(&ds);
}

void
dpif_xdp_appctl_init(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;

    if (ovsthread_once_start(&once)) {
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
            unixctl_command_register(commands[i].name, "", 0, 0, run_command,
                                     CONST_CAST(struct command *,
                                                &commands[i]));
        }
        ovsthread_once_done(&once);
    }
}
