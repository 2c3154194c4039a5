/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/fastpath/fastpath_private.h"

#include "bitmap.h"
#include "core/kernel/grace.h"
#include "core/kernel/ticks.h"
#include "core/programs/group.h"
#include "core/programs/progs.h"
#include "core/tables/table.h"
#include "dp/record.h"
#include "flow.h"
#include "openvswitch/vlog.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "ovs/base/usdt.h"
#include "ovs/datapath/datapath.h"
#include "ovs/fastpath/compile.h"
#include "ovs/state/ct.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_fastpath);

static void reclaimed(void *fp, uint32_t index, const struct dp_stats *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static bool has_entries(const struct dpif_xdp_flow *);
static enum dpif_xdp_fastpath_reason insert(
    struct dpif_xdp_fastpath *, struct dpif_xdp_flow *,
                   struct dpif_xdp_compiled *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

struct dpif_xdp_fastpath *
dpif_xdp_fastpath_create(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared yet. */
{
    struct dpif_xdp_fastpath *fp = xzalloc(sizeof *fp);
    int error = -oxdp_ticks_open(&fp->ticks);
    const struct dp_tables *memory;

    if (error) {
        VLOG_ERR("cannot read the kernel's clock (%s): all flows run in the "
                 "engine", ovs_strerror(error));
        free(fp);
        return NULL;
    }
    fp->dp = dp;
    fp->progs = dp->progs;
    fp->table = oxdp_progs_table(fp->progs);
    memory = oxdp_table_memory(fp->table);
    fp->n_indexes = memory->n_flows;
    fp->flows = xcalloc(fp->n_indexes, sizeof *fp->flows);
    fp->older = xcalloc(fp->n_indexes, sizeof *fp->older);
    fp->droppers = bitmap_allocate(fp->n_indexes);
    dpif_xdp_fastpath_look_init(fp);
    ovs_mutex_init(&fp->reclaim_mutex);
    oxdp_table_on_reclaim(fp->table, reclaimed, fp);
    memory->head->vlan_limit = flow_vlan_limit;
    dpif_xdp_meters_share(&dp->meters, memory->meters, memory->n_meters);
    return fp;
}

uint32_t *
dpif_xdp_fastpath_sequence(const struct dpif_xdp_dp *dp)
{
    return (dp->fastpath
            ? &oxdp_table_memory(dp->fastpath->table)->sequence->next : NULL);
}

void
dpif_xdp_fastpath_destroy(struct dpif_xdp_fastpath *fp)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared any more. */
{
    if (fp) {
        ovs_mutex_destroy(&fp->reclaim_mutex);
        oxdp_ticks_close(fp->ticks);
        free(fp->flows);
        free(fp->older);
        bitmap_free(fp->droppers);
        dpif_xdp_fastpath_look_uninit(fp);
        free(fp);
    }
}

void
dpif_xdp_fastpath_flow_init(struct dpif_xdp_flow *flow)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared yet. */
{
    memset(&flow->fp, 0, sizeof flow->fp);
    flow->fp.index = DP_NO_FLOW;
    flow->fp.old_index = DP_NO_FLOW;
    ovs_list_init(&flow->fp.outside);
}

/* Takes 'flow' out of the numbers of flows by reason. */
static void
uncount(struct dpif_xdp_fastpath *fp, struct dpif_xdp_flow *flow)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    fp->n_reasons[flow->fp.reason] -= flow->fp.counted;
    fp->n_left_to_tcx -= is_left_to_tcx(flow);
    flow->fp.counted = false;
}

void
dpif_xdp_fastpath_put(struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flow,
                      const struct flow *key)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct dpif_xdp_compiled compiled;
    enum dpif_xdp_fastpath_reason reason;
    uint32_t replaced = flow->fp.index;
    enum dpif_xdp_hook hook;
    unsigned int hooks;
    bool known = flow->fp.counted;
    bool matches;

    if (!fp) {
        return;
    }
    hook = dpif_xdp_fastpath_hook_of(dp, key->in_port.odp_port);
    uncount(fp, flow);
    reason = dpif_xdp_fastpath_compile(dp, hook, flow, key, &compiled,
                                       &matches, &hooks);

    if (replaced != DP_NO_FLOW) {
        stats_change_begin(fp);
        fp->older[replaced] = flow->fp.old_index + 1;
        flow->fp.old_index = replaced;
        flow->fp.index = DP_NO_FLOW;
        stats_change_end(fp);
    }
    if (matches) {
        enum dpif_xdp_fastpath_reason refused = insert(fp, flow, &compiled);

        reason = refused ? refused : reason;
    }
    dpif_xdp_fastpath_outside(fp, flow, flow->fp.index == DP_NO_FLOW);
    if (replaced != DP_NO_FLOW) {
        oxdp_table_unlink(fp->table, replaced);
        fp->n_unlinked++;
    }
    if (!known || reason != flow->fp.reason
        || flow->fp.on_tcx != ((hooks & DPIF_XDP_AT_TCX) != 0)) {
        dpif_xdp_usdt_flow_moved(&flow->ufid, known ? flow->fp.reason : -1,
                                 reason, (hooks & DPIF_XDP_AT_TCX) != 0);
    }
    flow->fp.reason = reason;
    flow->fp.hook = hook;
    flow->fp.on_tcx = (hooks & DPIF_XDP_AT_TCX) != 0;
    flow->fp.on_xdp = (hooks & DPIF_XDP_AT_XDP) != 0;
    flow->fp.counted = true;
    fp->n_left_to_tcx += is_left_to_tcx(flow);
    fp->n_reasons[reason]++;
}

void
dpif_xdp_fastpath_unlink(struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flow)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;

    if (fp) {
        uncount(fp, flow);
        dpif_xdp_fastpath_outside(fp, flow, false);
        if (flow->fp.index != DP_NO_FLOW) {
            oxdp_table_unlink(fp->table, flow->fp.index);
            fp->n_unlinked++;
        }
    }
}

