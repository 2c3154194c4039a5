/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Packet to key, with the semantics of Open vSwitch's miniflow_extract() (lib/flow.c): the same fields for the same
 * bytes, also for truncated and malformed headers.  What would take an unbounded walk is not parsed but handed over.
 *
 * Include a seam (dp/seam_native.h, bpf/seam_*.h) first: it provides struct dp_ctx, dp_len() and dp_at(). */
#ifndef DP_PARSE_H
#define DP_PARSE_H 1

#include "dp/frame.h"
#include "dp/omit.h"
#include "dp/pending.h"

#define DP_MAX_LABELS 8         /* MPLS labels walked to find the layer behind them. */
#define DP_MAX_EXT_HEADERS 6    /* IPv6 extension headers walked. */
#define DP_MAX_ND_OPTIONS 4     /* Neighbour discovery options walked. */

enum dp_parse_result {
    DP_PARSED,                  /* Key and frame are complete: what Open vSwitch would have extracted. */
    DP_PARSE_BEYOND,            /* More headers than are walked here, or not even an Ethernet header. */
    DP_PARSE_OMITTED,           /* Of a protocol that this program leaves out (dp/omit.h). */
    DP_PARSE_UNFINISHED,        /* Its transport checksum was left to offload (dp/pending.h).  The key is not complete. */
};

/* How the functions below share the work: each writes whole words as soon as it knows them, and passes on in registers
 * what a later header completes.  Writing a word in pieces and reading it whole right after would stall the
 * processor's store forwarding; keeping everything in registers until one common end would spill them all.
 *
 *   link     key word 1 without the IP fields
 *   l3       offset of the network header
 *   has      DP_HAS_* so far
 */
DP_STAGE int dp_parse_other(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u32 vlan_limit);
DP_INLINE int dp_parse_ip4(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u64 link,
                           const __u8 *ip, __u32 l3, __u32 has);
DP_INLINE int dp_parse_ip6(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u64 link, __u32 l3,
                           __u32 has);
DP_INLINE int dp_parse_arp(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u64 link, __u32 l3,
                           __u32 has);
DP_INLINE int dp_parse_mpls(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u32 l2_5, __u32 has);
DP_INLINE int dp_parse_transport(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u64 tos_ttl,
                                 __u8 proto, const __u8 *ip, __u32 l4, __u32 l4_len, __u32 has);

#define DP_LINK(ETH_TYPE, VLAN) (DP_BYTES(0, 2, (ETH_TYPE).raw) | DP_BYTES(2, 4, VLAN))
#define DP_IP_FIELDS(PROTO, FRAG) (DP_BYTES(6, 1, PROTO) | DP_BYTES(7, 1, FRAG))

DP_INLINE void dp_frame_layers(struct dp_frame *frame, __u32 l2_5, __u32 l3, __u32 l4, __u32 l4_len)
{
    dp_store64(&frame->l2_5, DP_BYTES(0, 2, l2_5) | DP_BYTES(2, 2, l3) | DP_BYTES(4, 2, l4) | DP_BYTES(6, 2, l4_len));
}

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

    dp_store64(&frame->len, DP_BYTES(0, 4, dp_len(ctx)));       /* And nothing to cut. */
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
            return dp_parse_ip4(ctx, frame, key, DP_LINK(eth_type, vlan), dp_at(ctx, DP_ETH_LEN + DP_VLAN_LEN, DP_IP4_LEN),
                                DP_ETH_LEN + DP_VLAN_LEN, DP_HAS_VLAN);
        }
    }
    return dp_parse_other(ctx, frame, key, vlan_limit);
}

/* Everything but untagged IP, and frames that are too short for it.  A tag beside the frame is the first of those
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
        return DP_OMITS(ctx, DP_PART(IP4)) ? DP_PARSE_OMITTED : dp_parse_ip4(ctx, frame, key, link, dp_at(ctx, l3, DP_IP4_LEN), l3, has);
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

/* RFC 826, for IPv4 over Ethernet. */
DP_INLINE int dp_parse_arp(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u64 link, __u32 l3,
                           __u32 has)
{
    const __u8 *arp = dp_at(ctx, l3, DP_ARP_LEN);
    __u16 op = 0;

    key->w[2] = 0;
    key->w[3] = 0;
    dp_frame_layers(frame, DP_NO_LAYER, l3, DP_NO_LAYER, 0);
    if (arp && dp_load32(arp) == DP_SWAP32(0x00010800) && dp_load16(arp + 4) == DP_SWAP16(0x0604)) {
        has |= DP_HAS_ARP;
        op = dp_ntohs(dp_load_be16(arp + 6));
        key->w[2] = DP_BYTES(0, 4, dp_load32(arp + 14)) | DP_BYTES(4, 4, dp_load32(arp + 24));
        key->arp_hw0 = DP_BYTES(0, 4, dp_load32(arp + 8)) | DP_BYTES(4, 2, dp_load16(arp + 12))
            | DP_BYTES(6, 2, dp_load16(arp + 18));
        key->w[7] = DP_BYTES(0, 4, dp_load32(arp + 20));
    }
    key->w[1] = link | DP_IP_FIELDS(op <= 0xff ? op : 0, 0);
    frame->has = has;
    return DP_PARSED;
}

