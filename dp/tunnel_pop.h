/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Tunnels: TNL_POP, as Open vSwitch's netdev_pop_header() (lib/netdev-native-tnl.c).
 *
 * It takes off what lies before the packet inside, and puts the tunnel's port and metadata into the key: the flow
 * recirculates, and the packet inside is parsed and looked up.  A header that is not as expected, which may be one that
 * Open vSwitch drops, is left to the engine as it is.
 *
 * A seam provides
 *
 *     dp_tunnel_pop_refuses()  whether the packet inside cannot be laid bare here
 *     dp_tunnel_verified()     who verifies the checksum of the outer UDP or GRE header
 *     dp_tunnel_shrink()       takes off what lies before the packet inside
 */
#ifndef DP_TUNNEL_POP_H
#define DP_TUNNEL_POP_H 1

#include "dp/checksum.h"
#include "dp/frame.h"
#include "dp/key.h"
#include "dp/metadata.h"
#include "dp/op.h"
#include "dp/reason.h"
#include "dp/set.h"
#include "dp/tunnel_sum.h"

#define DP_OMITS_POPS(CTX) (DP_OMITS_OP(CTX, DP_OP_TNL_POP) && DP_OMITS_OP(CTX, DP_OP_TNL_POP_GENEVE))
#define DP_POP_OPS (1ull << DP_OP_TNL_POP | 1ull << DP_OP_TNL_POP_GENEVE)

#define DP_IP_GRE 47
#define DP_ETH_TEB 0x6558       /* Ethernet in GRE, Geneve. */
#define DP_VXLAN_LEN 8
#define DP_GENEVE_LEN 8
#define DP_GRE_CSUM 0x8000
#define DP_GRE_KEY 0x2000
#define DP_GRE_SEQ 0x1000

#define DP_MAX_POPPED 0xff      /* Bytes before it, at most: a bound for the verifier. */

/* Length of the VXLAN header behind UDP's at 'p', 16 bytes, or 0. */
DP_INLINE __u32 dp_vxlan_len(const __u8 *p)
{
    return dp_load32(p + DP_UDP_LEN) == DP_SWAP32(0x08000000) && !p[DP_UDP_LEN + 7] ? DP_UDP_LEN + DP_VXLAN_LEN : 0;
}

/* Likewise of Geneve's, with its options. */
DP_INLINE __u32 dp_geneve_len(const __u8 *p)
{
    __u32 options = (p[DP_UDP_LEN] & 0x3f) * 4;

    if (p[DP_UDP_LEN] >> 6 || options > sizeof(((union dp_key *) 0)->tun_options)
        || !DP_BE16_IS(dp_load_be16(p + DP_UDP_LEN + 2), DP_ETH_TEB)) {
        return 0;
    }
    return DP_UDP_LEN + DP_GENEVE_LEN + options;
}

/* Of GRE's first 4 bytes, in host byte order. */
DP_INLINE __u32 dp_gre_len(__u32 gre)
{
    __u32 flags = gre >> 16;

    if ((gre & 0xffff) != DP_ETH_TEB || flags & ~(DP_GRE_CSUM | DP_GRE_KEY | DP_GRE_SEQ)) {
        return 0;
    }
    return 4 + (flags & DP_GRE_CSUM ? 4 : 0) + (flags & DP_GRE_KEY ? 4 : 0) + (flags & DP_GRE_SEQ ? 4 : 0);
}

/* Whether the IP header at 'l3' is one without options, of no fragment and of protocol 'proto'.  Parsing does not look
 * at its version, popping does. */
DP_INLINE int dp_tunnel_ip_suits(struct dp_ctx *ctx, const struct dp_frame *frame, __u32 l3, __u8 proto)
{
    const __u8 *ip;

    if (!(frame->has & DP_HAS_IP4)) {
        ip = dp_at(ctx, l3, DP_IP6_LEN);
        return ip && ip[0] >> 4 == 6 && ip[6] == proto && frame->l4 == l3 + DP_IP6_LEN;
    }
    ip = dp_at(ctx, l3, DP_IP4_LEN);
    if (!ip || ip[0] != 0x45 || ip[9] != proto || frame->l4 != l3 + DP_IP4_LEN
        || dp_load16(ip + 6) & DP_SWAP16(0x3fff)) {
        return 0;
    }

    __u64 sum = 0;

    DP_UNROLL
    for (int i = 0; i < DP_IP4_LEN; i += 4) {
        sum += dp_load32(ip + i);
    }
    return dp_csum_fold(sum) == 0xffff;
}

