/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The seam for tcx, what tunnels need (dp/tunnel.h, dp/tunnel_pop.h, dp/detour.h).  bpf/seam_tcx.h includes this. */
#ifndef BPF_SEAM_TCX_TUNNEL_H
#define BPF_SEAM_TCX_TUNNEL_H 1

#include <asm-generic/errno-base.h>

#include "bpf/detour.h"
#include "dp/op.h"
#include "dp/tunnel_checksum.h"
#include "dp/tunnel_out.h"

/* Flags of bpf_skb_adjust_room() to push a tunnel's header with what is before the packet inside: 'l2_len' bytes. */
DP_INLINE __u64 dp_tunnel_room_flags(int ip6, int is_udp, __u64 l2_len)
{
    return BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L2(l2_len) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH
        | (ip6 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV4)
        | (is_udp ? BPF_F_ADJ_ROOM_ENCAP_L4_UDP : BPF_F_ADJ_ROOM_ENCAP_L4_GRE);
}

/* Whether the kernel takes the packet for one that is in a tunnel already (skb->encapsulation).  The call always
 * fails: no room is less than an Ethernet header needs.  What is in a tunnel is found out before that. */
DP_INLINE int dp_is_encapsulated(struct dp_ctx *ctx)
{
    return bpf_skb_adjust_room(ctx, 0, BPF_ADJ_ROOM_MAC, dp_tunnel_room_flags(0, 1, DP_ETH_LEN)) != -EINVAL;
}

/* The lengths are in the pseudo header inside, which counts against them, in IPv6's header inside, and in UDP's header
 * outside and its pseudo header, which GRE has not; IPv4's has a checksum that balances its own. */
DP_INLINE __u32 dp_equal_segments(struct dp_ctx *ctx, const struct dp_frame *frame, int is_udp)
{
    __u32 begin = dp_tcp_payload(ctx, frame);
    __u32 size = ctx->gso_size;
    __u32 len, less;

    if (!begin || !size) {
        return 0;
    }
    len = ctx->len - begin;
    if (len < size || len > MAX_IP_LEN || len % size) {
        return 0;
    }
    less = (__u16) ~dp_htons(len - size).raw;
    if (!is_udp) {
        return frame->has & DP_HAS_IP6 ? 0xffff : (__u16) ~less;
    }
    return frame->has & DP_HAS_IP6 ? 2 * less : less;
}

DP_INLINE int dp_needs_detour(struct dp_ctx *ctx) { return ctx->gso_size != 0; }

DP_STAGE int dp_checksum_pending(struct dp_ctx *ctx, const struct dp_frame *frame);

/* Whether the checksum of a header that the packet gets cannot be computed here.  Notes in '*frame' whether what it
 * covers is left to a device.  Of packets into GRE, for which there is no detour, those that need one are refused; of
 * those into UDP none, or while there is no detour all: they stay in their order. */
DP_STAGE int dp_tunnel_checksum_refuses(struct dp_ctx *ctx, struct dp_frame *frame, __u32 len, __u32 is_udp)
{
    if (!frame || (is_udp && !detour_is_open(ctx))) {
        return 1;
    }
    if (ctx->gso_size) {
        return dp_is_encapsulated(ctx) || (!is_udp && !dp_equal_segments(ctx, frame, 0));
    }
    if (!dp_csum_left(ctx)) {
        return ctx->len + len > DP_MAX_SUM || bpf_skb_pull_data(ctx, ctx->len);
    }
    if (!dp_checksum_pending(ctx, frame)) {
        return 1;
    }
    frame->has |= DP_HAS_LEFT;
    return 0;
}

/* The kernel takes what is inside for the packet to segment later, if it is no tunnel's itself.  Behind other
 * operations it must not find out that it cannot.  One tag in VLAN acceleration goes inside, too.  Segments would all
 * have the sequence number of GRE that the packet has. */
