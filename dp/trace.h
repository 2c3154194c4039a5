/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Traced packets: the way of one frame through the flow tables, as the kernel hands it to the reader.
 *
 * A run is traced if the hook says so (bpf/trace.h).  Each pass then notes here which flow it found and how.  The seam
 * provides
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
};

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
};
_Static_assert(sizeof(struct dp_way) == 104, "way layout");

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
_Static_assert(sizeof(struct dp_traced) == 144 + DP_TRACE_BYTES, "traced packet layout");

#endif /* dp/trace.h */