/* Whether the checksum over all from 'l4' on is right; of UDP with the addresses of the IP header at 'l3'. */
DP_STAGE int dp_tunnel_sum_right(struct dp_ctx *ctx, const struct dp_frame *frame, __u32 is_udp)
{
    __u64 sum = 0;

    if (!frame) {
        return 0;
    }
    if (is_udp && frame->has & DP_HAS_IP4) {
        const __u8 *ip = dp_at(ctx, frame->l3 & 63, DP_IP4_LEN);

        sum = ip ? (__u64) dp_load32(ip + 12) + dp_load32(ip + 16) : 0;
    } else if (is_udp) {
        const __u8 *ip = dp_at(ctx, frame->l3 & 63, DP_IP6_LEN);

        for (int i = 8; ip && i < DP_IP6_LEN; i += 4) {
            sum += dp_load32(ip + i);
        }
    }
    if (is_udp) {
        sum += dp_htons(DP_IP_UDP).raw + dp_htons(frame->l4_len).raw;
    }
    return dp_csum_fold(sum + dp_tunnel_sum_all(ctx, frame->l4 & 127)) == 0xffff;
}

/* Of the result of dp_tunnel_expected(). */
#define DP_POP_CHECKSUM (1 << 16)       /* The outer UDP or GRE header has a checksum. */

/* Length of the tunnel's header from the transport layer on, and perhaps DP_POP_CHECKSUM; 0: the program cannot pop
 * it. */
DP_INLINE __u32 dp_tunnel_expected(struct dp_ctx *ctx, const struct dp_frame *frame, __u32 kind)
{
    if (!frame) {
        return 0;
    }

    __u32 l3 = frame->l3 & 63;
    __u32 l4 = frame->l4 & 127;
    int is_udp = kind != DP_TUNNEL_GRE;
    __u32 len = 0;
    int has_checksum = 0;
    const __u8 *p;

    if (is_udp) {
        p = dp_at(ctx, l4, DP_UDP_LEN + DP_GENEVE_LEN);
        if (p && frame->has & DP_HAS_UDP) {
            len = kind == DP_TUNNEL_VXLAN ? dp_vxlan_len(p) : dp_geneve_len(p);
            has_checksum = dp_load16(p + 6) != 0;
        }
    } else {
        p = dp_at(ctx, l4, 4);
        len = p ? dp_gre_len(dp_ntohl(dp_load_be32(p))) : 0;
        has_checksum = p && p[0] & DP_GRE_CSUM >> 8;
    }
    if (!len || len > frame->l4_len || !dp_at(ctx, (l4 + len) & DP_MAX_POPPED, DP_ETH_LEN)
        || !dp_tunnel_ip_suits(ctx, frame, l3, is_udp ? DP_IP_UDP : DP_IP_GRE)) {
        return 0;
    }
    return len | (has_checksum ? DP_POP_CHECKSUM : 0);
}

/* Whether 'op', the last operation, can be done, before which 'tags' VLAN tags are popped.  Touches nothing. */
DP_INLINE int dp_tunnel_pop_prepare(struct dp_ctx *ctx, struct dp_frame *frame, const union dp_key *key, __u32 tags,
                                    const struct dp_op *op)
{
    __u32 kind = op->u.tunnel_pop.kind;
    __u32 len;

    dp_out_of_reach(ctx);
    len = dp_tunnel_expected(ctx, frame, kind);
    if (DP_TAKES_SKBS && !len && dp_out_of_reach(ctx) && !dp_pull(ctx)) {
        len = dp_tunnel_expected(ctx, frame, kind);
    }
    frame->entropy = len & DP_MAX_POPPED;
    if (!len || dp_tunnel_pop_refuses(ctx, frame, key, tags, frame->l4 + (len & DP_MAX_POPPED))) {
        return 0;
    }
    if (len & DP_POP_CHECKSUM) {
        int verified = dp_tunnel_verified(ctx);

        return verified < 0 ? 0 : verified || dp_tunnel_sum_right(ctx, frame, kind != DP_TUNNEL_GRE);
    }
    return 1;
}

/* What the tunnel's header at 'l4' says, as the key's words tun_id and tun_flags have it; 'tos' and 'ttl' are the IP
 * header's. */
