/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: ct() as an operation of a flow.
 *
 * CT is the first operation of its flow; others may follow.  What it can refuse, it refuses before it changes anything:
 * then the engine executes the whole flow, or what is left of it from this ct() on.  It leaves to the engine
 *
 *   - fragments, ICMP errors, IPv6 with extension headers, SCTP with ports (DP_CT_SCTP);
 *   - connections whose packets a helper reads, and new ones in zones where a helper expects some;
 *   - a mark or label that changes of a connection that is there;
 *   - a packet that the same zone has translated before;
 *   - what an FTP or TFTP helper would judge again, in the same zone;
 *   - a connection that cannot be made because another CPU makes one in the same bucket, or another process adopts the
 *     tables.
 *
 * At XDP the checksum of TCP, UDP and ICMP is verified if the packet belongs to no connection, or changes the state of
 * TCP: SYN, FIN and RST.  To verify all costs more than everything else; who receives a damaged segment drops it.  At
 * tcx it is not verified: sockets made the packet, or the kernel's receive path does it. */
#ifndef DP_CT_OP_H
#define DP_CT_OP_H 1

#include "dp/ct_fast.h"
#include "dp/ct_run.h"
#include "dp/key.h"
#include "dp/op.h"
#include "dp/path_table.h"
#include "dp/reason.h"

#define DP_CT_PORT_FTP 21
#define DP_CT_PORT_TFTP 69

/* Of a run (dp/pipeline.h). */
struct dp_ct_here {
    struct dp_ct_run run;       /* While the key has a ct_state, its 'md' has what the key has not: what 'cached' is
                                 * about. */
    struct dp_ct_action action;
    __u32 marks;                /* Index in marks[] for a new connection. */
    __u32 n_steady;             /* Connections that took the packet in dp_ct_fast(), one after the other; */
    __u32 translated;           /* and whether one translated it. */
    struct dp_micro_conn steady[DP_PATH_CONNS];
};

#define DP_CT_UNSTEADY 0x10000  /* In 'n_steady': one did not, or is not known for long. */

/* Unpacks the argument of 'op'. */
DP_INLINE void dp_ct_unpack(struct dp_ctx *ctx, const struct dp_op *op, struct dp_ct_here *here)
{
    const struct dp_blob *blob = op->n_blobs ? dp_blobs_at(ctx, op->u.ct.blob) : 0;
    struct dp_ct_action *action = &here->action;

    action->zone = op->u.ct.zone;
    action->policy = op->u.ct.policy;
    action->flags = op->u.ct.flags;
    action->mark = op->u.ct.mark;
    action->mark_mask = op->u.ct.mark_mask;
    action->nat.min_port = op->u.ct.min_port;
    action->nat.max_port = op->u.ct.max_port;
    here->marks = op->u.ct.marks;
    for (int i = 0; i < 2; i++) {
        action->label[i] = blob ? blob->ct.label[i] : 0;
        action->label_mask[i] = blob ? blob->ct.label_mask[i] : 0;
        action->nat.min[i] = blob ? blob->ct.min[i] : 0;
        action->nat.max[i] = blob ? blob->ct.max[i] : 0;
    }
}

/* Reads the packet.  Returns as dp_ct_packet(), or that it is the engine's: minus an enum dp_reason. */
DP_STAGE int dp_ct_op_read(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key,
                           struct dp_ct_here *here)
{
    int kind;

    if (!frame || !key || !here) {
        return -DP_REASON_UP_CT;
    }
    if (frame->has & DP_HAS_IP4) {
        const __u8 *ip = dp_at(ctx, frame->l3 & DP_OFS_MASK, DP_IP4_LEN);

        if (!ip || dp_load16(ip + 6) & dp_htons(0x3fff).raw) {
            return -DP_REASON_UP_CT_FRAGMENT;
        }
    } else if (!(frame->has & DP_HAS_IP6)) {    /* It was parsed: dp_predict() fills no key, but knows none like it. */
        return key->ip_frag ? -DP_REASON_UP_CT_FRAGMENT : -DP_REASON_UP_CT;
    }
    here->action.flags |= DP_CT_GOOD_L4;
    here->run.proto = 0;                /* That of the packet before, if this one is damaged. */
    kind = dp_ct_packet(ctx, frame, frame->has & DP_HAS_IP6 ? 1 : 0, &here->action, &here->run);
    if (DP_UNLIKELY(dp_out_of_reach(ctx))) {
        if (dp_pull(ctx)) {
            return -DP_REASON_UP_CT;
        }
        kind = dp_ct_packet(ctx, frame, frame->has & DP_HAS_IP6 ? 1 : 0, &here->action, &here->run);
    }
    if (DP_UNLIKELY(here->run.proto == DP_IP_SCTP && here->action.flags & DP_CT_SCTP)) {
        return -DP_REASON_UP_CT;
    }
    return kind > 1 ? -DP_REASON_UP_CT_ERROR : kind;
}

