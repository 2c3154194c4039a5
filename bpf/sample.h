/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* How samples get to userspace (dp/sample.h).  Include bpf/port.h first. */
#ifndef BPF_SAMPLE_H
#define BPF_SAMPLE_H 1

#include "bpf/port.h"

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, BPF_SAMPLE_RING);
} samples SEC(".maps");

/* Fills 'out' but for the packet's bytes. */
static __always_inline void fill_sample(struct dp_ctx *ctx, struct dp_sampled *out, struct dp_run *run)
{
    __u32 parts = (DP_TAKES_SKBS || !DP_OMITS_POPS(ctx) ? DP_RECORD_TUNNEL : 0)
        | (!DP_OMITS_OP(ctx, DP_OP_CT) && run->key.ct_state ? DP_RECORD_CT : 0);

    out->length = dp_len(ctx);
    out->tag = dp_tag_beside(ctx);
    out->pad = 0;
    fill_record(ctx, &out->record, run->key.in_port, run, 0, parts);
    if (parts & DP_RECORD_TUNNEL) {
        fill_record_tunnel(out->tunnel, run);
    }
    if (parts & DP_RECORD_CT) {
        fill_record_ct(&out->ct, run);
    }
}

DP_STAGE int dp_sample(struct dp_ctx *ctx, struct dp_run *run)
{
    struct bpf_run_room *room = dp_runs_at(ctx, dp_cpu(ctx));
    struct dp_sampled *out;
    __u64 n = dp_len(ctx);

    if (DP_OMITS_OP(ctx, DP_OP_SAMPLE) || !run || !room) {
        return 0;
    }
    out = bpf_ringbuf_reserve(&samples, sizeof *out, 0);
    if (!out) {
        room->lost_samples++;
        return 0;
    }
    if (n > DP_SAMPLE_BYTES) {
        n = DP_SAMPLE_BYTES;
    }
    n--;                        /* Linux 6.1 does not learn from a comparison with 0. */
    DP_OPAQUE(n);
    if (n >= DP_SAMPLE_BYTES || dp_copy_out(ctx, out->bytes, n + 1)) {
        bpf_ringbuf_discard(out, 0);
        return 0;
    }
    out->captured = n + 1;
    fill_sample(ctx, out, run);
    bpf_ringbuf_submit(out, 0);
    return 0;
}

#endif /* bpf/sample.h */
