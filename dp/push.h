/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Operations that insert and remove headers, as eth_push_vlan() and friends in Open vSwitch's lib/packets.c.
 * dp_prepare() checked the headroom (dp/action.h): with plain bytes none can fail. */
#ifndef DP_PUSH_H
#define DP_PUSH_H 1

#include "dp/frame.h"
#include "dp/op.h"
#include "dp/parse.h"
#include "dp/set.h"

/* What can stand before a label: Ethernet, two tags that were parsed, SNAP, tags pushed. */
#define DP_MAX_L2 (DP_ETH_LEN + 2 * DP_VLAN_LEN + 8 + DP_MAX_TAGS_PUSHED * DP_VLAN_LEN)

DP_INLINE void dp_move_layers(struct dp_frame *frame, int n, int l2_5_too)
{
    if (l2_5_too && frame->l2_5 != DP_NO_LAYER) {
        frame->l2_5 += n;
    }
    frame->l3 += n;
    if (frame->l4 != DP_NO_LAYER) {
        frame->l4 += n;
    }
    frame->len += n;
}

/* Returns nonzero, with nothing changed, if it failed: there may be no memory for an skb's tag. */
DP_INLINE int dp_push_vlan(struct dp_ctx *ctx, struct dp_frame *frame, const struct dp_op *op)
{
    dp_be16 tci = { op->u.vlan.tci.raw & DP_SWAP16((__u16) ~DP_VLAN_PRESENT) };
    int moved = dp_tag_push(ctx, op->u.vlan.tpid, tci);

    if (moved == DP_TAG_FAILED) {
        return 1;
    }
    dp_move_layers(frame, moved, 1);
    return 0;
}

/* Nothing to do for an untagged frame.  Returns as dp_push_vlan(). */
DP_INLINE int dp_pop_vlan(struct dp_ctx *ctx, struct dp_frame *frame)
{
    int moved = dp_tag_pop(ctx);

    if (moved == DP_TAG_FAILED) {
        return 1;
    }
    dp_move_layers(frame, moved, 1);
    return 0;
}

/* Sets the type before the first label or the network layer. */
DP_INLINE void dp_set_eth_type(struct dp_ctx *ctx, const struct dp_frame *frame, dp_be16 eth_type)
{
    __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN);

    if (!eth) {
        return;
    }
    if (dp_is_vlan(dp_load_be16(eth + 12))) {
        __u32 behind = frame->l2_5 != DP_NO_LAYER ? frame->l2_5 : frame->l3;

        eth = dp_at(ctx, (behind - DP_ETH_LEN) & DP_OFS_MASK, DP_ETH_LEN);
        if (!eth) {
            return;
        }
    }
    dp_store16(eth + 12, eth_type.raw);
}

DP_INLINE void dp_push_mpls(struct dp_ctx *ctx, struct dp_frame *frame, const struct dp_op *op)
{
    if (frame->l2_5 == DP_NO_LAYER) {
        frame->l2_5 = frame->l3;
    }
    dp_set_eth_type(ctx, frame, op->u.mpls.eth_type);
    if (dp_adjust_head(ctx, -DP_MPLS_LEN)) {
        return;
    }

    __u32 l2_len = frame->l2_5 & DP_OFS_MASK;

    for (__u32 i = 0; i < DP_MAX_L2 && i < l2_len; i += 2) {
        __u8 *to = dp_at(ctx, i, DP_MPLS_LEN + 2);

        if (to) {
            dp_store16(to, dp_load16(to + DP_MPLS_LEN));
        }
    }

    __u8 *label = dp_at(ctx, l2_len, DP_MPLS_LEN);

    if (label) {
        dp_store32(label, op->u.mpls.lse);
    }
    frame->has |= DP_HAS_MPLS;
    dp_move_layers(frame, DP_MPLS_LEN, 0);
}

DP_INLINE void dp_pop_mpls(struct dp_ctx *ctx, struct dp_frame *frame, const struct dp_op *op)
{
    __u32 l2_len = frame->l2_5 & DP_OFS_MASK;
    const __u8 *label;

    if (frame->l2_5 == DP_NO_LAYER) {
        return;
    }
    dp_set_eth_type(ctx, frame, op->u.mpls.eth_type);
    label = dp_at(ctx, l2_len, DP_MPLS_LEN);
    if (!label) {
        return;
    }
    if (dp_ntohl(dp_load_be32(label)) & 0x100) {
        frame->l2_5 = DP_NO_LAYER;
        frame->has &= ~DP_HAS_MPLS;
    }
    for (__u32 i = 2; i <= DP_MAX_L2 && i <= l2_len; i += 2) {
        __u8 *from = dp_at(ctx, (l2_len - i) & DP_OFS_MASK, DP_MPLS_LEN + 2);

        if (from) {
            dp_store16(from + DP_MPLS_LEN, dp_load16(from));
        }
    }
    if (!dp_adjust_head(ctx, DP_MPLS_LEN)) {
        dp_move_layers(frame, -DP_MPLS_LEN, 0);
    }
}

DP_INLINE void dp_set_mpls(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    __u8 *label = dp_at(ctx, frame->l2_5 & DP_OFS_MASK, DP_MPLS_LEN);

    if (label) {
        __u32 old = dp_load32(label);
        __u32 new = dp_masked32(old, op->u.mpls.lse, op->u.mpls.mask);

        dp_store32(label, new);
        dp_csum_packet(ctx, dp_csum_change32(old, new));
    }
}

#endif /* dp/push.h */
