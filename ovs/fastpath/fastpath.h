/* SPDX-License-Identifier: Apache-2.0 */
/* The flows of a datapath that BPF programs run.
 *
 * Every flow that keys of dp/key.h can express is in the tables that the
 * programs read (core/tables/table.h): with its operations if a program can
 * execute all of them, else marked for the engine, so that a packet that a
 * program could match is not looked up again.  The engine's own tables have
 * all flows.
 *
 * Everything here is done under dp->flow_mutex, unless it says otherwise. */
#ifndef DPIF_XDP_FASTPATH_H
#define DPIF_XDP_FASTPATH_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openvswitch/types.h"
#include "ovs/base/locks.h"

struct dpif_flow_stats;
struct dpif_xdp_dp;
struct dpif_xdp_fastpath;
struct dpif_xdp_flow;
struct dp_record;
struct flow;
struct json;

/* Creates the fast path over the tables of dp->progs; NULL if that fails. */
struct dpif_xdp_fastpath *dpif_xdp_fastpath_create(struct dpif_xdp_dp *);

/* Frees 'fp', which has no flows any more.  NULL is allowed. */
void dpif_xdp_fastpath_destroy(struct dpif_xdp_fastpath *fp);

/* Prepares a new flow. */
void dpif_xdp_fastpath_flow_init(struct dpif_xdp_flow *);

/* Puts 'flow', whose key is 'key', into the tables, or replaces its entry
 * after its actions changed: packets that arrive later get the new actions. */
void dpif_xdp_fastpath_put(struct dpif_xdp_dp *, struct dpif_xdp_flow *flow,
                           const struct flow *key)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Reinstalls flows that wait for a port that programs can send to. */
