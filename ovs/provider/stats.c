/* SPDX-License-Identifier: Apache-2.0 */
/* ovs-appctl xdp/stats: where packets were handled, and what became of
 * them. */
#include <config.h>

#include "ovs/provider/appctl.h"

#include "openvswitch/dynamic-string.h"
#include "core/programs/tcx.h"
#include "openvswitch/json.h"
#include "ovs-thread.h"
#include "ovs/datapath/datapath.h"
#include "ovs/base/report.h"
#include "ovs/engine/engine.h"
#include "ovs/fastpath/fastpath.h"
#include "ovs/netdev/netdev_xdp.h"

#define INT dpif_xdp_report_get_int
#define TEXT dpif_xdp_report_get_text
#define N dpif_xdp_report_n
#define AT dpif_xdp_report_at

/* A number of a document: its key and its text. */
struct line {
    const char *key;
    const char *text;
};

static const struct line program_lines[] = {
    { "predicted", "predicted" },
    { NULL, NULL },
};

static const struct line hit_lines[] = {
    { "hits_without_masks", "hits without masks" },
    { "mask_hits", "mask hits" },
    { "masks_walked", "masks walked" },
    { "recirculated", "recirculated" },
    { "path_hits", "path hits" },
    { "path_misses", "path misses" },
    { "tracked", "ct() actions done" },
    { NULL, NULL },
};

static const struct line engine_lines[] = {
    { "signature_cache_hits", "signature cache hits" },
    { "mask_hits", "mask hits" },
    { "masks_walked", "masks walked" },
    { "misses", "misses" },
    { "upcalls_lost", "upcalls lost" },
    { "samples", "samples that programs took" },
    { "samples_lost", "samples lost" },
    { NULL, NULL },
};

static const struct line tcx_lines[] = {
    { "tcx_overrun", "dropped: more packets from tcx than the engine took" },
    { NULL, NULL },
};

static const struct line traffic_lines[] = {
    { "rx_packets", "received packets" },
    { "rx_bytes", "received bytes" },
    { "rx_dropped", "received, dropped by the device" },
    { "tx_packets", "sent packets" },
    { "tx_bytes", "sent bytes" },
    { "tx_dropped", "sent, dropped by the device or before it" },
    { NULL, NULL },
};

/* Puts a counter, unless it is 0 and 'query' leaves those out. */
static void
put(const struct dpif_xdp_query *query, struct json *report, const char *key,
    uint64_t n)
{
    if (n || !query->nonzero) {
        dpif_xdp_report_int(report, key, n);
    }
}

static void
put_enum(const struct dpif_xdp_query *query, struct json *report,
         const char *name, uint64_t n)
{
    if (n || !query->nonzero) {
        dpif_xdp_report_enum(report, name, n);
    }
}

/* Where lookups by programs, counted in 'n', found their flows. */
static void
report_hits(const struct dpif_xdp_query *query,
            const uint64_t n[DP_N_COUNTERS], struct json *report)
{
    uint64_t hits = oxdp_hits(n), by_masks = n[DP_COUNTER_MASK_HIT];

    /* Frames may have been lost after a lookup that found their flow. */
    put(query, report, "hits_without_masks", hits - MIN(hits, by_masks));
    put(query, report, "mask_hits", n[DP_COUNTER_MASK_HIT]);
    put(query, report, "masks_walked", n[DP_COUNTER_MASKS_WALKED]);
    put(query, report, "recirculated", n[DP_COUNTER_RECIRCULATED]);
    put(query, report, "path_hits", n[DP_COUNTER_PATH_HIT]);
    put(query, report, "path_misses", n[DP_COUNTER_PATH_MISS]);
    put(query, report, "tracked", n[DP_COUNTER_TRACKED]);
}

/* All that programs count for a port. */
static void
report_counters(const struct dpif_xdp_query *query,
                const uint64_t n[DP_N_COUNTERS], struct json *report)
{
    struct json *frames = dpif_xdp_report_object(report, "frames");

    for (int i = 0; i < DP_N_REASONS; i++) {
        put_enum(query, frames, oxdp_counter_name(i), n[i]);
    }
    report_hits(query, n, dpif_xdp_report_object(report, "lookups"));
    put(query, report, "unfinished", n[DP_COUNTER_UNFINISHED]);
    put(query, report, "lost_copies", n[DP_COUNTER_LOST_COPIES]);
    put(query, report, "long_copies", n[DP_COUNTER_LONG_COPIES]);
    put(query, report, "lost_upcalls", n[DP_COUNTER_LOST_UPCALLS]);
}

