/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Connection tracking: what it reads of a packet, and which packets it refuses as damaged.
 *
 * Lengths count to the end of the IP packet, not of the frame.  What is refused is +inv. */
#ifndef DP_CT_PACKET_H
#define DP_CT_PACKET_H 1

#include "dp/checksum.h"
#include "dp/crc32c.h"
#include "dp/ct.h"

#define DP_TCP_FIN 0x01
#define DP_TCP_SYN 0x02
#define DP_TCP_RST 0x04
#define DP_TCP_PSH 0x08
#define DP_TCP_ACK 0x10
#define DP_TCP_URG 0x20

#define DP_TCP_OPT_END 0
#define DP_TCP_OPT_NOP 1
#define DP_TCP_OPT_WSCALE 3
#define DP_TCP_WSCALE_MAX 14

#ifdef __bpf__
#define DP_CT_IN_ENGINE 0       /* What programs leave to it is not compiled into them. */
#define DP_CT_EXTENSIONS 6      /* IPv6 extension headers that are passed over. */
#define DP_CT_REACH 0x3fff      /* A bound for the verifier, larger than any offset of a frame. */
#else
#define DP_CT_IN_ENGINE 1
#define DP_CT_EXTENSIONS 8192
#define DP_CT_REACH 0xffffffff
#endif
#define DP_CT_SUM_PIECE 256     /* Bytes that are summed at once. */
#define DP_CT_SUM_PIECES 256
#define DP_CT_TCP_OPTIONS 40    /* That a header has at most. */

/* The sum of 'len' bytes from 'ofs' on (an odd last one with a zero behind it), to be folded.  Bytes that the frame
 * does not have count as none. */
DP_STAGE __u64 dp_ct_sum(struct dp_ctx *ctx, __u32 ofs, __u32 len)
{
    __u64 sum;
    __u32 pieces = 0;

    for (int i = 0; i < DP_CT_SUM_PIECES && len >= DP_CT_SUM_PIECE; i++) {
        const __u8 *p = dp_at(ctx, ofs & DP_CT_REACH, DP_CT_SUM_PIECE);

        if (!p) {
            return 0;
        }
        pieces = dp_sum(p, DP_CT_SUM_PIECE, pieces);
        ofs += DP_CT_SUM_PIECE;
        len -= DP_CT_SUM_PIECE;
    }
    sum = pieces;
    for (int i = 0; i < DP_CT_SUM_PIECE / 8 && len >= 8; i++) {
        const __u8 *p = dp_at(ctx, ofs & DP_CT_REACH, 8);

        if (!p) {
            return 0;
        }
        sum += (__u64) dp_load32(p) + dp_load32(p + 4);
        ofs += 8;
        len -= 8;
    }
    for (int i = 0; i < 8 && len; i++) {
        const __u8 *p = dp_at(ctx, ofs & DP_CT_REACH, 1);

        if (!p) {
            return 0;
        }
        sum += dp_htons(i & 1 ? *p : *p << 8).raw;
        ofs++;
        len--;
    }
    return sum;
}

/* Whether a sum that includes the checksum is that of an undamaged message. */
DP_INLINE int dp_ct_sum_is_good(__u64 sum) { return dp_csum_fold(sum) == 0xffff; }

/* Whether the checksum of IPv4's header at 'ip', which is at 'l3', is right. */
DP_INLINE int dp_ct_ip4_is_good(struct dp_ctx *ctx, const __u8 *ip, __u32 l3)
{
    __u64 first, second;

    if (ip[0] != 0x45) {
        return dp_ct_sum_is_good(dp_ct_sum(ctx, l3, (ip[0] & 15) * 4));
    }
    first = dp_load64(ip);
    second = dp_load64(ip + 8);
    return dp_ct_sum_is_good((first & 0xffffffff) + (first >> 32) + (second & 0xffffffff) + (second >> 32)
                             + dp_load32(ip + 16));
}

