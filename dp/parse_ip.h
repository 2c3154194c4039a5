/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Network headers to key: ARP, IPv4, IPv6 with its extension headers.  dp/parse_result.h says how the parser's stages
 * share the work. */
#ifndef DP_PARSE_IP_H
#define DP_PARSE_IP_H 1

#include "dp/omit.h"
#include "dp/parse_result.h"
#include "dp/parse_transport.h"

#define DP_MAX_EXT_HEADERS 6    /* IPv6 extension headers walked. */

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

/* The length of a packet of 'size' bytes whose header cannot say it (BIG TCP).  Operations on such packets
 * need to know only that it is long. */
DP_INLINE __u32 dp_big_len(__u32 size) { return size < 0xffff ? size : 0xffff; }

/* RFC 791.  'ip' is at 'l3', NULL if no whole header is there.  An invalid one leaves all IP fields 0. */
DP_INLINE int dp_parse_ip4(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, __u64 link,
                           const __u8 *ip, __u32 l3, __u32 has)
{
    if (DP_LIKELY(ip)) {
        __u32 size = dp_len(ctx) - l3;
        __u32 header_len = (ip[0] & 0xf) * 4;
        __u32 total_len = dp_ntohs(dp_load_be16(ip + 2));

        if (DP_TAKES_SKBS && DP_UNLIKELY(!total_len) && dp_is_big(ctx)) {
            total_len = dp_big_len(size);
        }
        if (DP_LIKELY(header_len >= DP_IP4_LEN && header_len <= total_len && total_len <= size)) {
            __u8 proto = ip[9];
            __u16 frag = dp_load16(ip + 6) & DP_SWAP16(0x3fff);
            __u64 tos_ttl = DP_BYTES(6, 1, ip[1]) | DP_BYTES(7, 1, ip[8]);
            __u32 l4 = l3 + header_len;

            if (DP_TAKES_SKBS) {
                DP_OPAQUE(l4);          /* The verifier of Linux 6.1 would forget its bound. */
                l4 &= DP_MAX_OFS;
            }
            key->w[2] = dp_load64(ip + 12);
            key->w[3] = tos_ttl;
            has |= DP_HAS_IP4 | DP_HAS_L3;
            dp_frame_layers(frame, DP_NO_LAYER, l3, l4, total_len - header_len);
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
            return dp_parse_transport(ctx, frame, key, tos_ttl, proto, ip, l4, total_len - header_len, has);
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

/* Whether what stands at 'l4' is the hop-by-hop header with nothing but the length (RFC 2675) that Linux puts before
 * the TCP header of a BIG TCP packet, and takes out of its segments (include/net/ipv6.h, struct hop_jumbo_hdr). */
DP_INLINE int dp_is_jumbo_header(struct dp_ctx *ctx, __u32 l4)
{
    const __u8 *jumbo = dp_at(ctx, l4 & DP_MAX_OFS, DP_JUMBO_LEN);

    return jumbo && dp_load32(jumbo) == DP_SWAP32(DP_IP_TCP << 24 | 0xc204);
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

    if (DP_TAKES_SKBS && DP_UNLIKELY(!l4_len) && dp_is_big(ctx)) {
        if (proto == DP_IP_HOPOPTS && dp_is_jumbo_header(ctx, l4)) {
            proto = DP_IP_TCP;
            l4 += DP_JUMBO_LEN;
        }
        l4_len = dp_big_len(dp_len(ctx) - l4);
    }
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

#endif /* dp/parse_ip.h */
