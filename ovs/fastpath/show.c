/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of the fast path, and its part of reports. */
#include <config.h>

#include "ovs/fastpath/fastpath_private.h"

#include "core/programs/group.h"
#include "core/tables/mask_text.h"
#include "core/tables/table.h"
#include "core/kernel/ticks.h"
#include "ovs/base/report.h"
#include "util.h"

/* Names and texts of enum dpif_xdp_fastpath_reason. */
static const struct {
    const char *name;
    const char *text;
    const char *change;
} reasons[N_REASONS] = {
#define X(NAME, TEXT, CHANGE) { #NAME, TEXT, CHANGE },
    DPIF_XDP_FASTPATH_REASONS(X)
#undef X
};

/* Adds what entry 'index' counted to '*sum'. */
static void
add_entry(const struct dpif_xdp_fastpath *fp, uint32_t index,
          struct dpif_flow_stats *sum)
{
    struct dp_stats stats;

    oxdp_table_stats(fp->table, index, &stats);
    if (stats.packets) {
        sum->n_packets += stats.packets;
        sum->n_bytes += stats.bytes;
        sum->used = MAX(sum->used,
                        (long long) oxdp_ticks_to_ms(fp->ticks,
                                                     stats.used));
        sum->tcp_flags |= stats.tcp_flags;
    }
}

/* Adds what all entries of 'flow' counted to '*sum'. */
static void
add_entries(const struct dpif_xdp_fastpath *fp,
            const struct dpif_xdp_flow *flow, struct dpif_flow_stats *sum)
{
    uint32_t index = peek(flow)->index;

    if (index != DP_NO_FLOW) {
        add_entry(fp, index, sum);
    }
    /* Readers without the mutex may follow a changed link, and then retry. */
    index = peek(flow)->old_index;
    for (int i = 0; index != DP_NO_FLOW && i < MAX_UNLINKED; i++) {
        add_entry(fp, index, sum);
        index = fp->older[index] - 1;
    }
}

void
dpif_xdp_fastpath_zero_stats(struct dpif_xdp_dp *dp,
                             struct dpif_xdp_flow *flow)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct dpif_flow_stats sum;

    if (fp) {
        memset(&sum, 0, sizeof sum);
        add_entries(fp, flow, &sum);
        stats_change_begin(fp);
        flow->fp.n_packets = -sum.n_packets;
        flow->fp.n_bytes = -sum.n_bytes;
        flow->fp.used = 0;
        flow->fp.tcp_flags = 0;
        stats_change_end(fp);
        dpif_xdp_fastpath_mark(dp, flow);
    }
}

void
dpif_xdp_fastpath_add_stats(const struct dpif_xdp_dp *dp,
                            const struct dpif_xdp_flow *flow,
                            struct dpif_flow_stats *stats)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct dpif_flow_stats sum;
    uint32_t before, after;

    if (!fp) {
        return;
    }
    do {
        atomic_read_explicit(&fp->stats_seq, &before, memory_order_acquire);
        memset(&sum, 0, sizeof sum);
        add_entries(fp, flow, &sum);
        sum.n_packets += peek(flow)->n_packets;
        sum.n_bytes += peek(flow)->n_bytes;
        sum.used = MAX(sum.used, peek(flow)->used);
        sum.tcp_flags |= peek(flow)->tcp_flags;
        atomic_thread_fence(memory_order_acquire);
        atomic_read_relaxed(&fp->stats_seq, &after);
    } while (before & 1 || before != after);

    stats->n_packets += sum.n_packets;
    stats->n_bytes += sum.n_bytes;
    stats->used = MAX(stats->used, sum.used);
    stats->tcp_flags |= sum.tcp_flags;
}

bool
dpif_xdp_fastpath_n_packets(const struct dpif_xdp_dp *dp,
                            const struct dpif_xdp_flow *flow, uint64_t *ret)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    const struct dpif_xdp_fastpath_flow *own = peek(flow);
    uint32_t before, after;

    *ret = 0;
    if (!fp) {
        return true;
    }
    atomic_read_explicit(&fp->stats_seq, &before, memory_order_acquire);
    *ret = own->n_packets;
    if (own->index != DP_NO_FLOW) {
        *ret += oxdp_table_packets(fp->table, own->index);
    }
    if (own->old_index != DP_NO_FLOW) {
        return false;
    }
    atomic_thread_fence(memory_order_acquire);
    atomic_read_relaxed(&fp->stats_seq, &after);
    return !(before & 1) && before == after;
}

