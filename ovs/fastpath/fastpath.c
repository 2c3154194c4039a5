/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/fastpath/fastpath_private.h"

#include "bitmap.h"
#include "core/kernel/grace.h"
#include "core/kernel/ticks.h"
#include "core/programs/group.h"
#include "core/programs/limit.h"
#include "core/programs/progs.h"
#include "core/programs/tcx.h"
#include "core/tables/table.h"
#include "dp/capability.h"
#include "dp/record.h"
#include "flow.h"
#include "netdev.h"
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
static struct mask_memo *mask_memo(const struct dpif_xdp_flow *);

/* What all flows with one mask share. */
struct mask_memo {
    struct dpif_xdp_compiled_mask compiled;
    struct oxdp_mask_hint hint;
};

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
    ovs_mutex_init(&fp->reclaim_mutex);
    oxdp_table_on_reclaim(fp->table, reclaimed, fp);
    memory->head->vlan_limit = flow_vlan_limit;
    dpif_xdp_meters_share(&dp->meters, memory->meters, memory->n_meters);
    return fp;
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

enum dpif_xdp_hook
dpif_xdp_fastpath_hook_of(const struct dpif_xdp_dp *dp,
                          odp_port_t port_no)
{
    const struct dpif_xdp_port *port = dpif_xdp_port_lookup(dp, port_no);
    int hook = DPIF_XDP_HOOK_EITHER;

    if (port && port->is_device) {
        atomic_read(&CONST_CAST(struct dpif_xdp_port *, port)->hook, &hook);
    }
    return hook == DPIF_XDP_HOOK_NONE ? DPIF_XDP_HOOK_XDP : hook;
}

/* Hooks whose programs are to run a flow. */
#define AT_XDP (1 << 0)
#define AT_TCX (1 << 1)

/* What the programs at all of 'hooks' can do for packets of 'in_port'. */
static struct dp_capability
capability(const struct dpif_xdp_fastpath *fp, unsigned int hooks,
           odp_port_t in_port)
{
    struct dp_capability xdp, tcx = *oxdp_tcx_capability(fp->progs);

    if (!(hooks & AT_XDP)) {
        return tcx;
    }
    xdp = oxdp_progs_capability(fp->progs, odp_to_u32(in_port));
    if (hooks & AT_TCX) {
        xdp.key_groups &= tcx.key_groups;
        xdp.ops &= tcx.ops;
    }
    return xdp;
}

/* Whether the programs at all of 'hooks' can send to all ports that 'compiled'
 * names. */
