/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The datapath on XDP without a switch around it, for BPF_PROG_TEST_RUN: the tests set the tables and read what
 * became of the frame. */
#include "bpf/seam_xdp.h"

/* Time is what a test says. */
#define DP_CT_NOW(CTX) (call.now)
#include "dp/ct_run.h"
#include "tests/bpf_pipeline/ct_call.h"
#include "tests/bpf_pipeline/talk.h"

struct ct_call call SEC(".data.call");
struct talk talk SEC(".data.talk");

#include "dp/pipeline.h"

#include "bpf/run.h"

char LICENSE[] SEC("license") = "GPL";

/* Datapath port that frames arrive on. */
__u32 in_port = 7;

/* How often each fate was the outcome.  Not exact if several CPUs run at once. */
__u64 n_fates[DP_FATE_ENGINE + 1];

/* Where the last frame was sent: a port or a group.  A map of its own. */
__u32 last_port SEC(".data.last_port");

/* Bytes to take off the start of a frame that is sent, or if negative to lay bare again: so that the next of many runs
 * gets what this one got.  A map of its own. */
__s32 undo SEC(".data.undo");

/* Nobody reads samples here. */
DP_STAGE int dp_sample(struct xdp_md *ctx, struct dp_run *run)
{
    return 0;
}

SEC("xdp")
int empty(struct xdp_md *ctx)
{
    return XDP_PASS;
}

static __always_inline int run_pipeline(struct xdp_md *ctx, __u32 port)
{
    struct dp_run *run = run_here(ctx);

    if (!run) {
        return XDP_ABORTED;
    }
    run->frame.local_stack = 0;

    struct dp_outcome outcome = dp_pipeline(ctx, port, run);

    __u32 fate = outcome.fate;

    DP_OPAQUE(fate);
    if (fate <= DP_FATE_ENGINE) {
        n_fates[fate]++;
    }
    if (outcome.fate == DP_FATE_OUTPUT || outcome.fate == DP_FATE_GROUP) {
        last_port = outcome.to;
        if (undo) {
            bpf_xdp_adjust_head(ctx, undo);
        }
        if (!DP_OMITS(ctx, DP_PART_OPS) && run->frame.cut) {
            dp_cut_tail(ctx, run->frame.cut);
        }
        return XDP_TX;
    }
    return outcome.fate == DP_FATE_DROP ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int pipeline(struct xdp_md *ctx)
{
    return run_pipeline(ctx, in_port);
}

/* The same, of frames over IPv4 that are made here: BPF_PROG_TEST_RUN repeats the one that it was given. */
SEC("xdp")
int many(struct xdp_md *ctx)
{
    __u32 n = talk.next++;
    __u64 changes = dp_csum_change32(0, dp_htonl(n).raw);
    __u8 *ip = dp_at(ctx, DP_ETH_LEN, DP_IP4_LEN + 4);
    __u8 *host = dp_at(ctx, talk.host_ofs & DP_OFS_MASK, 4);
    __u8 *check = dp_at(ctx, talk.check_ofs & DP_OFS_MASK, 2);

    if (!ip || !host || !check) {
        return XDP_ABORTED;
    }
    dp_store64(ip + 12, talk.addr);
    dp_store32(ip + DP_IP4_LEN, talk.ports);
    dp_store32(host, dp_htonl(0x0a000000 + n).raw);
    dp_store16(ip + 10, talk.ip_check);
    dp_csum_apply(ip + 10, changes);
    dp_store16(check, talk.check);
    dp_csum_apply(check, changes);
    return talk.dry ? XDP_PASS : run_pipeline(ctx, talk.in_port);
}

/* One ct() without flows: all of dp/ct_run.h. */
SEC("xdp")
int track(struct xdp_md *ctx)
{
    call.result = dp_ct(ctx, &call.frame, call.v6, &call.action, call.now, &call.run);
    return XDP_PASS;
}
