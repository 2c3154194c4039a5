/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps and statistics of flows, and keys as Netlink attributes. */
#include <config.h>

#include "ovs/flows/flows.h"

#include <stdlib.h>

#include "dpif.h"
#include "flow.h"
#include "ofproto/ofproto-provider.h"
#include "odp-util.h"
#include "openvswitch/ofpbuf.h"
#include "ovs/base/compat.h"
#include "ovs/fastpath/fastpath.h"
#include "timeval.h"

const struct odp_support dpif_xdp_odp_support = {
    .max_vlan_headers = SIZE_MAX,
    .max_mpls_depth = SIZE_MAX,
    .recirc = true,
    .ct_state = true,
    .ct_zone = true,
    .ct_mark = true,
    .ct_label = true,
    .ct_state_nat = true,
    .ct_orig_tuple = true,
    .ct_orig_tuple6 = true,
};

#define DUMP_BATCH DPIF_XDP_DUMP_BATCH

/* Up to this many flows are dumped in the order of their installation, which
 * is easier to read.  More are dumped in the order of the table, where a new
 * flow takes the place of the one that was deleted last. */
#define MAX_ORDERED 64

/* So many entries of the fast path's tables are looked at in the time that one
 * flow takes. */
#define SPARSE 4

/* A flow that was there when the dump began. */
struct dump_place {
    uint64_t seq;
    uint32_t position;
};

struct flow_dump {
    struct dpif_flow_dump up;
    bool quiet;                         /* Terse, of a quiet round. */
    bool has_places;                    /* It is of those in 'places', behind
                                         * those in the fast path's tables: */
    uint32_t n_entries;                 /* So many entries of them. */
    struct ovs_mutex mutex;             /* dpif_xdp_dump_mutex. */
    uint32_t position                   /* Of the table, or of 'places'. */
        OVS_GUARDED_BY(dpif_xdp_dump_mutex);
    uint32_t entry OVS_GUARDED_BY(dpif_xdp_dump_mutex);     /* The next. */
    size_t n_places;
    struct dump_place places[MAX_ORDERED];
    ovs_u128 *twins                     /* Of a terse dump, which is ofproto's:
                                         * those not given out yet. */
        OVS_GUARDED_BY(dpif_xdp_dump_mutex);
    size_t n_twins OVS_GUARDED_BY(dpif_xdp_dump_mutex);
};

struct flow_dump_thread {
    struct dpif_flow_dump_thread up;
    struct flow_dump *dump;
    struct odputil_keybuf keys[DUMP_BATCH];
    struct odputil_keybuf masks[DUMP_BATCH];
};

static void
dump_lock(struct flow_dump *dump)
    OVS_ACQUIRES(dpif_xdp_dump_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&dump->mutex);
}

static void
dump_unlock(struct flow_dump *dump)
    OVS_RELEASES(dpif_xdp_dump_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&dump->mutex);
}

static int
compare_places(const void *a_, const void *b_)
{
    const struct dump_place *a = a_;
    const struct dump_place *b = b_;

    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

static void
add_place(struct flow_dump *dump, const struct dpif_xdp_flow *flow)
{
    dump->places[dump->n_places].seq = flow->seq;
    dump->places[dump->n_places++].position = dpif_xdp_flow_position(flow);
}

/* Stores the places of all flows of 'flows' by their installation, if there
 * are few. */
static void
order_few(struct flow_dump *dump, const struct dpif_xdp_flows *flows)
{
    struct dpif_xdp_flow *flow;
    uint32_t position = 0;

    while ((flow = dpif_xdp_flow_next(flows, &position))) {
        if (dump->n_places == MAX_ORDERED) {
            dump->n_places = 0;
            return;
        }
        add_place(dump, flow);
    }
    qsort(dump->places, dump->n_places, sizeof dump->places[0],
          compare_places);
    dump->has_places = true;
}

/* Has 'dump' follow the order of the fast path's tables, unless most of their
 * entries have no flow any more, or many flows are not in them: the places of
 * a few are stored. */
static void
follow_tables(struct flow_dump *dump, struct dpif_xdp_dp *dp)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    struct dpif_xdp_flow *outside[MAX_ORDERED];
    size_t n = dpif_xdp_fastpath_list_outside(dp, outside, MAX_ORDERED);
    uint32_t n_entries = dpif_xdp_fastpath_n_entries(dp);

    if (n <= MAX_ORDERED
        && n_entries / SPARSE <= dpif_xdp_flows_n(&dp->flows)) {
        dump->n_places = 0;
        for (size_t i = 0; i < n; i++) {
            add_place(dump, outside[i]);
        }
        dump->has_places = true;
        dump->n_entries = n_entries;
    }
}

