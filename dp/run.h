/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* One packet's run through the pipeline, and how it ends (dp/pipeline.h). */
#ifndef DP_RUN_H
#define DP_RUN_H 1

#include "dp/ct_op.h"
#include "dp/frame.h"
#include "dp/key.h"
#include "dp/lookup.h"
#include "dp/path_learn.h"
#include "dp/trace.h"

#define DP_MAX_PASSES 6         /* As many recirculations as Open vSwitch's userspace datapath allows, and one. */
#define DP_MAX_STEPS (DP_MAX_PASSES * (1 + DP_MAX_CT))  /* Passes and what CT makes of each. */
_Static_assert(DP_MAX_PASSES == DP_WAY_PASSES && DP_PATH_FLOWS <= DP_WAY_PASSES,
               "a traced packet's way has room for all passes");

/* How a run ended. */
struct dp_outcome {
    __u32 fate;                 /* enum dp_fate: any but DP_FATE_RECIRC, DP_FATE_SKB alone; or DP_FATE_DETOUR. */
    __u32 reason;               /* enum dp_reason: DP_REASON_FORWARDED, of a drop, of an upcall. */
    __u32 to;                   /* Port or group. */
};

struct dp_run {
    union dp_key key;           /* Of the last pass. */
    __u32 arrived;              /* For the hook: bytes of the frame as it arrived. */
    __u32 traced;               /* For the hook: number of the traced packet, or 0. */
    struct dp_frame frame;      /* Its local_stack is set by the caller, and 0 after recirculation. */
    __u32 flow;                 /* DP_FATE_ENGINE: the flow that matched, or DP_NO_FLOW. */
    __u32 generation;           /* Of that flow. */
    struct dp_ct_here ct;
    __u32 len;                  /* DP_FATE_TRACK, DP_FATE_DETOUR: bytes to count, */
    __u32 tcp_flags;            /* flags, */
    __u32 at;                   /* and which of the flow's operations comes next. */
    __u32 reason;               /* Of the outcome, unless that is DP_FATE_OUTPUT or DP_FATE_GROUP.  In memory: the
                                 * verifier follows each value of a register as a state of its own. */
    union {
        struct {
            __u16 passes;       /* Flows executed before the outcome: the frame may have changed if not 0, */
            __u16 tracked;      /* or if the last one's operations before so many-th CT are done, from 0 on; and
                                 * DP_TRACKED_SAMPLE. */
            struct dp_walked walked;    /* Of all passes. */
        };
        __u64 uncommon;         /* 0: it was one hit in the signature cache. */
    };
    __u32 fate;                 /* For the hook, of a traced packet: those of the flow that was found last, */
    __u32 to;                   /* but DP_FATE_SKB if it is left to another hook. */
    __u32 n_ct;                 /* With CT: how many were done, but for those of the path cache. */
    struct dp_path_walk path;   /* With CT. */
};

#endif /* dp/run.h */
