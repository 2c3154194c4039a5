/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing packets: programs copy some of those that pass, with the way that each took (dp/trace.h), into a ring.
 *
 * One trace at a time.  Control thread. */
#ifndef OXDP_TRACE_H
#define OXDP_TRACE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dp/key.h"
#include "dp/trace.h"

struct oxdp_progs;

#define OXDP_TRACE_ANY UINT32_MAX

/* Which packets.  A countdown on each CPU comes first: the others are not looked at. */
struct oxdp_trace_filter {
    uint32_t every;             /* Looks at one packet in 'every', at least 1. */
    uint32_t bytes;             /* Copied of each: 1 to DP_TRACE_BYTES. */
    uint32_t in_port;           /* Datapath port that it arrives on, or OXDP_TRACE_ANY. */
    uint32_t flow;              /* Index of a flow that it matches, or OXDP_TRACE_ANY. */
    uint64_t reasons;           /* Bits of enum dp_reason: how the program ends with it. */
    bool has_key;               /* It must match 'key' under 'mask', as it arrives. */
    union dp_key key;           /* Masked. */
    union dp_key mask;
};

/* Whether programs can trace: they have flow tables. */
bool oxdp_trace_is_possible(const struct oxdp_progs *progs);

/* Has programs trace the packets that 'filter' wants.  At XDP complete programs run until one is loaded that can do
 * just that and what flows need; for tcx a thread loads another program: see oxdp_trace_go_on().  0; -EBUSY if there is
 * a trace already; -EOPNOTSUPP without flow tables; or another negative errno.  With a sentence in '*ret_error'
 * (malloc'd). */
int oxdp_trace_start(struct oxdp_progs *progs, const struct oxdp_trace_filter *filter, char **ret_error);

/* Call it often while there is a trace: gives ports at tcx the program that traces, when it is loaded.  0: they have
 * it, or there are none; -EAGAIN: it is being loaded; or another negative errno with a sentence in '*ret_error'
 * (malloc'd): packets at tcx are not traced. */
int oxdp_trace_go_on(struct oxdp_progs *progs, char **ret_error);

/* Ends it.  Programs without that follow within seconds.  Does nothing if there is none. */
void oxdp_trace_stop(struct oxdp_progs *progs);

/* Follows a flow that has another index now. */
void oxdp_trace_set_flow(struct oxdp_progs *progs, uint32_t flow);

/* Calls 'each' for packets that were traced, at most 'max', and forgets them.  'traced' has its 'captured' bytes.
 * Returns how many. */
typedef void oxdp_trace_fn(const struct dp_traced *traced, void *aux);
size_t oxdp_trace_read(struct oxdp_progs *progs, size_t max, oxdp_trace_fn *each, void *aux);

/* Since the trace began. */
struct oxdp_trace_counts {
    uint64_t looked_at;
    uint64_t matched;
    uint64_t lost;              /* They matched, and the ring was full. */
};
struct oxdp_trace_counts oxdp_trace_counts(const struct oxdp_progs *progs);

#endif /* core/programs/trace.h */
