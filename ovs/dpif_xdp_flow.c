/* SPDX-License-Identifier: Apache-2.0 */
/* The flow table as ofproto sees it: put, delete, get, flush. */
#include <config.h>

#include "dpif_xdp_private.h"

#include <errno.h>
#include <limits.h>

#include "dpif.h"
#include "flow.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/match.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/vlog.h"
#include "packets.h"
#include "validate.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_flow);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);
static struct vlog_rate_limit change_rl = VLOG_RATE_LIMIT_INIT(600, 600);

/* The ct_state bits that lib/conntrack sets. */
#define CS_SUPPORTED (CS_NEW | CS_ESTABLISHED | CS_RELATED | CS_INVALID     \
                      | CS_REPLY_DIR | CS_TRACKED | CS_SRC_NAT | CS_DST_NAT)

/* Flows that are looked for in memory at the same time. */
#define MAX_TOGETHER (sizeof(unsigned long int) * CHAR_BIT)

static void flush_flows(struct dpif_xdp_dp *, struct dpif_xdp_flow *[],
                        size_t n)
    OVS_REQUIRES(dp->flow_mutex);
static int put_flow(struct dpif_xdp_dp *, const struct dpif_flow_put *);
static int match_from_netlink(const struct dpif_flow_put *, struct match *);
static struct dpif_xdp_actions *actions_create(const struct nlattr *, size_t);
static bool is_deleted(const struct dpif_xdp_flow *);
static struct dpif_xdp_flow *find_flow(const struct dpif_xdp_dp *,
                                       const ovs_u128 *ufid,
                                       const struct nlattr *key, size_t len);
static void prefetch_flows(const struct dpif_xdp_dp *, struct dpif_op *ops[],
                           size_t n);
static void prefetch_removal(const struct dpif_xdp_dp *,
                             struct dpif_xdp_flow *[], size_t n);
static void find_to_delete(const struct dpif_xdp_dp *, struct dpif_op *ops[],
                           size_t n, struct dpif_xdp_flow *[]);
static struct dpif_xdp_flow *find_existing(struct dpif_xdp_dp *,
                                           const struct dpif_flow_put *,
                                           const ovs_u128 *,
                                           const struct match *);
static int modify_flow(struct dpif_xdp_dp *, struct dpif_xdp_flow *,
                       const struct match *, const struct dpif_flow_put *)
    OVS_REQUIRES(dp->flow_mutex);
static void remove_flow(struct dpif_xdp_dp *, struct dpif_xdp_flow *)
    OVS_REQUIRES(dp->flow_mutex);
static void log_change(const struct dpif_xdp_dp *,
                       const struct dpif_xdp_flow *, const char *what);

static uint32_t
ufid_hash(const ovs_u128 *ufid)
{
    return ufid->u32[0];
}

struct dpif_xdp_flow *
dpif_xdp_flow_from_rule(const struct dpif_xdp_rule *rule)
{
    return rule ? CONTAINER_OF(rule, struct dpif_xdp_flow, rule) : NULL;
}

struct dpif_xdp_actions *
dpif_xdp_flow_actions(const struct dpif_xdp_flow *flow)
{
    return ovsrcu_get(struct dpif_xdp_actions *, &flow->actions);
}

/* Accounts packets that 'flow' handled.  'now_ms' is monotonic. */
void
dpif_xdp_flow_used(struct dpif_xdp_flow *flow, size_t n_packets,
                   size_t n_bytes, uint16_t tcp_flags, long long now_ms)
{
    uint64_t orig;
    uint16_t flags;

    atomic_add_relaxed(&flow->n_packets, n_packets, &orig);
    atomic_add_relaxed(&flow->n_bytes, n_bytes, &orig);
    atomic_store_relaxed(&flow->used, now_ms);
    atomic_read_relaxed(&flow->tcp_flags, &flags);
    if (tcp_flags & ~flags) {
        uint16_t ignored;

        atomic_or_explicit(&flow->tcp_flags, tcp_flags, &ignored,
                           memory_order_relaxed);
    }
}