static bool
can_output(const struct dpif_xdp_fastpath *fp, unsigned int hooks,
           const struct dpif_xdp_compiled *compiled)
{
    for (uint32_t i = 0; i < compiled->n_ops; i++) {
        const struct dp_op *op = &compiled->ops[i];

        for (uint32_t j = 0; op->code == DP_OP_OUTPUT && j < op->u.output.n;
             j++) {
            if (!oxdp_tcx_can_output(fp->progs, op->u.output.port[j])) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < compiled->n_outputs; i++) {
        uint32_t port_no = compiled->outputs[i];

        if (!oxdp_progs_can_output(fp->progs, port_no)
            && !oxdp_progs_is_absent(fp->progs, port_no)) {
            return false;
        }
    }
    return (compiled->fate != DP_FATE_OUTPUT
            || ((!(hooks & AT_TCX)
                 || oxdp_tcx_can_output(fp->progs, compiled->arg))
                && (!(hooks & AT_XDP)
                    || oxdp_progs_can_output(fp->progs, compiled->arg))));
}

/* Puts the places of meters for their numbers.  False: programs do not have
 * all that 'compiled' uses. */
static bool
place_meters(const struct dpif_xdp_dp *dp, struct dpif_xdp_compiled *compiled)
{
    for (uint32_t i = 0; i < compiled->n_ops; i++) {
        struct dp_op *op = &compiled->ops[i];

        if (op->code == DP_OP_METER
            && !dpif_xdp_meters_get_slot(&dp->meters, op->u.meter,
                                         &op->u.meter)) {
            return false;
        }
    }
    return true;
}

/* Tells the room of ports that headers of tunnels are popped of what comes by
 * 'port_no'. */
static void
note_underlay(const struct dpif_xdp_dp *dp, odp_port_t port_no)
{
    struct dpif_xdp_port *port = dpif_xdp_port_lookup(dp, port_no);

    if (port && port->is_device) {
        atomic_store_relaxed(&port->pops_tunnels, true);
    }
}

/* Says which kind of tunnel a header is popped of.  False: not one that
 * programs with 'caps' pop. */
static bool
place_tunnel(const struct dpif_xdp_dp *dp, odp_port_t in_port,
             const struct dp_capability *caps,
             struct dpif_xdp_compiled *compiled)
{
    struct dp_op *pop = dpif_xdp_compiled_pop(compiled);
    const struct dpif_xdp_port *port;

    if (!pop) {
        return true;
    }
    port = dpif_xdp_port_lookup(dp, u32_to_odp(pop->u.tunnel_pop.port));
    if (!port || !dpif_xdp_compile_pop(compiled,
                                       netdev_get_type(port->netdev))
        || !(caps->ops & 1ULL << pop->code)) {
        return false;
    }
    note_underlay(dp, in_port);
    return true;
}

/* Compiles a flow for all of 'hooks', for the engine if one of them cannot run
 * it.  The group that a flow sends to is its own. */
static enum dpif_xdp_fastpath_reason
compile(const struct dpif_xdp_dp *dp, unsigned int hooks,
        const struct dpif_xdp_flow *flow, const struct flow *key,
        struct dpif_xdp_compiled *compiled, bool *matches)
{
    const struct dpif_xdp_actions *actions = dpif_xdp_flow_actions(flow);
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    odp_port_t in_port = key->in_port.odp_port;
    const struct dp_capability caps = capability(fp, hooks, in_port);
    enum dpif_xdp_fastpath_reason reason;

    reason = (enum dpif_xdp_fastpath_reason) dpif_xdp_compile(
        key, dpif_xdp_rule_wc(&flow->rule), &mask_memo(flow)->compiled,
        actions->actions, actions->size, &caps, compiled, matches);
    if (!reason && hooks & AT_XDP
        && !oxdp_progs_has_flows(fp->progs, odp_to_u32(in_port))) {
        reason = REASON_BARE;
        *matches = false;
    } else if (!reason && !can_output(fp, hooks, compiled)) {
        reason = REASON_PORT;
    } else if (!reason && hooks & AT_XDP && compiled->fate == DP_FATE_OUTPUT
               && !oxdp_progs_suits_buffers(fp->progs, odp_to_u32(in_port),
                                            compiled->arg)) {
        reason = REASON_BUFFERS;
    } else if (!reason && !place_meters(dp, compiled)) {
        reason = REASON_METER;
    } else if (!reason && !place_tunnel(dp, in_port, &caps, compiled)) {
        reason = (enum dpif_xdp_fastpath_reason) DPIF_XDP_COMPILE_TUNNEL;
    }
    if (!reason && compiled->fate == DP_FATE_GROUP
        && oxdp_groups_get(fp->progs, compiled->outputs, compiled->n_outputs,
                           &compiled->arg)) {
        reason = REASON_GROUP;
    }
    if (reason) {
        compiled->fate = DP_FATE_ENGINE;
        compiled->n_ops = 0;
    }
    return reason;
}

/* Compiles a flow that XDP cannot run for tcx, which gets its packets after
 * XDP or instead of XDP.  False: tcx cannot run it either. */
static bool
compile_left_to_tcx(const struct dpif_xdp_dp *dp,
                 const struct dpif_xdp_flow *flow, const struct flow *key,
                 struct dpif_xdp_compiled *compiled)
{
    struct dpif_xdp_compiled other;
    bool matches;

    if (compile(dp, AT_TCX, flow, key, &other, &matches)) {
        return false;
    }
    *compiled = other;
    compiled->fate |= DP_FATE_SKB;
    return true;
}

/* Compiles a flow whose packets come by either hook, because its port has no
 * device: they were in a tunnel.  One entry serves both; what a hook cannot
 * run its programs hand to the engine:
 *
 *   - at best, both run it;
 *   - else XDP, if programs at tcx will not try: they lack an operation of it,
 *     or groups, or they can send where it does;
 *   - else tcx: XDP leaves the packet alone (DP_FATE_SKB).
 *
 * Stores in '*ret_hooks' which run it. */
static enum dpif_xdp_fastpath_reason
compile_for_either(const struct dpif_xdp_dp *dp,
                   const struct dpif_xdp_flow *flow, const struct flow *key,
                   struct dpif_xdp_compiled *compiled, bool *matches,
                   unsigned int *ret_hooks)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    enum dpif_xdp_fastpath_reason reason;

    *ret_hooks = AT_XDP | AT_TCX;
    if (fp->tcx_in_use
        && !compile(dp, AT_XDP | AT_TCX, flow, key, compiled, matches)) {
        return REASON_OK;
    }
    *ret_hooks = AT_XDP;
    reason = compile(dp, AT_XDP, flow, key, compiled, matches);
    if (fp->tcx_in_use && !reason && compiled->fate == DP_FATE_OUTPUT
        && !oxdp_tcx_can_output(fp->progs, compiled->arg)) {
        compiled->fate = DP_FATE_ENGINE;
        compiled->n_ops = 0;
        reason = REASON_PORT;
    }
    if (reason && compile_left_to_tcx(dp, flow, key, compiled)) {
        *matches = true;
        *ret_hooks = AT_TCX;
        reason = REASON_OK;
    }
    return reason;
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
    hooks = hook == DPIF_XDP_HOOK_TCX ? AT_TCX : AT_XDP;
    uncount(fp, flow);
    if (hook == DPIF_XDP_HOOK_EITHER) {
        reason = compile_for_either(dp, flow, key, &compiled, &matches,
                                    &hooks);
    } else {
        reason = compile(dp, hooks, flow, key, &compiled, &matches);
        if (reason && hook == DPIF_XDP_HOOK_BOTH
            && compile_left_to_tcx(dp, flow, key, &compiled)) {
            reason = REASON_OK;
            matches = true;
            hooks = AT_TCX;
        }
    }

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
    if (replaced != DP_NO_FLOW) {
        oxdp_table_unlink(fp->table, replaced);
        fp->n_unlinked++;
    }
    if (!known || reason != flow->fp.reason
        || flow->fp.on_tcx != ((hooks & AT_TCX) != 0)) {
        dpif_xdp_usdt_flow_moved(&flow->ufid, known ? flow->fp.reason : -1,
                                 reason, (hooks & AT_TCX) != 0);
    }
    flow->fp.reason = reason;
    flow->fp.hook = hook;
    flow->fp.on_tcx = (hooks & AT_TCX) != 0;
    flow->fp.on_xdp = (hooks & AT_XDP) != 0;
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
        .hint = &mask_memo(flow)->hint,
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
    return reason;
}

static struct mask_memo *
mask_memo(const struct dpif_xdp_flow *flow)
{
    void **aux = dpif_xdp_rule_aux(&flow->rule);

    if (!*aux) {
        *aux = xzalloc(sizeof(struct mask_memo));
    }
    return *aux;
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
