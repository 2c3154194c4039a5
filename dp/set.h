/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Operations that set header fields, with the bits of Open vSwitch's packet_set_*() (lib/packets.c).
 *
 * Each is called only when the frame has what the operation needs (dp/op.h): none can fail.  A NULL from dp_at()
 * cannot happen then; the tests of it are for the verifier. */
#ifndef DP_SET_H
#define DP_SET_H 1

#include "dp/checksum.h"
#include "dp/crc32c.h"
#include "dp/frame.h"
#include "dp/op.h"

DP_INLINE __u8 *dp_l3(struct dp_ctx *ctx, const struct dp_frame *frame, __u32 len)
{
    return dp_at(ctx, frame->l3 & DP_OFS_MASK, len);
}

DP_INLINE __u8 *dp_l4(struct dp_ctx *ctx, const struct dp_frame *frame, __u32 len)
{
    return dp_at(ctx, frame->l4 & DP_OFS_MASK, len);
}

DP_INLINE __u32 dp_masked32(__u32 old, __u32 value, __u32 mask) { return value | (old & ~mask); }

DP_INLINE void dp_set_eth(struct dp_ctx *ctx, const struct dp_op *op)
{
    __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN);

    if (eth) {
        dp_store32(eth, dp_masked32(dp_load32(eth), op->u.eth.value[0], op->u.eth.mask[0]));
        dp_store32(eth + 4, dp_masked32(dp_load32(eth + 4), op->u.eth.value[1], op->u.eth.mask[1]));
        dp_store32(eth + 8, dp_masked32(dp_load32(eth + 8), op->u.eth.value[2], op->u.eth.mask[2]));
    }
}

DP_INLINE __u32 dp_csum_of_udp(const struct dp_frame *frame)
{
    return DP_CSUM_UDP | (frame->has & DP_HAS_OUTER ? DP_CSUM_OUTER : 0);
}

/* Updates the transport checksum after a change of the pseudo header. */
DP_INLINE void dp_pseudo_changed(struct dp_ctx *ctx, const struct dp_frame *frame, __u8 proto, __u64 changes)
{
    __u32 l4 = frame->l4 & DP_OFS_MASK;

    if (proto == DP_IP_TCP && frame->l4_len >= DP_TCP_LEN) {
        dp_csum_transport(ctx, l4 + 16, changes, DP_CSUM_PSEUDO);
    } else if (proto == DP_IP_UDP && frame->l4_len >= DP_UDP_LEN) {
        dp_csum_transport(ctx, l4 + 6, changes, DP_CSUM_PSEUDO | dp_csum_of_udp(frame));
    }
}

DP_INLINE void dp_set_ip4(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    __u8 *ip = dp_l3(ctx, frame, DP_IP4_LEN);

    if (!ip) {
        return;
    }

    __u32 src = dp_load32(ip + 12);
    __u32 dst = dp_load32(ip + 16);
    __u32 new_src = dp_masked32(src, op->u.ip4.src, op->u.ip4.src_mask);
    __u32 new_dst = dp_masked32(dst, op->u.ip4.dst, op->u.ip4.dst_mask);
    __u8 tos = ip[1];
    __u8 ttl = ip[8];
    __u8 proto = ip[9];
    __u8 new_tos = dp_masked32(tos, op->u.ip4.tos, op->u.ip4.tos_mask);
    __u8 new_ttl = dp_masked32(ttl, op->u.ip4.ttl, op->u.ip4.ttl_mask);
    __u32 moved = (src ^ new_src) | (dst ^ new_dst);

    if (!(moved | (tos ^ new_tos) | (ttl ^ new_ttl))) {
        return;                 /* Without a change, a wrong checksum stays wrong. */
    }

    /* Bytes that did not change add 0 in one's complement. */
    __u64 address_changes = dp_csum_change32(src, new_src) + dp_csum_change32(dst, new_dst);

    dp_store32(ip + 12, new_src);
    dp_store32(ip + 16, new_dst);
    ip[1] = new_tos;
    ip[8] = new_ttl;
    dp_csum_apply(ip + 10, address_changes + dp_csum_change16(dp_htons(tos).raw, dp_htons(new_tos).raw)
                  + dp_csum_change16(dp_htons(ttl << 8).raw, dp_htons(new_ttl << 8).raw));
    if (moved) {
        dp_pseudo_changed(ctx, frame, proto, address_changes);
    }
}

/* Changes of a 128-bit field, to be summed if any bit changes; writes the new value. */
DP_INLINE __u64 dp_set_128(__u8 *field, const __u64 value[2], const __u64 mask[2])
{
    __u64 hi = dp_load64(field);
    __u64 lo = dp_load64(field + 8);
    __u64 new_hi = value[0] | (hi & ~mask[0]);
    __u64 new_lo = value[1] | (lo & ~mask[1]);

    if (hi == new_hi && lo == new_lo) {
        return 0;
    }
    dp_store64(field, new_hi);
    dp_store64(field + 8, new_lo);
    return dp_csum_change32(hi, new_hi) + dp_csum_change32(hi >> 32, new_hi >> 32)
        + dp_csum_change32(lo, new_lo) + dp_csum_change32(lo >> 32, new_lo >> 32);
}

