/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Statistics of flows. */
#ifndef DP_COUNT_H
#define DP_COUNT_H 1

#include "dp/table.h"

/* Adds a packet of 'len' bytes to the statistics of flow 'flow'.  'tcp_flags' are in host byte order, 0 if it has
 * none. */
DP_INLINE void dp_count(struct dp_ctx *ctx, __u32 flow, __u32 len, __u32 tcp_flags)
{
    __u32 shard = dp_cpu(ctx);
    __u32 shared = dp_shared_shards(ctx);

    if (shared) {
        shard %= shared;
    }

    struct dp_stats *stats = dp_stats_at(ctx, shard * dp_n_flows(ctx) + flow);

    if (!stats) {
        return;
    }
    if (DP_UNLIKELY(shared)) {
        __sync_fetch_and_add(&stats->packets, 1);
        __sync_fetch_and_add(&stats->bytes, len);
    } else {
        stats->packets++;
        stats->bytes += len;
    }
    stats->used = dp_ticks(ctx);
    if (tcp_flags & ~stats->tcp_flags) {
        stats->tcp_flags |= tcp_flags;
    }
}

#endif /* dp/count.h */
