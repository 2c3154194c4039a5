/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/datapath/trace.h"

#include <sched.h>
#include <stdarg.h>
#include <time.h>

#include "core/programs/trace.h"
#include "dp-packet.h"
#include "dp/reason.h"
#include "dp/table.h"
#include "flow.h"
#include "ovs/datapath/datapath.h"
#include "timeval.h"
#include "util.h"

#define MAX_LINES 8192                  /* That wait. */
#define MAX_PACKETS 1000                /* The same. */
#define ENGINE_NUMBERS 0x80000000       /* Programs count from 1. */

DEFINE_EXTERN_PER_THREAD_DATA(dpif_xdp_traced, 0);

/* Packets until the next that this thread looks at. */
DEFINE_STATIC_PER_THREAD_DATA(uint32_t, countdown, 0);

static void
trace_lock(struct dpif_xdp_trace *trace)
    OVS_ACQUIRES(dpif_xdp_trace_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_lock(&trace->mutex);
}

static void
trace_unlock(struct dpif_xdp_trace *trace)
    OVS_RELEASES(dpif_xdp_trace_mutex)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    ovs_mutex_unlock(&trace->mutex);
}

void
dpif_xdp_trace_init(struct dpif_xdp_trace *trace)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared yet. */
{
    ovs_mutex_init(&trace->mutex);
    ovs_list_init(&trace->lines);
    ovs_list_init(&trace->packets);
    atomic_init(&trace->whose, DPIF_XDP_TRACE_NONE);
    atomic_init(&trace->every, 0);
}

static void
free_packets(struct dpif_xdp_trace *trace)
    OVS_REQUIRES(dpif_xdp_trace_mutex)
{
    struct dpif_xdp_trace_packet *packet;

    LIST_FOR_EACH_POP (packet, node, &trace->packets) {
        free(packet);
    }
    trace->n_packets = 0;
}

void
dpif_xdp_trace_destroy(struct dpif_xdp_trace *trace)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared any more. */
{
    struct dpif_xdp_trace_line *line;

    LIST_FOR_EACH_POP (line, node, &trace->lines) {
        dpif_xdp_trace_line_free(line);
    }
    free_packets(trace);
    ovs_mutex_destroy(&trace->mutex);
}

/* Takes 'text'. */
static void
add(struct dpif_xdp_trace *trace, char *text, bool dropped)
{
    struct dpif_xdp_trace_line *line = xmalloc(sizeof *line);

    line->id = *dpif_xdp_traced_get();
    line->dropped = dropped;
    line->text = text;
    trace_lock(trace);
    if (trace->n < MAX_LINES) {
        ovs_list_push_back(&trace->lines, &line->node);
        trace->n++;
        line = NULL;
    } else {
        trace->n_lost++;
    }
    trace_unlock(trace);
    if (line) {
        dpif_xdp_trace_line_free(line);
    }
}

void
dpif_xdp_trace_note(struct dpif_xdp_dp *dp, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(&dp->trace, xvasprintf(format, args), false);
    va_end(args);
}

void
dpif_xdp_trace_note_drop(struct dpif_xdp_dp *dp, const char *why)
{
    add(&dp->trace, xasprintf("dropped: %s", why), true);
}

uint64_t
dpif_xdp_trace_take(struct dpif_xdp_dp *dp, struct ovs_list *lines)
{
    struct dpif_xdp_trace *trace = &dp->trace;
    uint64_t n_lost;

    trace_lock(trace);
    ovs_list_push_back_all(lines, &trace->lines);
    n_lost = trace->n_lost;
    trace->n = 0;
    trace->n_lost = 0;
    trace_unlock(trace);
    return n_lost;
}

void
dpif_xdp_trace_line_free(struct dpif_xdp_trace_line *line)
{
    free(line->text);
    free(line);
}

struct dpif_xdp_trace_packet *
dpif_xdp_trace_packet_new(uint32_t captured)
{
    struct dpif_xdp_trace_packet *packet
        = xzalloc(offsetof(struct dpif_xdp_trace_packet, traced.bytes)
                  + captured);

    ovs_list_init(&packet->lines);
    packet->seen = time_msec();
    packet->traced.captured = captured;
    return packet;
}

