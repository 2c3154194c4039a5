/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A flow's operations: decide, then write.
 *
 *     dp_prepare()    finds out whether all of them can be done to the frame, and touches nothing of it: what the frame
 *                     must have (DP_HAS_*, collected by parsing), how much headroom is needed, and whether the program
 *                     has the operations at all.  If anything is missing, the engine executes the flow, with the same
 *                     bytes as a result: the oracle of both is odp_execute_actions().
 *     dp_commit()     does them.  Nothing foreseeable stops it halfway.  It drops the packet if a meter says so, or if
 *                     the kernel has no memory for a VLAN tag of an skb.
 *
 * One exception: where the first operation is the only one that needs headroom, dp_commit() asks for it by using it
 * (dp_asks_itself()), because dp_prepare() would have to do and undo the same.  If there is none, nothing was done, and
 * the engine executes the flow. */
#ifndef DP_ACTION_H
#define DP_ACTION_H 1

#include "dp/meter.h"
#include "dp/pending.h"
#include "dp/push.h"
#include "dp/reason.h"
#include "dp/rss.h"
#include "dp/set.h"
#include "dp/tunnel.h"

/* Operations that change UDP's checksum. */
#define DP_CHANGE_UDP (1ull << DP_OP_SET_IP4 | 1ull << DP_OP_SET_IP6_SRC | 1ull << DP_OP_SET_IP6_DST        \
                       | 1ull << DP_OP_SET_UDP)
#define DP_INLINE_OPS 2         /* See dp_commit(). */

/* Returned instead of a reason: the operation was not done, dp_commit_op() is to be called. */
#define DP_UNCOMMON DP_N_REASONS

enum dp_committed {
    DP_COMMITTED,               /* All operations were done. */
    DP_COMMIT_NOTHING,          /* None was: dp_asks_itself(). */
    DP_COMMIT_DROP,             /* The packet is to be dropped. */
    DP_COMMIT_DETOUR,           /* Operation '*ret_reason' of them, and those behind it, wait for a detour. */
};

DP_STAGE int dp_commit_op(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, const struct dp_op *op);

/* An operation that the program leaves out reaches no case.  The check shows that to the verifier, which removes the
 * case. */
#define DP_OPERATION(NAME) case DP_OP_##NAME: if (DP_OMITS_OP(ctx, DP_OP_##NAME)) { break; }

/* Whether the checksum of TCP or UDP holds just the sum of the pseudo header (dp/pending.h). */
DP_STAGE int dp_checksum_pending(struct dp_ctx *ctx, const struct dp_frame *frame)
{
    if (!frame || !(frame->has & (DP_HAS_TCP | DP_HAS_UDP))) {
        return 0;
    }

    int is_tcp = frame->has & DP_HAS_TCP;
    const __u8 *l4 = dp_l4(ctx, frame, is_tcp ? DP_TCP_LEN : DP_UDP_LEN);
    __u16 field = 0;
    __u64 addresses;

    if (l4) {
        field = dp_load16(l4 + (is_tcp ? DP_TCP_CSUM_OFS : DP_UDP_CSUM_OFS));
    }
    if (frame->has & DP_HAS_IP4) {
        const __u8 *ip = dp_l3(ctx, frame, DP_IP4_LEN);

        addresses = ip ? dp_pending_sum(ip + 12, 1) : 0;
    } else if (frame->has & DP_HAS_IP6) {
        const __u8 *ip = dp_l3(ctx, frame, DP_IP6_LEN);

        addresses = ip ? dp_pending_sum(ip + 8, 4) : 0;
    } else {
        return 0;
    }
    return dp_is_pending(field, addresses, is_tcp ? DP_IP_TCP : DP_IP_UDP, frame->l4_len);
}

/* Whether the packet belongs to a tunnel, its outer UDP checksum is complete, and the checksum of the inner packet is
 * CHECKSUM_PARTIAL (Documentation/networking/checksum-offloads.rst, "LCO: Local Checksum Offload"). */