/* What Open vSwitch says of the Interface, unknown numbers left out. */
static void
report_traffic(const struct dpif_xdp_query *query,
               const struct netdev_stats *stats, struct json *report)
{
    const uint64_t values[] = {
        stats->rx_packets, stats->rx_bytes, stats->rx_dropped,
        stats->tx_packets, stats->tx_bytes, stats->tx_dropped,
    };

    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        if (values[i] != UINT64_MAX) {
            put(query, report, traffic_lines[i].key, values[i]);
        }
    }
}

static void
add_traffic(struct netdev_stats *sum, const struct netdev_stats *stats)
{
#define ADD(MEMBER) \
    sum->MEMBER += stats->MEMBER != UINT64_MAX ? stats->MEMBER : 0
    ADD(rx_packets);
    ADD(rx_bytes);
    ADD(rx_dropped);
    ADD(tx_packets);
    ADD(tx_bytes);
    ADD(tx_dropped);
#undef ADD
}

/* What is known of one port.  'n' is zeroed if no program counts for it. */
static bool
read_port(const struct dpif_xdp_dp *dp, const struct dpif_xdp_port *port,
          uint64_t n[DP_N_COUNTERS], struct netdev_stats *stats)
{
    int ifindex = port->device.ifindex;
    bool counted;

    if (!ifindex) {
        atomic_read_relaxed(
            &CONST_CAST(struct dpif_xdp_port *, port)->host_tunnel.ifindex,
            &ifindex);
    }
    counted = (ifindex && dp->progs
               && !oxdp_progs_get_counters(dp->progs, ifindex, n));
    if (!counted) {
        memset(n, 0, DP_N_COUNTERS * sizeof *n);
    }
    if (netdev_get_stats(port->netdev, stats)) {
        memset(stats, 0xff, sizeof *stats);
    }
    return counted;
}

static void
report_port(const struct dpif_xdp_dp *dp, struct dpif_xdp_port *port,
            const struct dpif_xdp_query *query, struct json *ports)
{
    struct json *report = dpif_xdp_report_element(ports);
    uint64_t n[DP_N_COUNTERS];
    struct netdev_stats stats;

    dpif_xdp_report_int(report, "port", odp_to_u32(port->port_no));
    dpif_xdp_report_text(report, "name", netdev_get_name(port->netdev));
    if (read_port(dp, port, n, &stats)) {
        int hook = DPIF_XDP_HOOK_TCX;   /* Of a device for tunnels. */

        if (port->is_device) {
            atomic_read(&port->hook, &hook);
        }
        dpif_xdp_report_text(report, "hook", dpif_xdp_hook_to_string(hook));
        report_counters(query, n, report);
    }
    report_traffic(query, &stats, report);
}

/* All ports in one. */
static void
report_sum(const struct dpif_xdp_dp *dp, struct dpif_xdp_port **ports,
           size_t n_ports, const struct dpif_xdp_query *query,
           struct json *report)
{
    uint64_t sum[DP_N_COUNTERS] = { 0 };
    struct netdev_stats all;

    memset(&all, 0, sizeof all);
    for (size_t i = 0; i < n_ports; i++) {
        uint64_t n[DP_N_COUNTERS];
        struct netdev_stats stats;

        read_port(dp, ports[i], n, &stats);
        for (int j = 0; j < DP_N_COUNTERS; j++) {
            sum[j] += n[j];
        }
        add_traffic(&all, &stats);
    }
    dpif_xdp_report_int(report, "ports", n_ports);
    report_counters(query, sum, report);
    report_traffic(query, &all, report);
}

static void
report_programs(struct dpif_xdp_dp *dp, const struct dpif_xdp_query *query,
                struct json *report)
{
    uint64_t n[DP_N_COUNTERS];

    oxdp_progs_get_totals(dp->progs, n);
    report = dpif_xdp_report_object(report, "programs");
    dpif_xdp_flow_lock(dp);
    put(query, report, "predicted", dpif_xdp_fastpath_predicted(dp));
    dpif_xdp_flow_unlock(dp);
    report_hits(query, n, report);
}

static void
report_engine(struct dpif_xdp_dp *dp, const struct dpif_xdp_query *query,
              struct json *report)
{
    struct dpif_xdp_cls_stats engine;
    uint64_t n, n_samples, n_lost;
    struct json *drops;

    memset(&engine, 0, sizeof engine);
    dpif_xdp_threads_get_stats(dp, &engine);
    report = dpif_xdp_report_object(report, "engine");
    put(query, report, "signature_cache_hits", engine.n_cache_hit);
    put(query, report, "mask_hits", engine.n_table_hit);
    put(query, report, "masks_walked", engine.n_mask_walk);
    put(query, report, "misses", engine.n_miss);
    n = dpif_xdp_get_lost(dp);
    put(query, report, "upcalls_lost", n);
    dpif_xdp_sampler_get_stats(dp, &n_samples, &n_lost);
    put(query, report, "samples", n_samples);
    put(query, report, "samples_lost", n_lost);
    drops = dpif_xdp_report_object(report, "drops");
    for (int i = 0; i < DPIF_XDP_N_DROPS; i++) {
        n = dpif_xdp_get_drops(dp, i);
        put_enum(query, drops, dpif_xdp_drop_name(i), n);
    }
    if (dp->progs) {
        put(query, drops, tcx_lines->key, oxdp_tcx_n_overrun(dp->progs));
    }
}