/* The Netlink form of a mask cannot wildcard whether there is a VLAN tag: a
 * mask without VLAN means that there is none.  Make 'match' say so. */
void
dpif_xdp_match_finish(struct match *match)
{
    if (!match->wc.masks.vlans[0].tci) {
        match->wc.masks.vlans[0].tci = htons(VLAN_VID_MASK | VLAN_CFI);
    }
}

/* Adds a flow for 'match' (finished, in_port exact), whose 'ufid' must be new.
 * Returns NULL, or the flow that has an equal match and is in the way.  A
 * 'probe' is to see whether it is accepted: no program shall run it. */
struct dpif_xdp_flow *
dpif_xdp_flow_install(struct dpif_xdp_dp *dp, struct match *match,
                      const ovs_u128 *ufid, const struct nlattr *actions,
                      size_t actions_len, bool probe)
{
    struct dpif_xdp_flow *flow = xzalloc(sizeof *flow);
    struct dpif_xdp_rule *other;

    flow->ufid = *ufid;
    flow->key = miniflow_create(&match->flow);
    ovsrcu_init(&flow->actions, actions_create(actions, actions_len));
    other = dpif_xdp_cls_insert(&dp->cls, &flow->rule, match);
    if (other) {
        free(dpif_xdp_flow_actions(flow));
        free(flow->key);
        free(flow);
        return dpif_xdp_flow_from_rule(other);
    }
    cmap_insert(&dp->flows, &flow->node, ufid_hash(ufid));
    dpif_xdp_fastpath_flow_init(flow);
    if (!probe) {
        dpif_xdp_fastpath_put(dp, flow, match, actions, actions_len);
    }
    log_change(dp, flow, "flow_add");
    return NULL;
}

void
dpif_xdp_flows_flush(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_flow *flows[MAX_TOGETHER], *flow;
    size_t n = 0;

    ovs_mutex_lock(&dp->flow_mutex);
    CMAP_FOR_EACH (flow, node, &dp->flows) {
        OVS_PREFETCH(flow);
        OVS_PREFETCH(&flow->fp);
        flows[n++] = flow;
        if (n == MAX_TOGETHER) {
            flush_flows(dp, flows, n);
            n = 0;
        }
    }
    flush_flows(dp, flows, n);
    dpif_xdp_fastpath_settle(dp);
    ovs_mutex_unlock(&dp->flow_mutex);
}

static void
flush_flows(struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flows[], size_t n)
{
    prefetch_removal(dp, flows, n);
    for (size_t i = 0; i < n; i++) {
        remove_flow(dp, flows[i]);
        dpif_xdp_fastpath_release(dp, flows[i]);
    }
}

int
dpif_xdp_flow_flush(struct dpif *dpif)
{
    dpif_xdp_flows_flush(dpif_xdp_dp_cast(dpif));
    return 0;
}

/* Executes the 'n' operations, all DPIF_OP_FLOW_PUT. */
void
dpif_xdp_flows_put(struct dpif *dpif, struct dpif_op *ops[], size_t n)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);

    for (size_t i = 0; i < n; i++) {
        if (i % MAX_TOGETHER == 0 && n > 1) {
            prefetch_flows(dp, &ops[i], MIN(n - i, MAX_TOGETHER));
        }
        ops[i]->error = put_flow(dp, &ops[i]->flow_put);
    }
}

