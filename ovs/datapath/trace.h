/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's part of traced packets (dp/trace.h): lines that say what it did
 * with each, until provider/trace.c takes them; and whole packets, where no
 * program traces: those of packet sockets, and all without flow tables.
 *
 * A thread that handles a traced packet handles no other meanwhile, and says
 * so in 'dpif_xdp_traced'.  What is noted then is about that packet. */
#ifndef DPIF_XDP_TRACE_H
#define DPIF_XDP_TRACE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dp/trace.h"
#include "openvswitch/compiler.h"
#include "openvswitch/list.h"
#include "openvswitch/match.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "ovs/base/locks.h"

struct dp_packet;
struct dpif_xdp_dp;
struct oxdp_trace_filter;

/* Number of the packet that this thread handles, 0 if it is not traced. */
DECLARE_EXTERN_PER_THREAD_DATA(uint32_t, dpif_xdp_traced);

static inline bool
dpif_xdp_is_traced(void)
{
    return OVS_UNLIKELY(*dpif_xdp_traced_get());
}

/* Which packets the engine traces itself. */
enum dpif_xdp_trace_whose {
    DPIF_XDP_TRACE_NONE,
    DPIF_XDP_TRACE_SOCKETS,             /* Of packet sockets. */
    DPIF_XDP_TRACE_ALL,                 /* And of programs: they trace none. */
};

struct dpif_xdp_trace {
    atomic_int whose;                   /* enum dpif_xdp_trace_whose. */
    atomic_uint32_t every;              /* Looks at one packet in so many. */
    struct ovs_mutex mutex;             /* dpif_xdp_trace_mutex. */
    struct ovs_list lines               /* Of struct dpif_xdp_trace_line. */
        OVS_GUARDED_BY(dpif_xdp_trace_mutex);
    size_t n OVS_GUARDED_BY(dpif_xdp_trace_mutex);
    uint64_t n_lost                     /* The list was full. */
        OVS_GUARDED_BY(dpif_xdp_trace_mutex);
    struct dpif_xdp_trace_wanted {
        uint32_t in_port;               /* Or OXDP_TRACE_ANY. */
        uint32_t bytes;                 /* Copied of each. */
        struct match match;             /* Which fields. */
    } wanted OVS_GUARDED_BY(dpif_xdp_trace_mutex);
    struct ovs_list packets             /* struct dpif_xdp_trace_packet. */
        OVS_GUARDED_BY(dpif_xdp_trace_mutex);
    size_t n_packets OVS_GUARDED_BY(dpif_xdp_trace_mutex);
    uint32_t last OVS_GUARDED_BY(dpif_xdp_trace_mutex);     /* Packet. */
    struct dpif_xdp_trace_counts {      /* Of packets, since it began. */
        uint64_t looked_at;
        uint64_t matched;
        uint64_t lost;                  /* There was no room. */
    } counts OVS_GUARDED_BY(dpif_xdp_trace_mutex);
};

/* A traced packet. */
struct dpif_xdp_trace_packet {
    struct ovs_list node;
    struct ovs_list lines;              /* Of the engine: struct
                                         * dpif_xdp_trace_line. */
    long long int seen;                 /* Monotonic ms. */
    bool dropped;                       /* By the engine. */
    bool by_engine;                     /* Traced, and not by a program. */
    bool from_socket;                   /* A packet socket received it. */
    struct dp_traced traced;            /* As long as its bytes. */
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

/* Memory for a packet of which 'captured' bytes are copied, without lines. */
struct dpif_xdp_trace_packet *dpif_xdp_trace_packet_new(uint32_t captured);

/* Has the engine trace packets of 'whose' that 'filter' and 'match' want, and
 * forget what it has; until that is DPIF_XDP_TRACE_NONE, with both NULL. */
void dpif_xdp_trace_engine(struct dpif_xdp_dp *, enum dpif_xdp_trace_whose,
                           const struct oxdp_trace_filter *filter,
                           const struct match *match);

/* Moves the packets that the engine traced to the end of 'packets', with what
 * it has counted since the trace began in '*counts'.  Returns how many. */
size_t dpif_xdp_trace_take_packets(struct dpif_xdp_dp *,
                                   struct ovs_list *packets,
                                   struct dpif_xdp_trace_counts *counts);

/* Whether the engine traces packets like those that have just been received:
 * 'from_socket', a packet socket has them. */
static inline bool
dpif_xdp_trace_is_on(struct dpif_xdp_trace *trace, bool from_socket)
{
    int whose;

    atomic_read_relaxed(&trace->whose, &whose);
    return OVS_UNLIKELY(whose) && (from_socket
                                   || whose == DPIF_XDP_TRACE_ALL);
}

/* Traces 'packet', which a thread has received, with its metadata set, if it
 * is wanted: returns its number, or 0. */
uint32_t dpif_xdp_trace_look(struct dpif_xdp_dp *, struct dp_packet *packet,
                             bool from_socket);

#endif /* ovs/datapath/trace.h */
