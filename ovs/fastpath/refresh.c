/* SPDX-License-Identifier: Apache-2.0 */
/* Reinstalls flows: after a change of what programs can do, or when there is
 * room for flows that found the tables full. */
#include <config.h>

#include "ovs/fastpath/fastpath_private.h"

#include "core/kernel/ticks.h"
#include "core/programs/group.h"
#include "core/programs/progs.h"
#include "core/programs/tcx.h"
#include "dp/capability.h"
#include "core/tables/table.h"
#include "dp/op.h"
#include "flow.h"
#include "netdev-native-tnl.h"
#include "ovs/state/ct.h"

/* Flows that are looked at for it in a second. */
#define MAX_RETRIES 65536

/* Flows without a group that are put again in a second. */
#define MAX_GROUP_RETRIES 1024

#define TUNNEL_OPS (1ull << DP_OP_TNL_PUSH | 1ull << DP_OP_TNL_PUSH_CSUM)

/* Reinstalls 'flow' after a change of what programs can do. */
static void
reinstall(struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flow)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct flow key;

    miniflow_expand(flow->key, &key);
    dpif_xdp_fastpath_put(dp, flow, &key);
}

/* Reinstalls flows that have one of these operations: bits of enum
 * dp_op_code. */
static void
reinstall_with(struct dpif_xdp_dp *dp, uint64_t codes)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct dpif_xdp_flow *flow;
    uint32_t position = 0;

    while ((flow = dpif_xdp_flow_next(&dp->flows, &position))) {
        const struct dp_tables *tables = oxdp_table_memory(fp->table);
        const struct dp_flow *entry;

        if (!dpif_xdp_fastpath_runs(flow)) {
            continue;
        }
        entry = &tables->flows[flow->fp.index];
        if (entry->n_ops && tables->ops[entry->ops].codes & codes) {
            reinstall(dp, flow);
        }
    }
}

/* Puts the flows again that push tunnel headers if "tnl/egress_port_range" was
 * called: their operations have the range of UDP source ports. */
static void
follow_port_range(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint32_t range = tnl_udp_port_min << 16 | tnl_udp_port_max;

    if (fp->port_range != range) {
        fp->port_range = range;
        reinstall_with(dp, TUNNEL_OPS);
    }
}

/* Puts the flows again that track connections if timeout policies have
 * changed: their operations name policies by value, and Open vSwitch gives a
 * number that is free to another policy. */
static void
follow_policies(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint32_t changes = dpif_xdp_ct_policy_changes(dp->ct);

    if (fp->policy_changes != changes) {
        fp->policy_changes = changes;
        reinstall_with(dp, 1ull << DP_OP_CT);
    }
}

void
dpif_xdp_fastpath_port_opened(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct dpif_xdp_flow *flow;
    uint32_t position = 0;

    if (fp && (fp->n_reasons[REASON_PORT] || fp->n_left_to_tcx)) {
        while ((flow = dpif_xdp_flow_next(&dp->flows, &position))) {
            if ((flow->fp.counted && flow->fp.reason == REASON_PORT)
                || is_left_to_tcx(flow)) {
                reinstall(dp, flow);
            }
        }
    }
}

/* Whether the flow in the table's entry 'index' sends to port 'port_no'. */
static bool
entry_outputs_to(const struct dpif_xdp_fastpath *fp, uint32_t index,
                 uint32_t port_no)
{
    const struct dp_tables *tables = oxdp_table_memory(fp->table);
    const struct dp_flow *entry = &tables->flows[index];

    if (entry->fate == DP_FATE_GROUP) {
        return oxdp_groups_has(fp->progs, entry->arg, port_no);
    }
    for (uint32_t i = 0; i < entry->n_ops; i++) {
        const struct dp_op *op = &tables->ops[entry->ops + i];

        for (uint32_t j = 0; op->code == DP_OP_OUTPUT && j < op->u.output.n;
             j++) {
            if (op->u.output.port[j] == port_no) {
                return true;
            }
        }
    }
    return ((entry->fate & ~DP_FATE_SKB) == DP_FATE_OUTPUT
            && entry->arg == port_no);
}

void
dpif_xdp_fastpath_port_closed(struct dpif_xdp_dp *dp, odp_port_t port_no)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct dpif_xdp_flow *flow;
    uint32_t position = 0;

    if (!fp) {
        return;
    }
    while ((flow = dpif_xdp_flow_next(&dp->flows, &position))) {
        if (dpif_xdp_fastpath_runs(flow)
            && entry_outputs_to(fp, flow->fp.index, odp_to_u32(port_no))) {
            reinstall(dp, flow);
        }
    }
}

/* Puts the flows of packets from 'port_no' again; without 'all', those that
 * were compiled for another hook. */