static int
put_flow(struct dpif_xdp_dp *dp, const struct dpif_flow_put *put)
{
    struct dpif_xdp_flow *flow;
    struct match match;
    ovs_u128 ufid;
    int error;

    if (put->stats) {
        memset(put->stats, 0, sizeof *put->stats);
    }
    error = match_from_netlink(put, &match);
    if (!error) {
        error = dpif_xdp_validate_actions(put->actions, put->actions_len);
    }
    if (error) {
        return error;
    }
    if (put->ufid) {
        ufid = *put->ufid;
    } else {
        odp_flow_key_hash(&match.flow, sizeof match.flow, &ufid);
    }

    ovs_mutex_lock(&dp->flow_mutex);
    if (dpif_xdp_fastpath_crowded(dp)) {
        dpif_xdp_fastpath_settle(dp);
    }
    flow = find_existing(dp, put, &ufid, &match);
    if (!flow && put->flags & DPIF_FP_CREATE) {
        flow = dpif_xdp_flow_install(dp, &match, &ufid, put->actions,
                                     put->actions_len,
                                     put->flags & DPIF_FP_PROBE);
        error = flow ? EEXIST : 0;
    } else if (!flow) {
        error = ENOENT;
    } else {
        error = EEXIST;
    }
    if (flow && put->flags & DPIF_FP_MODIFY) {
        error = modify_flow(dp, flow, &match, put);
    }
    ovs_mutex_unlock(&dp->flow_mutex);
    return error;
}

/* Deletes the flows that the 'n' operations, all DPIF_OP_FLOW_DEL, name.  No
 * packet that comes from now on is treated by them; to know their last counts
 * takes a wait until programs are done with them, once for all. */
void
dpif_xdp_flows_del(struct dpif *dpif, struct dpif_op *ops[], size_t n)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    struct dpif_xdp_flow **flows = xmalloc(n * sizeof *flows);
    bool wait = false;

    ovs_mutex_lock(&dp->flow_mutex);
    for (size_t i = 0; i < n; i += MAX_TOGETHER) {
        find_to_delete(dp, &ops[i], MIN(n - i, MAX_TOGETHER), &flows[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (flows[i] && is_deleted(flows[i])) {
            flows[i] = NULL;            /* By an operation before. */
        }
        if (flows[i]) {
            remove_flow(dp, flows[i]);
            wait |= ops[i]->flow_del.stats != NULL;
        }
        ops[i]->error = flows[i] ? 0 : ENOENT;
    }
    if (wait || dpif_xdp_fastpath_crowded(dp)) {
        dpif_xdp_fastpath_settle(dp);
    }
    for (size_t i = 0; i < n; i++) {
        if (flows[i]) {
            if (ops[i]->flow_del.stats) {
                dpif_xdp_flow_get_stats(dp, flows[i],
                                        ops[i]->flow_del.stats);
            }
            dpif_xdp_fastpath_release(dp, flows[i]);
        }
    }
    ovs_mutex_unlock(&dp->flow_mutex);
    free(flows);
}

int
dpif_xdp_flow_get(struct dpif *dpif, const struct dpif_flow_get *get)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    struct dpif_xdp_flow *flow = find_flow(dp, get->ufid, get->key,
                                           get->key_len);

    if (!flow) {
        return ENOENT;
    }
    dpif_xdp_flow_format(dp, flow, get->buffer, get->buffer, get->flow, false);
    return 0;
}

/* Sets '*match' from the Netlink attributes of 'put'.  Returns 0 or EINVAL. */
static int
match_from_netlink(const struct dpif_flow_put *put, struct match *match)
{
    bool probe = put->flags & DPIF_FP_PROBE;
    const char *problem = NULL;
    char *detail = NULL;

    match->tun_md.valid = false;
    if (odp_flow_key_to_flow(put->key, put->key_len, &match->flow, &detail)) {
        problem = "cannot parse the key";
    } else if (odp_flow_key_to_mask(put->mask, put->mask_len, &match->wc,
                                    &match->flow, &detail)) {
        problem = "cannot parse the mask";
    } else if (match->flow.ct_state & ~CS_SUPPORTED) {
        problem = probe ? "unsupported ct_state" : "ct_state unsupported";
    } else if (match->wc.masks.in_port.odp_port != ODPP_NONE) {
        problem = "in_port is not an exact match";
    }

    if (problem) {
        if (!probe && !VLOG_DROP_ERR(&rl)) {
            struct ds s = DS_EMPTY_INITIALIZER;

            odp_flow_format(put->key, put->key_len, put->mask, put->mask_len,
                            NULL, &s, true);
            VLOG_ERR("failed to put flow: %s%s%s: %s", problem,
                     detail ? ": " : "", detail ? detail : "", ds_cstr(&s));
            ds_destroy(&s);
        }
        free(detail);
        return EINVAL;
    }
    dpif_xdp_match_finish(match);
    return 0;
}