/* RFC 791.  'ip' is at 'l3', NULL if no whole header is there.  An invalid one leaves all IP fields 0. */
DP_INLINE int dp_parse_ip4(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u64 link,
                           const __u8 *ip, __u32 l3, __u32 has)
{
    if (DP_LIKELY(ip)) {
        __u32 size = dp_len(ctx) - l3;
        __u32 header_len = (ip[0] & 0xf) * 4;
        __u32 total_len = dp_ntohs(dp_load_be16(ip + 2));

        if (DP_LIKELY(header_len >= DP_IP4_LEN && header_len <= total_len && total_len <= size)) {
            __u8 proto = ip[9];
            __u16 frag = dp_load16(ip + 6) & DP_SWAP16(0x3fff);
            __u64 tos_ttl = DP_BYTES(6, 1, ip[1]) | DP_BYTES(7, 1, ip[8]);

            key->w[2] = dp_load64(ip + 12);
            key->w[3] = tos_ttl;
            has |= DP_HAS_IP4 | DP_HAS_L3;
            dp_frame_layers(frame, DP_NO_LAYER, l3, l3 + header_len, total_len - header_len);
            if (DP_UNLIKELY(frag)) {
                int later = (frag & DP_SWAP16(0x1fff)) != 0;

                key->w[1] = link | DP_IP_FIELDS(proto, later ? DP_FRAG_ANY | DP_FRAG_LATER : DP_FRAG_ANY);
                if (later) {
                    frame->has = has | (total_len - header_len <= DP_SHORT_LEN ? DP_HAS_SHORT : 0);
                    return DP_PARSED;
                }
            } else {
                key->w[1] = link | DP_IP_FIELDS(proto, 0);
            }
            return dp_parse_transport(ctx, frame, key, tos_ttl, proto, ip, l3 + header_len,
                                      total_len - header_len, has);
        }
    }
    key->w[1] = link;
    key->w[2] = 0;
    key->w[3] = 0;
    frame->has = has;
    dp_frame_layers(frame, DP_NO_LAYER, l3, DP_NO_LAYER, 0);
    return DP_PARSED;
}

DP_INLINE int dp_is_ext_header(__u8 proto)
{
    return proto == DP_IP_HOPOPTS || proto == DP_IP_ROUTING || proto == DP_IP_FRAGMENT || proto == DP_IP_AH
        || proto == DP_IP_DSTOPTS;
}

/* What the walk over extension headers found, packed because a stage returns one scalar. */
#define DP_EXT(RESULT, OFS, LEFT, PROTO, FRAG) \
    ((__u64) (RESULT) << 48 | (__u64) (LEFT) << 32 | (__u32) (OFS) << 16 | (PROTO) << 8 | (FRAG))
#define DP_EXT_RESULT(EXT) ((EXT) >> 48)
#define DP_EXT_LEFT(EXT) ((EXT) >> 32 & 0xffff)
#define DP_EXT_OFS(EXT) ((EXT) >> 16 & DP_MAX_OFS)
#define DP_EXT_PROTO(EXT) ((EXT) >> 8 & 0xff)
#define DP_EXT_FRAG(EXT) ((EXT) & 0xff)

enum dp_ext_result { DP_EXT_DONE, DP_EXT_TRUNCATED, DP_EXT_BEYOND };

/* Walks the extension headers from 'ofs' (RFC 8200, RFC 4302), 'left' bytes before the end of the packet, the
 * first of type 'proto'.  Returns DP_EXT() of the header behind them. */