/* Returns the next flow of 'dump', or NULL. */
static struct dpif_xdp_flow *
next_flow(struct flow_dump *dump, const struct dpif_xdp_flows *flows)
    OVS_REQUIRES(dpif_xdp_dump_mutex)
{
    if (!dump->has_places) {
        return dpif_xdp_flow_next(flows, &dump->position);
    }
    while (dump->position < dump->n_places) {
        const struct dump_place *place = &dump->places[dump->position++];
        uint32_t position = place->position;
        struct dpif_xdp_flow *flow = dpif_xdp_flow_next(flows, &position);

        if (flow && flow->seq == place->seq) {
            return flow;
        }
    }
    return NULL;
}

/* Notes the flows that ofproto has and the table has not, which it deletes
 * when it finds them idle, and those that the tables of a quiet dump have
 * not. */
static void
take_others(struct flow_dump *dump, struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* 'dump' is not shared yet. */
{
    dpif_xdp_flow_lock(dp);
    dump->twins = dpif_xdp_flows_list_twins(&dp->flows, &dump->n_twins);
    if (dump->quiet) {
        follow_tables(dump, dp);
    }
    dpif_xdp_flow_unlock(dp);
}

/* Gives out up to 'max' of those that are still there; returns how many. */
static int
give_twins(struct flow_dump *dump, struct dpif_xdp_dp *dp,
           struct dpif_flow *flows, int max)
    OVS_REQUIRES(dpif_xdp_dump_mutex)
{
    int n = 0;

    if (!dump->n_twins) {
        return 0;
    }
    dpif_xdp_flow_lock(dp);
    while (n < max && dump->n_twins) {
        const ovs_u128 *ufid = &dump->twins[--dump->n_twins];
        struct dpif_flow *flow = &flows[n];

        if (dpif_xdp_flows_has_twin(&dp->flows, ufid)) {
            memset(flow, 0, sizeof *flow);
            flow->ufid = *ufid;
            flow->ufid_present = true;
            flow->pmd_id = PMD_ID_NULL;
            flow->attrs.dp_layer = "ovs";
            n++;
        }
    }
    dpif_xdp_flow_unlock(dp);
    return n;
}

struct dpif_flow_dump *
dpif_xdp_flow_dump_create(const struct dpif *dpif, bool terse,
                          struct dpif_flow_dump_types *types)
{
    struct flow_dump *dump = xzalloc(sizeof *dump);
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);

    dpif_xdp_flow_dump_init(&dump->up, dpif, terse, types);
    ovs_mutex_init(&dump->mutex);
    order_few(dump, &dp->flows);
    if (terse) {
        dump->quiet = dpif_xdp_round_begin(dp);
        take_others(dump, dp);
    }
    return &dump->up;
}

int
dpif_xdp_flow_dump_destroy(struct dpif_flow_dump *dump_)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared any more. */
{
    struct flow_dump *dump = CONTAINER_OF(dump_, struct flow_dump, up);

    ovs_mutex_destroy(&dump->mutex);
    free(dump->twins);
    free(dump);
    return 0;
}