static struct dpif_xdp_actions *
actions_create(const struct nlattr *actions, size_t size)
{
    struct dpif_xdp_actions *copy = xmalloc(sizeof *copy + size);

    copy->size = size;
    copy->growth = dpif_xdp_actions_growth(actions, size);
    copy->uses_hash = dpif_xdp_actions_use_hash(actions, size);
    if (size) {
        memcpy(copy->actions, actions, size);
    }
    return copy;
}

/* The flow with 'ufid', or, if 'ufid' is null, of the Netlink key 'key'. */
static struct dpif_xdp_flow *
find_flow(const struct dpif_xdp_dp *dp, const ovs_u128 *ufidp,
          const struct nlattr *key, size_t len)
{
    struct dpif_xdp_flow *flow;
    ovs_u128 ufid;

    if (ufidp) {
        ufid = *ufidp;
    } else {
        struct flow key_flow;

        if (odp_flow_key_to_flow(key, len, &key_flow, NULL)) {
            return NULL;
        }
        odp_flow_key_hash(&key_flow, sizeof key_flow, &ufid);
    }

    CMAP_FOR_EACH_WITH_HASH (flow, node, ufid_hash(&ufid), &dp->flows) {
        if (ovs_u128_equals(flow->ufid, ufid)) {
            return flow;
        }
    }
    return NULL;
}

static bool
is_deleted(const struct dpif_xdp_flow *flow)
{
    bool deleted;

    atomic_read_relaxed(&CONST_CAST(struct dpif_xdp_flow *, flow)->deleted,
                        &deleted);
    return deleted;
}

static const ovs_u128 *
op_ufid(const struct dpif_op *op)
{
    return (op->type == DPIF_OP_FLOW_PUT ? op->flow_put.ufid
            : op->type == DPIF_OP_FLOW_DEL ? op->flow_del.ufid : NULL);
}

/* Brings closer the flows that the 'n' operations, at most MAX_TOGETHER, name
 * by ufid: nearly all of the time would be spent waiting for memory, for one
 * flow after the other. */
static void
prefetch_flows(const struct dpif_xdp_dp *dp, struct dpif_op *ops[], size_t n)
{
    const struct cmap_node *nodes[MAX_TOGETHER];
    uint32_t hashes[MAX_TOGETHER];
    unsigned long int map = 0;

    for (size_t i = 0; i < n; i++) {
        const ovs_u128 *ufid = op_ufid(ops[i]);

        if (ufid) {
            map |= 1UL << i;
            hashes[i] = ufid_hash(ufid);
        }
    }
    map = cmap_find_batch(&dp->flows, map, hashes, nodes);
    for (size_t i = 0; i < n; i++) {
        if (map & 1UL << i) {
            OVS_PREFETCH(CONTAINER_OF(nodes[i], struct dpif_xdp_flow, node));
            OVS_PREFETCH(&CONTAINER_OF(nodes[i], struct dpif_xdp_flow,
                                       node)->fp);
        }
    }
}