/* 'ofs': where the address stands in the header, 8 or 24. */
DP_INLINE void dp_set_ip6_address(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op, __u32 ofs)
{
    __u8 *ip = dp_l3(ctx, frame, DP_IP6_LEN);

    if (!ip) {
        return;
    }

    __u8 proto = ip[6];
    __u64 changes = dp_set_128(ip + ofs, op->u.ip6_addr.value, op->u.ip6_addr.mask);

    if (!changes) {
        return;
    }
    if (DP_TAKES_SKBS && proto == DP_IP_HOPOPTS) {
        proto = DP_IP_TCP;              /* The header of BIG TCP (dp/parse_ip.h). */
    }
    if (proto == DP_IP_ICMP6 && frame->l4_len >= 4) {
        dp_csum_transport(ctx, (frame->l4 & DP_OFS_MASK) + 2, changes, DP_CSUM_PSEUDO);
    }
    dp_pseudo_changed(ctx, frame, proto, changes);
    dp_csum_packet(ctx, changes);
}

DP_INLINE void dp_set_ip6(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    __u8 *ip = dp_l3(ctx, frame, DP_IP6_LEN);

    if (!ip) {
        return;
    }

    __u32 old = dp_load32(ip);
    __u32 first = dp_ntohl(dp_load_be32(ip));
    __u8 tos = dp_masked32(first >> 20 & 0xff, op->u.ip6.tos, op->u.ip6.tos_mask);
    __u32 label = dp_masked32(dp_htonl(first & 0xfffff).raw, op->u.ip6.label, op->u.ip6.label_mask);
    __u32 new = dp_htonl((first & 0xf0000000) | (__u32) tos << 20).raw | label;
    __u8 ttl = ip[7];
    __u8 new_ttl = dp_masked32(ttl, op->u.ip6.ttl, op->u.ip6.ttl_mask);
    __u64 changes = dp_csum_change32(old, new) + dp_csum_change16(dp_htons(ttl).raw, dp_htons(new_ttl).raw);

    dp_store32(ip, new);
    ip[7] = new_ttl;
    dp_csum_packet(ctx, changes);
}

/* Writes new ports at 'l4', and returns what that adds to the checksum. */
DP_INLINE __u64 dp_set_ports(__u8 *l4, const struct dp_op *op)
{
    __u16 src = dp_load16(l4);
    __u16 dst = dp_load16(l4 + 2);
    __u16 new_src = dp_masked32(src, op->u.ports.src, op->u.ports.src_mask);
    __u16 new_dst = dp_masked32(dst, op->u.ports.dst, op->u.ports.dst_mask);
    __u64 changes = 0;

    if (src != new_src) {
        changes += dp_csum_change16(src, new_src);
    }
    if (dst != new_dst) {
        changes += dp_csum_change16(dst, new_dst);
    }
    dp_store16(l4, new_src);
    dp_store16(l4 + 2, new_dst);
    return changes;
}

DP_INLINE void dp_set_tcp(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    __u8 *tcp = dp_l4(ctx, frame, DP_TCP_LEN);

    if (tcp) {
        __u32 old = dp_load32(tcp);
        __u64 changes = dp_set_ports(tcp, op);

        if (dp_load32(tcp) != old) {
            dp_csum_transport(ctx, (frame->l4 & DP_OFS_MASK) + 16, changes, 0);
        }
    }
}

DP_INLINE void dp_set_udp(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    __u8 *udp = dp_l4(ctx, frame, DP_UDP_LEN);

    if (udp) {
        __u32 old = dp_load32(udp);
        __u64 changes = dp_set_ports(udp, op);

        if (dp_load32(udp) != old) {
            dp_csum_transport(ctx, (frame->l4 & DP_OFS_MASK) + 6, changes, dp_csum_of_udp(frame));
        }
    }
}

DP_INLINE void dp_set_sctp(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    __u8 *sctp = dp_l4(ctx, frame, DP_SCTP_LEN);

    if (sctp) {
        __u32 old = dp_load32(sctp);
        __u64 changes = dp_set_ports(sctp, op);
        __u32 change = old ^ dp_load32(sctp);

        if (change && !dp_csum_left(ctx)) {
            __u32 crc_change = dp_crc32c_change(dp_le32(change), frame->l4_len - 4);

            sctp = dp_l4(ctx, frame, DP_SCTP_LEN);
            if (sctp) {
                __u32 crc = dp_load32(sctp + 8);

                dp_store32(sctp + 8, crc ^ dp_le32(crc_change));
                dp_csum_packet(ctx, changes + dp_csum_change32(crc, crc ^ dp_le32(crc_change)));
            }
        }
    }
}

