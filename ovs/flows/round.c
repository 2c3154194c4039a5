/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of ofproto's revalidators: complete or quiet.
 *
 * Twice a second they dump all flows, tersely, and then sweep over all that
 * ofproto remembers of flows ("ukeys").  Both wait for memory, flow after
 * flow.  But of a flow without packets since the last dump ofproto learns
 * nothing, and a sweep only finds what it has to do
 *
 *   - where flows must be revalidated, because rules, ports or routes changed
 *     (udpif_revalidate());
 *   - for flows that were deleted, or that could not be changed;
 *   - for flows that were deleted without ofproto, which from 3.3 on forgets
 *     a flow after MISSED complete dumps without it.
 *
 * So a round without these is quiet: its dump leaves out flows without new
 * packets that are not to expire yet, and there is no sweep.  In all others
 * the dump is complete, and the sweep follows: it never finds a flow
 * undumped that a quiet dump has left out.
 *
 * What is used of the insides of ofproto/ofproto-dpif-upcall.c: a dump and
 * its sweep run in the same thread, and the sweep begins each of its maps
 * with cmap_cursor_start(). */
#include <config.h>

#include "ovs/flows/flows.h"

#include <limits.h>

#include "coverage.h"
#include "ofproto/ofproto-provider.h"
#include "ovs-atomic.h"
#include "ovs/fastpath/fastpath.h"
#include "timeval.h"

COVERAGE_DEFINE(xdp_round_complete);
COVERAGE_DEFINE(xdp_round_quiet);

/* With fewer flows, every round is complete: it takes a millisecond. */
#define MIN_FLOWS 4096

/* ms between complete rounds: at most; after flows have expired. */
#define REST 10000
#define REST_OF_EXPIRED 2000

#define MISSED 4

/* Of the flows, as a part: so many more, or so many expired, are reason for a
 * complete round. */
#define MANY 16

/* Batches of flows that ofproto dumped while there were as many as it allows:
 * COVERAGE_DEFINE() in ofproto/ofproto-dpif-upcall.c makes it. */
extern struct coverage_counter counter_upcall_flow_limit_hit;

/* Revalidations that were asked for, ever. */
static atomic_uint n_wanted = ATOMIC_VAR_INIT(0);

/* Of this thread: it revalidates; its round is quiet. */
static __thread bool revalidates;
static __thread bool quiet;

void
dpif_xdp_round_want(void)
{
    unsigned int orig;

    atomic_add(&n_wanted, 1, &orig);
}

/* Whether ofproto was asked to revalidate since the last call. */
static bool
is_wanted(struct dpif_xdp_dp_rounds *rounds)
{
    unsigned int before = rounds->n_wanted;

    atomic_read(&n_wanted, &rounds->n_wanted);
    return rounds->n_wanted != before;
}

/* Whether there were, in the last seconds, as many flows as ofproto allows: it
 * then lets them expire within 100 ms.  Its threads publish what they counted
 * once a second. */
static bool
is_limited(struct dpif_xdp_dp_rounds *rounds, long long int now)
{
    const volatile unsigned long long int *total
        = &counter_upcall_flow_limit_hit.total;

    if (*total != rounds->n_limited) {
        rounds->n_limited = *total;
        rounds->limited = now;
    }
    return now < rounds->limited + REST_OF_EXPIRED;
}

bool
dpif_xdp_round_begin(struct dpif_xdp_dp *dp)
{
    struct dpif_xdp_dp_rounds *rounds = &dp->rounds;
    uint32_t n_flows = dpif_xdp_flows_n(&dp->flows);
    long long int now = time_msec();
    uint32_t n_expired;
    bool disturbed;
    bool complete;

    atomic_read_relaxed(&rounds->disturbed, &disturbed);
    atomic_read_relaxed(&rounds->n_expired, &n_expired);
    if (disturbed) {
        rounds->n_due = MISSED + 1;
        atomic_store_relaxed(&rounds->disturbed, false);
    }

    complete = is_wanted(rounds);
    complete |= is_limited(rounds, now);
    complete |= rounds->n_due > 0;
    complete |= n_flows < MIN_FLOWS;
    complete |= n_flows > rounds->n_flows + rounds->n_flows / MANY;
    complete |= n_expired > n_flows / MANY;
    complete |= now >= rounds->last + (n_expired ? REST_OF_EXPIRED : REST);
    if (complete) {
        rounds->n_flows = n_flows;
        rounds->last = now;
        rounds->n_due -= rounds->n_due > 0;
        atomic_store_relaxed(&rounds->n_expired, 0);
        COVERAGE_INC(xdp_round_complete);
    } else {
        COVERAGE_INC(xdp_round_quiet);
    }
    return !complete;
}

void
dpif_xdp_round_join(bool quiet_)
{
    revalidates = true;
    quiet = quiet_;
}

void
dpif_xdp_round_leave(void)
{
    quiet = false;
}

bool
dpif_xdp_round_is_quiet(void)
{
    return quiet;
}

bool
dpif_xdp_round_omits(const struct dpif_xdp_dp *dp,
                     const struct dpif_xdp_flow *flow_, long long int now)
{
    struct dpif_xdp_flow *flow = CONST_CAST(struct dpif_xdp_flow *, flow_);
    uint64_t engine, programs;

    atomic_read_relaxed(&flow->n_packets, &engine);
    return (dpif_xdp_fastpath_n_packets(dp, flow, &programs)
            && engine + programs == flow->n_dumped
            && flow->used_dumped
            && flow->used_dumped >= now - ofproto_max_idle);
}

void
dpif_xdp_round_note_dumped(const struct dpif_xdp_dp *dp,
                           struct dpif_xdp_flow *flow,
                           const struct dpif_flow_stats *stats)
{
    flow->n_dumped = stats->n_packets;
    flow->used_dumped = stats->used;
    dpif_xdp_fastpath_note_used(dp, flow, stats->used);
}

void
dpif_xdp_round_note_deleted(struct dpif_xdp_dp *dp, uint32_t n)
{
    if (revalidates) {
        uint32_t orig;

        atomic_add_relaxed(&dp->rounds.n_expired, n, &orig);
    } else if (n) {
        dpif_xdp_round_disturb(dp);
    }
}

void
dpif_xdp_round_disturb(struct dpif_xdp_dp *dp)
{
    atomic_store_relaxed(&dp->rounds.disturbed, true);
}