void
dpif_xdp_fastpath_prefetch(const struct dpif_xdp_dp *dp,
                           const struct dpif_xdp_flow *flow)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint32_t index = peek(flow)->index;

    if (fp && index != DP_NO_FLOW) {
        oxdp_table_prefetch(fp->table, index);
        OVS_PREFETCH_WRITE(&fp->flows[index]);
    }
}

void
dpif_xdp_fastpath_prefetch_bucket(const struct dpif_xdp_dp *dp,
                                  const struct dpif_xdp_flow *flow)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint32_t index = peek(flow)->index;

    if (fp && index != DP_NO_FLOW) {
        oxdp_table_prefetch_bucket(fp->table, index);
    }
}

void
dpif_xdp_fastpath_release(struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flow)
{
    if (dp->fastpath && has_entries(flow)) {
        flow->fp.released = true;
    } else {
        dpif_xdp_flow_free(&dp->flows, flow);
    }
}

bool
dpif_xdp_fastpath_must_reclaim(const struct dpif_xdp_dp *dp)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;

    return fp && fp->n_unlinked >= MIN(MAX_UNLINKED, fp->n_indexes / 4 + 1);
}

static void
reclaim_lock(struct dpif_xdp_fastpath *fp)
    OVS_ACQUIRES(dpif_xdp_reclaim_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&fp->reclaim_mutex);
}

static void
reclaim_unlock(struct dpif_xdp_fastpath *fp)
    OVS_RELEASES(dpif_xdp_reclaim_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&fp->reclaim_mutex);
}

void
dpif_xdp_fastpath_reclaim(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint32_t n;

    if (!fp || !fp->n_unlinked) {
        return;
    }

    /* Others may unlink meanwhile, and will wait for us, then reclaim what is
     * left. */
    dpif_xdp_flow_unlock(dp);
    reclaim_lock(fp);
    dpif_xdp_flow_lock(dp);
    if (oxdp_table_reclaim_begin(fp->table)) {
        dpif_xdp_flow_unlock(dp);
        oxdp_grace(NULL);
        dpif_xdp_flow_lock(dp);
        stats_change_begin(fp);
        n = oxdp_table_reclaim_end(fp->table);
        stats_change_end(fp);
        fp->n_unlinked -= n;
        fp->n_reclaimed += n;
    }
    reclaim_unlock(fp);
}

bool
dpif_xdp_fastpath_finds(const struct dpif_xdp_flow *flow)
{
    return peek(flow)->index != DP_NO_FLOW;
}

bool
dpif_xdp_fastpath_runs(const struct dpif_xdp_flow *flow)
{
    return dpif_xdp_fastpath_finds(flow) && peek(flow)->reason == REASON_OK;
}

uint32_t
dpif_xdp_fastpath_index(const struct dpif_xdp_flow *flow)
{
    return peek(flow)->index;
}

const char *
dpif_xdp_fastpath_hook(const struct dpif_xdp_flow *flow)
{
    const struct dpif_xdp_fastpath_flow *fp = peek(flow);

    return !fp->on_tcx ? "xdp" : fp->on_xdp ? "both" : "tcx";
}

struct dpif_xdp_flow *
dpif_xdp_fastpath_matched(const struct dpif_xdp_dp *dp,
                          const struct dp_record *record)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct dpif_xdp_flow *flow;
    bool deleted;

    if (!fp || record->flow >= fp->n_indexes
        || (oxdp_table_memory(fp->table)->flows[record->flow].generation
            != record->generation)) {
        return NULL;
    }
    flow = ovsrcu_get(struct dpif_xdp_flow *, &fp->flows[record->flow]);
    if (!flow) {
        return NULL;
    }
    /* What is half done to a packet goes on only with the same actions. */
    if (record->tracked && peek(flow)->index != record->flow) {
        return NULL;
    }
    atomic_read_relaxed(&flow->deleted, &deleted);
    return deleted && !record->tracked ? NULL : flow;
}

