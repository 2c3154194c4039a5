/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The seam for XDP: frames are raw bytes between data and data_end.  See dp/seam_native.h for the
 * contracts.
 *
 * A frame may go on in other buffers (core/multi_buffer.h), of which programs know only the sum of their lengths.
 * Headers are in the first, if that has DP_REACH bytes; else the engine parses it.  The kernel copies only the first
 * buffer for a group (net/core/xdp.c, xdpf_clone), and not all that cut know how the others are freed
 * (bpf_xdp_adjust_tail()). */
#ifndef BPF_SEAM_XDP_H
#define BPF_SEAM_XDP_H 1

#define dp_ctx xdp_md

#include "bpf/maps.h"
#include "bpf/tables.h"

/* All headers that are parsed lie in this. */
#define DP_REACH 1088

/* Of the kernel (include/net/xdp.h): what a program's context is.  There is a kernel function that says so since Linux
 * 6.2, but it is no call: the verifier puts a move there. */
struct xdp_buff___frags {
    __u32 flags;
} __attribute__((preserve_access_index));
#define XDP_FLAGS_HAS_FRAGS 1

DP_INLINE const struct xdp_buff___frags *buff_of(struct dp_ctx *ctx)
{
    register const void *r0 asm("r0");
    register const void *r1 asm("r1") = ctx;

    KFUNC(bpf_cast_to_kern_ctx, r0, r1);
    return r0;
}

DP_INLINE int dp_has_frags(struct dp_ctx *ctx)
{
    return !DP_OMITS(ctx, DP_PART_FRAGS) && DP_UNLIKELY(buff_of(ctx)->flags & XDP_FLAGS_HAS_FRAGS);
}

/* A difference of pointers has 64 bits for the verifier. */
DP_INLINE __u32 dp_len(struct dp_ctx *ctx)
{
    __u64 len = (long) ctx->data_end - (long) ctx->data;

    if (dp_has_frags(ctx)) {
        len = bpf_xdp_get_buff_len(ctx);
    }
    DP_OPAQUE(len);
    return len;
}

DP_INLINE __u8 *dp_at(struct dp_ctx *ctx, __u32 ofs, __u32 len)
{
    __u8 *p = (__u8 *) (long) ctx->data + ofs;

    return p + len <= (__u8 *) (long) ctx->data_end ? p : 0;
}

DP_INLINE __u32 dp_sum(const __u8 *p, const __u32 len, __u32 sum)
{
    return bpf_csum_diff(0, 0, (__be32 *) p, len, sum);
}

DP_INLINE int dp_out_of_reach(struct dp_ctx *ctx)
{
    return dp_has_frags(ctx) && !dp_at(ctx, 0, DP_REACH);
}

DP_INLINE int dp_pull(struct dp_ctx *ctx) { return -dp_out_of_reach(ctx); }

DP_INLINE __u64 dp_ticks(struct dp_ctx *ctx) { return bpf_jiffies64(); }
DP_INLINE __u64 dp_now(struct dp_ctx *ctx) { return bpf_ktime_get_ns(); }
DP_INLINE __u32 dp_cpu(struct dp_ctx *ctx) { return bpf_get_smp_processor_id(); }
DP_INLINE __u32 dp_random(struct dp_ctx *ctx) { return bpf_get_prandom_u32(); }
DP_INLINE int dp_adjust_head(struct dp_ctx *ctx, int n) { return bpf_xdp_adjust_head(ctx, n); }
DP_INLINE int dp_cut_tail(struct dp_ctx *ctx, __u32 n) { return bpf_xdp_adjust_tail(ctx, -(int) n); }

/* Copies the frame's first 'n' bytes, which it has; for bpf/trace.h and bpf/sample.h. */
#define TRACE_HOOK DP_TRACE_XDP
DP_INLINE int dp_copy_out(struct dp_ctx *ctx, void *to, __u32 n) { return bpf_xdp_load_bytes(ctx, 0, to, n); }

#include "dp/seam_raw.h"

/* Whether some port of the group that 'flow' sends to might not take a frame of 'len' bytes after the flow's
 * operations. */
DP_STAGE int dp_group_refuses(struct dp_ctx *ctx, const struct dp_flow *flow, __u32 len)
{
    const __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN);
    const struct bpf_limit *limit;
    const struct dp_op *op;

    if (!flow) {
        return 1;
    }
    limit = dp_limits_at(ctx, BPF_LIMIT_OF_GROUP(flow->arg));
    op = DP_OMITS(ctx, DP_PART_OPS) || !flow->n_ops ? 0 : dp_ops_at(ctx, flow->ops);
    if (op) {
        len += op->growth & DP_OFS_MASK;
    }
    if (!eth || dp_has_frags(ctx)) {
        return 1;
    }
    if (limit && DP_UNLIKELY(len > limit->max_len)) {
        int tagged = dp_is_vlan(dp_load_be16(eth + 12)) || (op && op->codes >> DP_OP_PUSH_VLAN & 1);

        return !tagged || len - DP_VLAN_LEN > limit->max_len;
    }
    return 0;
}

#endif /* bpf/seam_xdp.h */