DP_STAGE __u64 dp_parse_ext_headers(struct dp_ctx *ctx, __u32 ofs, __u32 left, __u32 proto)
{
    __u32 ip_frag = 0;

    for (int i = 0; i < DP_MAX_EXT_HEADERS; i++) {
        const __u8 *ext = dp_at(ctx, ofs & DP_MAX_OFS, 8);
        __u32 ext_len;

        if (left < 8 || !ext) {
            return DP_EXT(DP_EXT_TRUNCATED, 0, 0, 0, 0);
        }
        if (proto == DP_IP_FRAGMENT) {
            __u16 frag = dp_ntohs(dp_load_be16(ext + 2));

            ext_len = 8;
            proto = ext[0];
            if (frag) {
                ip_frag = DP_FRAG_ANY;
            }
            if (frag & 0xfff8) {
                ip_frag = DP_FRAG_ANY | DP_FRAG_LATER;
                proto = DP_IP_FRAGMENT;
            }
        } else {
            ext_len = proto == DP_IP_AH ? (ext[1] + 2) * 4 : (ext[1] + 1) * 8;
            proto = ext[0];
            if (ext_len > left) {
                return DP_EXT(DP_EXT_TRUNCATED, 0, 0, 0, 0);
            }
        }
        left -= ext_len;
        ofs += ext_len;
        if (ofs > DP_MAX_OFS) {
            break;
        }
        if (!dp_is_ext_header(proto) || ip_frag & DP_FRAG_LATER) {
            return DP_EXT(DP_EXT_DONE, ofs, left, proto, ip_frag);
        }
    }
    return DP_EXT(DP_EXT_BEYOND, 0, 0, 0, 0);
}

/* RFC 8200.  An invalid header leaves all IP fields 0, invalid extension headers all but the addresses. */
DP_INLINE int dp_parse_ip6(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u64 link, __u32 l3,
                           __u32 has)
{
    const __u8 *ip = dp_at(ctx, l3, DP_IP6_LEN);

    key->w[1] = link;
    key->w[2] = 0;
    key->w[3] = 0;
    frame->has = has;
    dp_frame_layers(frame, DP_NO_LAYER, l3, DP_NO_LAYER, 0);
    if (!ip) {
        return DP_PARSED;
    }

    __u32 class_label = dp_ntohl(dp_load_be32(ip));
    __u64 tos_ttl = DP_BYTES(6, 1, class_label >> 20 & 0xff) | DP_BYTES(7, 1, ip[7]);
    __u32 l4 = l3 + DP_IP6_LEN;
    __u32 l4_len = dp_ntohs(dp_load_be16(ip + 4));
    __u8 proto = ip[6];
    __u8 frag = 0;

    if (l4_len > dp_len(ctx) - l4) {
        return DP_PARSED;
    }
    key->w[2] = dp_load64(ip + 8);
    if (!DP_OMITS_WARM(ctx)) {
        key->ip6_src_lo = dp_load64(ip + 16);
        key->ip6_dst[0] = dp_load64(ip + 24);
        key->ip6_dst[1] = dp_load64(ip + 32);
    }

    if (DP_UNLIKELY(dp_is_ext_header(proto))) {
        __u64 ext = dp_parse_ext_headers(ctx, l4, l4_len, proto);

        if (DP_EXT_RESULT(ext) != DP_EXT_DONE) {
            return DP_EXT_RESULT(ext) == DP_EXT_BEYOND ? DP_PARSE_BEYOND : DP_PARSED;
        }
        l4 = DP_EXT_OFS(ext);
        l4_len = DP_EXT_LEFT(ext);
        proto = DP_EXT_PROTO(ext);
        frag = DP_EXT_FRAG(ext);
    } else {
        has |= DP_HAS_IP6 | DP_HAS_L3;
    }
    key->w[1] = link | DP_IP_FIELDS(proto, frag);
    key->w[3] = tos_ttl;
    if (!DP_OMITS_WORD(ctx, 9)) {
        key->w[9] = DP_BYTES(0, 4, dp_htonl(class_label & 0xfffff).raw);
    }
    dp_frame_layers(frame, DP_NO_LAYER, l3, l4, l4_len);
    if (frag & DP_FRAG_LATER) {
        frame->has = has | (l4_len <= DP_SHORT_LEN ? DP_HAS_SHORT : 0);
        return DP_PARSED;
    }
    return dp_parse_transport(ctx, frame, key, tos_ttl, proto, ip, l4, l4_len, has);
}

/* What came of a neighbour message, packed: DP_HAS_* bits, the type of its first link-layer option, and whether it
 * has more options than are walked. */
