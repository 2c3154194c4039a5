/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The way of a packet: parse, look up, execute; once more after each recirculation.
 *
 * A hook includes its seam and this file, and does what the outcome says:
 *
 *     struct dp_run run;
 *     struct dp_outcome outcome = dp_pipeline(ctx, port_no, &run);
 *
 *     switch (outcome.fate) {
 *     case DP_FATE_OUTPUT: send to port outcome.to (after dp_cut_tail(ctx, run.frame.cut));
 *     case DP_FATE_GROUP:  send to all ports of group outcome.to;
 *     case DP_FATE_DROP:   drop;
 *     case DP_FATE_SKB:    leave it to tcx on the same device, which looks it up again; nothing was counted;
 *     case DP_FATE_ENGINE: hand it to the engine with outcome.reason, run.flow, run.generation and run.key's metadata;
 *     case DP_FATE_DETOUR: send it on a detour, and go on with dp_pipeline_from() when it is back;
 *     }
 *
 * outcome.reason is what to count.
 */
#ifndef DP_PIPELINE_H
#define DP_PIPELINE_H 1

#include "dp/action.h"
#include "dp/count.h"
#include "dp/ct_op.h"
#include "dp/inside.h"
#include "dp/lookup.h"
#include "dp/metadata.h"
#include "dp/parse.h"
#include "dp/path_learn.h"
#include "dp/predict.h"
#include "dp/reason.h"
#include "dp/run.h"
#include "dp/sample.h"
#include "dp/way.h"

/* Whether flows of what was in tunnels are predicted. */
#define DP_PREDICTS_INSIDE(CTX) (!DP_TAKES_SKBS && !DP_OMITS_POPS(CTX) && !DP_OMITS(CTX, DP_PART(RECIRC)))

DP_INLINE int dp_pass(struct dp_ctx *ctx, struct dp_run *run, struct dp_prediction *expected, __u32 *ret_arg);
DP_INLINE enum dp_reason dp_find(struct dp_ctx *ctx, struct dp_run *run, const struct dp_flow **ret_flow,
                                 __u32 *ret_index);
DP_STAGE __u64 dp_pass_again(struct dp_ctx *ctx, struct dp_run *run);
DP_INLINE __u64 dp_track(struct dp_ctx *ctx, struct dp_run *run);
DP_STAGE __u64 dp_back(struct dp_ctx *ctx, struct dp_run *run);
DP_INLINE int dp_upcall(struct dp_run *run, __u32 flow, __u32 generation, enum dp_reason reason);
DP_INLINE void dp_recirculate(struct dp_run *run, __u32 recirc_id);
DP_INLINE int dp_path_is_there(struct dp_ctx *ctx, struct dp_run *run);
DP_INLINE int dp_path_is_known(struct dp_ctx *ctx, __u32 in_port);
DP_STAGE int dp_sample(struct dp_ctx *ctx, struct dp_run *run);

/* Where a packet is before dp_pipeline_from(). */
enum dp_from {
    DP_FROM_PORT,               /* It has arrived. */
    DP_FROM_TUNNEL,             /* Likewise, out of a tunnel, whose port and metadata are in the key. */
    DP_FROM_DETOUR,             /* It is back from a detour. */
};

/* Runs the frame of 'ctx', which arrived on datapath port 'in_port', through the flow tables; or the rest of its way.
 * What stands in the caches that know headers alone is not for packets of tunnels. */