void
dpif_xdp_stats_report(struct dpif_xdp_dp *dp,
                      const struct dpif_xdp_query *query, struct json *report)
{
    struct dpif_xdp_port **ports;
    size_t n;

    dpif_xdp_port_lock(dp);
    if (dp->progs) {
        report_programs(dp, query, report);
    }
    report_engine(dp, query, report);
    ports = dpif_xdp_query_ports(dp, query, &n);
    if (query->sum) {
        report_sum(dp, ports, n, query, dpif_xdp_report_object(report, "sum"));
    } else {
        struct json *array = dpif_xdp_report_array(report, "ports");

        for (size_t i = 0; i < n; i++) {
            report_port(dp, ports[i], query, array);
        }
    }
    free(ports);
    dpif_xdp_port_unlock(dp);
}

static void
text_line(const struct json *report, const char *key, const char *before,
          const char *text, struct ds *ds)
{
    const struct json *number = dpif_xdp_report_get(report, key);

    if (number) {
        ds_put_format(ds, "    %s%s: %"PRId64"\n", before, text,
                      json_integer(number));
    }
}

/* The numbers of 'report' that 'lines' names, in that order. */
static void
text_lines(const struct json *report, const struct line lines[],
           struct ds *ds)
{
    for (; lines->key; lines++) {
        text_line(report, lines->key, "", lines->text, ds);
    }
}

/* The same of a number with the name of a constant for its key. */
static void
text_enum(const struct json *report, const char *name, const char *before,
          const char *text, struct ds *ds)
{
    char *key = dpif_xdp_report_key(name);

    text_line(report, key, before, text, ds);
    free(key);
}

/* The members of a port, or of the sum of ports. */
static void
text_numbers(const struct json *port, struct ds *ds)
{
    const struct json *frames = dpif_xdp_report_get(port, "frames");

    if (frames) {
        for (int i = 0; i < DP_N_REASONS; i++) {
            text_enum(frames, oxdp_counter_name(i), "", oxdp_counter_text(i),
                      ds);
        }
        text_lines(dpif_xdp_report_get(port, "lookups"), hit_lines, ds);
        text_line(port, "unfinished", "",
                  oxdp_counter_text(DP_COUNTER_UNFINISHED), ds);
        text_line(port, "lost_copies", "",
                  oxdp_counter_text(DP_COUNTER_LOST_COPIES), ds);
        text_line(port, "long_copies", "",
                  oxdp_counter_text(DP_COUNTER_LONG_COPIES), ds);
        text_line(port, "lost_upcalls", "",
                  oxdp_counter_text(DP_COUNTER_LOST_UPCALLS), ds);
    }
    text_lines(port, traffic_lines, ds);
}

void
dpif_xdp_stats_text(const struct json *report, struct ds *ds)
{
    const struct json *programs = dpif_xdp_report_get(report, "programs");
    const struct json *engine = dpif_xdp_report_get(report, "engine");
    const struct json *ports = dpif_xdp_report_get(report, "ports");
    const struct json *sum = dpif_xdp_report_get(report, "sum");

    ds_put_format(ds, "%s@%s:\n", TEXT(report, "type"), TEXT(report, "name"));
    if (programs) {
        ds_put_cstr(ds, "  programs:\n");
        text_lines(programs, program_lines, ds);
        text_lines(programs, hit_lines, ds);
    }
    ds_put_cstr(ds, "  engine:\n");
    text_lines(engine, engine_lines, ds);
    for (int i = 0; i < DPIF_XDP_N_DROPS; i++) {
        text_enum(dpif_xdp_report_get(engine, "drops"), dpif_xdp_drop_name(i),
                  "dropped: ", dpif_xdp_drop_text(i), ds);
    }
    text_lines(dpif_xdp_report_get(engine, "drops"), tcx_lines, ds);
    if (sum) {
        ds_put_format(ds, "  all %"PRIu64" ports:\n", INT(sum, "ports"));
        text_numbers(sum, ds);
    }
    for (size_t i = 0; i < N(ports); i++) {
        const struct json *port = AT(ports, i);

        ds_put_format(ds, "  port %"PRIu64": %s\n", INT(port, "port"),
                      TEXT(port, "name"));
        text_numbers(port, ds);
    }
}
