/* SPDX-License-Identifier: Apache-2.0 */
/* A look for flows that met packets.
 *
 * The programs' counters lie in the order of the tables' entries.  Beside them
 * stands what the last look found, in the same order: where both are equal,
 * programs counted nothing.  What else changes the count of a flow marks the
 * entry: the engine, or that another flow has it. */
#include <config.h>

#include "ovs/fastpath/fastpath_private.h"

#include <limits.h>

#include "core/tables/table.h"
#include "ovs-atomic.h"
#include "util.h"

#define MAX_LOOK 64                     /* Entries. */

/* What the last look at an entry found. */
struct dpif_xdp_seen {
    uint64_t n_packets;
    long long int used;                 /* Of its flow; LLONG_MIN: look at that
                                         * the next time, too. */
};

void
dpif_xdp_fastpath_look_init(struct dpif_xdp_fastpath *fp)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* Not shared yet. */
{
    fp->seen = xcalloc(fp->n_indexes, sizeof *fp->seen);
    fp->marks = xcalloc(fp->n_indexes, sizeof *fp->marks);
    atomic_init(&fp->n_used, 0);
    ovs_list_init(&fp->outside);
}

void
dpif_xdp_fastpath_look_uninit(struct dpif_xdp_fastpath *fp)
{
    free(fp->seen);
    free(fp->marks);
}

/* The order of this and of a look: the engine counts before it reads the
 * mark; a look takes the mark away before it reads counts.  So either the look
 * has the new count, or the mark is set again. */
void
dpif_xdp_fastpath_mark(const struct dpif_xdp_dp *dp,
                       const struct dpif_xdp_flow *flow)
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint32_t index = peek(flow)->index;

    if (fp && index != DP_NO_FLOW) {
        uint8_t mark;

        atomic_read(&fp->marks[index], &mark);
        if (!mark) {
            atomic_store(&fp->marks[index], 1);
        }
    }
}

void
dpif_xdp_fastpath_entered(struct dpif_xdp_fastpath *fp,
                          struct dpif_xdp_flow *flow)
{
    uint32_t n_used;

    atomic_store(&fp->marks[flow->fp.index], 1);
    atomic_read_relaxed(&fp->n_used, &n_used);
    if (flow->fp.index >= n_used) {
        atomic_store_explicit(&fp->n_used, flow->fp.index + 1,
                              memory_order_release);
    }
}

void
dpif_xdp_fastpath_outside(struct dpif_xdp_fastpath *fp,
                          struct dpif_xdp_flow *flow, bool is_outside)
{
    bool was_outside = !ovs_list_is_empty(&flow->fp.outside);

    if (is_outside && !was_outside) {
        ovs_list_push_back(&fp->outside, &flow->fp.outside);
        fp->n_outside++;
    } else if (!is_outside && was_outside) {
        ovs_list_remove(&flow->fp.outside);
        ovs_list_init(&flow->fp.outside);
        fp->n_outside--;
    }
}

uint32_t
dpif_xdp_fastpath_n_entries(const struct dpif_xdp_dp *dp)
{
    uint32_t n = 0;

    if (dp->fastpath) {
        atomic_read_explicit(&dp->fastpath->n_used, &n, memory_order_acquire);
    }
    return n;
}

/* Whether entry 'index' is marked, and no more then. */
static bool
take_mark(struct dpif_xdp_fastpath *fp, uint32_t index)
{
    uint8_t mark;

    atomic_read_relaxed(&fp->marks[index], &mark);
    if (OVS_UNLIKELY(mark)) {
        atomic_and(&fp->marks[index], 0, &mark);
    }
    return mark;
}

/* Keeps those of the 'n' flows that are there, with the entries 'indexes'; not
 * those that only wait until these are reclaimed.  Returns how many. */
static uint32_t
keep_owners(struct dpif_xdp_flow *flows[], const uint32_t indexes[],
            uint32_t n)
{
    uint32_t n_kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        bool deleted;

        atomic_read_relaxed(&flows[i]->deleted, &deleted);
        if (!deleted && peek(flows[i])->index == indexes[i]) {
            flows[n_kept++] = flows[i];
        }
    }
    return n_kept;
}

uint32_t
dpif_xdp_fastpath_look(const struct dpif_xdp_dp *dp, uint32_t first,
                       uint32_t n, long long int since,
                       struct dpif_xdp_flow *flows[])
{
    struct dpif_xdp_fastpath *fp = dp->fastpath;
    uint64_t packets[MAX_LOOK];
    uint32_t indexes[MAX_LOOK];
    uint32_t n_flows = 0;

    ovs_assert(n <= MAX_LOOK);
    oxdp_table_packets_of(fp->table, first, n, packets);
    for (uint32_t i = 0; i < n; i++) {
        struct dpif_xdp_seen *seen = &fp->seen[first + i];
        struct dpif_xdp_flow *flow;

        if (!take_mark(fp, first + i) && packets[i] == seen->n_packets
            && seen->used >= since) {
            continue;
        }
        flow = ovsrcu_get(struct dpif_xdp_flow *, &fp->flows[first + i]);
        if (flow) {
            dpif_xdp_flow_prefetch(flow);
            seen->n_packets = packets[i];
            indexes[n_flows] = first + i;
            flows[n_flows++] = flow;
        }
    }
    return keep_owners(flows, indexes, n_flows);
}

void
dpif_xdp_fastpath_note_used(const struct dpif_xdp_dp *dp,
                            const struct dpif_xdp_flow *flow,
                            long long int used)
{
    const struct dpif_xdp_fastpath_flow *own = peek(flow);
    uint32_t index = own->index;

    /* Nothing marks an entry when the count of one before is added. */
    if (dp->fastpath && index != DP_NO_FLOW) {
        dp->fastpath->seen[index].used
            = own->old_index == DP_NO_FLOW && used ? used : LLONG_MIN;
    }
}

size_t
dpif_xdp_fastpath_list_outside(const struct dpif_xdp_dp *dp,
                               struct dpif_xdp_flow *flows[], size_t max)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    struct dpif_xdp_flow *flow;
    size_t n = 0;

    if (!fp || fp->n_outside > max) {
        return SIZE_MAX;
    }
    LIST_FOR_EACH (flow, fp.outside, &fp->outside) {
        flows[n++] = flow;
    }
    return n;
}
