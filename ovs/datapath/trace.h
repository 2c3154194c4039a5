/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's part of traced packets (dp/trace.h): lines that say what it did
 * with each, until provider/trace.c takes them.
 *
 * A thread that handles a traced packet handles no other meanwhile, and says
 * so in 'dpif_xdp_traced'.  What is noted then is about that packet. */
#ifndef DPIF_XDP_TRACE_H
#define DPIF_XDP_TRACE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openvswitch/compiler.h"
#include "openvswitch/list.h"
#include "ovs-thread.h"
#include "ovs/base/locks.h"

struct dpif_xdp_dp;

/* Number of the packet that this thread handles, 0 if it is not traced. */
DECLARE_EXTERN_PER_THREAD_DATA(uint32_t, dpif_xdp_traced);

static inline bool
dpif_xdp_is_traced(void)
{
    return OVS_UNLIKELY(*dpif_xdp_traced_get());
}

struct dpif_xdp_trace {
    struct ovs_mutex mutex;             /* dpif_xdp_trace_mutex. */
    struct ovs_list lines               /* Of struct dpif_xdp_trace_line. */
        OVS_GUARDED_BY(dpif_xdp_trace_mutex);
    size_t n OVS_GUARDED_BY(dpif_xdp_trace_mutex);
    uint64_t n_lost                     /* The list was full. */
        OVS_GUARDED_BY(dpif_xdp_trace_mutex);
};

struct dpif_xdp_trace_line {
    struct ovs_list node;
    uint32_t id;                        /* Of the packet. */
    bool dropped;                       /* It ended so. */
    char *text;
};

void dpif_xdp_trace_init(struct dpif_xdp_trace *);
void dpif_xdp_trace_destroy(struct dpif_xdp_trace *);

/* Notes a line about the packet that this thread handles; dropped: the line
 * says why it ends there.  Any thread. */
void dpif_xdp_trace_note(struct dpif_xdp_dp *, const char *format, ...)
    OVS_PRINTF_FORMAT(2, 3);
void dpif_xdp_trace_note_drop(struct dpif_xdp_dp *, const char *why);

/* Moves all lines to the end of 'lines', and returns how many were lost since
 * the last call. */
uint64_t dpif_xdp_trace_take(struct dpif_xdp_dp *, struct ovs_list *lines);
void dpif_xdp_trace_line_free(struct dpif_xdp_trace_line *);

#endif /* ovs/datapath/trace.h */
