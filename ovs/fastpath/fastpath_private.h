/* SPDX-License-Identifier: Apache-2.0 */
/* What fastpath.c, refresh.c and show.c share. */
#ifndef DPIF_XDP_FASTPATH_PRIVATE_H
#define DPIF_XDP_FASTPATH_PRIVATE_H 1

#include "ovs/fastpath/fastpath.h"

#include "core/tables/table.h"
#include "dp/table.h"
#include "ovs/fastpath/compile.h"
#include "ovs/datapath/datapath.h"
#include "ovs/netdev/netdev_xdp.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"

#define TEXT_OF(NUMBER) TEXT_OF_(NUMBER)
#define TEXT_OF_(NUMBER) #NUMBER

/* Why the engine runs a flow: what the compiler says, and more.  X() as
 * there. */
#define DPIF_XDP_FASTPATH_REASONS(X)                                        \
    DPIF_XDP_COMPILE_REASONS(X)                                             \
    X(PORT,  "outputs to a port that programs cannot send to",              \
      "xdp/show has redirect-target=no or no tcx-output for that port: put " \
      "the port that the flow matches on the same hook, or both on both")   \
    X(BARE,  "comes in by a program without flow tables",                   \
      "the port's error says why the kernel does not take the complete "    \
      "program: when it does, that comes by itself")                        \
    X(BUFFERS, "comes in frames of several buffers, which its output port " \
      "does not take",                                                      \
      "set options:xdp-hook=both or tcx on the port that the flow matches, " \
      "or lower its MTU to 1,500")                                          \
    X(METER, "uses a meter beyond those that programs have",                \
      "use fewer meters, or lower numbers")                                 \
    X(PAIR,  "gives connections a mark or label for which there is no room", \
      "raise other_config:xdp-ct-max")                                      \
    X(GROUP, "outputs to a set of ports beyond those that programs have",   \
      "output to fewer different sets of ports, or set "                    \
      "options:xdp-hook=tcx, which needs no sets")                          \
    X(FULL,  "found the tables full",                                       \
      "raise other_config:xdp-flows")                                       \
    X(MASKS, "more than " TEXT_OF(DP_MAX_MASKS) " masks",                   \
      "have OpenFlow rules match fewer different sets of fields: "          \
      "xdp/dump-masks names those that are used")                           \
    X(WORDS, "matches more fields at once than fit",                        \
      "have OpenFlow rules match fewer fields at once")

enum dpif_xdp_fastpath_reason {
#define X(NAME, TEXT, CHANGE) REASON_##NAME,
    DPIF_XDP_FASTPATH_REASONS(X)
#undef X
    N_REASONS
};

/* Reasons that a "drop" action may have: enum xlate_error. */
#define MAX_DROP_REASONS 32

struct dpif_xdp_fastpath {
    struct dpif_xdp_dp *dp;
    struct oxdp_progs *progs;
    struct oxdp_table *table;
    struct oxdp_ticks *ticks;           /* Changes as statistics do. */
    size_t n_indexes;
    OVSRCU_TYPE(struct dpif_xdp_flow *) *flows;     /* By index. */
    uint32_t *older;                    /* By index of an entry that was
                                         * replaced: plus 1, the one before. */

    /* look.c: by index, of one look at a time; whatever 'seen' says, the flow
     * must be looked at. */
    struct dpif_xdp_seen *seen;
    atomic_uint8_t *marks;
    atomic_uint32_t n_used;             /* One more than the highest index
                                         * that was ever used. */
    struct ovs_list outside             /* Flows without an entry: 'outside'
                                         * of struct dpif_xdp_fastpath_flow. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    size_t n_outside OVS_GUARDED_BY(dpif_xdp_flow_mutex);

    /* Readers of statistics try again when this changed or is odd: it covers
     * moving counts from the tables to the flow. */
    atomic_uint32_t stats_seq;

    struct ovs_mutex reclaim_mutex;      /* dpif_xdp_reclaim_mutex. */
    size_t n_unlinked OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint64_t n_reasons[N_REASONS]       /* Flows now in the datapath, ... */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint64_t n_left_to_tcx              /* ... of which XDP leaves some. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    bool tcx_in_use                     /* As flows of ports without a device
                                         * were compiled. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);

    /* Flows that found the tables full try again when there is room. */
    uint64_t n_reclaimed                /* Entries, ever. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint64_t n_reclaimed_then           /* When the last round through all
                                         * flows began ... */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint64_t n_reclaimed_tried          /* ... or the last that ended. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint32_t round                      /* Position in all flows. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);

    /* The same for flows that found no group: oxdp_groups_changes(). */
    uint64_t groups_then OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint64_t groups_tried OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint32_t groups_round OVS_GUARDED_BY(dpif_xdp_flow_mutex);

