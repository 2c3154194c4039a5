/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The seam for XDP: frames are raw bytes between data and data_end.  See dp/seam_native.h for the
 * contracts. */
#ifndef BPF_SEAM_XDP_H
#define BPF_SEAM_XDP_H 1

#define dp_ctx xdp_md

#include "bpf/tables.h"

/* A difference of pointers has 64 bits for the verifier. */
DP_INLINE __u32 dp_len(struct dp_ctx *ctx)
{
    __u64 len = (long) ctx->data_end - (long) ctx->data;

    DP_OPAQUE(len);
    return len;
}

DP_INLINE __u8 *dp_at(struct dp_ctx *ctx, __u32 ofs, __u32 len)
{
    __u8 *p = (__u8 *) (long) ctx->data + ofs;

    return p + len <= (__u8 *) (long) ctx->data_end ? p : 0;
}

DP_INLINE __u32 dp_sum(const __u8 *p, const __u32 len, __u32 sum) { return bpf_csum_diff(0, 0, (__be32 *) p, len, sum); }
DP_INLINE __u64 dp_ticks(struct dp_ctx *ctx) { return bpf_jiffies64(); }
DP_INLINE __u64 dp_now(struct dp_ctx *ctx) { return bpf_ktime_get_ns(); }
DP_INLINE __u32 dp_cpu(struct dp_ctx *ctx) { return bpf_get_smp_processor_id(); }
DP_INLINE int dp_adjust_head(struct dp_ctx *ctx, int n) { return bpf_xdp_adjust_head(ctx, n); }
DP_INLINE int dp_cut_tail(struct dp_ctx *ctx, __u32 n) { return bpf_xdp_adjust_tail(ctx, -(int) n); }

#include "dp/seam_raw.h"

#endif /* bpf/seam_xdp.h */
