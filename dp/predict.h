/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A last-flow cache.  A frame that differs from the previous one only in wildcarded bits matches the same flow: it
 * needs no parsing and no hash.  (Van Jacobson's header prediction and one-entry cache do this for connections, this
 * does it for masked flows: a million connections under one megaflow hit one entry.)
 *
 * An entry is called a prediction here.  It holds the first bytes of a frame that was parsed, and which of their bits
 * the flow that it matched depends on.  Entries are made for TCP and UDP, in IPv4 without options or IPv6 without
 * extension headers, behind at most one VLAN tag.  If a frame has the same bits, and the length in its IP header is
 * possible, dp_parse() would yield a key that this flow matches, and fill the frame as is done here.
 *
 * Each CPU has entries of its own, by input port.  After misses no entry is made for some frames, for more each time,
 * so that mixed flows cost little. */
#ifndef DP_PREDICT_H
#define DP_PREDICT_H 1

#include "dp/parse.h"
#include "dp/table.h"

#define DP_PREDICTED_HITS 2     /* A prediction pays if at least this many frames hit it. */
#define DP_PREDICTION_REST 1023 /* At most this many frames pass before another is made. */

/* Which flow stands in an entry of the table: mask (0: none) and generation, bits of its first word. */
DP_INLINE __u64 dp_flow_identity(const struct dp_flow *flow)
{
    __u64 identity = DP_READ_ONCE(*(const __u64 *) flow);

    return identity & (DP_BYTES(0, 2, 0xffff) | DP_BYTES(4, 4, 0xffffffff));
}

/* The mask in it. */
DP_INLINE __u32 dp_identity_mask(__u64 identity)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? identity & 0xffff : identity >> 48;
}

/* What is expected of frames of port 'in_port' on this CPU. */
DP_INLINE struct dp_prediction *dp_prediction_of(struct dp_ctx *ctx, __u32 in_port)
{
    return dp_predictions_at(ctx, dp_cpu(ctx) * DP_PREDICTIONS + in_port % DP_PREDICTED_PORTS);
}

/* The offset of word 'i' in the frame.  Words follow each other, without bytes that no entry compares. */
DP_INLINE int dp_predicted_ofs(int i)
{
    return i == DP_PREDICTED_MIDDLE / 8 ? DP_PREDICTED_MIDDLE - 8 : 8 * i;
}

/* Returns 0 if words 'first' to before 'behind' of the frame at 'data' are as predicted. */
DP_INLINE __u64 dp_differs(const struct dp_prediction *p, const __u8 *data, int first, int behind)
{
    __u64 difference = 0;

    DP_UNROLL
    for (int i = first; i < behind; i++) {
        difference |= (dp_load64(data + dp_predicted_ofs(i)) & p->mask[i]) ^ p->value[i];
    }
    return difference;
}

/* Returns the flow that the frame which begins at 'ofs' of that of 'ctx' matches in its first pass, or NULL if it is
 * not as predicted.  With a flow it fills '*frame' as dp_parse() would, its layers only if operations may need them,
 * and '*ret_tcp_flags' (host byte order; untouched if it is not TCP). */
DP_INLINE const struct dp_flow *dp_predict(struct dp_ctx *ctx, const struct dp_prediction *p, __u32 ofs, __u32 in_port,
                                           struct dp_frame *frame, __u32 *ret_tcp_flags)
{
    const __u8 *data = dp_at(ctx, ofs, DP_PREDICTED_SHORT);

    if (!data || p->in_port != in_port || dp_tag_beside(ctx)) {
        return 0;
    }

    __u32 length = dp_ntohs((dp_be16) { dp_load64(data + 16) >> (p->length_shift & 63) });
    __u64 difference = dp_differs(p, data, 0, DP_PREDICTED_SHORT / 8);

    if (p->reach != DP_PREDICTED_SHORT) {
        data = dp_at(ctx, ofs, DP_PREDICTED_MIDDLE);
        if (!data || !p->reach) {
            return 0;
        }
        difference |= dp_differs(p, data, DP_PREDICTED_SHORT / 8, DP_PREDICTED_WORDS - 1);
        if (p->reach == DP_PREDICTED_LONG) {
            data = dp_at(ctx, ofs, DP_PREDICTED_LONG);
            if (!data) {
                return 0;
            }
            difference |= dp_differs(p, data, DP_PREDICTED_WORDS - 1, DP_PREDICTED_WORDS);
        }
    }

    __u32 len = dp_len(ctx) - ofs;

    if (difference || length < p->length_least || length + p->length_begin > len) {
        return 0;
    }