    uint32_t port_range                 /* Of tunnels' UDP source ports, both
                                         * ends, as flows were compiled. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint32_t policy_changes             /* Timeout policies that flows know. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);

    /* drops.c */
    unsigned long *droppers             /* Bitmap of indexes: entries that
                                         * drop, with a reason. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
    uint64_t n_dropped[MAX_DROP_REASONS]    /* By those that are gone. */
        OVS_GUARDED_BY(dpif_xdp_flow_mutex);
};

/* Entries that may wait until they are reclaimed. */
#define MAX_UNLINKED 256

/* Whether a flow that stays in the engine for 'reason' may fit later. */
static inline bool
reason_may_pass(enum dpif_xdp_fastpath_reason reason)
{
    return reason == REASON_FULL || reason == REASON_MASKS;
}

/* Around changes of what dpif_xdp_fastpath_add_stats() reads. */
static inline void
stats_change_begin(struct dpif_xdp_fastpath *fp)
{
    uint32_t seq;

    atomic_read_relaxed(&fp->stats_seq, &seq);
    atomic_store_relaxed(&fp->stats_seq, seq + 1);
    atomic_thread_fence(memory_order_release);
}

static inline void
stats_change_end(struct dpif_xdp_fastpath *fp)
{
    uint32_t seq;

    atomic_read_relaxed(&fp->stats_seq, &seq);
    atomic_store_explicit(&fp->stats_seq, seq + 1, memory_order_release);
}

/* 'flow->fp' for threads without the mutex: each member may be that of a
 * moment ago. */
static inline const struct dpif_xdp_fastpath_flow *
peek(const struct dpif_xdp_flow *flow)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    return &flow->fp;
}

/* Whether programs at XDP meet packets of 'flow' that only those at tcx can
 * handle. */
static inline bool
is_left_to_tcx(const struct dpif_xdp_flow *flow)
    OVS_REQUIRES(dpif_xdp_flow_mutex)
{
    return (flow->fp.counted && flow->fp.on_tcx && !flow->fp.on_xdp
            && !dpif_xdp_hook_is_tcx(flow->fp.hook));
}

/* What all flows with one mask share. */
struct dpif_xdp_mask_memo {
    struct dpif_xdp_compiled_mask compiled;
    struct oxdp_mask_hint hint;
};

/* hooks.c: that of the mask of a flow. */
struct dpif_xdp_mask_memo *dpif_xdp_fastpath_mask(
    const struct dpif_xdp_flow *);

/* hooks.c: where programs take the packets of a port:
 * DPIF_XDP_HOOK_EITHER if it has no device (a tunnel). */
enum dpif_xdp_hook dpif_xdp_fastpath_hook_of(const struct dpif_xdp_dp *,
                                             odp_port_t);

/* hooks.c: compiles a flow for the programs that meet its packets at 'hook',
 * for the engine if they cannot run it: then it returns why.  '*matches':
 * programs find the flow, whatever they do then.  Stores in '*ret_hooks',
 * DPIF_XDP_AT_*, which run it. */
enum dpif_xdp_fastpath_reason dpif_xdp_fastpath_compile(
    const struct dpif_xdp_dp *, enum dpif_xdp_hook hook,
    const struct dpif_xdp_flow *, const struct flow *key,
    struct dpif_xdp_compiled *, bool *matches, unsigned int *ret_hooks)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* look.c: makes room for what it knows; 'flow' has an entry now; it is, or is
 * not any more, in the datapath without one. */
void dpif_xdp_fastpath_look_init(struct dpif_xdp_fastpath *);
void dpif_xdp_fastpath_look_uninit(struct dpif_xdp_fastpath *);
void dpif_xdp_fastpath_entered(struct dpif_xdp_fastpath *,
                               struct dpif_xdp_flow *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
void dpif_xdp_fastpath_outside(struct dpif_xdp_fastpath *,
                               struct dpif_xdp_flow *, bool is_outside)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* drops.c: entry 'index' was put into the tables; it is gone, having counted
 * 'n_packets'. */
void dpif_xdp_fastpath_drops_added(struct dpif_xdp_fastpath *,
                                   uint32_t index)
    OVS_REQUIRES(dpif_xdp_flow_mutex);
void dpif_xdp_fastpath_drops_gone(struct dpif_xdp_fastpath *, uint32_t index,
                                  uint64_t n_packets)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

#endif /* ovs/fastpath/fastpath_private.h */