struct dpif_flow_dump_thread *
dpif_xdp_flow_dump_thread_create(struct dpif_flow_dump *dump_)
{
    struct flow_dump *dump = CONTAINER_OF(dump_, struct flow_dump, up);
    struct flow_dump_thread *thread = xmalloc(sizeof *thread);

    dpif_flow_dump_thread_init(&thread->up, &dump->up);
    thread->dump = dump;
    if (dump->up.terse) {
        dpif_xdp_round_join(dump->quiet);
    } else {
        dpif_xdp_round_leave();
    }
    return &thread->up;
}

void
dpif_xdp_flow_dump_thread_destroy(struct dpif_flow_dump_thread *thread)
{
    dpif_xdp_ahead_give(NULL, 0);       /* Flows may be freed from now on. */
    free(CONTAINER_OF(thread, struct flow_dump_thread, up));
}

/* Stores the next flows of the dump, 'max' or fewer, at most DUMP_BATCH; 0:
 * there are no more.  Prefetches them: else nearly all of the time is spent
 * waiting for memory. */
static int
take_flows(struct flow_dump *dump, const struct dpif_xdp_dp *dp,
           struct dpif_xdp_flow *flows[], int max)
{
    int n = 0;

    dump_lock(dump);
    while (n < MIN(max, DUMP_BATCH)
           && (flows[n] = next_flow(dump, &dp->flows))) {
        if (dump->quiet) {
            dpif_xdp_flow_prefetch_counts(flows[n++]);
        } else {
            dpif_xdp_flow_prefetch(flows[n++]);
        }
    }
    dump_unlock(dump);

    for (int i = 0; i < n; i++) {
        dpif_xdp_fastpath_prefetch_stats(dp, flows[i]);
    }
    return n;
}

/* The same for those flows that the fast path does not rule out to be those
 * of a quiet round. */
static int
take_used_flows(struct flow_dump *dump, const struct dpif_xdp_dp *dp,
                struct dpif_xdp_flow *flows[], int max, long long int now)
{
    int n_flows = 0;
    uint32_t first;
    int n;

    do {
        dump_lock(dump);
        first = dump->entry;
        n = MIN(MIN(max, DUMP_BATCH), dump->n_entries - first);
        dump->entry += n;
        dump_unlock(dump);
        if (!n) {
            return take_flows(dump, dp, flows, max);
        }
        n_flows = dpif_xdp_fastpath_look(dp, first, n, now - ofproto_max_idle,
                                         flows);
    } while (!n_flows);
    return n_flows;
}

/* Keeps those of the 'n' flows that a dump of a quiet round has; returns how
 * many. */
static int
omit_flows(const struct dpif_xdp_dp *dp, struct dpif_xdp_flow *flows[], int n,
           long long int now)
{
    int n_kept = 0;

    for (int i = 0; i < n; i++) {
        if (!dpif_xdp_round_omits(dp, flows[i], now)) {
            dpif_xdp_flow_prefetch(flows[i]);
            flows[n_kept++] = flows[i];
        } else {
            dpif_xdp_fastpath_note_used(dp, flows[i], flows[i]->used_dumped);
        }
    }
    return n_kept;
}

/* Describes up to 'max' flows that ofproto must see; 0: there are no more. */
static int
dump_tersely(struct flow_dump *dump, struct dpif_xdp_dp *dp,
             struct dpif_flow *flows, int max)
{
    struct dpif_xdp_flow *found[DUMP_BATCH];
    long long int now = time_msec();
    int n_found, n = 0;

    max = MIN(max, DUMP_BATCH);
    while (n <= max / 2
           && (n_found = take_used_flows(dump, dp, &found[n], max - n, now))) {
        if (dump->quiet) {
            n_found = omit_flows(dp, &found[n], n_found, now);
        }
        for (int i = 0; i < n_found; i++, n++) {
            dpif_xdp_flow_format(dp, found[n], NULL, NULL, &flows[n], true);
            dpif_xdp_round_note_dumped(dp, found[n], &flows[n].stats);
        }
    }
    dpif_xdp_ahead_give(found, n);
    dump_lock(dump);
    n += give_twins(dump, dp, &flows[n], max - n);
    dump_unlock(dump);
    return n;
}

