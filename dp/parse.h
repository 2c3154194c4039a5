/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Packet to key, with the semantics of Open vSwitch's miniflow_extract() (lib/flow.c): the same fields for the same
 * bytes, also for truncated and malformed headers.  A header chain longer than the bounds below goes to the engine.
 *
 * Include a seam (dp/seam_native.h, bpf/seam_*.h) first: it provides struct dp_ctx, dp_len() and dp_at(). */
#ifndef DP_PARSE_H
#define DP_PARSE_H 1

#include "dp/omit.h"
#include "dp/parse_ip.h"
#include "dp/parse_result.h"

#define DP_MAX_LABELS 8         /* MPLS labels walked to find the layer behind them. */

DP_STAGE int dp_parse_other(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u32 vlan_limit);
DP_INLINE int dp_parse_mpls(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u32 l2_5, __u32 has);

/* Reads one tag at 'ofs' (where its TPID stands) into '*vlan' if it is there whole, with the type behind it. */
DP_INLINE int dp_parse_vlan(struct dp_ctx *ctx, __u32 ofs, __u32 *vlan, dp_be16 *eth_type)
{
    const __u8 *tag = dp_at(ctx, ofs, DP_VLAN_LEN + 2);

    if (!tag) {
        return 0;
    }
    *vlan = dp_load32(tag) | DP_SWAP32(DP_VLAN_PRESENT);
    *eth_type = dp_load_be16(tag + 4);
    return 1;
}

/* Fills the packet's words of '*key' (in_port, recirc_id and the metadata words stay) and '*frame', but for what is
 * omitted.  'vlan_limit' is the number of VLAN tags to parse, 0 to 2: Open vSwitch's other_config:vlan-limit.  Returns
 * an enum dp_parse_result. */
DP_INLINE int dp_parse(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u32 vlan_limit)
{
    const __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN + DP_IP4_LEN);   /* Shorter frames are rare. */

    dp_store64(&frame->len, DP_BYTES(0, 4, dp_len(ctx)));       /* And 'cut' is 0. */
    if (!DP_OMITS_WARM(ctx)) {
        for (int i = DP_HOT_WORDS; i < DP_FIRST_COLD; i++) {
            key->w[i] = 0;
        }
    }
    if (!DP_OMITS_WORDS(ctx, DP_FIRST_COLD, DP_PACKET_WORDS)) {
        for (int i = DP_FIRST_COLD; i < DP_PACKET_WORDS; i++) {
            key->w[i] = 0;
        }
    }
    if (DP_UNLIKELY(!eth)) {
        return dp_parse_other(ctx, frame, key, vlan_limit);
    }
    if (!DP_OMITS_WORDS(ctx, 4, 6)) {
        key->w[4] = dp_load64(eth);
        key->w[5] = DP_BYTES(0, 4, dp_load32(eth + 8));
    }

    dp_be16 eth_type = dp_load_be16(eth + 12);

    if (DP_UNLIKELY(dp_tag_beside(ctx))) {
        return vlan_limit ? dp_parse_other(ctx, frame, key, vlan_limit) : DP_PARSE_BEYOND;
    }
    if (DP_LIKELY(DP_BE16_IS(eth_type, DP_ETH_IP4)) && !DP_OMITS(ctx, DP_PART(IP4))) {
        return dp_parse_ip4(ctx, frame, key, DP_LINK(eth_type, 0), eth + DP_ETH_LEN, DP_ETH_LEN, 0);
    }
    if (DP_BE16_IS(eth_type, DP_ETH_IP6) && !DP_OMITS(ctx, DP_PART(IP6))) {
        return dp_parse_ip6(ctx, frame, key, DP_LINK(eth_type, 0), DP_ETH_LEN, 0);
    }
    if (dp_is_vlan(eth_type) && vlan_limit && !DP_OMITS(ctx, DP_PART(VLAN)) && !DP_OMITS(ctx, DP_PART(IP4))) {
        __u32 vlan;

        if (dp_parse_vlan(ctx, 12, &vlan, &eth_type) && DP_BE16_IS(eth_type, DP_ETH_IP4)) {
            return dp_parse_ip4(ctx, frame, key, DP_LINK(eth_type, vlan),
                                dp_at(ctx, DP_ETH_LEN + DP_VLAN_LEN, DP_IP4_LEN), DP_ETH_LEN + DP_VLAN_LEN,
                                DP_HAS_VLAN);
        }
    }
    return dp_parse_other(ctx, frame, key, vlan_limit);
}

/* Everything but untagged IP, and frames that are too short for it.  A tag in VLAN acceleration is the first of those
 * that 'vlan_limit' allows. */