DP_INLINE struct dp_outcome dp_pipeline_from(struct dp_ctx *ctx, __u32 in_port, struct dp_run *run, enum dp_from from)
{
    struct dp_outcome outcome = { .reason = DP_REASON_FORWARDED };
    int learns = from == DP_FROM_DETOUR ? 0 : dp_path_is_there(ctx, run), fate;

    if (from != DP_FROM_PORT) {
        __u64 fated;

        if (from == DP_FROM_TUNNEL) {
            learns = 0;
            run->uncommon = 0;
            run->key.recirc_id = 0;
            dp_clear_tracking(ctx, &run->key);
            fated = dp_pass_again(ctx, run);
        } else {
            fated = dp_back(ctx, run);
        }
        fate = (__u32) fated;
        outcome.to = fated >> 32;
    } else {
        run->uncommon = 0;
        if (learns && dp_path_is_known(ctx, in_port)) {
            __u64 fated = dp_path_run(ctx, &run->path, &run->frame, &run->key, in_port);

            if (DP_LIKELY((__u32) fated != DP_FATE_PASSES)) {
                run->passes = run->path.n_flows - 1;
                outcome.fate = (__u32) fated;
                outcome.reason = outcome.fate == DP_FATE_OUTPUT ? DP_REASON_FORWARDED : DP_REASON_NO_MEMORY;
                outcome.to = fated >> 32;
                return outcome;
            }
            if (DP_TAKES_SKBS) {
                dp_out_of_reach(ctx);   /* It may have looked too far. */
            }
        }
        if (learns) {
            dp_path_begin(&run->path, &run->ct);
        }
        run->key.w[0] = DP_BYTES(0, 4, in_port);
        dp_clear_metadata(ctx, &run->key);
        fate = dp_pass(ctx, run, dp_prediction_of(ctx, in_port), &outcome.to);
    }
    if (DP_LIKELY(fate == DP_FATE_OUTPUT)) {
        outcome.fate = DP_FATE_OUTPUT;
        return outcome;
    }
    if (fate == DP_FATE_SKB) {
        outcome.fate = DP_FATE_SKB;
        outcome.reason = run->reason;
        return outcome;
    }
    if (learns && (fate == DP_FATE_TRACK || fate == DP_FATE_RECIRC)) {
        dp_path_note_arrival(ctx, &run->path, &run->frame, &run->key);
    }
    DP_NO_UNROLL
    for (int step = 0; step < DP_MAX_STEPS; step++) {
        __u64 fated;

        if ((!DP_OMITS_OP(ctx, DP_OP_CT) || !DP_OMITS_OP(ctx, DP_OP_SAMPLE)) && fate == DP_FATE_TRACK) {
            fated = dp_track(ctx, run);
        } else if (!DP_OMITS(ctx, DP_PART(RECIRC)) && fate == DP_FATE_RECIRC && run->passes < DP_MAX_PASSES - 1) {
            fated = dp_pass_again(ctx, run);
            run->passes++;
        } else {
            break;
        }
        fate = (__u32) fated;
        outcome.to = fated >> 32;
    }
    if (fate == DP_FATE_RECIRC) {
        run->passes = DP_MAX_PASSES;
        fate = dp_upcall(run, DP_NO_FLOW, 0, DP_REASON_UP_ENGINE);
    }
    if (fate == DP_FATE_SKB) {
        fate = DP_FATE_ENGINE;          /* The frame has changed; tcx would begin with the first lookup. */
    }
    if (fate == DP_FATE_DROP || fate == DP_FATE_ENGINE) {
        outcome.reason = run->reason;
    }
    if (learns && fate == DP_FATE_OUTPUT) {
        run->path.to = outcome.to;
        dp_path_learn(ctx, &run->path, &run->frame, &run->key, &run->ct);
    }
    outcome.fate = fate;
    return outcome;
}

/* The same for a hook that sends no frame on a detour. */
DP_INLINE struct dp_outcome dp_pipeline(struct dp_ctx *ctx, __u32 in_port, struct dp_run *run)
{
    return dp_pipeline_from(ctx, in_port, run, DP_FROM_PORT);
}

/* Whether the program has the path cache. */
DP_INLINE int dp_path_is_there(struct dp_ctx *ctx, struct dp_run *run)
{
    if (DP_OMITS_OP(ctx, DP_OP_CT)) {
        return 0;
    }
    run->path.found = DP_PATH_NONE;
    run->n_ct = 0;
    return !DP_OMITS(ctx, DP_PART(RECIRC)) && dp_path_head_at(ctx, 0);
}