DP_STAGE int dp_checksum_outer(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key)
{
    if (!frame || !key || !(frame->has & DP_HAS_UDP)) {
        return 0;
    }

    const __u8 *udp = dp_l4(ctx, frame, DP_UDP_LEN);

    return udp && dp_load16(udp + DP_UDP_CSUM_OFS) && !dp_checksum_pending(ctx, frame) && dp_csum_left(ctx);
}

/* Whether 'op', the first of a program, is the only one that needs headroom.  Then it finds out itself whether the
 * frame has enough. */
DP_INLINE int dp_asks_itself(const struct dp_op *op)
{
    switch (op->code) {
    case DP_OP_PUSH_VLAN:
        return op->growth == DP_VLAN_LEN;
    case DP_OP_TNL_PUSH:
    case DP_OP_TNL_PUSH_CSUM:
        return op->growth == op->u.tunnel_push.len;
    }
    return 0;
}

/* Whether the frame is as short as CHECK_LEN among the 'n' operations from 'first' on wants it. */
DP_STAGE int dp_length_suits(struct dp_ctx *ctx, const struct dp_frame *frame, __u32 first, __u32 n)
{
    if (!frame) {
        return 0;
    }
    for (__u32 i = 0; i < DP_MAX_OPS && i < n; i++) {
        const struct dp_op *op = dp_ops_at(ctx, first + i);

        if (!op) {
            break;
        }
        if (op->code == DP_OP_CHECK_LEN) {
            return dp_longest(ctx, frame) <= op->u.max_len;
        }
    }
    return 0;
}

/* Whether all 'n' operations of the program that begins at index 'first' with 'op' can be done.  Brings what they read
 * into reach, and adds to '*frame' what only they ask for. */
DP_INLINE int dp_prepare(struct dp_ctx *ctx, struct dp_frame *frame, const union dp_key *key, const struct dp_op *op,
                         __u32 first, __u32 n)
{
    int growth = op->growth & DP_OFS_MASK;

    if (op->needs & ~frame->has || op->codes & dp_omitted_ops(ctx)) {
        return 0;
    }
    if (growth && !dp_asks_itself(op) && !dp_can_grow(ctx, growth)) {
        return 0;
    }
    if (op->codes >> DP_OP_SET_ND_EXT & 1 && dp_pull(ctx)) {
        return 0;                       /* The new checksum covers bytes that parsing did not look at. */
    }
    if (op->codes >> DP_OP_TRUNC & 1 && dp_has_frags(ctx)) {
        return 0;
    }
    if (!DP_OMITS_OP(ctx, DP_OP_CHECK_LEN) && op->codes >> DP_OP_CHECK_LEN & 1
        && !dp_length_suits(ctx, frame, first, n)) {
        return 0;
    }
    if (DP_TAKES_SKBS && op->codes & DP_CHANGE_UDP && dp_checksum_outer(ctx, frame, key)) {
        frame->has |= DP_HAS_OUTER;
    }
    if (!DP_OMITS_TUNNELS(ctx) && op->codes & DP_TUNNEL_OPS) {
        return dp_tunnel_prepare_plain(ctx, frame, op) || dp_tunnel_prepare(ctx, frame, key, first, n);
    }
    return 1;
}

/* Does one of the commonest operations without a call, which would cost as much as the operation; those of tunnels with
 * one, instead of two.  Returns as dp_commit_op(), or DP_UNCOMMON for any other operation. */
DP_INLINE int dp_commit_common(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, const struct dp_op *op)
{
    switch (op->code) {
    DP_OPERATION(SET_ETH)
        dp_set_eth(ctx, op);
        return DP_REASON_FORWARDED;
    DP_OPERATION(SET_IP4)
        dp_set_ip4(ctx, frame, op);
        return DP_REASON_FORWARDED;
    DP_OPERATION(PUSH_VLAN)
        return dp_push_vlan(ctx, frame, op) ? DP_REASON_NO_MEMORY : DP_REASON_FORWARDED;
    DP_OPERATION(POP_VLAN)
        return dp_pop_vlan(ctx, frame) ? DP_REASON_NO_MEMORY : DP_REASON_FORWARDED;
    DP_OPERATION(TNL_PUSH)
        return dp_tunnel_push(ctx, frame, key, op);
    DP_OPERATION(TNL_POP)
        return dp_tunnel_pop(ctx, frame, key, op);
    }
    return DP_UNCOMMON;
}