DP_STAGE int dp_parse_other(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u32 vlan_limit)
{
    const __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN);
    __u32 l3 = DP_ETH_LEN;
    __u32 has = 0;
    __u32 beside = dp_tag_beside(ctx);
    __u32 vlan = beside ? beside | DP_SWAP32(DP_VLAN_PRESENT) : 0;
    __u32 vlan2 = 0;

    if (!eth || !frame || !key) {
        return DP_PARSE_BEYOND;
    }

    __u32 eth_tail = dp_load32(eth + 8);
    dp_be16 eth_type = dp_load_be16(eth + 12);

    if (beside) {
        has = DP_HAS_VLAN;
        if (dp_is_vlan(eth_type) && vlan_limit > 1 && dp_parse_vlan(ctx, 12, &vlan2, &eth_type)) {
            l3 += DP_VLAN_LEN;
        }
    } else if (dp_is_vlan(eth_type) && vlan_limit && dp_parse_vlan(ctx, 12, &vlan, &eth_type)) {
        l3 += DP_VLAN_LEN;
        has = DP_HAS_VLAN;
        if (dp_is_vlan(eth_type) && vlan_limit > 1 && dp_parse_vlan(ctx, 16, &vlan2, &eth_type)) {
            l3 += DP_VLAN_LEN;
        }
    }
    if ((vlan && DP_OMITS(ctx, DP_PART(VLAN))) || (vlan2 && DP_OMITS(ctx, DP_PART(QINQ)))) {
        return DP_PARSE_OMITTED;
    }
    if (DP_UNLIKELY(dp_ntohs(eth_type) < 0x600)) {
        /* A length: IEEE 802.2 LLC, and SNAP (RFC 1042) with an Ethernet type in it. */
        const __u8 *llc = dp_at(ctx, l3, 8);

        eth_type = dp_htons(DP_ETH_TYPE_NONE);
        if (llc && dp_load32(llc) == DP_SWAP32(0xaaaa0300) && dp_load16(llc + 4) == 0) {
            dp_be16 snap_type = dp_load_be16(llc + 6);

            l3 += 8;
            if (dp_ntohs(snap_type) >= 0x600) {
                eth_type = snap_type;
            }
        }
    }

    __u64 link = DP_LINK(eth_type, vlan);

    key->w[4] = dp_load64(eth);
    key->w[5] = DP_BYTES(0, 4, eth_tail) | DP_BYTES(4, 4, vlan2);
    switch (dp_ntohs(eth_type)) {
    case DP_ETH_IP4:
        return DP_OMITS(ctx, DP_PART(IP4)) ? DP_PARSE_OMITTED
            : dp_parse_ip4(ctx, frame, key, link, dp_at(ctx, l3, DP_IP4_LEN), l3, has);
    case DP_ETH_IP6:
        return DP_OMITS(ctx, DP_PART(IP6)) ? DP_PARSE_OMITTED : dp_parse_ip6(ctx, frame, key, link, l3, has);
    case DP_ETH_ARP:
    case DP_ETH_RARP:
        return DP_OMITS(ctx, DP_PART(ARP)) ? DP_PARSE_OMITTED : dp_parse_arp(ctx, frame, key, link, l3, has);
    }
    key->w[1] = link;
    key->w[2] = 0;
    key->w[3] = 0;
    if (DP_BE16_IS(eth_type, DP_ETH_MPLS) || DP_BE16_IS(eth_type, DP_ETH_MPLS_MC)) {
        return DP_OMITS(ctx, DP_PART(MPLS)) ? DP_PARSE_OMITTED : dp_parse_mpls(ctx, frame, key, l3, has);
    }
    frame->has = has;
    dp_frame_layers(frame, DP_NO_LAYER, l3, DP_NO_LAYER, 0);
    return DP_PARSED;
}

DP_INLINE int dp_parse_mpls(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u32 l2_5, __u32 has)
{
    __u32 ofs = l2_5;
    __u32 lse = 0;

    for (int i = 0; i < DP_MAX_LABELS && !(lse & 0x100); i++) {    /* Bottom of stack, RFC 3032. */
        const __u8 *label = dp_at(ctx, ofs, DP_MPLS_LEN);

        if (!label) {
            lse = 0x100;
            break;
        }
        has |= DP_HAS_MPLS;
        lse = dp_ntohl(dp_load_be32(label));
        if (i < 2) {
            key->mpls01[i & 1] = dp_htonl(lse);
        } else if (i == 2) {
            key->mpls2 = dp_htonl(lse);
        }
        ofs += DP_MPLS_LEN;
    }
    frame->has = has;
    dp_frame_layers(frame, l2_5, ofs, DP_NO_LAYER, 0);
    return lse & 0x100 ? DP_PARSED : DP_PARSE_BEYOND;
}

#endif /* dp/parse.h */