/* Gives up what get_pairs() got for the first 'n' of these operations. */
static void
put_pairs(struct dpif_xdp_fastpath *fp, const struct dp_op *ops, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ops[i].code == DP_OP_CT) {
            dpif_xdp_ct_op_put(fp->dp->ct, &ops[i]);
        }
    }
}

/* Has the tables of connections keep what operations CT name.  Returns false,
 * with nothing got, if they have no room. */
static bool
get_pairs(struct dpif_xdp_fastpath *fp, struct dpif_xdp_compiled *compiled)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < compiled->n_ops; i++) {
        struct dp_op *op = &compiled->ops[i];

        if (op->code == DP_OP_CT
            && !dpif_xdp_ct_op_get(fp->dp->ct, op,
                                   &compiled->blobs[op->u.ct.blob],
                                   compiled->ct_policy[n++])) {
            put_pairs(fp, compiled->ops, i);
            return false;
        }
    }
    return true;
}

/* Puts 'flow' as 'compiled' into the tables.  Returns REASON_OK, or why it
 * does not fit, or REASON_PAIR if it is there for the engine. */
static enum dpif_xdp_fastpath_reason
insert(struct dpif_xdp_fastpath *fp, struct dpif_xdp_flow *flow,
       struct dpif_xdp_compiled *compiled)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    enum dpif_xdp_fastpath_reason reason = REASON_OK;

    if (!get_pairs(fp, compiled)) {
        compiled->fate = DP_FATE_ENGINE;
        compiled->n_ops = 0;
        reason = REASON_PAIR;
    }

    const struct oxdp_flow entry = {
        .key = &compiled->key,
        .mask = &compiled->mask,
        .fate = compiled->fate,
        .arg = compiled->arg,
        .ops = compiled->ops,
        .n_ops = compiled->n_ops,
        .blobs = compiled->blobs,
        .hint = &dpif_xdp_fastpath_mask(flow)->hint,
    };
    enum oxdp_table_full full;
    uint32_t index;

    oxdp_progs_require(fp->progs, &entry);

    /* A program may report the flow before its index is known here: then the
     * engine looks it up. */
    if (oxdp_table_insert(fp->table, &entry, &index, &full)) {
        VLOG_DBG("flow stays in the engine: %s",
                 oxdp_table_full_to_string(full));
        if (compiled->fate == DP_FATE_GROUP) {
            oxdp_groups_put(fp->progs, compiled->arg);
        }
        put_pairs(fp, compiled->ops, compiled->n_ops);
        return (full == OXDP_TABLE_FULL_MASKS ? REASON_MASKS
                : full == OXDP_TABLE_FULL_WORDS ? REASON_WORDS
                : REASON_FULL);
    }
    ovsrcu_set(&fp->flows[index], flow);
    dpif_xdp_fastpath_drops_added(fp, index);
    stats_change_begin(fp);
    flow->fp.index = index;
    stats_change_end(fp);
    dpif_xdp_fastpath_entered(fp, flow);
    return reason;
}

static bool
has_entries(const struct dpif_xdp_flow *flow)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    return flow->fp.index != DP_NO_FLOW || flow->fp.old_index != DP_NO_FLOW;
}

/* Takes 'index' out of the entries of 'flow'. */
static void
forget_entry(struct dpif_xdp_fastpath *fp, struct dpif_xdp_flow *flow,
             uint32_t index)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    if (flow->fp.index == index) {
        flow->fp.index = DP_NO_FLOW;
    } else if (flow->fp.old_index == index) {
        flow->fp.old_index = fp->older[index] - 1;
    } else {
        uint32_t newer = flow->fp.old_index;

        while (fp->older[newer] - 1 != index) {
            newer = fp->older[newer] - 1;
        }
        fp->older[newer] = fp->older[index];
    }
    fp->older[index] = 0;
}

/* Entry 'index' is gone, having counted 'final'. */
static void
reclaimed(void *fp_, uint32_t index, const struct dp_stats *final)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct dpif_xdp_fastpath *fp = fp_;
    const struct dp_flow *entry = &oxdp_table_memory(fp->table)->flows[index];
    struct dpif_xdp_flow *flow
        = ovsrcu_get_protected(struct dpif_xdp_flow *, &fp->flows[index]);

    ovsrcu_set(&fp->flows[index], NULL);
    dpif_xdp_fastpath_drops_gone(fp, index, final->packets);
    if (entry->fate == DP_FATE_GROUP) {
        oxdp_groups_put(fp->progs, entry->arg);
    }
    put_pairs(fp, &oxdp_table_memory(fp->table)->ops[entry->ops],
              entry->n_ops);
    flow->fp.n_packets += final->packets;
    flow->fp.n_bytes += final->bytes;
    flow->fp.used = MAX(flow->fp.used,
                        (uint64_t) oxdp_ticks_to_ms(fp->ticks, final->used));
    flow->fp.tcp_flags |= final->tcp_flags;
    forget_entry(fp, flow, index);
    if (flow->fp.released && !has_entries(flow)) {
        dpif_xdp_flow_free(&fp->dp->flows, flow);
    }
}