void
dpif_xdp_trace_engine(struct dpif_xdp_dp *dp, enum dpif_xdp_trace_whose whose,
                      const struct oxdp_trace_filter *filter,
                      const struct match *match)
{
    struct dpif_xdp_trace *trace = &dp->trace;

    trace_lock(trace);
    if (filter) {
        free_packets(trace);
        trace->wanted.in_port = filter->in_port;
        trace->wanted.bytes = filter->bytes;
        trace->wanted.match = *match;
        memset(&trace->counts, 0, sizeof trace->counts);
        atomic_store_relaxed(&trace->every, filter->every);
    }
    atomic_store_relaxed(&trace->whose, whose);
    trace_unlock(trace);
}

size_t
dpif_xdp_trace_take_packets(struct dpif_xdp_dp *dp, struct ovs_list *packets,
                            struct dpif_xdp_trace_counts *counts)
{
    struct dpif_xdp_trace *trace = &dp->trace;
    size_t n;

    trace_lock(trace);
    ovs_list_push_back_all(packets, &trace->packets);
    n = trace->n_packets;
    trace->n_packets = 0;
    *counts = trace->counts;
    trace_unlock(trace);
    return n;
}

/* Whether this packet of the thread is the one in so many. */
static bool
is_next(struct dpif_xdp_trace *trace)
{
    uint32_t *countdown = countdown_get(), every;

    atomic_read_relaxed(&trace->every, &every);
    if (*countdown > every) {
        *countdown = 0;                 /* It is an earlier trace's. */
    }
    if (*countdown && --*countdown) {
        return false;
    }
    *countdown = every;
    return true;
}

static bool
is_wanted(const struct dpif_xdp_trace *trace, const struct flow *flow)
    OVS_REQUIRES(dpif_xdp_trace_mutex)
{
    const struct match *match = &trace->wanted.match;

    return ((trace->wanted.in_port == OXDP_TRACE_ANY
             || trace->wanted.in_port == odp_to_u32(flow->in_port.odp_port))
            && flow_equal_except(flow, &match->flow, &match->wc));
}

/* Copies 'packet' as a program does. */
static struct dpif_xdp_trace_packet *
copy(const struct dp_packet *packet, uint32_t bytes)
{
    struct dpif_xdp_trace_packet *copied
        = dpif_xdp_trace_packet_new(MIN(dp_packet_size(packet), bytes));
    struct dp_traced *traced = &copied->traced;
    struct timespec now;

    copied->by_engine = true;
    clock_gettime(CLOCK_MONOTONIC, &now);
    traced->time = now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
    traced->cpu = MAX(sched_getcpu(), 0);
    traced->in_port = odp_to_u32(packet->md.in_port.odp_port);
    traced->length = dp_packet_size(packet);
    traced->reason = DP_REASON_UP_OFF;
    traced->fate = DP_FATE_ENGINE;
    memcpy(traced->bytes, dp_packet_data(packet), traced->captured);
    return copied;
}

uint32_t
dpif_xdp_trace_look(struct dpif_xdp_dp *dp, struct dp_packet *packet,
                    bool from_socket)
{
    struct dpif_xdp_trace *trace = &dp->trace;
    struct flow flow;
    uint32_t id = 0;

    if (!is_next(trace)) {
        return 0;
    }
    flow_extract(packet, &flow);
    trace_lock(trace);
    trace->counts.looked_at++;
    if (is_wanted(trace, &flow)) {
        trace->counts.matched++;
        if (trace->n_packets < MAX_PACKETS) {
            struct dpif_xdp_trace_packet *copied
                = copy(packet, trace->wanted.bytes);

            trace->last = (trace->last + 1) | ENGINE_NUMBERS;
            id = copied->traced.id = trace->last;
            copied->from_socket = from_socket;
            ovs_list_push_back(&trace->packets, &copied->node);
            trace->n_packets++;
        } else {
            trace->counts.lost++;
        }
    }
    trace_unlock(trace);
    return id;
}
