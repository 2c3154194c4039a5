/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetches for ofproto's revalidators.
 *
 * What they read of a flow that a dump gives them lies in memory of ofproto's:
 * a hash table and its bucket, what it remembers of the flow ("ukey"), and the
 * list of what its packets count for ("xlate cache").  Each waits for the one
 * before, flow after flow.  So a flow has the addresses where a revalidator
 * found them last, and all is prefetched some flows before it is met again.
 *
 * These addresses are never read from: one that is out of date, or of another
 * flow, costs time and nothing else.
 *
 * What is used of the insides of ofproto/ofproto-dpif-upcall.c: a revalidator
 * goes through the flows of a batch in their order, looks for each one's ukey,
 * tries its lock, and may push statistics.  Of lib/cmap.c: buckets are one
 * cache line each, behind a first one. */
#include <config.h>

#include "ovs/flows/flows.h"

#include "cmap.h"
#include "util.h"

#define CMAP_K (sizeof(void *) == 8 ? 5 : 7)    /* As in lib/cmap.c. */

/* So many flows before it is met, a flow is prefetched.  All of a batch at
 * once is more than a CPU waits for at the same time. */
#define DISTANCE 6

/* Of this thread: the flows that it got last, to be met in this order; the
 * one that it works on, or NULL. */
static __thread struct dpif_xdp_flow *given[DPIF_XDP_DUMP_BATCH];
static __thread int n_given;
static __thread int n_met;
static __thread struct dpif_xdp_flow *met;

/* Inline, always: GCC 12 takes a function that only prefetches for one that
 * does nothing, and leaves out its calls. */
static inline __attribute__((always_inline)) void
prefetch(const void *p, ptrdiff_t from, ptrdiff_t to)
{
    const char *bytes = p;

    for (ptrdiff_t i = from; p && i < to; i += CACHE_LINE_SIZE) {
        OVS_PREFETCH_WRITE(bytes + i);
    }
}

static inline __attribute__((always_inline)) void
prefetch_all(const struct dpif_xdp_flow_ahead *ahead)
{
    prefetch(ahead->cmap, 0, CACHE_LINE_SIZE);
    prefetch(ahead->impl, 0, CACHE_LINE_SIZE);
    prefetch(ahead->bucket, 0, CACHE_LINE_SIZE);
    prefetch(ahead->lock, -CACHE_LINE_SIZE, 3 * CACHE_LINE_SIZE);
    prefetch(ahead->xcache, 0, CACHE_LINE_SIZE);
    prefetch(ahead->entries, 0, 3 * CACHE_LINE_SIZE);
}

void
dpif_xdp_ahead_give(struct dpif_xdp_flow *flows[], int n)
{
    for (int i = 0; i < n; i++) {
        given[i] = flows[i];
        if (i < DISTANCE) {
            prefetch_all(&flows[i]->ahead);
        }
    }
    n_given = n;
    n_met = 0;
    met = NULL;
}

void
dpif_xdp_ahead_note_find(const struct cmap *cmap, uint32_t hash)
{
    const char *impl;
    uint32_t bucket;

    if (n_met == n_given) {
        met = NULL;
        return;
    }
    if (n_met + DISTANCE < n_given) {
        prefetch_all(&given[n_met + DISTANCE]->ahead);
    }
    met = given[n_met++];
    impl = (const char *) ovsrcu_get(struct cmap_impl *, &cmap->impl);
    bucket = cmap_find_index(cmap, hash) / CMAP_K;
    met->ahead.cmap = cmap;
    met->ahead.impl = impl;
    met->ahead.bucket = impl + (1 + (size_t) bucket) * CACHE_LINE_SIZE;
}

void
dpif_xdp_ahead_note_lock(const void *lock)
{
    if (met) {
        met->ahead.lock = lock;
    }
}

void
dpif_xdp_ahead_note_push(const void *xcache, const void *entries)
{
    if (met) {
        met->ahead.xcache = xcache;
        met->ahead.entries = entries;
        met = NULL;
    }
}