/* Whether there may be a microflow of packets of port 'in_port'. */
DP_INLINE int dp_path_is_known(struct dp_ctx *ctx, __u32 in_port)
{
    const struct dp_path_head *head = dp_path_head_at(ctx, 0);

    return head && DP_READ_ONCE(head->port[in_port % DP_PATH_PORTS]);
}

/* dp_pass() as a stage, for all but the first. */
DP_STAGE __u64 dp_pass_again(struct dp_ctx *ctx, struct dp_run *run)
{
    __u32 arg = 0;
    int fate = run ? dp_pass(ctx, run, 0, &arg) : DP_FATE_DROP;

    return DP_FATED(fate, arg);
}

/* Looks up the flow of a pass.  'expected' is NULL but for the first.  Returns it with its index and TCP's flags, which
 * are 0 if there are none; or NULL after dp_upcall(). */
DP_INLINE const struct dp_flow *dp_pass_flow(struct dp_ctx *ctx, struct dp_run *run, struct dp_prediction *expected,
                                             __u32 *ret_index, __u32 *ret_tcp_flags)
{
    const struct dp_flow *flow = expected && !expected->rest
        ? dp_predict(ctx, expected, 0, run->key.in_port, &run->frame, ret_tcp_flags) : 0;

    if (flow) {
        *ret_index = expected->flow;
        expected->hits++;
        if (dp_is_traced(ctx, &run->traced)) {
            dp_note_way(ctx, run, *ret_index, 1);
        }
        return flow;
    }
    if (DP_TAKES_SKBS) {
        dp_out_of_reach(ctx);           /* dp_predict() may have looked too far. */
    }

    enum dp_reason reason = dp_find(ctx, run, &flow, ret_index);

    if (dp_is_traced(ctx, &run->traced)) {
        dp_note_way(ctx, run, *ret_index, 0);
    }
    if (!flow) {
        dp_upcall(run, DP_NO_FLOW, 0, reason);
        return 0;
    }
    *ret_tcp_flags = run->key.ip_proto == DP_IP_TCP ? dp_ntohs(run->key.tcp_flags) : 0;
    if (expected && expected->rest) {
        expected->rest--;
    } else if (expected) {
        dp_predict_next(ctx, &run->frame, &run->key, *ret_index, expected);
    } else if (DP_PREDICTS_INSIDE(ctx) && !run->key.recirc_id && !run->passes) {
        dp_inside_next(ctx, &run->frame, &run->key, *ret_index);
    }
    return flow;
}

/* The first pass found '*flow', with '*index' and '*tcp_flags'.  If all that it does is to pop a tunnel's header, and
 * the next pass is predicted, that is done, and this is the next pass with its flow.  Returns 0, or not if the packet
 * is to be dropped. */
DP_INLINE int dp_pass_inside(struct dp_ctx *ctx, struct dp_run *run, const struct dp_flow **flow, __u32 *index,
                             __u32 *tcp_flags)
{
    __u64 inside;

    if ((*flow)->fate != DP_FATE_RECIRC || (*flow)->arg || (*flow)->n_ops != 1 || dp_is_traced(ctx, &run->traced)) {
        return 0;
    }
    inside = dp_inside(ctx, &run->frame, &run->key, *index);
    if ((__u32) inside == DP_NO_FLOW) {
        return 0;
    }
    *index = (__u32) inside;
    *tcp_flags = inside >> 32;
    run->passes = 1;
    *flow = dp_flows_at(ctx, *index);   /* There is none with the number DP_INSIDE_LOST. */
    return !*flow;
}

/* One lookup and what follows from it.  'expected' is NULL but for the first.  Returns an enum dp_fate, without
 * DP_FATE_SKB or that alone, with its 'arg'; run->reason says why if it is DP_FATE_DROP, DP_FATE_ENGINE or DP_FATE_SKB.
 * With the last two nothing was written in this pass. */