/* What the pseudo header adds to a message of 'len' bytes and protocol 'proto'. */
DP_INLINE __u64 dp_ct_pseudo(struct dp_ctx *ctx, __u32 l3, int v6, __u32 proto, __u32 len)
{
    __u64 sum = (__u64) dp_htonl(len).raw + dp_htonl(proto).raw;
    const __u8 *ip;

    if (v6) {
        ip = dp_at(ctx, l3 & DP_OFS_MASK, DP_IP6_LEN);
        for (int i = 8; ip && i < DP_IP6_LEN; i += 4) {
            sum += dp_load32(ip + i);
        }
    } else {
        ip = dp_at(ctx, l3 & DP_OFS_MASK, DP_IP4_LEN);
        if (ip) {
            sum += (__u64) dp_load32(ip + 12) + dp_load32(ip + 16);
        }
    }
    return sum;
}

/* Passes over the extension headers of the IPv6 packet at 'l3' that ends at 'end'.  Returns the protocol behind them
 * and where its header begins, or -1: damaged, or a fragment. */
DP_STAGE int dp_ct_extensions(struct dp_ctx *ctx, __u32 l3, __u32 end, __u16 *l4)
{
    const __u8 *p = dp_at(ctx, l3 & DP_CT_REACH, DP_IP6_LEN);
    __u32 ofs = l3 + DP_IP6_LEN;
    int proto;

    if (!p || !l4) {
        return -1;
    }
    proto = p[6];
    for (int i = 0; i < DP_CT_EXTENSIONS; i++) {
        __u32 len;

        if (proto != DP_IP_HOPOPTS && proto != DP_IP_ROUTING && proto != DP_IP_DSTOPTS && proto != DP_IP_AH
            && proto != DP_IP_FRAGMENT) {
            *l4 = ofs;
            return proto;
        }
        p = dp_at(ctx, ofs & DP_CT_REACH, 8);
        if (!p || ofs + 8 > end) {
            return -1;
        }
        if (proto == DP_IP_FRAGMENT) {
            if (dp_load16(p + 2)) {
                return -1;
            }
            len = 8;
        } else {
            len = proto == DP_IP_AH ? (p[1] + 2) * 4 : (p[1] + 1) * 8;
        }
        proto = p[0];
        ofs += len;
        if (ofs > end) {
            return -1;
        }
    }
    return -1;
}

/* Reads one of the options of a SYN at 'ofs', 'left' bytes before the end of the header.  Returns its length, 0 at the
 * end.  The last window scale counts. */
DP_STAGE __u32 dp_ct_tcp_option(struct dp_ctx *ctx, struct dp_ct_run *run, __u32 ofs, __u32 left)
{
    const __u8 *p = dp_at(ctx, ofs & DP_OFS_MASK, 3);

    if (!p || !run || left < 3 || p[0] == DP_TCP_OPT_END) {
        return 0;
    }
    if (p[0] == DP_TCP_OPT_NOP) {
        return 1;
    }
    if (p[0] == DP_TCP_OPT_WSCALE) {
        run->tcp_wscale = (p[2] < DP_TCP_WSCALE_MAX ? p[2] : DP_TCP_WSCALE_MAX) | DP_CT_WSCALE_FLAG;
    }
    return p[1] < 2 ? 2 : p[1];
}

DP_INLINE int dp_ct_ports(struct dp_ctx *ctx, struct dp_ct_tuple *t, __u32 l4)
{
    const __u8 *p = dp_at(ctx, l4 & DP_OFS_MASK, 4);

    if (!p) {
        return 0;
    }
    t->l4[0] = DP_CT_L4(dp_load16(p), 0);
    t->l4[1] = DP_CT_L4(dp_load16(p + 2), 0);
    return t->l4[0] && t->l4[1];
}

DP_INLINE int dp_ct_read_tcp(struct dp_ctx *ctx, struct dp_ct_run *run)
{
    const __u8 *tcp = dp_at(ctx, run->l4 & DP_OFS_MASK, DP_TCP_LEN);

    if (!tcp || run->l4_len < DP_TCP_LEN) {
        return 0;
    }

    __u32 len = (tcp[12] >> 4) * 4;

    if (len < DP_TCP_LEN || len > run->l4_len) {
        return 0;
    }
    run->tcp_seq = dp_ntohl(dp_load_be32(tcp + 4));
    run->tcp_ack = dp_ntohl(dp_load_be32(tcp + 8));
    run->tcp_flags = tcp[13];
    run->tcp_window = dp_ntohs(dp_load_be16(tcp + 14));
    run->tcp_len = run->l4_len - len;
    run->tcp_wscale = 0;
    if (run->tcp_flags & DP_TCP_SYN) {
        __u32 ofs = DP_TCP_LEN;

        for (int i = 0; i < DP_CT_TCP_OPTIONS && ofs < len; i++) {
            __u32 size = dp_ct_tcp_option(ctx, run, run->l4 + ofs, len - ofs);

            if (!size) {
                break;
            }
            ofs += size;
        }
    }
    return dp_ct_ports(ctx, &run->tuple, run->l4);
}