DP_INLINE int dp_tunnel_refuses(struct dp_ctx *ctx, struct dp_frame *frame, const union dp_key *key, __u32 index,
                                __u32 tags, const struct dp_op *op)
{
    __u32 inside = (dp_tag_beside(ctx) ? 1 : 0) - tags;
    __u32 len = op->u.tunnel_push.len;

    if (inside > 1 || frame->l3 != DP_ETH_LEN || (ctx->gso_size && op->u.tunnel_push.numbered)
        || ctx->len + len + DP_VLAN_LEN > DP_ETH_LEN + MAX_IP_LEN) {
        return 1;
    }
    if (ctx->gso_size
        && (!(frame->has & (DP_HAS_IP4 | DP_HAS_IP6)) || !(frame->has & (DP_HAS_TCP | DP_HAS_UDP)))) {
        return 1;
    }
    if (op->code == DP_OP_TNL_PUSH_CSUM) {
        return dp_tunnel_checksum_refuses(ctx, frame, len + DP_VLAN_LEN, op->u.tunnel_push.udp);
    }
    return ctx->gso_size && index && (frame->has & DP_HAS_UDP || key->tun_ip4_dst.raw || key->tun_ip6_dst[1])
        && dp_is_encapsulated(ctx);
}

/* After a detour: the device has put headers of DETOUR_GROWTH bytes before the packet, and 'more' are needed.  What the
 * kernel has noted as the place of UDP's header (skb->transport_header) is wrong then; it finds it out again where it
 * checks the packet (SKB_GSO_DODGY, which the helper sets), before a device that segments such packets itself gets
 * it.  Where a header of IPv6 is to be, the device has put one of IPv4.  Two tags are pushed and popped, because the
 * kernel then reads from the frame which protocol is behind them (skb->protocol). */
DP_INLINE int dp_tunnel_grow_back(struct dp_ctx *ctx, __u32 more, int ip6)
{
    const __u16 tag = dp_htons(DP_ETH_VLAN).raw;
    __u8 *eth;

    if (more && bpf_skb_adjust_room(ctx, more, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO)) {
        return -1;
    }
    if (!ip6) {
        return 0;
    }
    if (bpf_skb_vlan_push(ctx, tag, 1) || bpf_skb_vlan_push(ctx, tag, 1)) {
        return -1;
    }
    eth = dp_at(ctx, 0, DP_ETH_LEN + DP_VLAN_LEN);
    if (!eth) {
        return -1;
    }
    dp_store16(eth + DP_ETH_LEN + 2, dp_htons(DP_ETH_IP6).raw);
    return bpf_skb_vlan_pop(ctx) || bpf_skb_vlan_pop(ctx) ? -1 : 0;
}

/* bpf_skb_adjust_room() makes the room behind the Ethernet header, and notes where the packet inside begins, for what
 * segments it; only in IP.  bpf_skb_change_head() makes it before everything, and suits packets without GSO.  A tag in
 * VLAN acceleration becomes one of the packet inside. */
DP_STAGE int dp_tunnel_grow(struct dp_ctx *ctx, __u32 len, int ip6, int is_udp, __u32 has)
{
    __u32 tag = dp_tag_beside(ctx);
    __u32 tag_len = tag ? DP_VLAN_LEN : 0;
    __u32 begin = 0;
    __u8 *eth, *inner;
    __u16 type;
    union {
        __u32 raw;
        struct { dp_be16 tpid, tci; } tag;
    } u = { tag };

    ctx->DP_GROWN = len;
    if (has & DP_HAS_BACK) {
        return dp_tunnel_grow_back(ctx, len - DETOUR_GROWTH, ip6);
    }
    if (!(has & (DP_HAS_IP4 | DP_HAS_IP6))
        || bpf_skb_adjust_room(ctx, len + tag_len, BPF_ADJ_ROOM_MAC,
                               dp_tunnel_room_flags(ip6, is_udp, DP_ETH_LEN + tag_len))) {
        if (ctx->gso_size || bpf_skb_change_head(ctx, len + tag_len, 0)) {
            return -1;
        }
        ctx->DP_DISGUISED = 1;
        begin = len + tag_len;
    }
    if (tag) {
        bpf_skb_vlan_pop(ctx);          /* That cannot fail: it only clears VLAN acceleration. */
    }
    eth = dp_at(ctx, begin & 0x3ff, DP_ETH_LEN);
    inner = dp_at(ctx, len & 0x3ff, DP_ETH_LEN);
    if (!eth || !inner) {
        return 0;
    }
    type = dp_load16(eth + 12);
    dp_store64(inner, dp_load64(eth));
    dp_store32(inner + 8, dp_load32(eth + 8));
    dp_store16(inner + 12, tag ? u.tag.tpid.raw : type);
    inner = tag ? dp_at(ctx, (len & 0x3ff) + DP_ETH_LEN, DP_VLAN_LEN) : 0;
    if (inner) {
        dp_store16(inner, u.tag.tci.raw);
        dp_store16(inner + 2, type);
    }
    return 0;
}