DP_INLINE void dp_set_icmp(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    __u8 *icmp = dp_l4(ctx, frame, DP_ICMP_LEN);

    if (icmp) {
        __u16 old = dp_load16(icmp);

        icmp[0] = op->u.icmp.type;
        icmp[1] = op->u.icmp.code;
        if (dp_load16(icmp) != old) {
            dp_csum_transport(ctx, (frame->l4 & DP_OFS_MASK) + 2, dp_csum_change16(old, dp_load16(icmp)), 0);
        }
    }
}

DP_INLINE void dp_set_arp(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    __u8 *arp = dp_l3(ctx, frame, DP_ARP_LEN);

    if (arp) {
        for (int i = 0; i < 22; i += 2) {
            __u16 mask = dp_load16(op->u.arp.mask + i);

            dp_store16(arp + 6 + i, dp_load16(op->u.arp.value + i) | (dp_load16(arp + 6 + i) & ~mask));
        }
    }
}

DP_INLINE void dp_set_nd(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    const struct dp_blob *arg = dp_blobs_at(ctx, op->u.blob);
    __u8 *nd = dp_l4(ctx, frame, DP_ND_LEN);
    __u64 changes;

    if (!nd || !arg) {
        return;
    }
    changes = dp_set_128(nd + 8, arg->nd.target, arg->nd.target_mask);
    if (changes) {
        dp_csum_transport(ctx, (frame->l4 & DP_OFS_MASK) + 2, changes, 0);
    }

    __u8 *opt = dp_at(ctx, (frame->l4 & DP_OFS_MASK) + DP_ND_LEN, DP_ND_OPT_LEN);

    if (frame->l4_len < DP_ND_LEN + DP_ND_OPT_LEN || !opt || opt[1] != 1) {
        return;
    }

    const __u8 *value = opt[0] == DP_ND_OPT_SLL ? arg->nd.sll : arg->nd.tll;
    const __u8 *mask = opt[0] == DP_ND_OPT_SLL ? arg->nd.sll_mask : arg->nd.tll_mask;
    __u16 differs = 0;

    changes = 0;
    for (int i = 0; i < 6; i += 2) {
        __u16 old = dp_load16(opt + 2 + i);
        __u16 new = dp_load16(value + i) | (old & ~dp_load16(mask + i));

        dp_store16(opt + 2 + i, new);
        differs |= old ^ new;
        changes += dp_csum_change16(old, new);
    }
    if (differs) {
        dp_csum_transport(ctx, (frame->l4 & DP_OFS_MASK) + 2, changes, 0);
    }
}

/* Open vSwitch computes this checksum anew, from the headers that are there (RFC 8200 section 8.1). */
DP_INLINE void dp_set_nd_ext(struct dp_ctx *ctx, const struct dp_frame *frame, const struct dp_op *op)
{
    __u8 *nd = dp_l4(ctx, frame, DP_ND_LEN + 2);
    __u64 changes = 0;
    __u64 sum = 0;
    __u16 old_csum;

    if (!nd) {
        return;
    }
    if (op->u.nd_ext.set_reserved) {
        changes += dp_csum_change32(dp_load32(nd + 4), op->u.nd_ext.reserved);
        dp_store32(nd + 4, op->u.nd_ext.reserved);
    }
    if (op->u.nd_ext.set_type) {
        __u16 old = dp_load16(nd + DP_ND_LEN);

        nd[DP_ND_LEN] = op->u.nd_ext.type;
        changes += dp_csum_change16(old, dp_load16(nd + DP_ND_LEN));
    }
    if (dp_csum_left(ctx)) {
        return;
    }

    __u8 *ip = dp_l3(ctx, frame, DP_IP6_LEN);

    nd = dp_l4(ctx, frame, DP_ND_LEN);
    if (!ip || !nd) {
        return;
    }
    old_csum = dp_load16(nd + 2);
    dp_store16(nd + 2, 0);

    for (int i = 8; i < DP_IP6_LEN; i += 4) {
        sum += dp_load32(ip + i);
    }
    sum += dp_load16(ip + 4);
    sum += dp_htons(ip[6]).raw;

    __u32 ofs = frame->l4 & DP_OFS_MASK;
    __u32 left = frame->l4_len;

    for (int i = 0; i < DP_SHORT_LEN / 2; i++) {
        const __u8 *p = dp_at(ctx, ofs + 2 * i, 1);

        if (!p || left < 1) {
            break;
        }
        if (left == 1) {
            sum += DP_SWAP16((__u16) (*p << 8));
            break;
        }
        p = dp_at(ctx, ofs + 2 * i, 2);
        if (!p) {
            break;
        }
        sum += dp_load16(p);
        left -= 2;
    }
    nd = dp_l4(ctx, frame, DP_ND_LEN);
    if (nd) {
        __u16 csum = ~dp_csum_fold(sum);

        dp_store16(nd + 2, csum);
        dp_csum_packet(ctx, changes + dp_csum_change16(old_csum, csum));
    }
}

#endif /* dp/set.h */
