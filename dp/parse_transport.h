/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Transport headers to key: TCP, UDP, SCTP, ICMP, IGMP, ICMPv6 and neighbour discovery.  dp/parse_result.h says how the
 * parser's stages share the work. */
#ifndef DP_PARSE_TRANSPORT_H
#define DP_PARSE_TRANSPORT_H 1

#include "dp/omit.h"
#include "dp/parse_result.h"
#include "dp/pending.h"

#define DP_MAX_ND_OPTIONS 4     /* Neighbour discovery options walked. */

/* The result of parsing a neighbour message, packed: DP_HAS_* bits, the type of its first link-layer option, and
 * whether it has more options than are walked. */
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

/* Whether frames may be CHECKSUM_PARTIAL. */
DP_INLINE int dp_may_be_unfinished(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key)
{
    return !DP_OMITS(ctx, DP_PART_CHECKSUM) && frame->local_stack && !key->ip_frag;
}

/* Whether the checksum 'field' of TCP or UDP behind the IP header 'ip' is CHECKSUM_PARTIAL.  Returns 1 for every packet
 * with extension headers: the engine finds out. */
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
        return DP_PARSE_OMITTED;        /* Flows may match fields that are not parsed here. */
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

#endif /* dp/parse_transport.h */