DP_INLINE void dp_tunnel_read_head(struct dp_ctx *ctx, __u32 l4, __u32 kind, __u32 tos, __u32 ttl, __u64 *ret_id,
                                   __u64 *ret_flags)
{
    __u32 flags = 0, ports = 0, options = 0;
    const __u8 *p;

    *ret_id = 0;
    if (kind == DP_TUNNEL_GRE) {
        p = dp_at(ctx, l4, 4);

        __u32 gre = p ? dp_ntohs(dp_load_be16(p)) : 0;

        flags = gre & DP_GRE_CSUM ? DP_TUN_CSUM : 0;
        p = dp_at(ctx, l4 + (gre & DP_GRE_CSUM ? 8 : 4), 4);
        if (p && gre & DP_GRE_KEY) {
            flags |= DP_TUN_KEY;
            *ret_id = DP_BYTES(4, 4, dp_load32(p));
        }
    } else {
        p = dp_at(ctx, l4, DP_UDP_LEN + DP_GENEVE_LEN);
        if (p) {
            ports = dp_load32(p);
            flags = DP_TUN_KEY | (dp_load16(p + 6) ? DP_TUN_CSUM : 0);
            *ret_id = DP_BYTES(4, 4, dp_htonl(dp_ntohl(dp_load_be32(p + DP_UDP_LEN + 4)) >> 8).raw);
        }
        if (p && kind == DP_TUNNEL_GENEVE) {
            options = (p[DP_UDP_LEN] & 0x3f) * 4;
            flags |= DP_TUN_OPTIONS | (p[DP_UDP_LEN + 1] & 0x80 ? DP_TUN_OAM : 0);
        }
    }
    *ret_flags = DP_BYTES(0, 1, flags) | DP_BYTES(1, 1, options) | DP_BYTES(2, 1, tos) | DP_BYTES(3, 1, ttl)
        | DP_BYTES(4, 4, ports);
}

/* The 8 bytes of Geneve options, of which there are 'len', at 'ofs' of the frame; zeroes behind them. */
DP_INLINE __u64 dp_tunnel_read_options(struct dp_ctx *ctx, __u32 ofs, __u32 len)
{
    const __u8 *p = dp_at(ctx, ofs, 8);

    if (p && len >= 8) {
        return dp_load64(p);
    }
    p = dp_at(ctx, ofs, 4);
    return p && len >= 4 ? DP_BYTES(0, 4, dp_load32(p)) : 0;
}

/* The tunnel's words of the key, from the header that begins at 'l4' behind an IPv4 or an IPv6 header. */
DP_INLINE void dp_tunnel_read(struct dp_ctx *ctx, __u32 l4, int ip4, union dp_key *key, __u32 kind)
{
    const int n_words = DP_KEY_WORD(tun_options) - DP_KEY_WORD(tun_id);
    __u32 tos = 0, ttl = 0, options;
    const __u8 *ip;

    for (int i = 0; i < n_words; i++) {
        key->w[DP_KEY_WORD(tun_id) + i] = 0;
    }
    if (ip4) {
        ip = dp_at(ctx, (l4 - DP_IP4_LEN) & 127, DP_IP4_LEN);
        if (ip) {
            tos = ip[1];
            ttl = ip[8];
            key->w[DP_KEY_WORD(tun_ip4_src)] = dp_load64(ip + 12);
        }
    } else {
        ip = dp_at(ctx, (l4 - DP_IP6_LEN) & 127, DP_IP6_LEN);
        if (ip) {
            tos = dp_ntohl(dp_load_be32(ip)) >> 20 & 0xff;
            ttl = ip[7];
            key->tun_ip6_src[0] = dp_load64(ip + 8);
            key->tun_ip6_src[1] = dp_load64(ip + 16);
            key->tun_ip6_dst[0] = dp_load64(ip + 24);
            key->tun_ip6_dst[1] = dp_load64(ip + 32);
        }
    }
    dp_tunnel_read_head(ctx, l4, kind, tos, ttl, &key->w[DP_KEY_WORD(tun_id)], &key->w[DP_KEY_WORD(tun_flags)]);
    if (DP_OMITS_WORDS(ctx, DP_KEY_WORD(tun_options), DP_KEY_WORDS)) {
        return;
    }
    options = key->tun_options_len;
    for (__u32 i = 0; i < sizeof key->tun_options; i += 8) {
        key->tun_options[i / 8] = options > i
            ? dp_tunnel_read_options(ctx, l4 + DP_UDP_LEN + DP_GENEVE_LEN + i, options - i) : 0;
    }
}

/* Returns DP_REASON_FORWARDED, or DP_REASON_NO_MEMORY: then the packet is to be dropped. */
DP_STAGE int dp_tunnel_pop(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, const struct dp_op *op)
{
    if (!frame || !key || !op) {
        return DP_REASON_FORWARDED;
    }
    dp_tunnel_read(ctx, frame->l4 & 127, frame->has & DP_HAS_IP4, key, op->u.tunnel_pop.kind);
    if (dp_tunnel_shrink(ctx, (frame->l4 + frame->entropy) & DP_MAX_POPPED, !(frame->has & DP_HAS_IP4),
                         op->u.tunnel_pop.kind != DP_TUNNEL_GRE || key->tun_flags & DP_TUN_CSUM)) {
        return DP_REASON_NO_MEMORY;
    }
    key->w[0] = DP_BYTES(0, 4, op->u.tunnel_pop.port);
    dp_clear_tracking(ctx, key);
    return DP_REASON_FORWARDED;
}

#endif /* dp/tunnel_pop.h */