DP_INLINE int dp_pass(struct dp_ctx *ctx, struct dp_run *run, struct dp_prediction *expected, __u32 *ret_arg)
{
    __u32 tcp_flags = 0;
    __u32 index = DP_NO_FLOW;
    const struct dp_flow *flow = dp_pass_flow(ctx, run, expected, &index, &tcp_flags);

    if (!flow) {
        return run->reason == DP_REASON_UP_CHECKSUM && !DP_TAKES_SKBS ? DP_FATE_SKB : DP_FATE_ENGINE;
    }
    if (DP_PREDICTS_INSIDE(ctx) && expected && dp_pass_inside(ctx, run, &flow, &index, &tcp_flags)) {
        run->reason = DP_REASON_NO_MEMORY;
        return DP_FATE_DROP;
    }

    int fate = flow->fate;

    run->generation = flow->generation;         /* Of account in an upcall alone.  The stack has no room for it. */

    *ret_arg = flow->arg;
    if (DP_TAKES_SKBS) {
        fate &= ~DP_FATE_SKB;
    }
    if (fate >= DP_FATE_ENGINE || (fate == DP_FATE_RECIRC && DP_OMITS(ctx, DP_PART(RECIRC)))
        || (fate == DP_FATE_GROUP && (DP_OMITS_OP(ctx, DP_OP_GROUP) || dp_group_refuses(ctx, flow, run->frame.len)))) {
        dp_upcall(run, index, run->generation, DP_REASON_UP_ENGINE);
        return fate & DP_FATE_SKB ? DP_FATE_SKB : DP_FATE_ENGINE;
    }

    __u32 len = run->frame.len + (dp_tag_beside(ctx) ? DP_VLAN_LEN : 0);

    __u32 first = flow->ops;            /* Read once: the verifier remembers the bound that dp_ops_at() checks. */
    __u32 n_ops = flow->n_ops;

    run->reason = DP_REASON_DROPPED;
    if (n_ops) {
        const struct dp_op *op = DP_OMITS(ctx, DP_PART_OPS) ? 0 : dp_ops_at(ctx, first);

        if (!op || !dp_prepare(ctx, &run->frame, &run->key, op, first, n_ops)) {
            return dp_upcall(run, index, run->generation, op && op->codes & DP_POP_OPS ? DP_REASON_UP_TUNNEL
                             : DP_REASON_UP_ENGINE);
        }
        if (!DP_OMITS_OP(ctx, DP_OP_CT) && op->codes & ~DP_PATH_OPS) {
            run->ct.n_steady = DP_CT_UNSTEADY;          /* Nothing is learned of such a packet. */
        }
        if ((!DP_OMITS_OP(ctx, DP_OP_CT) && op->code == DP_OP_CT)
            || (!DP_OMITS_OP(ctx, DP_OP_SAMPLE) && op->code == DP_OP_SAMPLE)) {
            run->flow = index;
            run->len = len;
            run->tcp_flags = tcp_flags;
            run->at = 0;
            return DP_FATE_TRACK;
        }
        if (!DP_OMITS_OP(ctx, DP_OP_CT) && dp_ct_is_forgotten(op)) {
            run->ct.run.md.cached = 0;
        }

        enum dp_committed committed = dp_commit(ctx, &run->frame, &run->key, op, first, n_ops, &run->reason);

        if (committed == DP_COMMIT_NOTHING) {
            return dp_upcall(run, index, run->generation, DP_REASON_UP_ENGINE);
        }
        if (DP_TAKES_SKBS && committed == DP_COMMIT_DETOUR) {
            run->flow = index;
            run->len = len;
            run->tcp_flags = tcp_flags;
            run->at = run->reason;
            return DP_FATE_DETOUR;
        }
        if (committed == DP_COMMIT_DROP) {
            fate = DP_FATE_DROP;
        }
    }
    dp_count(ctx, index, len, tcp_flags);
    if (!DP_OMITS_OP(ctx, DP_OP_CT) && (!expected || fate == DP_FATE_RECIRC)) {
        dp_path_note(&run->path, index, len);
    }
    if (fate == DP_FATE_RECIRC) {
        dp_recirculate(run, *ret_arg);
    }
    return fate;
}

