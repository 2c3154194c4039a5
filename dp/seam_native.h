/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The seam for userspace: tests, fuzzers, tools.  A frame lies in a caller's buffer with room before it; tables are
 * ordinary memory.  The other seams, bpf/seam_*.h, provide the same functions. */
#ifndef DP_SEAM_NATIVE_H
#define DP_SEAM_NATIVE_H 1

#include <stddef.h>

#include "dp/ct_table.h"
#include "dp/omit.h"
#include "dp/path_table.h"
#include "dp/table.h"
#include "dp/trace.h"
#include "dp/types.h"

struct dp_ctx {
    __u8 *start;                /* First byte of headroom. */
    __u8 *data;                 /* First byte of the frame. */
    __u8 *end;                  /* Behind the last. */
    __u64 now;                  /* Nanoseconds of CLOCK_MONOTONIC; also its ticks. */
    __u32 cpu;                  /* Which shard of counters to use. */
    struct dp_tables *tables;
    struct dp_ct_tables *ct;    /* Connections: dp/ct.h. */
    struct dp_path_tables *paths;       /* dp/path.h; NULL: none are learned. */
    struct dp_omit omit;        /* What is left out. */
    struct dp_way *way;         /* Where the frame's way is noted, or NULL. */
    __u32 random;               /* What dp_random() says. */
    __u32 n_samples;            /* Counted by dp_sample(). */
};
struct dp_run;

DP_INLINE int dp_omits(const struct dp_ctx *ctx, __u32 first, __u32 last)
{
    return dp_omit_has(&ctx->omit, first, last);
}
DP_INLINE __u64 dp_omitted_words(const struct dp_ctx *ctx) { return ctx->omit.words; }
DP_INLINE __u64 dp_omitted_ops(const struct dp_ctx *ctx) { return ctx->omit.ops; }

/* Whether this run is traced, and where its way is noted (dp/trace.h). */
DP_INLINE int dp_is_traced(const struct dp_ctx *ctx, const __u32 *traced) { return ctx->way != NULL; }
DP_INLINE struct dp_way *dp_way_of(struct dp_ctx *ctx) { return ctx->way; }

DP_INLINE __u32 dp_len(struct dp_ctx *ctx) { return ctx->end - ctx->data; }

/* The 'len' bytes at 'ofs' from the start of the frame, or NULL if they are not all there. */
DP_INLINE __u8 *dp_at(struct dp_ctx *ctx, __u32 ofs, __u32 len)
{
    return ofs + len <= dp_len(ctx) ? ctx->data + ofs : NULL;
}

/* Nanoseconds of CLOCK_MONOTONIC; and what struct dp_stats counts, cheap to get. */
DP_INLINE __u64 dp_ticks(struct dp_ctx *ctx) { return ctx->now; }
DP_INLINE __u64 dp_now(struct dp_ctx *ctx) { return ctx->now; }
DP_INLINE __u32 dp_cpu(struct dp_ctx *ctx) { return ctx->cpu; }

/* Whether dp_at() since the last call, or since the frame came, did not reach bytes that the frame has. */
DP_INLINE int dp_out_of_reach(struct dp_ctx *ctx) { return 0; }

/* Of dp/sample.h. */
DP_INLINE __u32 dp_random(struct dp_ctx *ctx) { return ctx->random; }
DP_STAGE int dp_sample(struct dp_ctx *ctx, struct dp_run *run) { return ctx->n_samples++, 0; }

/* Brings the frame's first kilobyte into the reach of dp_at().  0, or negative errno. */
DP_INLINE int dp_pull(struct dp_ctx *ctx) { return 0; }

/* Whether the frame lies in several buffers, so that it can be sent to one port, but neither be copied nor cut. */
DP_INLINE int dp_has_frags(struct dp_ctx *ctx) { return 0; }

/* Moves the start of the frame 'n' bytes towards its end (negative: into the headroom).  0, or negative errno with
 * nothing changed. */
DP_INLINE int dp_adjust_head(struct dp_ctx *ctx, int n)
{
    if (n > 0 ? dp_len(ctx) < n + 14 : ctx->data - ctx->start < -n) {
        return -1;
    }
    ctx->data += n;
    return 0;
}

/* Cuts 'n' bytes off the end.  0, or negative errno. */
DP_INLINE int dp_cut_tail(struct dp_ctx *ctx, __u32 n)
{
    if (dp_len(ctx) < n + 14) {
        return -1;
    }
    ctx->end -= n;
    return 0;
}

/* Adds the 'len' bytes at 'p', a multiple of 4, to a one's complement sum in memory order. */
DP_INLINE __u32 dp_sum(const __u8 *p, __u32 len, __u32 sum)
{
    __u64 all = sum;

    for (__u32 i = 0; i < len; i += 4) {
        all += dp_load32(p + i);
    }
    all = (all & 0xffffffff) + (all >> 32);
    return all + (all >> 32);
}

/* What struct dp_head says, which does not change while a program runs. */
DP_INLINE __u32 dp_cache_last(const struct dp_ctx *ctx) { return ctx->tables->head->cache_last; }
DP_INLINE __u32 dp_n_flows(const struct dp_ctx *ctx) { return ctx->tables->head->n_flows; }
DP_INLINE __u32 dp_shared_shards(const struct dp_ctx *ctx)
{
    return ctx->tables->head->shared_shards ? ctx->tables->head->shards : 0;
}

/* Elements of the shared tables, NULL if there is no such element. */
#define DP_TABLE(NAME, TYPE)                                                            \
    DP_INLINE TYPE *dp_##NAME##_at(struct dp_ctx *ctx, __u32 i)                         \
    {                                                                                   \
        return i < ctx->tables->n_##NAME ? &ctx->tables->NAME[i] : NULL;                \
    }
DP_TABLES(DP_TABLE)
#undef DP_TABLE

#define DP_TABLE(NAME, TYPE)                                                            \
    DP_INLINE TYPE *dp_ct_##NAME##_at(struct dp_ctx *ctx, __u32 i)                      \
    {                                                                                   \
        return i < ctx->ct->n_##NAME ? &ctx->ct->NAME[i] : NULL;                        \
    }
DP_CT_TABLES(DP_TABLE)
#undef DP_TABLE

#define DP_TABLE(NAME, TYPE)                                                            \
    DP_INLINE TYPE *dp_##NAME##_at(struct dp_ctx *ctx, __u32 i)                         \
    {                                                                                   \
        return ctx->paths && i < ctx->paths->n_##NAME ? &ctx->paths->NAME[i] : NULL;    \
    }
DP_PATH_TABLES(DP_TABLE)
#undef DP_TABLE

/* Who holds the lock of a bucket of connections. */
DP_INLINE __u32 dp_ct_owner(const struct dp_ctx *ctx) { return DP_CT_LOCK_USER | ctx->ct->head->epoch; }

#include "dp/seam_raw.h"

/* Whether some port of the group that 'flow' sends to does not take a frame of 'len' bytes after the flow's operations,
 * or not this frame's buffers. */
DP_INLINE int dp_group_refuses(struct dp_ctx *ctx, const struct dp_flow *flow, __u32 len) { return dp_has_frags(ctx); }

#endif /* dp/seam_native.h */
