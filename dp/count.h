/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Statistics of flows. */
#ifndef DP_COUNT_H
#define DP_COUNT_H 1

#include "dp/table.h"

/* Where this CPU's statistics begin. */
DP_INLINE __u32 dp_count_begin(struct dp_ctx *ctx)
{
    __u32 shard = dp_cpu(ctx);
    __u32 shared = dp_shared_shards(ctx);

    if (shared) {
        shard %= shared;
    }
    return shard * dp_n_flows(ctx);
}

/* Adds a packet of 'len' bytes to the statistics of flow 'flow', which begin at 'begin'.  'tcp_flags' are in host byte
 * order, 0 if it has none. */
DP_INLINE void dp_count_from(struct dp_ctx *ctx, __u32 begin, __u64 ticks, __u32 flow, __u32 len, __u32 tcp_flags)
{
    struct dp_stats *stats = dp_stats_at(ctx, begin + flow);

    if (!stats) {
        return;
    }
    if (DP_UNLIKELY(dp_shared_shards(ctx))) {
        __sync_fetch_and_add(&stats->packets, 1);
        __sync_fetch_and_add(&stats->bytes, len);
    } else {
        stats->packets++;
        stats->bytes += len;
    }
    stats->used = ticks;
    if (tcp_flags & ~stats->tcp_flags) {
        stats->tcp_flags |= tcp_flags;
    }
}

/* As dp_count_from(), of one flow. */
DP_INLINE void dp_count(struct dp_ctx *ctx, __u32 flow, __u32 len, __u32 tcp_flags)
{
    dp_count_from(ctx, dp_count_begin(ctx), dp_ticks(ctx), flow, len, tcp_flags);
}

#endif /* dp/count.h */