    __u32 l4_len = length - p->length_ip;
    __u32 has = p->has;

    if (has & DP_HAS_TCP) {
        const __u8 *tcp = dp_at(ctx, ofs + (p->l4 & 127), DP_TCP_LEN);

        if (!tcp) {
            return 0;
        }
        *ret_tcp_flags = dp_ntohs(dp_load_be16(tcp + 12)) & 0xfff;
    }
    if (!DP_OMITS(ctx, DP_PART_CHECKSUM) && frame->local_stack) {
        const __u8 *ip = dp_at(ctx, ofs + (p->l3 & 31), DP_IP6_LEN);
        const __u8 *checksum = dp_at(ctx, ofs + ((p->l4 + (has & DP_HAS_TCP ? 16 : 6)) & 127), 2);

        if (!ip || !checksum
            || dp_is_unfinished(dp_load16(checksum), ip, has & DP_HAS_TCP ? DP_IP_TCP : DP_IP_UDP, l4_len, has)) {
            return 0;
        }
    }

    const struct dp_flow *flow = dp_flows_at(ctx, p->flow);

    /* A flow that recirculates may want the key; not if it pops a tunnel's header, which clears it. */
    if (!flow || dp_flow_identity(flow) != p->identity || (flow->fate == DP_FATE_RECIRC && flow->arg)) {
        return 0;
    }
    dp_store64(&frame->len, DP_BYTES(0, 4, len));
    if (!DP_OMITS(ctx, DP_PART_OPS)) {
        dp_frame_layers(frame, DP_NO_LAYER, p->l3, p->l4, l4_len);
        frame->has = has | (l4_len <= DP_SHORT_LEN ? DP_HAS_SHORT : 0);
    }
    return flow;
}

/* By how many bits to shift the word that has IP's length field, 'ofs' bytes from the start of the frame. */
DP_INLINE __u32 dp_length_shift(__u32 ofs)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ofs % 8 * 8 : 48 - ofs % 8 * 8;
}

/* The bytes of a field among a mask's hot words. */
#define DP_HOT_FIELD(MASK, FIELD) ((const __u8 *) (MASK)->hot + __builtin_offsetof(union dp_key, FIELD))

/* Writes which bits of a frame with the layers of '*frame' are compared: those that 'mask' has, and those that say what
 * kind of frame it is. */
DP_INLINE void dp_predict_bits(struct dp_prediction *p, const struct dp_frame *frame, const struct dp_mask *mask)
{
    __u8 *eth = (__u8 *) p->mask;
    __u8 *ip = eth + (frame->l3 & 31);
    __u8 *transport = eth + (frame->l4 & 63);

    DP_UNROLL
    for (int i = 0; i < DP_PREDICTED_WORDS; i++) {
        p->mask[i] = 0;
    }
    dp_store64(eth, dp_load64(DP_HOT_FIELD(mask, eth_dst)));
    dp_store32(eth + 8, dp_load32(DP_HOT_FIELD(mask, eth_dst) + 8));
    dp_store16(eth + 12, 0xffff);
    if (frame->l3 != DP_ETH_LEN) {
        dp_store16(eth + 14, dp_load16(DP_HOT_FIELD(mask, vlan.tci)) & ~DP_SWAP16(DP_VLAN_PRESENT));
        dp_store16(eth + 16, 0xffff);
    }

    __u8 tos = *DP_HOT_FIELD(mask, ip_tos);
    __u8 ttl = *DP_HOT_FIELD(mask, ip_ttl);

    if (frame->has & DP_HAS_IP4) {
        dp_store8(ip, 0xff);                            /* Version and length of the header. */
        dp_store8(ip + 1, tos);
        dp_store16(ip + 6, DP_SWAP16(0x3fff));          /* No fragment. */
        dp_store8(ip + 8, ttl);
        dp_store8(ip + 9, 0xff);
        dp_store64(ip + 12, dp_load64(DP_HOT_FIELD(mask, ip4_src)));
    } else {
        __u32 label = mask->n_cold && mask->cold_word[0] == DP_KEY_WORD(ip6_label) ? dp_load32(mask->cold) : 0;

        dp_store32(ip, dp_htonl((__u32) tos << 20).raw | (label & DP_SWAP32(0xfffff)));
        dp_store8(ip + 6, 0xff);
        dp_store8(ip + 7, ttl);
        dp_store64(ip + 8, dp_load64(DP_HOT_FIELD(mask, ip6_src_hi)));
        for (int i = 0; i < DP_WARM_WORDS; i++) {
            dp_store64(ip + 16 + 8 * i, mask->warm[i]);
        }
    }
    dp_store32(transport, dp_load32(DP_HOT_FIELD(mask, tp_src)));
    if (frame->has & DP_HAS_TCP) {
        dp_store16(transport + 12, dp_load16(DP_HOT_FIELD(mask, tcp_flags)) | DP_SWAP16(0xf000));
    }
    p->mask[DP_PREDICTED_MIDDLE / 8] = dp_load64(eth + DP_PREDICTED_MIDDLE - 8);
}