/* Brings closer what removing the 'n' flows, some of them NULL, reads. */
static void
prefetch_removal(const struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flows[],
                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (flows[i]) {
            dpif_xdp_rule_prefetch(&flows[i]->rule);
            dpif_xdp_fastpath_prefetch(dp, flows[i]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (flows[i]) {
            dpif_xdp_rule_prefetch_slot(&dp->cls, &flows[i]->rule);
            dpif_xdp_fastpath_prefetch_bucket(dp, flows[i]);
        }
    }
}

/* Stores the flows that the 'n' operations, at most MAX_TOGETHER, delete, NULL
 * where there is none, and brings closer what deleting them reads. */
static void
find_to_delete(const struct dpif_xdp_dp *dp, struct dpif_op *ops[], size_t n,
               struct dpif_xdp_flow *flows[])
{
    prefetch_flows(dp, ops, n);
    for (size_t i = 0; i < n; i++) {
        const struct dpif_flow_del *del = &ops[i]->flow_del;

        flows[i] = find_flow(dp, del->ufid, del->key, del->key_len);
    }
    prefetch_removal(dp, flows, n);
}

/* The flow that 'put' would modify, or that forbids it to create one: that with
 * 'ufid' or, failing that, one that packets of 'match' match.  Whoever creates
 * a flow by ufid asks after a packet that matched none: then only another
 * of the same kind, for which another packet asked, is in the way, and that
 * shows when it is installed. */
static struct dpif_xdp_flow *
find_existing(struct dpif_xdp_dp *dp, const struct dpif_flow_put *put,
              const ovs_u128 *ufid, const struct match *match)
{
    struct dpif_xdp_flow *found = find_flow(dp, ufid, NULL, 0);
    struct dpif_xdp_key key;

    if (found || (put->ufid && put->flags & DPIF_FP_CREATE)) {
        return found;
    }
    dpif_xdp_key_from_flow(&match->flow, &key);
    return dpif_xdp_flow_from_rule(dpif_xdp_cls_lookup(&dp->cls, &key));
}

static int
modify_flow(struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flow,
            const struct match *match, const struct dpif_flow_put *put)
{
    struct dpif_xdp_actions *old = dpif_xdp_flow_actions(flow);

    if (put->stats) {
        dpif_xdp_flow_get_stats(dp, flow, put->stats);
    }
    ovsrcu_set(&flow->actions, actions_create(put->actions,
                                              put->actions_len));
    ovsrcu_postpone(free, old);
    dpif_xdp_fastpath_put(dp, flow, match, put->actions, put->actions_len);
    if (put->flags & DPIF_FP_ZERO_STATS) {
        dpif_xdp_fastpath_zero_stats(dp, flow);
        atomic_store_relaxed(&flow->n_packets, 0);
        atomic_store_relaxed(&flow->n_bytes, 0);
        atomic_store_relaxed(&flow->used, 0);
        atomic_store_relaxed(&flow->tcp_flags, 0);
    }
    log_change(dp, flow, "flow_mod");
    return 0;
}

void
dpif_xdp_flow_free(struct dpif_xdp_flow *flow)
{
    free(dpif_xdp_flow_actions(flow));
    free(flow->key);
    dpif_xdp_rule_uninit(&flow->rule);
    free(flow);
}

/* Hides 'flow' from lookups, programs' and the engine's.  It must be freed by
 * dpif_xdp_fastpath_release(). */
static void
remove_flow(struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flow)
{
    log_change(dp, flow, "flow_del");
    atomic_store_relaxed(&flow->deleted, true);
    dpif_xdp_fastpath_unlink(dp, flow);
    dpif_xdp_cls_remove(&dp->cls, &flow->rule);
    cmap_remove(&dp->flows, &flow->node, ufid_hash(&flow->ufid));
}

static void
log_change(const struct dpif_xdp_dp *dp, const struct dpif_xdp_flow *flow,
           const char *what)
{
    if (OVS_UNLIKELY(!VLOG_DROP_DBG(&change_rl))) {
        struct odputil_keybuf key, mask;
        struct ofpbuf key_buf, mask_buf;
        struct dpif_flow df;
        struct ds ds = DS_EMPTY_INITIALIZER;

        ofpbuf_use_stack(&key_buf, &key, sizeof key);
        ofpbuf_use_stack(&mask_buf, &mask, sizeof mask);
        dpif_xdp_flow_format(dp, flow, &key_buf, &mask_buf, &df, false);

        ds_put_format(&ds, "%s: ", what);
        odp_format_ufid(&flow->ufid, &ds);
        ds_put_char(&ds, ' ');
        odp_flow_format(df.key, df.key_len, df.mask, df.mask_len, NULL, &ds,
                        false);
        ds_put_cstr(&ds, ", actions:");
        format_odp_actions(&ds, df.actions, df.actions_len, NULL);
        VLOG_DBG("%s", ds_cstr(&ds));
        ds_destroy(&ds);
    }
}
