/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Frames whose transport checksum a local stack left to a device that never comes (CHECKSUM_PARTIAL): they must be
 * completed over the whole payload before they leave, which is the engine's work (core/checksum.h). */
#ifndef DP_PENDING_H
#define DP_PENDING_H 1

#include "dp/set.h"

/* Whether the checksum field of a TCP or UDP packet holds just the sum of the pseudo header, as Linux leaves it
 * (include/linux/skbuff.h, "Checksumming on output"), or that of SCTP 0.  One valid packet in 65536 looks the same:
 * the engine forwards it as it is.  A packet whose pseudo header is behind IPv6 extension headers counts as such. */
DP_INLINE int dp_checksum_pending(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key)
{
    __u32 has = frame->has;
    __u64 sum = dp_htons(key->ip_proto).raw + (__u64) dp_htons(frame->l4_len).raw;
    const __u8 *l4;

    if (DP_UNLIKELY(has & DP_HAS_SCTP)) {
        l4 = dp_l4(ctx, frame, DP_SCTP_LEN);
        return l4 && !dp_load32(l4 + 8);
    }
    if (!(has & (DP_HAS_TCP | DP_HAS_UDP)) || key->ip_frag) {
        return 0;
    }
    if (has & DP_HAS_IP4) {
        const __u8 *ip = dp_l3(ctx, frame, DP_IP4_LEN);

        if (!ip) {
            return 0;
        }
        sum += (__u64) dp_load32(ip + 12) + dp_load32(ip + 16);
    } else if (has & DP_HAS_IP6) {
        const __u8 *ip = dp_l3(ctx, frame, DP_IP6_LEN);

        if (!ip) {
            return 0;
        }
        DP_UNROLL
        for (int i = 8; i < DP_IP6_LEN; i += 4) {
            sum += dp_load32(ip + i);
        }
    } else {
        return 1;
    }

    __u32 field = has & DP_HAS_TCP ? 16 : 6;

    l4 = dp_l4(ctx, frame, has & DP_HAS_TCP ? DP_TCP_LEN : DP_UDP_LEN);
    return l4 && dp_load16(l4 + field) == dp_csum_fold(sum);
}

/* Whether the packet is a tunnel's whose own UDP checksum is complete, but of the packet inside it is not: Linux leaves
 * that to the device, and can tell what it will be (Documentation/networking/checksum-offloads.rst, "LCO"). */
DP_STAGE int dp_checksum_outer(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key)
{
    if (!frame || !key || !(frame->has & DP_HAS_UDP)) {
        return 0;
    }

    const __u8 *udp = dp_l4(ctx, frame, DP_UDP_LEN);

    return udp && dp_load16(udp + 6) && !dp_checksum_pending(ctx, frame, key) && dp_csum_left(ctx);
}

#endif /* dp/pending.h */