/* Does 'n' operations of flow run->flow, from the one at 'first', number 'at', on.  Returns an enum dp_committed. */
DP_STAGE int dp_commit_rest(struct dp_ctx *ctx, struct dp_run *run, __u32 first, __u32 at, __u32 n)
{
    const struct dp_op *op = dp_ops_at(ctx, first);
    int committed = run && op ? dp_commit(ctx, &run->frame, &run->key, op, first, n, &run->reason) : DP_COMMIT_DROP;

    if (DP_TAKES_SKBS && run && committed == DP_COMMIT_DETOUR) {
        run->at = at + run->reason;
    }
    return committed;
}

/* What becomes of the packet of 'run' after all operations of 'flow', of which 'committed' is the outcome: an enum
 * dp_committed. */
DP_INLINE __u64 dp_end(struct dp_ctx *ctx, struct dp_run *run, const struct dp_flow *flow, int committed)
{
    int fate = flow->fate;

    if (DP_TAKES_SKBS) {
        fate &= ~DP_FATE_SKB;
    }
    if (DP_TAKES_SKBS && committed == DP_COMMIT_DETOUR) {
        return DP_FATE_DETOUR;
    }
    if (committed) {
        fate = DP_FATE_DROP;
    }
    run->tracked = 0;
    dp_count(ctx, run->flow, run->len, run->tcp_flags);
    if (!DP_OMITS_OP(ctx, DP_OP_CT)) {
        dp_path_note(&run->path, run->flow, run->len);
    }
    if (fate == DP_FATE_RECIRC) {
        dp_recirculate(run, flow->arg);
    }
    return DP_FATED(fate, flow->arg);
}

/* The packet is back from a detour, on which operation run->at of flow run->flow sent it.  Returns as
 * dp_pass_again(). */
DP_STAGE __u64 dp_back(struct dp_ctx *ctx, struct dp_run *run)
{
    const struct dp_flow *flow = run ? dp_flows_at(ctx, run->flow) : 0;

    if (!flow || flow->generation != run->generation) {
        return DP_FATE_DROP;
    }
    run->frame.has |= DP_HAS_BACK;
    run->reason = DP_REASON_DROPPED;
    return dp_end(ctx, run, flow, dp_commit_rest(ctx, run, flow->ops + run->at, run->at, flow->n_ops - run->at));
}

/* The CT that run->at says, of flow run->flow; NULL if there is none. */
DP_INLINE const struct dp_op *dp_track_op(struct dp_ctx *ctx, const struct dp_run *run)
{
    const struct dp_flow *flow = dp_flows_at(ctx, run->flow);

    return flow ? dp_ops_at(ctx, flow->ops + run->at) : 0;
}

/* What follows this CT, or SAMPLE without one, in flow run->flow, up to the next CT.  Returns as dp_pass(), with 'arg'
 * in a stage's way. */
DP_STAGE __u64 dp_track_end(struct dp_ctx *ctx, struct dp_run *run)
{
    const struct dp_flow *flow = run ? dp_flows_at(ctx, run->flow) : 0;
    const struct dp_op *op = flow ? dp_track_op(ctx, run) : 0;
    int committed = DP_COMMITTED;
    __u32 next, behind;

    if (!op) {
        return DP_FATE_DROP;
    }
    if (dp_is_traced(ctx, &run->traced) && op->code == DP_OP_CT) {
        dp_note_ct(ctx, run);
    }
    if (dp_ct_is_forgotten(op)) {
        run->ct.run.md.cached = 0;
    }
    next = op->u.ct.next;
    behind = (next ? next : flow->n_ops - run->at) - 1;
    if (behind) {
        committed = dp_commit_rest(ctx, run, flow->ops + run->at + 1, run->at + 1, behind);
    }
    if (!committed && next) {
        run->at += next;
        run->tracked++;
        return DP_FATE_TRACK;
    }
    return dp_end(ctx, run, flow, committed);
}

