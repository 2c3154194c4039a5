/* SPDX-License-Identifier: Apache-2.0 */
/* Connection tracking: the action ct(), and the tables behind it.
 *
 * The tracker is dp/ct.h, over the tables of core/ct/ct.h, which all engine
 * threads share, and programs too.  They are made when they are needed first,
 * because they are large, and adopted from the previous instance when the
 * programs are loaded.  What uses Open vSwitch's library besides: fragments
 * (lib/ipf).
 *
 * Files: ct.c the tables and their sweeper, ct_execute.c the action, ct_alg.c
 * helpers for FTP and TFTP, ct_expect.c the connections that they expect,
 * ct_policy.c timeout policies by their numbers. */
#ifndef DPIF_XDP_CT_H
#define DPIF_XDP_CT_H 1

#include <stdbool.h>
#include <stdint.h>

#include "dp/ct_table.h"

struct ct_dpif_timeout_policy;
struct dp_blob;
struct dp_op;
struct dp_record_ct;
struct dp_packet_batch;
struct dpif_xdp_ct;
struct flow;
struct ipf;
struct nlattr;
struct oxdp_ct;
struct oxdp_progs;
struct pkt_metadata;
struct seq;

/* 'name' is the datapath's, for the log. */
struct dpif_xdp_ct *dpif_xdp_ct_create(const char *name);

/* Ends its threads: before programs are unloaded, and then it is
 * destroyed. */
void dpif_xdp_ct_stop(struct dpif_xdp_ct *);
void dpif_xdp_ct_destroy(struct dpif_xdp_ct *);

/* How many connections there is room for: of tables that are made later, at
 * once if there are programs and 'max' is more than the default.  Returns
 * 'max', or how many there is room for in tables that are there, or are being
 * made: it does not wait for these.  Called by one thread. */
uint32_t dpif_xdp_ct_set_max(struct dpif_xdp_ct *, uint32_t max);

/* Before programs are loaded: the tables of the previous instance, if it left
 * any of our layout, are adopted, and programs get the tables that there are.
 * After that: 'progs' are loaded, and the tables outlive this process.  Those
 * that were made before there were programs do not, and programs do not get
 * them.  The caller holds no lock that an engine thread needs. */
void dpif_xdp_ct_adopt(struct dpif_xdp_ct *, struct oxdp_progs *);
void dpif_xdp_ct_set_programs(struct dpif_xdp_ct *, struct oxdp_progs *);

/* Just before the programs of the previous instance are replaced: connections
 * that were copied become as they are in its tables.  And after that. */
void dpif_xdp_ct_catch_up(struct dpif_xdp_ct *);
void dpif_xdp_ct_taken_over(struct dpif_xdp_ct *);

/* The tables that programs can have, NULL while there are none. */
struct oxdp_ct *dpif_xdp_ct_maps(const struct dpif_xdp_ct *);

/* Changes when tables have been made, or dpif_xdp_ct_tell() was called. */
struct seq *dpif_xdp_ct_news(const struct dpif_xdp_ct *);
void dpif_xdp_ct_tell(void *ct);

/* Completes an operation CT, which makes connections with policy number
 * 'policy' of Open vSwitch: it holds the policy, and the pair of mark and
 * label, which stand in 'blob' besides, until dpif_xdp_ct_op_put().  Returns
 * false if there is no room for the pair. */
bool dpif_xdp_ct_op_get(struct dpif_xdp_ct *, struct dp_op *,
                        const struct dp_blob *, uint32_t policy);
void dpif_xdp_ct_op_put(struct dpif_xdp_ct *, const struct dp_op *);

/* The tables: NULL while there are none; and made if there are none.  The
 * latter returns NULL only if there is no memory. */
struct oxdp_ct *dpif_xdp_ct_tables(const struct dpif_xdp_ct *);
struct oxdp_ct *dpif_xdp_ct_need_tables(struct dpif_xdp_ct *);

/* The ticks at 'ms', a monotonic time. */
uint32_t dpif_xdp_ct_ticks(const struct dpif_xdp_ct *, long long int ms);

/* Has what left be free soon: after many have. */
void dpif_xdp_ct_hurry(struct dpif_xdp_ct *);

/* How long the sweeper waits after it has taken out what has expired. */
#define DPIF_XDP_CT_SWEEP_MS 1000       /* The default. */
void dpif_xdp_ct_set_sweep_ms(struct dpif_xdp_ct *, uint32_t ms);
uint32_t dpif_xdp_ct_sweep_ms(const struct dpif_xdp_ct *);

struct ipf *dpif_xdp_ct_ipf(const struct dpif_xdp_ct *);

/* Passes 'batch', IP packets of 'flow', through connection tracking as the
 * OVS_ACTION_ATTR_CT attribute 'ct' says.  'now_ms' is monotonic. */
void dpif_xdp_ct_execute(struct dpif_xdp_ct *, struct dp_packet_batch *,
                         const struct nlattr *ct, const struct flow *,
                         long long int now_ms);

/* Fills in what a program says about the connection of a packet. */
void dpif_xdp_ct_take_record(const struct dp_record_ct *,
                             struct pkt_metadata *);

/* Timeout policies by Open vSwitch's numbers.  0 or a positive errno: ENOMEM
 * without tables; ENOENT for a policy that does not exist. */
int dpif_xdp_ct_policy_set(struct dpif_xdp_ct *,
                           const struct ct_dpif_timeout_policy *);
int dpif_xdp_ct_policy_get(struct dpif_xdp_ct *, uint32_t id,
                           struct ct_dpif_timeout_policy *);
int dpif_xdp_ct_policy_delete(struct dpif_xdp_ct *, uint32_t id);

/* How often a policy was set or deleted. */
uint32_t dpif_xdp_ct_policy_changes(const struct dpif_xdp_ct *);

/* The name of the helper of connection 'index', or NULL. */
const char *dpif_xdp_ct_helper(struct oxdp_ct *, uint32_t index);

/* For people: how many ct() actions the engine has done, to one packet each;
 * what is expected by helpers. */
uint64_t dpif_xdp_ct_n_tracked(const struct dpif_xdp_ct *);
size_t dpif_xdp_ct_n_expected(struct dpif_xdp_ct *);

/* A connection that is expected, and that which announced it. */
struct dpif_xdp_ct_expected {
    struct dp_ct_tuple tuple, parent;
    uint32_t mark;
    uint64_t label[2];
};

/* What is expected in 'zone', -1: in all.  The caller frees '*expected'.
 * Returns how many. */
size_t dpif_xdp_ct_get_expected(struct dpif_xdp_ct *, int zone,
                                struct dpif_xdp_ct_expected **expected);

#endif /* ovs/state/ct.h */
