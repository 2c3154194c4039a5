/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ovs/fastpath/compile.h share.
 *
 *   compile.c           actions, in their order
 *   compile_program.c   the program that they become: operations, outputs
 *   compile_set.c       actions that set fields
 *   compile_ct.c        connection tracking
 *   compile_sample.c    sampling
 *   compile_tunnel.c    tunnel headers
 *   compile_key.c       matches */
#ifndef DPIF_XDP_COMPILE_PRIVATE_H
#define DPIF_XDP_COMPILE_PRIVATE_H 1

#include "ovs/fastpath/compile.h"

struct ovs_action_push_tnl;

/* A program under construction. */
struct dpif_xdp_program {
    struct dpif_xdp_compiled *out;
    struct dp_op *last;         /* Appended last; 'nowhere' after failure. */
    struct dp_op nowhere;
    const struct dp_capability *caps;
    enum dpif_xdp_compile_reason reason;    /* First obstacle. */
    bool ended;                 /* The terminal action is known. */
    bool outputs;               /* To port 'output', where the packet goes at
                                 * last or, if more follows, a copy. */
    uint32_t output;
    bool trunc;                 /* The packet is cut at output. */
    bool rewritten;             /* Headers differ from the key. */
    bool option_changed;        /* The first ND option may be any by now. */
    int tags_pushed;
    bool tunnelled;             /* A tunnel header was pushed. */
    bool overwrites;            /* Operation 'pushed' was the first to push one
                                 * in a clone: the next takes its place. */
    uint32_t pushed;
    bool cloned;                /* What follows is about the packet as it
                                 * was. */
    bool labels_changed;        /* Labels were pushed or popped. */
    bool label_popped;
    uint32_t n_ct;              /* Operations CT. */
    bool tag_popped;
    uint32_t max_len;           /* Of frames as they arrive; 0: any. */
    bool nested;                /* The actions are those of another. */
    bool sampled;               /* There are actions sample(), ... */
    double unsampled;           /* ... with this chance that none is drawn. */
};

/* Translates a match; see dpif_xdp_compile().  On failure '*key' and '*mask'
 * are undefined. */
enum dpif_xdp_compile_reason dpif_xdp_compile_match(
    const struct flow *, const struct flow_wildcards *,
    struct dpif_xdp_compiled_mask *last, const struct dp_capability *,
    union dp_key *key, union dp_key *mask);

/* Translates actions into fate and operations; on failure the fate is
 * DP_FATE_ENGINE with no operations. */
enum dpif_xdp_compile_reason dpif_xdp_compile_actions(
    const struct nlattr *actions, size_t actions_len,
    const struct dp_capability *, struct dpif_xdp_compiled *);

/* Translate one action.  What stands in the way they note in the program. */
void dpif_xdp_compile_set(struct dpif_xdp_program *, const struct nlattr *key,
                          bool masked);
void dpif_xdp_compile_ct(struct dpif_xdp_program *, const struct nlattr *);
bool dpif_xdp_compile_ct_suits(const struct dpif_xdp_program *);
void dpif_xdp_compile_sample(struct dpif_xdp_program *, const struct nlattr *);
void dpif_xdp_compile_tunnel_push(struct dpif_xdp_program *,
                                  const struct ovs_action_push_tnl *);
void dpif_xdp_compile_tunnel_set(struct dpif_xdp_program *,
                                 const struct nlattr *key);
void dpif_xdp_compile_tunnel_pop(struct dpif_xdp_program *, uint32_t port);

/* Puts SAMPLE first, if there is an action sample().  After all actions. */
void dpif_xdp_compile_samples_end(struct dpif_xdp_program *);

/* An empty program that drops, written to 'out' for programs with 'caps'. */
void dpif_xdp_program_init(struct dpif_xdp_program *,
                           const struct dp_capability *caps,
                           struct dpif_xdp_compiled *out);

/* Outputs to the last port, and returns the first obstacle: with one, the
 * program is what dpif_xdp_compile_actions() says about failures. */
enum dpif_xdp_compile_reason dpif_xdp_program_finish(
    struct dpif_xdp_program *);

/* Appends an operation and returns its arguments, zeroed, to be filled.  After
 * an obstacle they belong to no operation. */
union dp_op_arg *dpif_xdp_op_add(struct dpif_xdp_program *, enum dp_op_code);

/* The same for an operation whose argument lies in 'n' blobs. */
struct dp_blob *dpif_xdp_op_add_blobs(struct dpif_xdp_program *,
                                      enum dp_op_code, uint32_t n);

/* Sets the terminal action, behind which nothing may follow. */
void dpif_xdp_program_end(struct dpif_xdp_program *, enum dp_fate,
                          uint32_t arg);

/* Sends a copy to the port that was thought to be the packet's last. */
void dpif_xdp_program_output_copy(struct dpif_xdp_program *);

#endif /* ovs/fastpath/compile_private.h */