#define DP_ND(HAS, TYPE, RESULT) ((__u64) (RESULT) << 48 | (__u64) (TYPE) << 32 | (__u32) (HAS))

/* RFC 4861: neighbour solicitation and advertisement at 'l4', which has at least 8 of its 'l4_len' bytes.  Fills the
 * key's neighbour words. */
DP_STAGE __u64 dp_parse_nd(struct dp_ctx *ctx, union dp_key *key, __u32 l4, __u32 l4_len)
{
    __u32 ofs = l4 & DP_MAX_OFS;
    const __u8 *nd = dp_at(ctx, ofs, DP_UDP_LEN);
    __u32 first_type = 0;
    __u32 has = 0;

    if (!key || !nd) {
        return DP_ND(0, 0, DP_PARSED);
    }
    key->nd_reserved = dp_load_be32(nd + 4);
    nd = dp_at(ctx, ofs, DP_ND_LEN);
    if (l4_len < DP_ND_LEN || !nd) {
        return DP_ND(0, 0, DP_PARSED);
    }
    key->nd_target[0] = dp_load64(nd + 8);
    key->nd_target[1] = dp_load64(nd + 16);
    has = DP_HAS_ND;
    ofs += DP_ND_LEN;
    l4_len -= DP_ND_LEN;
    for (int i = 0; i < DP_MAX_ND_OPTIONS; i++) {
        const __u8 *opt = dp_at(ctx, ofs & DP_OFS_MASK, DP_ND_OPT_LEN);

        if (l4_len < DP_ND_OPT_LEN || !opt) {
            return DP_ND(has, first_type, DP_PARSED);
        }

        __u32 opt_len = opt[1] * 8;
        __u8 type = opt[0];
        int is_lla = (type == DP_ND_OPT_SLL || type == DP_ND_OPT_TLL) && opt_len == 8;

        has |= DP_HAS_ND_OPT;
        if (i == 0 && !is_lla && opt_len) {
            has &= ~DP_HAS_ND;
        }
        if (!opt_len || opt_len > l4_len) {
            return DP_ND(has, first_type, DP_PARSED);
        }
        if (is_lla) {
            /* The same option twice invalidates target and addresses; a zero address counts as absent. */
            __u8 *hw = type == DP_ND_OPT_SLL ? key->nd_sll : key->nd_tll;

            if (dp_load16(hw) | dp_load16(hw + 2) | dp_load16(hw + 4)) {
                for (int w = DP_KEY_WORD(nd_target); w < DP_PACKET_WORDS; w++) {
                    key->w[w] = 0;
                }
                return DP_ND(has, first_type, DP_PARSED);
            }
            dp_store16(hw, dp_load16(opt + 2));
            dp_store16(hw + 2, dp_load16(opt + 4));
            dp_store16(hw + 4, dp_load16(opt + 6));
            if (!first_type) {
                first_type = type;
            }
        }
        l4_len -= opt_len;
        ofs += opt_len;
        if (ofs > DP_OFS_MASK) {
            return DP_ND(has, first_type, DP_PARSE_BEYOND);
        }
    }
    return DP_ND(has, first_type, l4_len < DP_ND_OPT_LEN ? DP_PARSED : DP_PARSE_BEYOND);
}

/* Whether frames may come with transport checksums that were left to offload. */
DP_INLINE int dp_may_be_unfinished(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key)
{
    return !DP_OMITS(ctx, DP_PART_CHECKSUM) && frame->local_stack && !key->ip_frag;
}

/* Whether the checksum 'field' of TCP or UDP behind the IP header 'ip' was.  Behind extension headers any is taken for
 * one: the engine knows better. */
DP_INLINE int dp_is_unfinished(__u16 field, const __u8 *ip, __u8 proto, __u32 l4_len, __u32 has)
{
    if (has & DP_HAS_IP4) {
        return dp_is_pending(field, dp_pending_sum(ip + 12, 1), proto, l4_len);
    }
    return !(has & DP_HAS_IP6) || dp_is_pending(field, dp_pending_sum(ip + 8, 4), proto, l4_len);
}

/* Type and code of an ICMP header, each in the low byte of a be16, in memory order. */
DP_INLINE __u32 dp_type_code(const __u8 *icmp)
{
    return DP_SWAP32((__u32) icmp[0] << 16 | icmp[1]);
}

DP_INLINE int dp_is_nd(const __u8 *icmp)
{
    return icmp[1] == 0 && (icmp[0] == DP_ND_SOLICIT || icmp[0] == DP_ND_ADVERT);
}