/* Whether Open vSwitch judges such a packet again when it comes to the same zone again. */
DP_INLINE int dp_ct_is_control(const struct dp_ct_tuple *t)
{
    for (int i = 0; i < 2; i++) {
        __u16 port = DP_CT_L4_PORT(t->l4[i]);

        if ((t->proto == DP_IP_TCP && port == DP_SWAP16(DP_CT_PORT_FTP))
            || (t->proto == DP_IP_UDP && port == DP_SWAP16(DP_CT_PORT_TFTP))) {
            return 1;
        }
    }
    return 0;
}

/* Whether the action changes mark or label of connection 'ref'. */
DP_INLINE int dp_ct_would_remark(struct dp_ctx *ctx, const struct dp_ct_key *key, const struct dp_ct_action *action)
{
    const struct dp_ct_marks *marks = dp_ct_marks_at(ctx, DP_READ_ONCE(key->marks));
    __u64 differs = 0;

    if (!(action->flags & (DP_CT_MARK | DP_CT_LABEL)) || DP_READ_ONCE(key->flags) & DP_CT_KEY_RELATED) {
        return 0;
    }
    if (!marks) {
        return 1;
    }
    if (action->flags & DP_CT_MARK) {
        differs = (marks->mark & action->mark_mask) ^ action->mark;
    }
    if (action->flags & DP_CT_LABEL) {
        differs |= (marks->label[0] & action->label_mask[0]) ^ action->label[0];
        differs |= (marks->label[1] & action->label_mask[1]) ^ action->label[1];
    }
    return differs != 0;
}

/* Decides about the packet that dp_ct_op_read() read, whose connection is here->run.ref.  Changes nothing.  Returns 1:
 * go on; 0: it is damaged; minus an enum dp_reason: it is the engine's. */
DP_STAGE int dp_ct_op_decide(struct dp_ctx *ctx, struct dp_ct_here *here)
{
    struct dp_ct_run *run;

    if (!here) {
        return -DP_REASON_UP_CT;
    }
    run = &here->run;
    if (run->ref) {
        const struct dp_ct_key *key = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(run->ref));

        if (!key || DP_READ_ONCE(key->flags) & DP_CT_KEY_ENGINE) {
            return -DP_REASON_UP_CT_HELPER;
        }
        if (dp_ct_would_remark(ctx, key, &here->action)) {
            return -DP_REASON_UP_CT_MARK;
        }
    } else {
        const struct dp_ct_zone *zone = dp_ct_zones_at(ctx, here->action.zone);

        if (!zone || DP_READ_ONCE(zone->n_expected)) {
            return -DP_REASON_UP_CT_HELPER;
        }
    }
    if (run->verified || !dp_ct_must_verify(run)) {
        return 1;
    }
    if (dp_has_frags(ctx)) {
        return -DP_REASON_UP_CT;
    }
    run->verified = dp_ct_l4_is_good(ctx, run);
    return run->verified;
}

/* Whether operations, 'op' and those behind it, change addresses, ports or ICMP's type: then a packet is not that of
 * the connection any more that its last ct() found. */
DP_INLINE int dp_ct_is_forgotten(const struct dp_op *op)
{
    return op->needs & DP_HAS_FIRST     /* SET_IP4 of an address. */
        || op->codes & (1ull << DP_OP_SET_IP6_SRC | 1ull << DP_OP_SET_IP6_DST | 1ull << DP_OP_SET_TCP
                        | 1ull << DP_OP_SET_UDP | 1ull << DP_OP_SET_SCTP | 1ull << DP_OP_SET_ICMP
                        | 1ull << DP_OP_PUSH_MPLS | 1ull << DP_OP_POP_MPLS);
}

/* What matches of the next pass see. */
DP_INLINE void dp_ct_to_key(const struct dp_ct_md *md, union dp_key *key)
{
    key->ct_mark = md->mark;
    key->ct_state = md->state;
    key->ct_proto = md->proto;
    key->ct_zone = md->zone;
    key->ct_tp_src.raw = md->tp[0];
    key->ct_tp_dst.raw = md->tp[1];
    key->ct_label[0] = md->label[0];
    key->ct_label[1] = md->label[1];
    if (md->v6) {
        for (int i = 0; i < 2; i++) {
            key->ct_ip6_src[i] = md->addr[0][i];
            key->ct_ip6_dst[i] = md->addr[1][i];
        }
    } else {
        key->ct_ip4_src.raw = md->addr[0][0];
        key->ct_ip4_dst.raw = md->addr[1][0];
        for (int i = DP_KEY_WORD(ct_ip4_src) + 1; i < DP_KEY_WORD(tun_id); i++) {
            key->w[i] = 0;
        }
    }
}

