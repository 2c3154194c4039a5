/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What is inside of a tunnel's packets is predicted as frames of a port are (dp/predict.h), by the tunnel's other end:
 * packets of many ends come mixed.  Before the header is popped, it and the first bytes behind it are compared with
 * what they must be for the flow that the last packet of that end found; neither is parsed and hashed then.
 *
 * That is for flows that do nothing but pop, of plain frames, out of tunnels over IPv4 without a checksum; and for
 * those inside that neither track nor recirculate, and match no more than the first 8 bytes of Geneve options. */
#ifndef DP_INSIDE_H
#define DP_INSIDE_H 1

#include "dp/count.h"
#include "dp/predict.h"
#include "dp/tunnel_pop.h"

/* The word of the key that word 'i' of 'inside_mask' is about. */
DP_INLINE __u32 dp_inside_word(int i)
{
    return i == 0 ? DP_KEY_WORD(tun_id) : i == 1 ? DP_KEY_WORD(tun_flags) : i == 2 ? DP_KEY_WORD(tun_ip4_src)
        : DP_KEY_WORD(tun_options);
}

/* What is expected on this CPU inside of packets that come out of the tunnel's port 'port', with the addresses 'ip4' as
 * in the key's word: those whose addresses differ in their last byte have different places. */
DP_INLINE struct dp_prediction *dp_inside_of(struct dp_ctx *ctx, __u32 port, __u64 ip4)
{
    __u32 last = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ip4 >> 24 : ip4 >> 32;

    return dp_predictions_at(ctx, dp_cpu(ctx) * DP_PREDICTIONS + DP_PREDICTED_PORTS
                             + (port + last) % DP_PREDICTED_ENDS);
}

/* Returned instead of a flow: the packet is to be dropped. */
#define DP_INSIDE_LOST (DP_NO_FLOW - 1)

/* Of a frame whose flow 'outer' does no more than to pop a tunnel's header: pops it, if what is inside is as predicted,
 * and counts it.  Returns the flow of what was inside, with TCP's flags in the upper half; or DP_NO_FLOW with nothing
 * changed, or DP_INSIDE_LOST. */
DP_STAGE __u64 dp_inside(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u32 outer)
{
    const struct dp_flow *flow = dp_flows_at(ctx, outer);
    const struct dp_op *op = flow ? dp_ops_at(ctx, flow->ops) : 0;
    const __u8 *ip = dp_at(ctx, DP_ETH_LEN, DP_IP4_LEN);
    const __u32 l4 = DP_ETH_LEN + DP_IP4_LEN;
    __u32 kind, port, len, frame_len, tcp_flags = 0;
    struct dp_prediction *p;
    __u64 id, flags, ip4, difference;

    if (!frame || !key || !op || !ip || !(1ull << (op->code & 63) & DP_POP_OPS) || !(frame->has & DP_HAS_IP4)
        || frame->l3 != DP_ETH_LEN) {
        return DP_NO_FLOW;
    }
    port = op->u.tunnel_pop.port;
    kind = op->u.tunnel_pop.kind;
    ip4 = dp_load64(ip + 12);
    p = dp_inside_of(ctx, port, ip4);
    if (!p || !p->reach) {
        return DP_NO_FLOW;
    }
    dp_tunnel_read_head(ctx, l4, kind, ip[1], ip[8], &id, &flags);
    difference = ((id & p->inside_mask[0]) ^ p->inside_value[0]) | ((flags & p->inside_mask[1]) ^ p->inside_value[1])
        | ((ip4 & p->inside_mask[2]) ^ p->inside_value[2]);
    len = dp_tunnel_expected(ctx, frame, kind);
    if (difference || !len || len & DP_POP_CHECKSUM) {
        return DP_NO_FLOW;
    }
    if (p->inside_mask[3]
        && (dp_tunnel_read_options(ctx, l4 + DP_UDP_LEN + DP_GENEVE_LEN, len - DP_UDP_LEN - DP_GENEVE_LEN)
                & p->inside_mask[3]) != p->inside_value[3]) {
        return DP_NO_FLOW;
    }
    len = (len + l4) & DP_MAX_POPPED;
    frame_len = frame->len;
    flow = dp_predict(ctx, p, len, port, frame, &tcp_flags);
    if (!flow) {
        return DP_NO_FLOW;
    }
    if (flow->n_ops || flow->fate > DP_FATE_OUTPUT) {   /* The engine may get the packet. */
        dp_tunnel_read(ctx, l4, 1, key, kind);
    }
    if (dp_adjust_head(ctx, len)) {
        return DP_INSIDE_LOST;
    }
    key->w[0] = DP_BYTES(0, 4, port);
    p->hits++;
    dp_count(ctx, outer, frame_len, 0);
    return (__u64) tcp_flags << 32 | p->flow;
}

/* Whether '*p', whose frame matched flow 'index', can stand for it inside of a tunnel.  Notes what the flow wants of
 * the tunnel's header. */
DP_INLINE int dp_inside_make(struct dp_ctx *ctx, __u32 index, struct dp_prediction *p)
{
    const struct dp_flow *flow = dp_flows_at(ctx, index);
    const struct dp_mask *mask = dp_masks_at(ctx, dp_identity_mask(p->identity));
    const struct dp_op *op;

    if (!flow || !mask || (flow->fate != DP_FATE_OUTPUT && flow->fate != DP_FATE_DROP)) {
        return 0;
    }
    op = flow->n_ops ? dp_ops_at(ctx, flow->ops) : 0;
    if (op && op->codes >> DP_OP_CT & 1) {
        return 0;
    }
    for (int i = 0; i < DP_INSIDE_WORDS; i++) {
        p->inside_mask[i] = p->inside_value[i] = 0;
    }
    for (__u32 i = 0; i < DP_FLOW_COLD && i < mask->n_cold; i++) {
        __u32 word = mask->cold_word[i];
        int known = word < DP_KEY_WORD(tun_id);

        DP_UNROLL
        for (int j = 0; j < DP_INSIDE_WORDS; j++) {
            if (word == dp_inside_word(j)) {
                p->inside_mask[j] = mask->cold[i];
                p->inside_value[j] = flow->cold[i];
                known = 1;
            }
        }
        if (!known) {
            return 0;
        }
    }
    return 1;
}

/* Updates what is predicted from a frame that was inside of a tunnel, has been parsed to '*frame' and '*key', and
 * matched flow 'index': as dp_predict_next().  Returns 0. */
DP_STAGE int dp_inside_next(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key, __u32 index)
{
    struct dp_prediction *p = key ? dp_inside_of(ctx, key->in_port, key->w[DP_KEY_WORD(tun_ip4_src)]) : 0;

    if (!frame || !key || !p || !key->w[DP_KEY_WORD(tun_ip4_src)]) {
        return 0;
    }
    if (p->rest) {
        p->rest--;
        return 0;
    }
    dp_predict_next(ctx, frame, key, index, p);
    if (p->reach && !dp_inside_make(ctx, index, p)) {
        dp_predict_pause(p);
    }
    return 0;
}

#endif /* dp/inside.h */