DP_INLINE int dp_ct_read_udp(struct dp_ctx *ctx, struct dp_ct_run *run)
{
    const __u8 *udp = dp_at(ctx, run->l4 & DP_OFS_MASK, DP_UDP_LEN);
    __u32 len = udp ? dp_ntohs(dp_load_be16(udp + 4)) : 0;

    return udp && run->l4_len >= DP_UDP_LEN && len >= DP_UDP_LEN && len <= run->l4_len
        && dp_ct_ports(ctx, &run->tuple, run->l4);
}

/* Whether the message of 'len' bytes at 'l4' is made of whole chunks, each padded to four bytes (RFC 9260 section 3.2).
 */
DP_INLINE int dp_ct_sctp_is_whole(struct dp_ctx *ctx, __u32 l4, __u32 len)
{
    __u32 ofs = DP_SCTP_LEN;

    while (ofs < len) {
        const __u8 *chunk = len - ofs >= 4 ? dp_at(ctx, l4 + ofs, 4) : 0;
        __u32 size = chunk ? dp_ntohs(dp_load_be16(chunk + 2)) : 0;

        if (size < 4) {
            return 0;
        }
        ofs += (size + 3) / 4 * 4;
    }
    return ofs == len;
}

/* Whether SCTP's checksum of the message is right: it is computed over zeros in its place. */
DP_INLINE int dp_ct_sctp_is_good(struct dp_ctx *ctx, __u32 l4, __u32 len)
{
    const __u8 *sctp = dp_at(ctx, l4, len);

    return sctp && dp_load32(sctp + 8) == dp_le32(dp_crc32c_sctp(sctp, len));
}

DP_INLINE int dp_ct_read_sctp(struct dp_ctx *ctx, const struct dp_ct_action *action, struct dp_ct_run *run)
{
    return dp_ct_sctp_is_whole(ctx, run->l4, run->l4_len)
        && (action->flags & DP_CT_GOOD_L4 || dp_ct_sctp_is_good(ctx, run->l4, run->l4_len))
        && dp_ct_ports(ctx, &run->tuple, run->l4);
}

/* The type that answers ICMP type 'type', or -1: it neither asks nor answers. */
DP_INLINE int dp_ct_icmp_answer(int v6, __u8 type)
{
    if (v6) {
        return type == 128 ? 129 : type == 129 ? 128 : -1;
    }
    switch (type) {
    case 0: return 8;           /* Echo. */
    case 8: return 0;
    case 13: return 14;         /* Timestamp. */
    case 14: return 13;
    case 15: return 16;         /* Information. */
    case 16: return 15;
    default: return -1;
    }
}

/* Whether it is about another packet, which it quotes. */
DP_INLINE int dp_ct_icmp_is_error(int v6, __u8 type)
{
    return v6 ? type >= 1 && type <= 4 : (type >= 3 && type <= 5) || type == 11 || type == 12;
}

/* Id and types of the request or answer at 'l4'. */
DP_INLINE int dp_ct_icmp_ids(struct dp_ctx *ctx, struct dp_ct_tuple *t, __u32 l4)
{
    const __u8 *icmp = dp_at(ctx, l4 & DP_OFS_MASK, DP_ICMP_LEN);
    int answer = icmp ? dp_ct_icmp_answer(t->v6, icmp[0]) : -1;

    if (answer < 0 || icmp[1]) {
        return 0;
    }
    t->l4[0] = DP_CT_L4(dp_load16(icmp + 4), icmp[0]);
    t->l4[1] = DP_CT_L4(dp_load16(icmp + 4), answer);
    return 1;
}