/* Likewise after dp_ct_again(), which leaves the original tuple as it is. */
DP_INLINE void dp_ct_again_to_key(const struct dp_ct_md *md, union dp_key *key)
{
    key->ct_state = md->state;
    key->ct_zone = md->zone;
    key->ct_mark = md->mark;
    key->ct_label[0] = md->label[0];
    key->ct_label[1] = md->label[1];
}

/* Does 'op' to any packet.  Returns as dp_ct_op(). */
DP_STAGE int dp_ct_op_any(struct dp_ctx *ctx, const struct dp_frame *frame, union dp_key *key, const struct dp_op *op,
                          struct dp_ct_here *here)
{
    struct dp_ct_run *run;
    struct dp_ct_md *md;
    __u32 now = DP_CT_NOW(ctx);
    int kind;

    if (!frame || !key || !op || !here) {
        return DP_REASON_UP_CT;
    }
    run = &here->run;
    md = &run->md;
    dp_ct_unpack(ctx, op, here);
    if (!key->ct_state || here->action.flags & DP_CT_FRESH) {
        md->state = 0;
        md->cached = 0;
        md->related = 0;
    }
    kind = dp_ct_op_read(ctx, frame, key, here);
    if (kind < 0) {
        return -kind;
    }
    if (md->state & DP_CS_NAT && md->zone == here->action.zone) {
        return DP_REASON_UP_CT_NAT;
    }
    run->related = 0;
    run->remark = 0;
    run->ref = dp_ct_cached(ctx, md, &here->action);
    if (kind && run->ref) {
        const struct dp_ct_key *conn = dp_ct_keys_at(ctx, DP_CT_REF_INDEX(run->ref));

        if (!conn || dp_ct_is_control(&run->tuple)) {
            return DP_REASON_UP_CT_HELPER;
        }
        if (dp_ct_would_remark(ctx, conn, &here->action)) {
            return DP_REASON_UP_CT_MARK;
        }
        dp_ct_again(ctx, run, &here->action);
        dp_ct_again_to_key(md, key);
        return DP_REASON_FORWARDED;
    }
    if (kind) {
        run->ref = dp_ct_find(ctx, &run->tuple, now);
        kind = dp_ct_op_decide(ctx, here);
        if (kind < 0) {
            return -kind;
        }
    }
    if (!kind) {
        md->state = DP_CS_INV;
        dp_ct_write(ctx, md, here->action.zone, 0, 0);
    } else {
        if (md->state && md->zone != here->action.zone) {
            md->state = 0;
        }
        if (dp_ct_follow(ctx, run, &here->action, now) == DP_CT_BUSY) {
            return DP_REASON_UP_CT_NEW;
        }
        if (run->remark) {
            dp_ct_first_marks(ctx, run->ref, here->marks);
        }
    }
    dp_ct_to_key(md, key);
    return DP_REASON_FORWARDED;
}

/* Notes the connection for dp/path_learn.h. */
DP_INLINE void dp_ct_note_steady(struct dp_ct_here *here)
{
    __u64 n = here->n_steady;

    DP_OPAQUE(n);
    if (n < DP_PATH_CONNS) {
        DP_OPAQUE(n);
        here->steady[n].ref = here->run.ref;
        here->steady[n].version = here->run.version;
    }
    here->n_steady = here->run.is_young ? DP_CT_UNSTEADY : n + 1;
}

/* Does 'op', the first operation of a flow, to the packet.  Returns DP_REASON_FORWARDED, or why the engine is to do it:
 * then nothing was changed. */
DP_INLINE int dp_ct_op(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, const struct dp_op *op,
                       struct dp_ct_here *here)
{
    int fast = dp_ct_fast(ctx, frame, key, op, &here->run);

    if (fast == DP_CT_FAST_DONE || fast == DP_CT_FAST_NAT) {
        dp_ct_note_steady(here);
    } else {
        here->n_steady = DP_CT_UNSTEADY;
        fast = fast ? dp_ct_change(ctx, frame, key, op, &here->run) : 0;
        if (!fast) {
            return dp_ct_op_any(ctx, frame, key, op, here);
        }
    }
    if (fast == DP_CT_FAST_NAT) {
        here->run.md.state |= dp_ct_translate(ctx, &here->run);
        key->ct_state = here->run.md.state;
        here->translated = 1;
    }
    return DP_REASON_FORWARDED;
}

#endif /* dp/ct_op.h */