/* TCP (RFC 9293), UDP (768), SCTP (9260), ICMP (792), IGMP (3376), ICMPv6 (4443): ports or type and code of a header
 * that is there whole.  'tos_ttl' is what key word 3 has already, 'ip' the IP header; not for later fragments. */
DP_INLINE int dp_parse_transport(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u64 tos_ttl,
                                 __u8 proto, const __u8 *ip, __u32 l4, __u32 l4_len, __u32 has)
{
    const __u8 *p = dp_at(ctx, l4, DP_UDP_LEN);

    has |= DP_HAS_FIRST;
    if (l4_len <= DP_SHORT_LEN) {
        has |= DP_HAS_SHORT;
    }
    frame->has = has;

    /* Every transport header that is parsed has at least 8 bytes. */
    if (l4_len < DP_UDP_LEN || !p) {
        return DP_PARSED;
    }
    if (proto == DP_IP_TCP) {
        const __u8 *tcp = dp_at(ctx, l4, DP_TCP_LEN);

        if (l4_len >= DP_TCP_LEN && tcp) {
            __u32 header_len = (tcp[12] >> 4) * 4;

            if (header_len >= DP_TCP_LEN && header_len <= l4_len) {
                if (dp_may_be_unfinished(ctx, frame, key)
                    && dp_is_unfinished(dp_load16(tcp + 16), ip, proto, l4_len, has)) {
                    return DP_PARSE_UNFINISHED;
                }
                frame->has = has | DP_HAS_TCP;
                key->w[3] = tos_ttl | DP_BYTES(0, 4, dp_load32(tcp))
                    | DP_BYTES(4, 2, dp_load16(tcp + 12) & DP_SWAP16(0x0fff));
            }
        }
        return DP_PARSED;
    }
    if (proto == DP_IP_UDP) {
        if (dp_may_be_unfinished(ctx, frame, key) && dp_is_unfinished(dp_load16(p + 6), ip, proto, l4_len, has)) {
            return DP_PARSE_UNFINISHED;
        }
        frame->has = has | DP_HAS_UDP;
        key->w[3] = tos_ttl | DP_BYTES(0, 4, dp_load32(p));
        return DP_PARSED;
    }
    if (proto == DP_IP_SCTP) {
        if (l4_len >= DP_SCTP_LEN) {
            const __u8 *sctp = dp_at(ctx, l4, DP_SCTP_LEN);

            if (dp_may_be_unfinished(ctx, frame, key) && sctp && !dp_load32(sctp + 8)) {
                return DP_PARSE_UNFINISHED;
            }
            frame->has = has | DP_HAS_SCTP;
            key->w[3] = tos_ttl | DP_BYTES(0, 4, dp_load32(p));
        }
        return DP_PARSED;
    }
    if (DP_TRIMMED && ((proto == DP_IP_IGMP && has & DP_HAS_IP4 && DP_OMITS(ctx, DP_PART(IGMP)))
                       || (proto == DP_IP_ICMP6 && dp_is_nd(p) && DP_OMITS(ctx, DP_PART(ND))))) {
        return DP_PARSE_OMITTED;        /* Flows may be about what is not parsed here. */
    }
    if (proto == DP_IP_IGMP) {
        if (has & DP_HAS_IP4 && !DP_OMITS(ctx, DP_PART(IGMP))) {
            key->w[6] = DP_BYTES(0, 4, dp_load32(p + 4));
        }
        key->w[3] = tos_ttl | DP_BYTES(0, 4, dp_type_code(p));
        return DP_PARSED;
    }
    if (proto != DP_IP_ICMP && proto != DP_IP_ICMP6) {
        return DP_PARSED;
    }
    has |= DP_HAS_ICMP;
    frame->has = has;

    __u64 type_code = DP_BYTES(0, 4, dp_type_code(p));

    if (!DP_OMITS(ctx, DP_PART(ND)) && proto == DP_IP_ICMP6 && dp_is_nd(p)) {
        __u64 nd = dp_parse_nd(ctx, key, l4, l4_len);

        frame->has = has | (__u32) nd;
        key->w[3] = tos_ttl | type_code | DP_BYTES(4, 2, dp_htons(nd >> 32 & 0xff).raw);
        return nd >> 48;
    }
    key->w[3] = tos_ttl | type_code;
    return DP_PARSED;
}

#endif /* dp/parse.h */