static void
put_flows_of_port(struct dpif_xdp_dp *dp, odp_port_t port_no, bool all)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct dpif_xdp_flow *flow;
    uint32_t position = 0;
    enum dpif_xdp_hook hook = dpif_xdp_fastpath_hook_of(dp, port_no);

    while ((flow = dpif_xdp_flow_next(&dp->flows, &position))) {
        if (flow->fp.counted && (all || flow->fp.hook != hook)
            && MINIFLOW_GET_U32(flow->key, in_port.odp_port)
               == odp_to_u32(port_no)) {
            reinstall(dp, flow);
        }
    }
}

/* Puts the flows again whose packets come by either hook, because there are
 * programs at tcx now, or none any more. */
static void
put_flows_of_either(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct dpif_xdp_flow *flow;
    uint32_t position = 0;

    while ((flow = dpif_xdp_flow_next(&dp->flows, &position))) {
        if (flow->fp.counted && flow->fp.hook == DPIF_XDP_HOOK_EITHER) {
            reinstall(dp, flow);
        }
    }
}

void
dpif_xdp_fastpath_hook_changed(struct dpif_xdp_dp *dp, odp_port_t port_no)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;

    if (fp) {
        bool tcx_in_use = oxdp_tcx_capability(fp->progs)->ops != 0;

        put_flows_of_port(dp, port_no, false);
        if (fp->tcx_in_use != tcx_in_use) {
            fp->tcx_in_use = tcx_in_use;
            put_flows_of_either(dp);
        }
    }
}

void
dpif_xdp_fastpath_program_changed(struct dpif_xdp_dp *dp, odp_port_t port_no)
{
    if (dp->fastpath) {
        put_flows_of_port(dp, port_no, true);
    }
}

void
dpif_xdp_fastpath_tracks(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_flow *flow;
    uint32_t position = 0;

    while (dp->fastpath && (flow = dpif_xdp_flow_next(&dp->flows,
                                                      &position))) {
        if (flow->fp.counted && flow->fp.reason == REASON_PROGRAM) {
            reinstall(dp, flow);
        }
    }
}

void
dpif_xdp_fastpath_buffers_changed(struct dpif_xdp_dp *dp, odp_port_t port_no)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint32_t number = odp_to_u32(port_no);
    struct dpif_xdp_flow *flow;
    uint32_t position = 0;

    while (fp && (flow = dpif_xdp_flow_next(&dp->flows, &position))) {
        if (flow->fp.counted
            && (flow->fp.hook == DPIF_XDP_HOOK_EITHER
                || flow->fp.reason == REASON_BUFFERS
                || MINIFLOW_GET_U32(flow->key, in_port.odp_port) == number
                || (dpif_xdp_fastpath_runs(flow)
                    && entry_outputs_to(fp, flow->fp.index, number)))) {
            reinstall(dp, flow);
        }
    }
}

/* Puts flows again that found no room in the tables, if something was
 * reclaimed since all of them tried last: in rounds, of which a part is done
 * each time. */
static void
retry_full(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct oxdp_table_usage usage;

    if ((!fp->n_reasons[REASON_FULL] && !fp->n_reasons[REASON_MASKS])
        || fp->n_reclaimed == fp->n_reclaimed_tried) {
        return;
    }
    oxdp_table_usage(fp->table, &usage);
    for (int i = 0; i < MAX_RETRIES
         && usage.flows + usage.unlinked < fp->n_indexes; i++) {
        struct dpif_xdp_flow *flow = dpif_xdp_flow_next(&dp->flows,
                                                        &fp->round);

        if (!flow) {
            fp->round = 0;
            fp->n_reclaimed_tried = fp->n_reclaimed_then;
            fp->n_reclaimed_then = fp->n_reclaimed;
            break;
        }
        if (flow->fp.counted && reason_may_pass(flow->fp.reason)) {
            reinstall(dp, flow);
            usage.flows += !reason_may_pass(flow->fp.reason);
        }
    }
}

/* Puts flows again that found no group, if others became available since all
 * of them tried last: in rounds, as retry_full(). */
static void
retry_groups(struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint64_t changes = oxdp_groups_changes(fp->progs);

    if (!fp->n_reasons[REASON_GROUP] || fp->groups_tried == changes) {
        return;
    }
    for (int i = 0; i < MAX_GROUP_RETRIES;) {
        struct dpif_xdp_flow *flow
            = dpif_xdp_flow_next(&dp->flows, &fp->groups_round);

        if (!flow) {
            fp->groups_round = 0;
            fp->groups_tried = fp->groups_then;
            fp->groups_then = changes;
            break;
        }
        if (flow->fp.counted && flow->fp.reason == REASON_GROUP) {
            reinstall(dp, flow);
            i++;
        }
    }
}

void
dpif_xdp_fastpath_run(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;

    if (fp) {
        oxdp_table_memory(fp->table)->head->vlan_limit = flow_vlan_limit;
        oxdp_table_rank_masks(fp->table);
        oxdp_progs_tick(fp->progs);
        follow_port_range(dp);
        follow_policies(dp);
        retry_full(dp);
        retry_groups(dp);
        stats_change_begin(fp);
        oxdp_ticks_update(fp->ticks);
        stats_change_end(fp);
    }
}