void
dpif_xdp_fastpath_prefetch_stats(const struct dpif_xdp_dp *dp,
                                 const struct dpif_xdp_flow *flow)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint32_t index = peek(flow)->index;

    if (fp && index != DP_NO_FLOW) {
        const struct dp_tables *memory = oxdp_table_memory(fp->table);

        for (uint32_t i = 0; i < memory->head->shards; i++) {
            OVS_PREFETCH(&memory->stats[i * memory->n_flows + index]);
        }
    }
}

void
dpif_xdp_fastpath_report(const struct dpif_xdp_dp *dp, struct json *report)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct oxdp_table_usage usage;
    uint32_t groups, max_groups;
    struct json *by_reason;

    if (!fp) {
        return;
    }
    report = dpif_xdp_report_object(report, "fast_path");
    oxdp_groups_usage(fp->progs, &groups, &max_groups);
    oxdp_table_usage(fp->table, &usage);
    dpif_xdp_report_int(report, "flows", usage.flows);
    dpif_xdp_report_int(report, "max_flows", fp->n_indexes);
    dpif_xdp_report_int(report, "masks", usage.masks);
    dpif_xdp_report_int(report, "max_masks", DP_MAX_MASKS);
    dpif_xdp_report_int(report, "groups", groups);
    dpif_xdp_report_int(report, "max_groups", max_groups);
    by_reason = dpif_xdp_report_array(report, "flows_by_reason");
    for (int i = 0; i < N_REASONS; i++) {
        struct json *reason = dpif_xdp_report_element(by_reason);
        char *name = dpif_xdp_report_key(reasons[i].name);

        dpif_xdp_report_text(reason, "reason", name);
        dpif_xdp_report_text(reason, "tier", i ? "engine" : "program");
        dpif_xdp_report_text(reason, "text", reasons[i].text);
        dpif_xdp_report_text(reason, "change", reasons[i].change);
        dpif_xdp_report_int(reason, "flows", fp->n_reasons[i]);
        free(name);
    }
}

void
dpif_xdp_fastpath_report_flow(const struct dpif_xdp_dp *dp,
                              const struct dpif_xdp_flow *flow,
                              struct json *report)
{
    const struct dpif_xdp_fastpath_flow *fp = peek(flow);
    bool runs = dpif_xdp_fastpath_runs(flow);
    char *name;

    dpif_xdp_report_text(report, "tier",
                         runs ? dpif_xdp_fastpath_hook(flow) : "engine");
    if (!dp->fastpath || !fp->counted) {
        dpif_xdp_report_text(report, "reason", "off");
        dpif_xdp_report_text(report, "why", "is of a datapath without a fast "
                             "path");
        dpif_xdp_report_text(report, "change", "see whether "
                             "other_config:xdp-offload is false, and what the "
                             "log says of programs");
    } else {
        name = dpif_xdp_report_key(reasons[fp->reason].name);
        dpif_xdp_report_text(report, "reason", name);
        dpif_xdp_report_text(report, "why", reasons[fp->reason].text);
        dpif_xdp_report_text(report, "change", reasons[fp->reason].change);
        free(name);
    }
}

uint64_t
dpif_xdp_fastpath_predicted(const struct dpif_xdp_dp *dp)
{
    return dp->fastpath ? oxdp_table_predicted(dp->fastpath->table) : 0;
}

void
dpif_xdp_fastpath_report_masks(const struct dpif_xdp_dp *dp,
                               struct json *report)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct oxdp_table_mask_info *masks;
    struct json *array;
    uint32_t n;

    array = dpif_xdp_report_array(report, "masks");
    if (!fp) {
        return;
    }
    masks = xmalloc(DP_MAX_MASKS * sizeof *masks);
    n = oxdp_table_masks(fp->table, masks);
    for (uint32_t i = 0; i < n; i++) {
        const struct oxdp_table_mask_info *info = &masks[i];
        char *text = oxdp_mask_to_text(&info->words, &info->example_key);
        struct json *mask = dpif_xdp_report_element(array);

        dpif_xdp_report_int(mask, "position", i + 1);
        dpif_xdp_report_int(mask, "flows", info->n_flows);
        dpif_xdp_report_int(mask, "hits", info->packets);
        dpif_xdp_report_text(mask, "fields", text);
        free(text);
    }
    free(masks);
}

void
dpif_xdp_fastpath_report_mask(const struct dpif_xdp_dp *dp, uint32_t index,
                              struct json *report)
{
    union dp_key key, mask;
    char *text;

    if (oxdp_table_match(dp->fastpath->table, index, &key, &mask)) {
        text = oxdp_mask_to_text(&mask, &key);
        dpif_xdp_report_text(report, "mask", text);
        free(text);
    }
}