/* Goes on with the flow in 'run'.  Returns as dp_pass_again(). */
DP_INLINE __u64 dp_track(struct dp_ctx *ctx, struct dp_run *run)
{
    const struct dp_op *op = dp_track_op(ctx, run);
    int reason;

    run->reason = DP_REASON_DROPPED;
    if (!DP_OMITS_OP(ctx, DP_OP_SAMPLE) && op && op->code == DP_OP_SAMPLE) {
        run->tracked |= DP_TRACKED_SAMPLE;
        if (dp_random(ctx) < op->u.sample.chance) {
            dp_sample(ctx, run);
        }
        if (!op->u.sample.tracks) {
            return dp_track_end(ctx, run);
        }
        run->at++;
        op = dp_track_op(ctx, run);
    }
    if (!op || DP_OMITS_OP(ctx, DP_OP_CT)) {
        return DP_FATE_DROP;
    }
    if (DP_TAKES_SKBS && op->u.ct.flags & DP_CT_NAT && dp_checksum_outer(ctx, &run->frame, &run->key)) {
        return dp_upcall(run, run->flow, run->generation, DP_REASON_UP_CT);
    }
    reason = dp_ct_op(ctx, &run->frame, &run->key, op, &run->ct);
    if (reason) {
        return dp_upcall(run, run->flow, run->generation, reason);
    }
    run->n_ct++;
    return dp_track_end(ctx, run);
}

/* Parses the frame and looks up its flow.  Returns why there is none. */
DP_INLINE enum dp_reason dp_find(struct dp_ctx *ctx, struct dp_run *run, const struct dp_flow **ret_flow,
                                 __u32 *ret_index)
{
    const struct dp_head *head = dp_head_at(ctx, 0);

    if (!head) {
        return DP_REASON_UP_PARSE;
    }

    int parsed = dp_parse(ctx, &run->frame, &run->key, head->vlan_limit);

    if (DP_UNLIKELY(dp_out_of_reach(ctx))) {
        parsed = !DP_TAKES_SKBS || dp_pull(ctx) ? DP_PARSE_BEYOND
            : dp_parse(ctx, &run->frame, &run->key, head->vlan_limit);
        parsed = !DP_TAKES_SKBS || dp_out_of_reach(ctx) ? DP_PARSE_BEYOND : parsed;
    }
    if (parsed == DP_PARSE_OMITTED && !DP_TRIMMED) {
        return DP_REASON_UP_MISS;       /* The program leaves a protocol out only if no flow matches it. */
    }
    if (parsed == DP_PARSE_UNFINISHED) {
        return DP_REASON_UP_CHECKSUM;
    }
    if (parsed != DP_PARSED) {
        return DP_REASON_UP_PARSE;
    }
    *ret_flow = dp_lookup(ctx, head, &run->key, ret_index, &run->walked);
    return DP_REASON_UP_MISS;
}

/* The frame goes to the engine because of 'reason', after it matched flow 'flow' or none. */
DP_INLINE int dp_upcall(struct dp_run *run, __u32 flow, __u32 generation, enum dp_reason reason)
{
    run->flow = flow;
    run->generation = generation;
    run->reason = reason;
    return DP_FATE_ENGINE;
}

/* The next pass looks up number 'recirc_id'; after a tunnel header was popped that is 0. */
DP_INLINE void dp_recirculate(struct dp_run *run, __u32 recirc_id)
{
    run->key.recirc_id = recirc_id;
    if (recirc_id) {
        run->frame.local_stack = 0;     /* Only a packet that was in a tunnel is still as its sender made it. */
    }
}

#endif /* dp/pipeline.h */