/* Whether the transport checksum of the packet is right, or none. */
DP_INLINE int dp_ct_l4_is_good(struct dp_ctx *ctx, const struct dp_ct_run *run)
{
    __u64 pseudo = 0;

    if (run->proto == DP_IP_UDP && !run->v6) {
        const __u8 *udp = dp_at(ctx, run->l4 & DP_OFS_MASK, DP_UDP_LEN);

        if (!udp || !dp_load16(udp + 6)) {
            return udp != 0;
        }
    }
    if (run->v6 || run->proto != DP_IP_ICMP) {
        pseudo = dp_ct_pseudo(ctx, run->l3, run->v6, run->proto, run->l4_len);
    }
    return dp_ct_sum_is_good(pseudo + dp_ct_sum(ctx, run->l4, run->l4_len));
}

/* Reads the packet whose layers are 'frame' (v6: IPv6, else IPv4) into 'run'.  Returns 0 if it is damaged, 1 if
 * run->tuple is its tuple, 2 if it is an ICMP error: dp_ct_error(). */
DP_STAGE int dp_ct_packet(struct dp_ctx *ctx, const struct dp_frame *frame, int v6, const struct dp_ct_action *action,
                          struct dp_ct_run *run)
{
    struct dp_ct_tuple *t;

    if (!frame || !action || !run || frame->l4 == DP_NO_LAYER) {
        return 0;
    }
    t = &run->tuple;
    run->l3 = frame->l3;
    run->l4 = frame->l4;
    run->l4_len = frame->l4_len;
    run->v6 = v6;
    run->related = 0;
    t->zone = action->zone;
    t->v6 = v6;
    t->l4[0] = t->l4[1] = 0;
    t->pad = 0;
    if (v6) {
        const __u8 *ip = dp_at(ctx, frame->l3 & DP_OFS_MASK, DP_IP6_LEN);
        __u16 l4;

        if (!ip) {
            return 0;
        }
        for (int i = 0; i < 2; i++) {
            t->addr[i][0] = dp_load64(ip + 8 + 16 * i);
            t->addr[i][1] = dp_load64(ip + 16 + 16 * i);
        }

        int proto = dp_ct_extensions(ctx, frame->l3, frame->l4 + frame->l4_len, &l4);

        if (proto < 0) {
            return 0;
        }
        t->proto = proto;
    } else {
        const __u8 *ip = dp_at(ctx, frame->l3 & DP_OFS_MASK, DP_IP4_LEN);

        if (!ip || dp_load16(ip + 6) & dp_htons(0x3fff).raw) {
            return 0;
        }
        t->addr[0][0] = dp_load32(ip + 12);
        t->addr[1][0] = dp_load32(ip + 16);
        t->addr[0][1] = t->addr[1][1] = 0;
        t->proto = ip[9];
        if (!(action->flags & DP_CT_GOOD_L3) && !dp_ct_ip4_is_good(ctx, ip, frame->l3)) {
            return 0;
        }
    }
    run->proto = t->proto;

    const __u8 *l4 = dp_at(ctx, frame->l4 & DP_OFS_MASK, 1);
    int icmp = dp_ct_is_icmp(t);

    run->icmp_type = l4 ? *l4 : 0;
    if (t->proto == DP_IP_TCP ? !dp_ct_read_tcp(ctx, run) : t->proto == DP_IP_UDP ? !dp_ct_read_udp(ctx, run) : 0) {
        return 0;
    }
    if (DP_CT_IN_ENGINE && t->proto == DP_IP_SCTP && action->flags & DP_CT_SCTP && !dp_ct_read_sctp(ctx, action, run)) {
        return 0;
    }
    if (icmp && run->l4_len < DP_ICMP_LEN) {
        return 0;
    }
    if (!(action->flags & DP_CT_GOOD_L4) && (icmp || t->proto == DP_IP_TCP || t->proto == DP_IP_UDP)
        && !dp_ct_l4_is_good(ctx, run)) {
        return 0;
    }
    if (icmp && dp_ct_icmp_is_error(v6, run->icmp_type)) {
        return 2;
    }
    return !icmp || dp_ct_icmp_ids(ctx, t, run->l4);
}

#endif /* dp/ct_packet.h */
