/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The datapath on XDP without a switch around it, for BPF_PROG_TEST_RUN: the tests set the tables and read what
 * became of the frame. */
#include "bpf/seam_xdp.h"
#include "dp/pipeline.h"

#include "bpf/run.h"

char LICENSE[] SEC("license") = "GPL";

/* Datapath port that frames arrive on. */
__u32 in_port = 7;

/* How often each verdict was the outcome.  Not exact if several CPUs run at once. */
__u64 n_verdicts[DP_VERDICT_UP + 1];

/* Where the last frame was sent: a port or a group.  A map of its own. */
__u32 last_port SEC(".data.last_port");

SEC("xdp")
int empty(struct xdp_md *ctx)
{
    return XDP_PASS;
}

SEC("xdp")
int pipeline(struct xdp_md *ctx)
{
    struct dp_run *run = run_here(ctx);

    if (!run) {
        return XDP_ABORTED;
    }
    run->frame.local_stack = 0;

    __u32 to = 0;
    enum dp_verdict v = dp_pipeline(ctx, in_port, run, &to);

    n_verdicts[v]++;
    if (v == DP_VERDICT_OUTPUT || v == DP_VERDICT_GROUP) {
        last_port = to;
        if (!DP_OMITS(ctx, DP_PART_OPS) && run->frame.cut) {
            dp_cut_tail(ctx, run->frame.cut);
        }
        return XDP_TX;
    }
    return v == DP_VERDICT_DROP ? XDP_DROP : XDP_PASS;
}
