/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Notes the way of a traced packet (dp/trace.h): the flows that its passes found, and its connections. */
#ifndef DP_WAY_H
#define DP_WAY_H 1

#include "dp/run.h"

/* Where 'flow' sends a traced packet, unless it is NULL. */
DP_INLINE void dp_note_fate(struct dp_run *run, const struct dp_flow *flow)
{
    if (flow) {
        run->fate = flow->fate & ~DP_FATE_SKB;
        run->to = flow->arg;
    }
}

/* Notes which flow a pass of a traced packet found, or DP_NO_FLOW.  'is_last': it was in the last-flow cache. */
DP_STAGE int dp_note_way(struct dp_ctx *ctx, struct dp_run *run, __u32 flow, __u32 is_last)
{
    const struct dp_flow *entry = dp_flows_at(ctx, flow);
    struct dp_way *way = dp_way_of(ctx);
    struct dp_way_pass *pass;

    if (!run || !way) {
        return 0;
    }

    __u64 n = way->n;

    DP_OPAQUE(n);
    if (n >= DP_WAY_PASSES) {
        return 0;
    }
    DP_OPAQUE(n);
    pass = &way->pass[n];
    way->n = n + 1;
    pass->flow = flow;
    pass->generation = entry ? entry->generation : 0;
    dp_note_fate(run, entry);
    pass->has = run->frame.has;
    pass->masks = run->walked.masks - way->masks;
    pass->found = is_last ? DP_FOUND_LAST : !entry ? DP_FOUND_NOTHING
        : run->walked.hits != way->hits ? DP_FOUND_MASKS : DP_FOUND_CACHE;
    way->masks = run->walked.masks;
    way->hits = run->walked.hits;
    return 0;
}

/* Notes the flows of a traced packet that the path cache was done with.  For the hook, at its end. */
DP_STAGE int dp_note_path(struct dp_ctx *ctx, struct dp_run *run)
{
    const struct dp_path *path = run ? dp_paths_at(ctx, run->path.hit) : 0;
    struct dp_way *way = dp_way_of(ctx);

    if (!path || !way) {
        return 0;
    }
    DP_NO_UNROLL
    for (int i = 0; i < DP_PATH_FLOWS; i++) {
        struct dp_way_pass *pass = &way->pass[i];
        const struct dp_flow *flow;

        if (i >= path->n_flows) {
            break;
        }
        flow = dp_flows_at(ctx, path->flow[i].flow);
        pass->flow = path->flow[i].flow;
        pass->generation = flow ? flow->generation : 0;
        dp_note_fate(run, flow);
        pass->has = run->frame.has;
        pass->masks = 0;
        pass->found = DP_FOUND_PATH;
        way->n = i + 1;
    }
    return 0;
}

/* Notes what a ct() of a traced packet found. */
DP_STAGE int dp_note_ct(struct dp_ctx *ctx, const struct dp_run *run)
{
    struct dp_way *way = dp_way_of(ctx);
    struct dp_way_ct *ct;
    __u64 n;

    if (!run || !way) {
        return 0;
    }
    n = way->n_ct;
    DP_OPAQUE(n);
    if (n >= DP_WAY_CT) {
        return 0;
    }
    DP_OPAQUE(n);
    ct = &way->ct[n];
    way->n_ct = n + 1;
    ct->zone = run->key.ct_zone;
    ct->state = run->key.ct_state;
    ct->pass = way->n - 1;
    return 0;
}

#endif /* dp/way.h */
