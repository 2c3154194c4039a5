/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/datapath/trace.h"

#include <stdarg.h>

#include "ovs/datapath/datapath.h"
#include "util.h"

#define MAX_LINES 8192                  /* That wait. */

DEFINE_EXTERN_PER_THREAD_DATA(dpif_xdp_traced, 0);

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
}

void
dpif_xdp_trace_destroy(struct dpif_xdp_trace *trace)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared any more. */
{
    struct dpif_xdp_trace_line *line;

    LIST_FOR_EACH_POP (line, node, &trace->lines) {
        dpif_xdp_trace_line_free(line);
    }
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
