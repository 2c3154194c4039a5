/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The checksum of a tunnel's header: over the outer UDP or GRE header and all that follows. */
#ifndef DP_TUNNEL_CHECKSUM_H
#define DP_TUNNEL_CHECKSUM_H 1

#include "dp/checksum.h"
#include "dp/frame.h"
#include "dp/tunnel_sum.h"

#define DP_TCP_CSUM_OFS 16
#define DP_UDP_CSUM_OFS 6

/* What of the packet inside is left to a device: nothing (0); the checksum 'FIELD' bytes behind the transport header at
 * 'L4'; or all, because the packet is still to be segmented. */
#define DP_LEFT(L4, FIELD) ((__u32) (L4) | (__u32) (FIELD) << 16)
#define DP_LEFT_L4(LEFT) ((LEFT) & DP_MAX_LEFT)
#define DP_LEFT_FIELD(LEFT) ((LEFT) >> 16 & 31)
#define DP_LEFT_ALL 0xffffffff
#define DP_MAX_LEFT 0x7ff       /* Above any offset of a transport header inside: a bound for the verifier. */

/* The sum of the bytes from 'ofs', an even number, to the transport header that 'left' says, and of what follows, as a
 * device will make it: with its checksum in its place all that sums up to the complement of the pseudo header, of which
 * the field has the sum until then (Documentation/networking/checksum-offloads.rst, "LCO: Local Checksum Offload"). */
DP_STAGE __u64 dp_tunnel_sum_left(struct dp_ctx *ctx, __u32 ofs, __u32 left)
{
    __u32 l4 = DP_LEFT_L4(left);
    __u64 sum = 0;
    const __u8 *p;

    ofs &= DP_OFS_MASK;
    DP_NO_UNROLL
    for (int i = 0; i < DP_MAX_LEFT / 4 && ofs + 4 <= l4; i++) {
        p = dp_at(ctx, ofs & DP_OFS_MASK, 4);
        if (!p) {
            return 0;
        }
        sum += dp_load32(p);
        ofs += 4;
    }
    p = dp_at(ctx, ofs & DP_OFS_MASK, 2);
    if (p && ofs < l4) {
        sum += dp_load16(p);
    }
    p = dp_at(ctx, l4 + DP_LEFT_FIELD(left), 2);
    return p ? sum + (__u16) ~dp_load16(p) : 0;
}

/* The sum of the pseudo header of the UDP packet that begins at 'ofs', behind the first IP header. */
DP_INLINE __u64 dp_tunnel_sum_pseudo(struct dp_ctx *ctx, __u32 ofs, __u32 ip6)
{
    const __u8 *ip = dp_at(ctx, DP_ETH_LEN, ip6 ? DP_IP6_LEN : DP_IP4_LEN);
    const __u8 *udp = dp_at(ctx, ofs & 63, DP_UDP_LEN);
    __u64 sum;

    if (!ip || !udp) {
        return 0;
    }
    sum = dp_load16(udp + 4) + dp_htons(DP_IP_UDP).raw;
    for (int i = ip6 ? 8 : 12; i < (ip6 ? DP_IP6_LEN : DP_IP4_LEN); i += 4) {
        sum += dp_load32(ip + i);
    }
    return sum;
}

/* Writes the checksum of the UDP header at 'ofs', or of the GRE header, after dp_tunnel_push().  'has' is the frame's
 * (DP_HAS_*).  Of a packet that is still to be segmented (DP_LEFT_ALL) the field gets the sum of the pseudo header,
 * with the length of the whole, from which each segment's is made (__skb_udp_tunnel_segment(), net/ipv4/udp_offload.c).
 * If its segments have one checksum, which the kernel copies, it gets that: 'shorter' is dp_equal_segments().  Returns
 * DP_REASON_FORWARDED. */
DP_STAGE int dp_tunnel_checksum(struct dp_ctx *ctx, __u32 ofs, __u32 has, __u32 left, __u32 shorter)
{
    __u32 ip6 = has & DP_HAS_IP6, is_udp = has & DP_HAS_UDP;
    __u16 before, checksum;
    __u64 sum = 0;
    __u8 *field;
    __u32 at;

    DP_OPAQUE(ip6);                     /* The verifier is to see branches, not arithmetic with a bit. */
    DP_OPAQUE(is_udp);
    at = (ofs & 63) + (is_udp ? DP_UDP_CSUM_OFS : 4);
    field = dp_at(ctx, at, 2);
    if (!field) {
        return 0;
    }
    before = dp_load16(field);
    dp_store16(field, 0);
    if (is_udp) {
        sum = dp_tunnel_sum_pseudo(ctx, ofs, ip6);
    }
    if (!DP_TAKES_SKBS || !left) {
        sum += dp_tunnel_sum_all(ctx, ofs & 63);
    } else if (left != DP_LEFT_ALL) {
        sum += dp_tunnel_sum_left(ctx, ofs & 63, left) + shorter;
    }
    checksum = dp_csum_fold(sum);
    if (!DP_TAKES_SKBS || left != DP_LEFT_ALL) {
        checksum = ~checksum;
    }
    if (is_udp && !checksum) {
        checksum = 0xffff;
    }
    field = dp_at(ctx, at, 2);
    if (field) {
        dp_store16(field, checksum);
        dp_csum_packet(ctx, dp_csum_change16(before, checksum));
    }
    return 0;
}

#endif /* dp/tunnel_checksum.h */