int
dpif_xdp_flow_dump_next(struct dpif_flow_dump_thread *thread_,
                        struct dpif_flow *flows, int max_flows)
{
    struct flow_dump_thread *thread
        = CONTAINER_OF(thread_, struct flow_dump_thread, up);
    struct flow_dump *dump = thread->dump;
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dump->up.dpif);
    struct dpif_xdp_flow *found[DUMP_BATCH];
    int n;

    if (dump->up.terse) {
        return dump_tersely(dump, dp, flows, max_flows);
    }
    n = take_flows(dump, dp, found, max_flows);
    for (int i = 0; i < n; i++) {
        struct ofpbuf key, mask;

        ofpbuf_use_stack(&key, &thread->keys[i], sizeof thread->keys[i]);
        ofpbuf_use_stack(&mask, &thread->masks[i], sizeof thread->masks[i]);
        dpif_xdp_flow_format(dp, found[i], &key, &mask, &flows[i], false);
    }
    return n;
}

void
dpif_xdp_flow_format(const struct dpif_xdp_dp *dp,
                     const struct dpif_xdp_flow *flow, struct ofpbuf *key_buf,
                     struct ofpbuf *mask_buf, struct dpif_flow *ret,
                     bool terse)
{
    memset(ret, 0, sizeof *ret);
    if (!terse) {
        const struct dpif_xdp_actions *actions = dpif_xdp_flow_actions(flow);
        struct flow key;
        struct odp_flow_key_parms parms = {
            .flow = &key,
            .mask = &dpif_xdp_rule_wc(&flow->rule)->masks,
            .support = dpif_xdp_odp_support,
        };
        size_t offset;

        miniflow_expand(flow->key, &key);

        offset = key_buf->size;
        ret->key = ofpbuf_tail(key_buf);
        odp_flow_key_from_flow(&parms, key_buf);
        ret->key_len = key_buf->size - offset;

        offset = mask_buf->size;
        ret->mask = ofpbuf_tail(mask_buf);
        parms.key_buf = key_buf;
        odp_flow_key_from_mask(&parms, mask_buf);
        ret->mask_len = mask_buf->size - offset;

        ret->actions = actions->actions;
        ret->actions_len = actions->size;
    }
    ret->ufid = flow->ufid;
    ret->ufid_present = true;
    ret->pmd_id = PMD_ID_NULL;
    dpif_xdp_flow_get_stats(dp, flow, &ret->stats);
    /* As lib/dpctl.c understands it: offloaded, but executed by "ovs", is
     * offloaded partially. */
    ret->attrs.offloaded = dpif_xdp_fastpath_finds(flow);
    ret->attrs.dp_layer = (dpif_xdp_fastpath_runs(flow)
                           ? dpif_xdp_fastpath_hook(flow) : "ovs");
}

void
dpif_xdp_flow_get_stats(const struct dpif_xdp_dp *dp,
                        const struct dpif_xdp_flow *flow_,
                        struct dpif_flow_stats *stats)
{
    struct dpif_xdp_flow *flow = CONST_CAST(struct dpif_xdp_flow *, flow_);
    uint64_t n;

    atomic_read_relaxed(&flow->n_packets, &n);
    stats->n_packets = n;
    atomic_read_relaxed(&flow->n_bytes, &n);
    stats->n_bytes = n;
    atomic_read_relaxed(&flow->used, &stats->used);
    atomic_read_relaxed(&flow->tcp_flags, &stats->tcp_flags);
    dpif_xdp_fastpath_add_stats(dp, flow, stats);
}