/* Makes '*p' of a frame that was parsed and matched flow 'flow'.  Returns whether it is of a kind that can be
 * predicted. */
DP_INLINE int dp_predict_make(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key,
                              const struct dp_flow *flow, struct dp_prediction *p)
{
    __u64 identity = dp_flow_identity(flow);
    __u32 mask_index = dp_identity_mask(identity);
    const struct dp_mask *mask = dp_masks_at(ctx, mask_index);
    __u32 has = frame->has & ~DP_HAS_SHORT;
    __u32 ip_len = has & DP_HAS_IP4 ? DP_IP4_LEN : DP_IP6_LEN;
    __u32 l3 = frame->l3;
    __u32 l4 = frame->l4;
    __u32 decides = l4 + (has & DP_HAS_TCP ? 14 : 4);
    __u32 transport_len = DP_UDP_LEN;

    /* Unlinked after it was found, the flow would be predicted until its entry is used again. */
    if (mask_index == DP_MASK_ALL) {
        return 0;
    }
    if (!mask || !(has & (DP_HAS_IP4 | DP_HAS_IP6)) || !(has & (DP_HAS_TCP | DP_HAS_UDP)) || key->ip_frag
        || (l3 != DP_ETH_LEN && l3 != DP_ETH_LEN + DP_VLAN_LEN) || l4 != l3 + ip_len || dp_tag_beside(ctx)) {
        return 0;
    }
    if (has & DP_HAS_TCP) {
        const __u8 *tcp;

        DP_OPAQUE(l4);
        tcp = dp_at(ctx, l4 & 63, DP_TCP_LEN);
        if (!tcp) {
            return 0;
        }
        transport_len = (tcp[12] >> 4) * 4;
    }
    dp_predict_bits(p, frame, mask);
    p->reach = decides <= DP_PREDICTED_SHORT ? DP_PREDICTED_SHORT
        : decides <= DP_PREDICTED_MIDDLE ? DP_PREDICTED_MIDDLE : DP_PREDICTED_LONG;
    DP_UNROLL
    for (int i = 0; i < DP_PREDICTED_WORDS; i++) {
        if (dp_predicted_ofs(i) >= p->reach) {
            break;
        }

        const __u8 *data = dp_at(ctx, dp_predicted_ofs(i), 8);

        if (!data) {
            return 0;
        }
        p->value[i] = dp_load64(data) & p->mask[i];
    }
    p->identity = identity;
    p->in_port = key->in_port;
    p->l3 = l3;
    p->l4 = l4;
    p->length_shift = dp_length_shift(l3 + (has & DP_HAS_IP4 ? 2 : 4));
    p->length_begin = has & DP_HAS_IP4 ? l3 : l4;
    p->length_ip = has & DP_HAS_IP4 ? DP_IP4_LEN : 0;
    p->length_least = p->length_ip + transport_len;
    p->has = has;
    return 1;
}

/* Predicts nothing for some frames, for more each time. */
DP_INLINE void dp_predict_pause(struct dp_prediction *p)
{
    p->reach = 0;
    p->pause = (p->pause << 1 | 1) & DP_PREDICTION_REST;
    p->rest = p->pause;
}

/* Updates the prediction from a frame that was parsed, to '*frame' and '*key', and matched flow 'index': makes a new
 * one, or pauses if predictions do not pay now.  Returns 0. */
DP_STAGE int dp_predict_next(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key, __u32 index,
                             struct dp_prediction *p)
{
    const struct dp_flow *flow = dp_flows_at(ctx, index);

    if (!frame || !key || !flow || !p) {
        return 0;
    }

    int was = p->reach != 0;
    int was_right = (__u32) p->hits - p->hits_before >= DP_PREDICTED_HITS;

    p->hits_before = p->hits;
    p->flow = index;
    p->reach = 0;
    if (was && was_right) {
        p->pause = 0;
    }
    if ((was && !was_right) || !dp_predict_make(ctx, frame, key, flow, p)) {
        dp_predict_pause(p);
    }
    return 0;
}

#endif /* dp/predict.h */
