/* SPDX-License-Identifier: Apache-2.0 */
/* The flow table as ofproto sees it: put, delete, get, flush. */
#include <config.h>

#include "ovs/flows/flows.h"

#include <errno.h>
#include <limits.h>

#include "dpif.h"
#include "flow.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/vlog.h"
#include "ovs/base/compat.h"
#include "packets.h"
#include "ovs/lookup/validate.h"
#include "ovs/fastpath/fastpath.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_flow);

static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);
static struct vlog_rate_limit change_rl = VLOG_RATE_LIMIT_INIT(600, 600);

/* The ct_state bits that the tracker sets. */
#define CS_SUPPORTED (CS_NEW | CS_ESTABLISHED | CS_RELATED | CS_INVALID     \
                      | CS_REPLY_DIR | CS_TRACKED | CS_SRC_NAT | CS_DST_NAT)

/* Flows whose memory is prefetched together. */
#define MAX_TOGETHER 64

static void flush_flows(struct dpif_xdp_dp *, struct dpif_xdp_flow *[],
                        size_t n)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static int put_flow(struct dpif_xdp_dp *, const struct dpif_flow_put *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static int create_flow(struct dpif_xdp_dp *, const struct dpif_flow_put *,
                       struct dpif_xdp_flow **ret_existing)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static void map_init(struct miniflow *, const struct flow *);
static int refuse(const struct dpif_flow_put *, const char *problem,
                  char *detail);
static bool is_deleted(const struct dpif_xdp_flow *);
static struct dpif_xdp_flow *find_flow(const struct dpif_xdp_dp *,
                                       const ovs_u128 *ufid,
                                       const struct nlattr *key, size_t len)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static void prefetch_flows(const struct dpif_xdp_dp *, struct dpif_op *ops[],
                           size_t n)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static void prefetch_removal(const struct dpif_xdp_dp *,
                             struct dpif_xdp_flow *[], size_t n)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static void find_to_delete(const struct dpif_xdp_dp *, struct dpif_op *ops[],
                           size_t n, struct dpif_xdp_flow *[])
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static struct dpif_xdp_flow *find_existing(struct dpif_xdp_dp *,
                                           const struct dpif_flow_put *,
                                           const ovs_u128 *,
                                           const struct flow *key)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static void modify_flow(struct dpif_xdp_dp *, struct dpif_xdp_flow *,
                        const struct dpif_flow_put *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static void remove_flow(struct dpif_xdp_dp *, struct dpif_xdp_flow *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
static void log_change(const struct dpif_xdp_dp *,
                       const struct dpif_xdp_flow *, const char *what);

struct dpif_xdp_flow *
dpif_xdp_flow_install(struct dpif_xdp_dp *dp, struct subtable *subtable,
                      const struct flow *key, const struct miniflow *map,
                      const ovs_u128 *ufid, const struct nlattr *actions,
                      size_t actions_len, bool probe)
{
    struct dpif_xdp_place place;
    struct dpif_xdp_rule *other = dpif_xdp_cls_place(subtable, key, &place);
    struct dpif_xdp_flow *flow;
    uint64_t *values;

    if (other) {
        return dpif_xdp_flow_from_rule(other);
    }
    flow = dpif_xdp_flow_create(&place, key, map, actions, actions_len,
                                &values);
    flow->ufid = *ufid;
    dpif_xdp_fastpath_flow_init(flow);
    dpif_xdp_flows_insert(&dp->flows, flow, &place, values);
    if (!probe) {
        dpif_xdp_fastpath_put(dp, flow, key);
    }
    log_change(dp, flow, "flow_add");
    return NULL;
}

void
dpif_xdp_flows_flush(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_flow *flows[MAX_TOGETHER], *flow;
    uint32_t position = 0;
    size_t n = 0;

    dpif_xdp_flow_lock(dp);
    while ((flow = dpif_xdp_flow_next(&dp->flows, &position))) {
        dpif_xdp_flow_prefetch(flow);
        flows[n++] = flow;
        if (n == MAX_TOGETHER) {
            flush_flows(dp, flows, n);
            n = 0;
        }
    }
    flush_flows(dp, flows, n);
    dpif_xdp_flows_forget_twins(&dp->flows);
    dpif_xdp_fastpath_reclaim(dp);
    dpif_xdp_flows_free(&dp->flows);
    dpif_xdp_flow_unlock(dp);
    dpif_xdp_round_disturb(dp);
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

    dpif_xdp_flow_lock(dp);
    for (size_t i = 0; i < n; i++) {
        if (dpif_xdp_fastpath_must_reclaim(dp)) {
            dpif_xdp_fastpath_reclaim(dp);
        }
        if (i % MAX_TOGETHER == 0) {
            prefetch_flows(dp, &ops[i], MIN(n - i, MAX_TOGETHER));
        }
        ops[i]->error = put_flow(dp, &ops[i]->flow_put);
        if (ops[i]->error && !(ops[i]->flow_put.flags & DPIF_FP_PROBE)) {
            dpif_xdp_round_disturb(dp);
        }
    }
    dpif_xdp_flow_unlock(dp);
}

static int
put_flow(struct dpif_xdp_dp *dp, const struct dpif_flow_put *put)
{
    struct dpif_xdp_flow *flow = NULL;
    int error;

    if (put->stats) {
        memset(put->stats, 0, sizeof *put->stats);
    }
    error = dpif_xdp_validate_actions(put->actions, put->actions_len);
    if (error) {
        return error;
    }
    if (put->ufid) {
        flow = dpif_xdp_flows_find(&dp->flows, put->ufid);
    }
    error = flow ? EEXIST : create_flow(dp, put, &flow);
    if (error == EEXIST && put->flags & DPIF_FP_MODIFY) {
        modify_flow(dp, flow, put);
        error = 0;
    }
    return error;
}

/* Installs the flow that 'put' describes, if it shall be created.  Returns 0;
 * EEXIST with the flow that is in the way, or shall be modified; or another
 * positive errno. */
static int
create_flow(struct dpif_xdp_dp *dp, const struct dpif_flow_put *put,
            struct dpif_xdp_flow **ret_existing)
{
    struct subtable *subtable;
    struct flow_wildcards wc;
    struct miniflow map;
    struct flow key;
    ovs_u128 ufid;
    char *detail;

    if (odp_flow_key_to_flow(put->key, put->key_len, &key, &detail)) {
        return refuse(put, "cannot parse the key", detail);
    } else if (key.ct_state & ~CS_SUPPORTED) {
        return refuse(put, put->flags & DPIF_FP_PROBE
                      ? "unsupported ct_state" : "ct_state unsupported", NULL);
    }
    map_init(&map, &key);
    subtable = dpif_xdp_flows_known_subtable(&dp->flows, put->mask,
                                             put->mask_len, &key, &map.map);
    if (!subtable) {
        if (odp_flow_key_to_mask(put->mask, put->mask_len, &wc, &key,
                                 &detail)) {
            return refuse(put, "cannot parse the mask", detail);
        } else if (wc.masks.in_port.odp_port != ODPP_NONE) {
            return refuse(put, "in_port is not an exact match", NULL);
        }
        dpif_xdp_wc_finish(&wc);
    }

    if (put->ufid) {
        ufid = *put->ufid;
    } else {
        odp_flow_key_hash(&key, sizeof key, &ufid);
    }
    *ret_existing = find_existing(dp, put, &ufid, &key);
    if (*ret_existing) {
        return EEXIST;
    } else if (!(put->flags & DPIF_FP_CREATE)) {
        return ENOENT;
    }

    if (!subtable) {
        subtable = dpif_xdp_flows_subtable(&dp->flows, &wc);
        dpif_xdp_flows_know_subtable(&dp->flows, put->mask, put->mask_len,
                                     &key, &map.map, subtable);
    }
    *ret_existing = dpif_xdp_flow_install(dp, subtable, &key, &map, &ufid,
                                          put->actions, put->actions_len,
                                          put->flags & DPIF_FP_PROBE);
    return *ret_existing ? EEXIST : 0;
}

/* As miniflow_map_init(), which tests word by word: most of a flow is
 * empty. */
static void
map_init(struct miniflow *map, const struct flow *flow)
{
    const uint64_t *words = (const uint64_t *) flow;

    BUILD_ASSERT_DECL(FLOW_U64S % 4 == 0);
    flowmap_init(&map->map);
    for (size_t i = 0; i < FLOW_U64S; i += 4) {
        if (words[i] | words[i + 1] | words[i + 2] | words[i + 3]) {
            for (size_t j = i; j < i + 4; j++) {
                if (words[j]) {
                    flowmap_set(&map->map, j, 1);
                }
            }
        }
    }
}

/* Logs why 'put' is refused, unless it is a probe.  Frees 'detail', which may
 * be NULL, and returns EINVAL. */
static int
refuse(const struct dpif_flow_put *put, const char *problem, char *detail)
{
    if (!(put->flags & DPIF_FP_PROBE) && !VLOG_DROP_ERR(&rl)) {
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

/* Deletes the flow that 'del' names, if the table has another in its place:
 * returns whether. */
static bool
forget_twin(struct dpif_xdp_dp *dp, const struct dpif_flow_del *del)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    bool was = del->ufid && dpif_xdp_flows_forget_twin(&dp->flows, del->ufid);

    if (was && del->stats) {
        memset(del->stats, 0, sizeof *del->stats);
    }
    return was;
}

/* Deletes the flows that the 'n' operations, all DPIF_OP_FLOW_DEL, name.  No
 * packet that arrives later meets them.  Waits once for all of them until
 * programs are done with them: then their counts are final. */
void
dpif_xdp_flows_del(struct dpif *dpif, struct dpif_op *ops[], size_t n)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    struct dpif_xdp_flow **flows = xmalloc(n * sizeof *flows);
    bool wait = false;

    dpif_xdp_flow_lock(dp);
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
        ops[i]->error = flows[i] || forget_twin(dp, &ops[i]->flow_del) ? 0
            : ENOENT;
    }
    if (wait || dpif_xdp_fastpath_must_reclaim(dp)) {
        dpif_xdp_fastpath_reclaim(dp);
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
    dpif_xdp_flow_unlock(dp);
    dpif_xdp_round_note_deleted(dp, n);
    free(flows);
}

int
dpif_xdp_flow_get(struct dpif *dpif, const struct dpif_flow_get *get)
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);
    struct dpif_xdp_flow *flow;

    dpif_xdp_flow_lock(dp);
    flow = find_flow(dp, get->ufid, get->key, get->key_len);
    if (!flow && get->ufid) {
        /* ofproto does not know it any more. */
        dpif_xdp_flows_forget_twin(&dp->flows, get->ufid);
    }
    dpif_xdp_flow_unlock(dp);
    if (!flow) {
        return ENOENT;
    }
    dpif_xdp_flow_format(dp, flow, get->buffer, get->buffer, get->flow, false);
    return 0;
}

/* The flow with 'ufid', or, if 'ufid' is null, of the Netlink key 'key'. */
static struct dpif_xdp_flow *
find_flow(const struct dpif_xdp_dp *dp, const ovs_u128 *ufidp,
          const struct nlattr *key, size_t len)
{
    struct flow key_flow;
    ovs_u128 ufid;

    if (!ufidp) {
        if (odp_flow_key_to_flow(key, len, &key_flow, NULL)) {
            return NULL;
        }
        odp_flow_key_hash(&key_flow, sizeof key_flow, &ufid);
        ufidp = &ufid;
    }
    return dpif_xdp_flows_find(&dp->flows, ufidp);
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

/* Prefetches the flows that the 'n' operations, at most MAX_TOGETHER, name by
 * ufid: else nearly all of the time is spent waiting for memory, for one flow
 * after the other. */
static void
prefetch_flows(const struct dpif_xdp_dp *dp, struct dpif_op *ops[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (op_ufid(ops[i])) {
            dpif_xdp_flows_prefetch(&dp->flows, op_ufid(ops[i]));
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (op_ufid(ops[i])) {
            dpif_xdp_flows_prefetch_flow(&dp->flows, op_ufid(ops[i]));
        }
    }
}

/* Prefetches what removing the 'n' flows, some of them NULL, reads. */
static void
prefetch_removal(const struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flows[],
                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (flows[i]) {
            dpif_xdp_flows_prefetch_removal(&dp->flows, flows[i]);
            dpif_xdp_fastpath_prefetch(dp, flows[i]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (flows[i]) {
            dpif_xdp_fastpath_prefetch_bucket(dp, flows[i]);
        }
    }
}

/* Stores the flows that the 'n' operations, at most MAX_TOGETHER, delete, NULL
 * where there is none, and prefetches what deleting them reads. */
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

/* The flow that 'put' would modify, or that forbids it to create one, if none
 * has the identifier in 'put': that with 'ufid', if there is no such
 * identifier, or, failing that, one that packets like 'key' match.  A flow is
 * created by identifier after a packet that matched none.  Only a flow of the
 * same kind, created for another packet meanwhile, can be in the way.  That is
 * found out when it is installed. */
static struct dpif_xdp_flow *
find_existing(struct dpif_xdp_dp *dp, const struct dpif_flow_put *put,
              const ovs_u128 *ufid, const struct flow *key)
{
    struct dpif_xdp_flow *found = NULL;
    struct dpif_xdp_key packet;

    if (!put->ufid) {
        found = dpif_xdp_flows_find(&dp->flows, ufid);
    } else if (put->flags & DPIF_FP_CREATE) {
        return NULL;
    }
    if (!found) {
        dpif_xdp_key_from_flow(key, &packet);
        found = dpif_xdp_flows_lookup(&dp->flows, &packet);
    }
    return found;
}

static void
modify_flow(struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flow,
            const struct dpif_flow_put *put)
{
    struct flow key;

    if (put->stats) {
        dpif_xdp_flow_get_stats(dp, flow, put->stats);
    }
    dpif_xdp_flow_set_actions(flow, put->actions, put->actions_len);
    miniflow_expand(flow->key, &key);
    dpif_xdp_fastpath_put(dp, flow, &key);
    if (put->flags & DPIF_FP_ZERO_STATS) {
        dpif_xdp_fastpath_zero_stats(dp, flow);
        dpif_xdp_flow_reset_stats(flow);
    }
    log_change(dp, flow, "flow_mod");
}

/* Hides 'flow' from lookups, programs' and the engine's.  It must be freed by
 * dpif_xdp_fastpath_release(). */
static void
remove_flow(struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flow)
{
    log_change(dp, flow, "flow_del");
    atomic_store_relaxed(&flow->deleted, true);
    dpif_xdp_fastpath_unlink(dp, flow);
    dpif_xdp_flows_remove(&dp->flows, flow);
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
