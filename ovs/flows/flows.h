/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on flows: put, delete, get, flush, dump. */
#ifndef DPIF_XDP_FLOWS_H
#define DPIF_XDP_FLOWS_H 1

#include "ovs/datapath/datapath.h"

struct cmap;
struct dpif;
struct dpif_flow;
struct dpif_flow_dump;
struct dpif_flow_dump_thread;
struct dpif_flow_dump_types;
struct dpif_flow_get;
struct dpif_flow_stats;
struct dpif_op;
struct ds;
struct odp_support;
struct ofpbuf;

/* Adds a flow to 'subtable' for packets like 'key', whose map is '*map' and
 * whose 'ufid' must be new.  Returns NULL, or the flow that has an equal match
 * and is in the way.  A 'probe' tests whether it is accepted: no program
 * runs it. */
struct dpif_xdp_flow *dpif_xdp_flow_install(struct dpif_xdp_dp *dp,
                                            struct subtable *subtable,
                                            const struct flow *key,
                                            const struct miniflow *map,
                                            const ovs_u128 *ufid,
                                            const struct nlattr *actions,
                                            size_t actions_len, bool probe)
    OVS_REQUIRES(dpif_xdp_flow_mutex);

/* Deletes all flows. */
void dpif_xdp_flows_flush(struct dpif_xdp_dp *);

/* Execute 'n' operations, all of type DPIF_OP_FLOW_PUT or DPIF_OP_FLOW_DEL. */
void dpif_xdp_flows_put(struct dpif *, struct dpif_op *ops[], size_t n);
void dpif_xdp_flows_del(struct dpif *, struct dpif_op *ops[], size_t n);
int dpif_xdp_flow_get(struct dpif *, const struct dpif_flow_get *);

/* What the engine matches on: everything. */
extern const struct odp_support dpif_xdp_odp_support;

/* Describes 'flow' in '*ret'; its key and mask, unless 'terse', are appended
 * to 'key_buf' and 'mask_buf', which may be one. */
void dpif_xdp_flow_format(const struct dpif_xdp_dp *,
                          const struct dpif_xdp_flow *flow,
                          struct ofpbuf *key_buf, struct ofpbuf *mask_buf,
                          struct dpif_flow *ret, bool terse);

/* Appends the match of 'flow' and its actions, as dpctl/dump-flows prints
 * them. */
void dpif_xdp_flow_to_text(const struct dpif_xdp_dp *,
                           const struct dpif_xdp_flow *flow, struct ds *match,
                           struct ds *actions);
void dpif_xdp_flow_get_stats(const struct dpif_xdp_dp *,
                             const struct dpif_xdp_flow *,
                             struct dpif_flow_stats *);

/* Rounds of ofproto's revalidators: a terse dump, and a sweep of what ofproto
 * knows of flows. */

/* A revalidation was asked for: the next round is complete.  Any thread. */
void dpif_xdp_round_want(void);

/* Begins a round; returns whether it may be quiet: its dump leaves out what
 * dpif_xdp_round_omits() says, and no sweep is needed. */
bool dpif_xdp_round_begin(struct dpif_xdp_dp *);

/* The calling thread, one of ofproto's revalidators, takes part in a round
 * that is quiet or not; has done its sweep; whether its round is quiet. */
void dpif_xdp_round_join(bool quiet);
void dpif_xdp_round_leave(void);
bool dpif_xdp_round_is_quiet(void);

/* Whether a quiet dump leaves out 'flow': it had no packet since the last
 * dump, and is not idle for so long that ofproto deletes it.  'now' is
 * monotonic ms. */
bool dpif_xdp_round_omits(const struct dpif_xdp_dp *,
                          const struct dpif_xdp_flow *flow,
                          long long int now);

/* A terse dump says so of 'flow'.  One thread at a time has a flow. */
void dpif_xdp_round_note_dumped(const struct dpif_xdp_dp *,
                                struct dpif_xdp_flow *flow,
                                const struct dpif_flow_stats *);

/* 'n' flows were to be deleted; something else happened for which ofproto
 * needs complete rounds.  Any thread. */
void dpif_xdp_round_note_deleted(struct dpif_xdp_dp *, uint32_t n);
void dpif_xdp_round_disturb(struct dpif_xdp_dp *);

/* Flows that a dump gives out at once. */
#define DPIF_XDP_DUMP_BATCH 50

/* The calling thread, a revalidator, is about to get the 'n' flows, at most
 * DPIF_XDP_DUMP_BATCH: prefetches what it will read of them.  It does not
 * quiesce before it is done with them.  The last call of a dump has 'n' 0. */
void dpif_xdp_ahead_give(struct dpif_xdp_flow *flows[], int n);

/* It looks for the ukey of the next flow; tries its lock; pushes statistics to
 * what is listed at 'entries' of its 'xcache'. */
void dpif_xdp_ahead_note_find(const struct cmap *, uint32_t hash);
void dpif_xdp_ahead_note_lock(const void *lock);
void dpif_xdp_ahead_note_push(const void *xcache, const void *entries);

/* Each as the member of struct dpif_class with the same name. */
int dpif_xdp_flow_flush(struct dpif *);
struct dpif_flow_dump *dpif_xdp_flow_dump_create(
    const struct dpif *, bool terse, struct dpif_flow_dump_types *);
int dpif_xdp_flow_dump_destroy(struct dpif_flow_dump *);
struct dpif_flow_dump_thread *dpif_xdp_flow_dump_thread_create(
    struct dpif_flow_dump *);
void dpif_xdp_flow_dump_thread_destroy(struct dpif_flow_dump_thread *);
int dpif_xdp_flow_dump_next(struct dpif_flow_dump_thread *,
                            struct dpif_flow *, int max_flows);

#endif /* ovs/flows/flows.h */
