/* SPDX-License-Identifier: Apache-2.0 */
/* Open vSwitch flows in the terms of dp/: keys, masks and action programs.
 *
 * Pure translation: no state, no allocation, callable from any thread. */
#ifndef DPIF_XDP_COMPILE_H
#define DPIF_XDP_COMPILE_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dp/capability.h"
#include "dp/key.h"
#include "dp/op.h"
#include "dp/table.h"
#include "openvswitch/types.h"

struct flow;
struct flow_wildcards;
struct nlattr;

/* Why a flow is run by the engine.  X(name, text shown to people, what would
 * have to change, or NULL). */
#define DPIF_XDP_COMPILE_REASONS(X)                                         \
    X(OK,          "runs in the fast path", NULL)                           \
    X(KEY_FIELD,   "matches a field that fast-path keys lack",              \
      "write the OpenFlow rules without that field: dpctl/dump-flows -m "   \
      "shows the fields")                                                   \
    X(KEY_TYPE,    "does not match the Ethernet type exactly",              \
      "have an OpenFlow rule for these packets match dl_type")              \
    X(KEY_PROGRAM, "matches a field that the program does not parse",       \
      "give the port a program that parses it: options:xdp-obj")            \
    X(ACTION,      "has an action that only the engine executes",           \
      "write the OpenFlow rules without it: docs/reference/behaviour.md "   \
      "lists what programs execute")                                        \
    X(TUNNEL,      "has a tunnel header that only the engine pushes or pops", \
      "leave out sequence numbers of GRE, and tunnels of other kinds than " \
      "VXLAN, Geneve and GRE")                                              \
    X(SET_FIELD,   "sets a field that only the engine sets",                \
      "write the OpenFlow rules without setting it")                        \
    X(ORDER,       "has actions after its last output",                     \
      "write the OpenFlow rules so that edits come before outputs, or set " \
      "options:xdp-hook=tcx")                                               \
    X(PROGRAM,     "has an action that the program does not execute",       \
      "set options:xdp-hook=both or tcx on the port that it matches, or "   \
      "give that a program that does it: options:xdp-obj")                  \
    X(TOO_LONG,    "has more actions than a program holds",                 \
      "split the OpenFlow rules' actions, for instance by recirculation")

enum dpif_xdp_compile_reason {
#define X(NAME, TEXT, CHANGE) DPIF_XDP_COMPILE_##NAME,
    DPIF_XDP_COMPILE_REASONS(X)
#undef X
};

const char *dpif_xdp_compile_reason_to_string(enum dpif_xdp_compile_reason);

/* A flow as core/tables/table.h takes it. */
struct dpif_xdp_compiled {
    union dp_key key;           /* Masked. */
    union dp_key mask;
    enum dp_fate fate;
    uint32_t arg;
    uint32_t n_ops;
    struct dp_op ops[DP_MAX_OPS];
    uint32_t n_blobs;           /* Of the operations, in their order. */
    struct dp_blob blobs[DP_MAX_BLOBS];
    uint32_t ct_policy[DP_MAX_CT];      /* Of operations CT, in their order:
                                 * Open vSwitch's number of its timeout policy,
                                 * for which u.ct.policy is still to be found,
                                 * as is u.ct.marks. */
    uint32_t n_outputs;         /* With DP_FATE_GROUP, for which 'arg' is
                                 * still */
    uint32_t outputs[DP_MAX_GROUP];     /* to be found: datapath ports. */
};

/* What a mask became for the flow translated last, of use for the next with
 * the same mask.  Zeroed at first. */
struct dpif_xdp_compiled_mask {
    bool valid;
    uint8_t nw_proto;           /* Of that flow, 0 if the mask has it not. */
    ovs_be16 dl_type;
    enum dpif_xdp_compile_reason reason;    /* Why there is none. */
    uint32_t groups;            /* DP_KEY_GROUP_* that it needs, as bits. */
    union dp_key mask;
};

/* The key of a packet that flow_extract() turned into 'flow' ('in_port' is a
 * datapath port). */
void dpif_xdp_compile_key(const struct flow *flow, union dp_key *);

/* Translates a filter, the fields of 'flow' under 'wc'.  '*key' is masked.
 * Returns false if keys lack one of these fields. */
bool dpif_xdp_compile_filter(const struct flow *flow,
                             const struct flow_wildcards *wc,
                             union dp_key *key, union dp_key *mask);

/* Fills in what a record with DP_RECORD_TUNNEL says (dp/record.h): the
 * tunnel's port and metadata. */
struct dp_record;
struct pkt_metadata;
void dpif_xdp_compile_get_tunnel(const struct dp_record *,
                                 struct pkt_metadata *);

struct ofpbuf;

/* Writes to 'drawn' what the engine does to a copy of a packet that a program
 * sampled: those of 'actions', of a flow with SAMPLE, that lead to the actions
 * sample() that this draws, one at least, and what these do. */
void dpif_xdp_draw_samples(const struct nlattr *actions, size_t actions_len,
                           struct ofpbuf *drawn);

/* Writes to 'others' the actions that are left when sampling is done. */
void dpif_xdp_drop_samples(const struct nlattr *actions, size_t actions_len,
                           struct ofpbuf *others);

/* Writes to '*out' where packets with the tunnel metadata 'tunnel' go; mark
 * and priority are left 0.  Returns false if that is nowhere. */
struct dp_tunnel_out;
struct flow_tnl;
bool dpif_xdp_compile_tunnel_out(const struct flow_tnl *tunnel,
                                 struct dp_tunnel_out *out);

/* Completes a flow that pops a tunnel's header: 'type' is what Open vSwitch
 * calls the tunnel (netdev_get_type()).  False if no program pops such. */
bool dpif_xdp_compile_pop(struct dpif_xdp_compiled *, const char *type);

/* Returns the operation that pops a tunnel's header, or NULL. */
struct dp_op *dpif_xdp_compiled_pop(struct dpif_xdp_compiled *);

/* Translates a whole datapath flow for a program that can do 'caps'.  '*last'
 * is of 'wc', or NULL.
 *
 * If the match cannot be expressed, returns why and leaves '*ret' undefined:
 * such a flow does not go into the tables at all.  If only the actions cannot
 * be executed, returns why with the match filled in, fate DP_FATE_ENGINE and
 * no operations: the tables find the flow, the engine runs it
 * ('*ret_matches' says which).  Otherwise DPIF_XDP_COMPILE_OK. */
enum dpif_xdp_compile_reason dpif_xdp_compile(
    const struct flow *, const struct flow_wildcards *wc,
    struct dpif_xdp_compiled_mask *last, const struct nlattr *actions,
    size_t actions_len, const struct dp_capability *caps,
    struct dpif_xdp_compiled *ret, bool *ret_matches);

#endif /* ovs/fastpath/compile.h */
