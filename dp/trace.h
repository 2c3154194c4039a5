/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Traced packets: the way of one frame through the flow tables, as the kernel hands it to the reader.
 *
 * A run is traced if the hook says so (bpf/trace.h).  Each pass then notes here which flow it found and how, and each
 * ct() what it found.  The seam provides
 *
 *     dp_is_traced(ctx, traced)        whether this run is: 'traced' points to the member of struct dp_run
 *     dp_way_of(ctx)                   where its way is noted, or NULL
 */
#ifndef DP_TRACE_H
#define DP_TRACE_H 1

#include "dp/compiler.h"

#define DP_WAY_PASSES 6         /* As many as a frame can make: DP_MAX_PASSES. */

/* Which lookup found the flow of a pass. */
enum dp_found {
    DP_FOUND_NOTHING,
    DP_FOUND_LAST,              /* The last-flow cache, dp/predict.h: the frame was not parsed. */
    DP_FOUND_CACHE,             /* The signature cache, dp/lookup.h. */
    DP_FOUND_MASKS,             /* Tuple space search, there. */
    DP_FOUND_PATH,              /* The path cache, dp/path.h: one lookup for all passes of the frame. */
};

#define DP_WAY_CT 7             /* Of the ct() of a frame, so many are noted. */

struct dp_way {
    __u32 n;                    /* Passes. */
    __u16 masks;                /* Walked until now, and how often they had the flow: struct dp_walked. */
    __u16 hits;
    struct dp_way_pass {
        __u32 flow;             /* DP_NO_FLOW: none matched. */
        __u32 generation;       /* Of that flow. */
        __u16 found;            /* enum dp_found. */
        __u16 masks;            /* Walked in this pass. */
        __u32 has;              /* What parsing found: DP_HAS_*. */
    } pass[DP_WAY_PASSES];
    __u32 n_ct;
    struct dp_way_ct {          /* What a packet's ct() found: as in the key afterwards. */
        __u16 zone;
        __u8 state;
        __u8 pass;              /* The flow of which pass did it. */
    } ct[DP_WAY_CT];
};
_Static_assert(sizeof(struct dp_way) == 136, "way layout");

/* Where a packet was traced. */
enum dp_trace_hook {
    DP_TRACE_XDP,
    DP_TRACE_TCX,
};

#define DP_TRACE_BYTES 1600     /* Copied of a packet at most. */

/* What userspace reads for each packet.  All in host byte order. */
struct dp_traced {
    __u64 time;                 /* CLOCK_MONOTONIC, when it arrived. */
    __u32 id;                   /* Not 0.  Also in the record that the engine gets (dp/record.h). */
    __u32 cpu;
    __u32 in_port;              /* Datapath port. */
    __u32 length;               /* Of the frame as it arrived, with a tag in VLAN acceleration. */
    __u16 captured;             /* Bytes that follow. */
    __u8 hook;                  /* enum dp_trace_hook. */
    __u8 fate;                  /* enum dp_fate. */
    __u32 reason;               /* enum dp_reason. */
    __u32 to;                   /* Port or group, if 'fate' says so. */
    __u32 tag;                  /* The tag in VLAN acceleration, as dp_tag_beside() returns it; it is not among the
                                 * bytes. */
    struct dp_way way;
    __u8 bytes[DP_TRACE_BYTES];
};
_Static_assert(sizeof(struct dp_traced) == 176 + DP_TRACE_BYTES, "traced packet layout");

#endif /* dp/trace.h */
