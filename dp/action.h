/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A flow's program: decide, then write.
 *
 * Everything that could stop a program halfway is known before it begins: what the frame must have
 * (DP_HAS_*, collected by parsing) and how much headroom is needed.  If either lacks, nothing is touched and the engine executes
 * the flow, with the same bytes as a result: the oracle of both is odp_execute_actions(). */
#ifndef DP_ACTION_H
#define DP_ACTION_H 1

#include "dp/meter.h"
#include "dp/pending.h"
#include "dp/push.h"
#include "dp/rss.h"
#include "dp/set.h"

/* Operations that change UDP's checksum. */
#define DP_CHANGE_UDP (1u << DP_OP_SET_IP4 | 1u << DP_OP_SET_IP6_SRC | 1u << DP_OP_SET_IP6_DST | 1u << DP_OP_SET_UDP)
#define DP_INLINE_OPS 2         /* See dp_execute(). */

enum dp_executed {
    DP_EXECUTED,                /* All operations were done. */
    DP_EXECUTE_BEYOND,          /* None was: the frame lacks what they need. */
    DP_EXECUTE_DROP,            /* A meter dropped the packet, or memory ran out. */
    DP_EXECUTE_CALL,            /* Of one operation: not done, dp_execute_op() is to be called. */
};

DP_STAGE int dp_execute_op(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, const struct dp_op *op);

/* What the program leaves out does not come to a case: the check lets the verifier see it, and remove the rest. */
#define DP_OPERATION(NAME) case DP_OP_##NAME: if (DP_OMITS_OP(ctx, DP_OP_##NAME)) { break; }

/* Whether the packet is a tunnel's whose own UDP checksum is complete, but of the packet inside it is not: Linux leaves
 * that to the device, and can tell what it will be (Documentation/networking/checksum-offloads.rst, "LCO"). */
DP_STAGE int dp_checksum_outer(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key)
{
    if (!frame || !key || !(frame->has & DP_HAS_UDP)) {
        return 0;
    }

    const __u8 *udp = dp_l4(ctx, frame, DP_UDP_LEN);
    __u16 field = udp ? dp_load16(udp + 6) : 0;
    __u64 addresses;

    if (frame->has & DP_HAS_IP4) {
        const __u8 *ip = dp_l3(ctx, frame, DP_IP4_LEN);

        addresses = ip ? dp_pending_sum(ip + 12, 1) : 0;
    } else if (frame->has & DP_HAS_IP6) {
        const __u8 *ip = dp_l3(ctx, frame, DP_IP6_LEN);

        addresses = ip ? dp_pending_sum(ip + 8, 4) : 0;
    } else {
        return 0;
    }
    return field && !dp_is_pending(field, addresses, DP_IP_UDP, frame->l4_len) && dp_csum_left(ctx);
}

/* Whether the first operation is the only one that needs headroom: it finds out by itself whether there is some. */
DP_INLINE int dp_finds_out(const struct dp_op *op)
{
    return op->code == DP_OP_PUSH_VLAN && op->growth == DP_VLAN_LEN;
}

/* Executes one of the commonest operations without a call, which would cost as much as they do.  Returns an enum
 * dp_executed, or DP_EXECUTE_CALL if it is another. */
DP_INLINE int dp_execute_common(struct dp_ctx *ctx, struct dp_frame *frame, const struct dp_op *op)
{
    switch (op->code) {
    DP_OPERATION(SET_ETH)
        dp_set_eth(ctx, op);
        return DP_EXECUTED;
    DP_OPERATION(SET_IP4)
        dp_set_ip4(ctx, frame, op);
        return DP_EXECUTED;
    DP_OPERATION(PUSH_VLAN)
        return dp_push_vlan(ctx, frame, op) ? DP_EXECUTE_DROP : DP_EXECUTED;
    DP_OPERATION(POP_VLAN)
        return dp_pop_vlan(ctx, frame) ? DP_EXECUTE_DROP : DP_EXECUTED;
    }
    return DP_EXECUTE_CALL;
}

/* Runs 'n' operations, at least one, from index 'first' on.  The first two are looked at more closely: most flows have no
 * more, and the verifier follows what is inline once for each. */