#define MAX_HEADERS 138         /* Of a segment: Ethernet, a tag, IP and TCP with options. */

/* Flags of bpf_skb_adjust_room() since Linux 6.3 (include/uapi/linux/bpf.h): the packet inside is of another IP version
 * than the outer one.  Before, bpf_skb_change_proto() says so: it adds or takes off the difference of their
 * headers, and knows no GSO but TCP's. */
#define ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)

/* Takes off 'n' bytes behind the Ethernet header, which end with that of the packet inside.  No kernel function came
 * with the flags.  bpf_dynptr_from_skb(), which is never called, came with Linux 6.4. */
DP_INLINE int dp_tunnel_take_off(struct dp_ctx *ctx, int n, int outer_ip6, int inner_ip6)
{
    __u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET;

    if (outer_ip6 == inner_ip6) {
        return bpf_skb_adjust_room(ctx, -n, BPF_ADJ_ROOM_MAC, flags);
    }
    if (HAS_KFUNC(bpf_dynptr_from_skb)) {
        flags |= inner_ip6 ? ADJ_ROOM_DECAP_L3_IPV6 : ADJ_ROOM_DECAP_L3_IPV4;
        return bpf_skb_adjust_room(ctx, -n, BPF_ADJ_ROOM_MAC, flags);
    }
    if (bpf_skb_change_proto(ctx, inner_ip6 ? dp_htons(DP_ETH_IP6).raw : dp_htons(DP_ETH_IP4).raw, 0)) {
        return -1;
    }
    n += inner_ip6 ? DP_IP6_LEN - DP_IP4_LEN : DP_IP4_LEN - DP_IP6_LEN;
    return bpf_skb_adjust_room(ctx, -n, BPF_ADJ_ROOM_MAC, flags);
}

/* bpf_skb_adjust_room() takes the bytes off behind the Ethernet header.  It knows only packets in IP, and leaves
 * skb->protocol as it is for what is not IP inside.  A packet that is still to be segmented must be all that the outer
 * one holds: the kernel may have merged several of these.  A tag inside becomes one in VLAN acceleration.  The engine
 * must be able to get what was popped, with the tunnel's metadata. */
DP_INLINE int dp_tunnel_pop_refuses(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key,
                                    __u32 tags, __u32 n)
{
    __u32 beside = dp_tag_beside(ctx) ? 1 : 0;
    const __u8 *eth = dp_at(ctx, n & 0xff, DP_ETH_LEN + DP_VLAN_LEN);
    __u32 ofs = (n & 0xff) + DP_ETH_LEN;

    if (tags != beside || frame->l3 != DP_ETH_LEN || !eth) {
        return 1;
    }

    dp_be16 type = dp_load_be16(eth + 12);

    if (dp_is_vlan(type)) {
        ofs += DP_VLAN_LEN;
        type = dp_load_be16(eth + 16);
        if (dp_is_vlan(type)) {
            return 1;
        }
    }

    int ip6 = DP_BE16_IS(type, DP_ETH_IP6);

    if (ctx->len < ofs + (ip6 ? DP_IP6_LEN : DP_IP4_LEN)) {
        return 1;
    }
    if (!ctx->gso_size) {
        return ctx->len - (n & 0xff) + DP_RECORD_TUNNEL_LEN > upcall_max_len;
    }

    const __u8 *ip = dp_at(ctx, ofs, DP_IP4_LEN);

    if (!ip || key->tun_ip4_dst.raw || key->tun_ip6_dst[0] | key->tun_ip6_dst[1]) {
        return 1;
    }

    int is_mixed = ip6 == !!(frame->has & DP_HAS_IP4);
    __u32 length = ip6 ? DP_IP6_LEN + dp_ntohs(dp_load_be16(ip + 4)) : dp_ntohs(dp_load_be16(ip + 2));
    __u8 proto = ip6 ? ip[6] : ip[9];

    return ctx->gso_size + MAX_HEADERS + DP_RECORD_TUNNEL_LEN > upcall_max_len
        || (!ip6 && !DP_BE16_IS(type, DP_ETH_IP4)) || ctx->len != ofs + length
        || (proto != DP_IP_TCP && (proto != DP_IP_UDP || (is_mixed && !HAS_KFUNC(bpf_dynptr_from_skb))));
}