/* Does 'n' operations, at least one, from index 'first' on; 'op' is the first.  dp_prepare() must have said yes.
 * Sets '*ret_reason' with DP_COMMIT_DROP.  The first two are inline: most flows have no more, and the verifier follows
 * inline code once for each. */
DP_INLINE enum dp_committed dp_commit(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key,
                                      const struct dp_op *op, __u32 first, __u32 n, __u32 *ret_reason)
{
    __u32 i;

    for (i = 0; i < DP_INLINE_OPS && i < n && op; op = dp_ops_at(ctx, first + ++i)) {
        int reason = dp_commit_common(ctx, frame, key, op);

        if (reason == DP_UNCOMMON) {
            break;
        }
        if (reason) {
            *ret_reason = reason;
            return i == 0 && dp_asks_itself(op) ? DP_COMMIT_NOTHING : DP_COMMIT_DROP;
        }
    }
    for (; i < DP_MAX_OPS && i < n; i++) {
        op = dp_ops_at(ctx, first + i);

        int reason = op ? dp_commit_op(ctx, frame, key, op) : DP_REASON_FORWARDED;

        if (DP_TAKES_SKBS && reason == DP_DETOUR) {
            *ret_reason = i;
            return DP_COMMIT_DETOUR;
        }
        if (reason) {
            *ret_reason = reason;
            return i == 0 && reason == DP_REASON_NO_MEMORY && dp_asks_itself(op) ? DP_COMMIT_NOTHING : DP_COMMIT_DROP;
        }
    }
    return DP_COMMITTED;
}

/* Returns DP_REASON_FORWARDED, why the packet is to be dropped, or DP_DETOUR.  An operation without a case does not
 * compile. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
DP_STAGE int dp_commit_op(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, const struct dp_op *op)
{
    if (!frame || !key || !op) {
        return DP_REASON_FORWARDED;
    }

    int reason = dp_commit_common(ctx, frame, key, op);

    if (reason != DP_UNCOMMON) {
        return reason;
    }
    switch ((enum dp_op_code) op->code) {
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
            : dp_rss_l4(key, op->u.hash.basis);
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
    DP_OPERATION(TNL_PUSH_CSUM)
        return dp_tunnel_push_csum(ctx, frame, key, op);
    DP_OPERATION(TNL_POP_GENEVE)
        return dp_tunnel_pop(ctx, frame, key, op);
    DP_OPERATION(TNL_SET)
        return DP_TAKES_SKBS ? dp_tunnel_leave(ctx, op) : DP_REASON_NO_MEMORY;
    DP_OPERATION(METER)
        return dp_meter_drops(ctx, frame, op->u.meter) ? DP_REASON_METERED : DP_REASON_FORWARDED;
    case DP_OP_SET_ETH:                 /* dp_commit_common(). */
    case DP_OP_SET_IP4:
    case DP_OP_PUSH_VLAN:
    case DP_OP_POP_VLAN:
    case DP_OP_TNL_PUSH:
    case DP_OP_TNL_POP:
    case DP_OP_CHECK_LEN:               /* dp_prepare(). */
    case DP_OP_CT:                      /* Before all others: dp_track() of dp/pipeline.h. */
    case DP_OP_SAMPLE:
    case DP_OP_GROUP:                   /* How a packet leaves, after all operations (DP_FATE_GROUP). */
    case DP_N_OPS:
        break;
    }
    return DP_REASON_FORWARDED;
}
#pragma GCC diagnostic pop

#endif /* dp/action.h */