void dpif_xdp_fastpath_port_opened(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Moves the flows that output to 'port_no', to which programs cannot send any
 * more, to the engine.  May release dp->flow_mutex for a while. */
void dpif_xdp_fastpath_port_closed(struct dpif_xdp_dp *, odp_port_t port_no)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Reinstalls the flows of packets from 'port_no' if that has another hook
 * now. */
void dpif_xdp_fastpath_hook_changed(struct dpif_xdp_dp *, odp_port_t port_no)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* The same if it has another program, which can do something else. */
void dpif_xdp_fastpath_program_changed(struct dpif_xdp_dp *, odp_port_t)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Reinstalls the flows that programs could not run because they lacked an
 * operation: they track connections now. */
void dpif_xdp_fastpath_tracks(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Reinstalls the flows that change when 'port_no' begins to send or to take
 * frames of several buffers, or does so no more. */
void dpif_xdp_fastpath_buffers_changed(struct dpif_xdp_dp *, odp_port_t)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Takes 'flow' out of the tables: no packet that arrives later matches it.
 * Its statistics are final after dpif_xdp_fastpath_reclaim(). */
void dpif_xdp_fastpath_unlink(struct dpif_xdp_dp *, struct dpif_xdp_flow *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Prefetch what dpif_xdp_fastpath_unlink() and its caller read: first the one
 * for several flows, then the other, which needs what the first fetched. */
void dpif_xdp_fastpath_prefetch(const struct dpif_xdp_dp *,
                                const struct dpif_xdp_flow *);
void dpif_xdp_fastpath_prefetch_bucket(const struct dpif_xdp_dp *,
                                       const struct dpif_xdp_flow *);

/* Frees 'flow', which was unlinked, through RCU, as soon as
 * no program holds it. */
void dpif_xdp_fastpath_release(struct dpif_xdp_dp *, struct dpif_xdp_flow *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Reclaims all that was unlinked: waits once until no program holds any of it,
 * and releases dp->flow_mutex meanwhile. */
void dpif_xdp_fastpath_reclaim(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Whether dpif_xdp_fastpath_reclaim() is due: many entries wait for it. */
bool dpif_xdp_fastpath_must_reclaim(const struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Whether a program matches packets to 'flow'; whether it executes it, too.
 * Any thread. */
bool dpif_xdp_fastpath_finds(const struct dpif_xdp_flow *);
bool dpif_xdp_fastpath_runs(const struct dpif_xdp_flow *);

/* The name of the hook where programs run 'flow': "xdp", "tcx", or "both" for
 * packets of a port without a device. */
const char *dpif_xdp_fastpath_hook(const struct dpif_xdp_flow *);

/* The index of a flow that dpif_xdp_fastpath_finds() in the tables. */
uint32_t dpif_xdp_fastpath_index(const struct dpif_xdp_flow *);

/* Puts "mask" into 'report': the fields that entry 'index' matches. */
void dpif_xdp_fastpath_report_mask(const struct dpif_xdp_dp *,
                                   uint32_t index, struct json *report);

/* Adds what programs counted for 'flow' to '*stats'.  Any thread. */
void dpif_xdp_fastpath_add_stats(const struct dpif_xdp_dp *,
                                 const struct dpif_xdp_flow *,
                                 struct dpif_flow_stats *stats);

/* Stores the packets of 'flow' that it would add in '*ret'.  Returns false if
 * that takes more than a look. */
bool dpif_xdp_fastpath_n_packets(const struct dpif_xdp_dp *,
                                 const struct dpif_xdp_flow *flow,
                                 uint64_t *ret);

/* Prefetches what dpif_xdp_fastpath_add_stats() reads.  Any thread. */
void dpif_xdp_fastpath_prefetch_stats(const struct dpif_xdp_dp *,
                                      const struct dpif_xdp_flow *);

/* A look for flows that met packets, in the order of the programs' tables: it
 * reads memory from its beginning to its end, and few flows.  One look at a
 * time; several threads may take part in it, each with entries of its own. */

/* The engine counted packets for 'flow', before this call.  Any thread. */
void dpif_xdp_fastpath_mark(const struct dpif_xdp_dp *,
                            const struct dpif_xdp_flow *flow);

/* The number of entries to look at; 0: there is no fast path. */
uint32_t dpif_xdp_fastpath_n_entries(const struct dpif_xdp_dp *);

/* Stores those of the 'n' entries from 'first' on in 'flows' that may have
 * met packets since the last look, or that dpif_xdp_fastpath_note_used() says
 * nothing of since 'since'.  Returns how many.  Each must now be looked at. */
uint32_t dpif_xdp_fastpath_look(const struct dpif_xdp_dp *, uint32_t first,
                                uint32_t n, long long int since,
                                struct dpif_xdp_flow *flows[]);

/* 'flow' was looked at, and met its last packet at 'used'. */
void dpif_xdp_fastpath_note_used(const struct dpif_xdp_dp *,
                                 const struct dpif_xdp_flow *,
                                 long long int used);

/* Stores the flows without an entry in 'flows'.  Returns how many, or SIZE_MAX
 * if there are more than 'max'. */
size_t dpif_xdp_fastpath_list_outside(const struct dpif_xdp_dp *,
                                      struct dpif_xdp_flow *flows[],
                                      size_t max)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Zeroes what programs counted for 'flow'. */
void dpif_xdp_fastpath_zero_stats(struct dpif_xdp_dp *,
                                  struct dpif_xdp_flow *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* The flow that a program matched, or NULL if 'record' names none or it is
 * gone.  Any thread, under RCU. */
struct dpif_xdp_flow *dpif_xdp_fastpath_matched(
    const struct dpif_xdp_dp *, const struct dp_record *record);

/* Call this about once a second: it sorts masks by use, compares clocks, and
 * applies Open vSwitch's VLAN limit. */
void dpif_xdp_fastpath_run(struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Puts "fast_path" into 'report': how full the tables are, how many flows the
 * programs and the engine run, and why. */
void dpif_xdp_fastpath_report(const struct dpif_xdp_dp *, struct json *report)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Puts into 'report' where a flow runs and, if in the engine, why, and what
 * would have to change: "tier", "reason", "why", "change". */
void dpif_xdp_fastpath_report_flow(const struct dpif_xdp_dp *,
                                   const struct dpif_xdp_flow *,
                                   struct json *report);

/* Hits in the programs' last-flow caches (dp/predict.h). */
uint64_t dpif_xdp_fastpath_predicted(const struct dpif_xdp_dp *)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Stores in 'ret_n' how many packets programs have dropped because their flow
 * has a "drop" action, by the 'n_reasons' reasons that it may have (enum
 * xlate_error).  Reads the statistics of all such flows. */
void dpif_xdp_fastpath_action_drops(const struct dpif_xdp_dp *,
                                    uint64_t ret_n[], size_t n_reasons)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* The next sequence number of GRE, which programs and the engine give out
 * (dp/table.h); NULL: only the engine sends packets. */
uint32_t *dpif_xdp_fastpath_sequence(const struct dpif_xdp_dp *);

/* Puts "masks" into 'report', in the order in which programs search them. */
void dpif_xdp_fastpath_report_masks(const struct dpif_xdp_dp *,
                                    struct json *report)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

#endif /* ovs/fastpath/fastpath.h */