DP_INLINE int dp_execute(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u32 first, __u32 n)
{
    const struct dp_op *op = dp_ops_at(ctx, first);
    __u32 i;

    if (!frame || !key || !op || op->needs & ~frame->has || op->codes & dp_omitted_ops(ctx)) {
        return DP_EXECUTE_BEYOND;
    }

    int growth = op->growth & DP_OFS_MASK;

    if (growth && !dp_finds_out(op) && !dp_can_grow(ctx, growth)) {
        return DP_EXECUTE_BEYOND;
    }
    if (op->codes >> DP_OP_SET_ND_EXT & 1 && dp_pull(ctx)) {
        return DP_EXECUTE_BEYOND;       /* It sums up more than parsing looked at. */
    }
    if (DP_TAKES_SKBS && op->codes & DP_CHANGE_UDP && dp_checksum_outer(ctx, frame, key)) {
        frame->has |= DP_HAS_OUTER;
    }
    for (i = 0; i < DP_INLINE_OPS && i < n && op; op = dp_ops_at(ctx, first + ++i)) {
        int executed = dp_execute_common(ctx, frame, op);

        if (executed == DP_EXECUTE_CALL) {
            break;
        }
        if (executed == DP_EXECUTE_DROP) {
            return i == 0 && dp_finds_out(op) ? DP_EXECUTE_BEYOND : DP_EXECUTE_DROP;
        }
    }
    for (; i < DP_MAX_OPS && i < n; i++) {
        op = dp_ops_at(ctx, first + i);
        if (op && dp_execute_op(ctx, frame, key, op)) {
            return DP_EXECUTE_DROP;
        }
    }
    return DP_EXECUTED;
}

/* Returns whether the packet is dropped. */
DP_STAGE int dp_execute_op(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, const struct dp_op *op)
{
    if (!frame || !key || !op) {
        return 1;
    }

    int executed = dp_execute_common(ctx, frame, op);

    if (executed != DP_EXECUTE_CALL) {
        return executed == DP_EXECUTE_DROP;
    }
    switch (op->code) {
    DP_OPERATION(PUSH_MPLS)
        dp_push_mpls(ctx, frame, op);
        break;
    DP_OPERATION(POP_MPLS)
        dp_pop_mpls(ctx, frame, op);
        break;
    DP_OPERATION(SET_MPLS)
        dp_set_mpls(ctx, frame, op);
        break;
    DP_OPERATION(SET_IP6)
        dp_set_ip6(ctx, frame, op);
        break;
    DP_OPERATION(SET_IP6_SRC)
        dp_set_ip6_address(ctx, frame, op, 8);
        break;
    DP_OPERATION(SET_IP6_DST)
        dp_set_ip6_address(ctx, frame, op, 24);
        break;
    DP_OPERATION(SET_TCP)
        dp_set_tcp(ctx, frame, op);
        break;
    DP_OPERATION(SET_UDP)
        dp_set_udp(ctx, frame, op);
        break;
    DP_OPERATION(SET_SCTP)
        dp_set_sctp(ctx, frame, op);
        break;
    DP_OPERATION(SET_ICMP)
        dp_set_icmp(ctx, frame, op);
        break;
    DP_OPERATION(SET_ARP)
        dp_set_arp(ctx, frame, op);
        break;
    DP_OPERATION(SET_ND)
        dp_set_nd(ctx, frame, op);
        break;
    DP_OPERATION(SET_ND_EXT)
        dp_set_nd_ext(ctx, frame, op);
        break;
    DP_OPERATION(SET_MARK)
        key->skb_mark = dp_masked32(key->skb_mark, op->u.meta.value, op->u.meta.mask);
        break;
    DP_OPERATION(SET_PRIORITY)
        key->skb_priority = dp_masked32(key->skb_priority, op->u.meta.value, op->u.meta.mask);
        break;
    DP_OPERATION(TRUNC)
        frame->cut = frame->len > op->u.max_len ? frame->len - op->u.max_len : 0;
        break;
    DP_OPERATION(HASH)
        key->dp_hash = op->u.hash.alg == DP_HASH_SYM_L4 ? dp_rss_symmetric(key, op->u.hash.basis)
            : dp_rss_l4(key, frame->has, op->u.hash.basis);
        break;
    DP_OPERATION(CT_CLEAR)
        key->ct_mark = 0;
        for (int i = DP_KEY_WORD(ct_state); i < DP_KEY_WORD(tun_id); i++) {
            key->w[i] = 0;
        }
        break;
    DP_OPERATION(OUTPUT)
        dp_output_copies(ctx, key, op);
        break;
    DP_OPERATION(METER)
        return dp_meter_drops(ctx, frame, op->u.meter);
    }
    return 0;
}

#endif /* dp/action.h */