/* bpf_csum_level() fails unless the kernel or the device has verified checksums.  A packet that is CHECKSUM_PARTIAL
 * comes from this machine; with a checksum inside left, the outer one is right when that is completed. */
DP_INLINE int dp_tunnel_verified(struct dp_ctx *ctx)
{
    if (bpf_csum_level(ctx, BPF_CSUM_LEVEL_QUERY) >= 0 || dp_csum_left(ctx)) {
        return 1;
    }
    return (long) ctx->data_end - (long) ctx->data == ctx->len ? 0 : -1;
}

DP_INLINE int dp_tunnel_shrink(struct dp_ctx *ctx, __u32 n, int outer_ip6, int checksum)
{
    const __u8 *inner = dp_at(ctx, n & 0xff, DP_ETH_LEN + DP_VLAN_LEN);
    __u64 addresses;
    __u32 addresses_rest, tag;
    dp_be16 type;
    __u8 *eth;

    if (!inner) {
        return -1;
    }
    addresses = dp_load64(inner);
    addresses_rest = dp_load32(inner + 8);
    tag = dp_load32(inner + 12);
    type = dp_load_be16(inner + 12);
    if (dp_is_vlan(type)) {
        type = dp_load_be16(inner + 16);
        n += DP_VLAN_LEN;
    } else {
        tag = 0;
    }
    if (dp_tunnel_take_off(ctx, n, outer_ip6, DP_BE16_IS(type, DP_ETH_IP6))) {
        return -1;
    }
    eth = dp_at(ctx, 0, DP_ETH_LEN);
    if (!eth) {
        return -1;
    }
    dp_store64(eth, addresses);
    dp_store32(eth + 8, addresses_rest);
    dp_store16(eth + 12, type.raw);
    ctx->DP_DISGUISED = !DP_BE16_IS(type, DP_ETH_IP6) && !DP_BE16_IS(type, DP_ETH_IP4);
    if (checksum) {
        bpf_csum_level(ctx, BPF_CSUM_LEVEL_DEC);
    }
    if (!tag) {
        return 0;
    }

    union {
        __u32 raw;
        struct { dp_be16 tpid, tci; } tag;
    } u = { tag };

    return bpf_skb_vlan_push(ctx, u.tag.tpid.raw, dp_ntohs(u.tag.tci));
}

/* Since Linux 6.6; others refuse flags that they do not know.  Only GRE knows tunnels without a key. */
#define NO_TUNNEL_KEY (1ULL << 4)

#define MIN_OPTION 4            /* Bytes.  Linux 6.1's verifier understands that, and not "not 0". */

/* Hands to the kernel where the packet goes, with 'n' bytes of Geneve options: the device for tunnels by the routes of
 * the host asks for it.  0, or not. */
DP_INLINE int dp_tunnel_set(struct dp_ctx *ctx, const struct dp_tunnel_out *out, const __u8 *options, __u32 n)
{
    struct bpf_tunnel_key to = {
        .tunnel_id = out->id,
        .tunnel_tos = out->tos,
        .tunnel_ttl = out->ttl,
    };
    __u64 flags = out->flags & DP_TUNNEL_CSUM ? 0 : BPF_F_ZERO_CSUM_TX;
    long err;

    if (out->flags & DP_TUNNEL_IP6) {
        flags |= BPF_F_TUNINFO_IPV6;
        __builtin_memcpy(to.remote_ipv6, out->dst, sizeof to.remote_ipv6);
        __builtin_memcpy(to.local_ipv6, out->src, sizeof to.local_ipv6);
    } else {
        to.remote_ipv4 = DP_SWAP32(out->dst[0]);
        to.local_ipv4 = DP_SWAP32(out->src[0]);
    }
    flags |= out->flags & DP_TUNNEL_DF ? BPF_F_DONT_FRAGMENT : 0;
    err = bpf_skb_set_tunnel_key(ctx, &to, sizeof to, flags | (out->flags & DP_TUNNEL_HAS_KEY ? 0 : NO_TUNNEL_KEY));
    if (err && !(out->flags & DP_TUNNEL_HAS_KEY)) {
        err = bpf_skb_set_tunnel_key(ctx, &to, sizeof to, flags);
    }
    return err || (n >= MIN_OPTION && bpf_skb_set_tunnel_opt(ctx, (void *) options, n));
}

#endif /* bpf/seam_tcx_tunnel.h */
