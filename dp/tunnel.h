/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Tunnels: TNL_PUSH, with the bytes of Open vSwitch's netdev_push_header() (lib/netdev-native-tnl.c), and what it has
 * in common with TNL_POP (dp/tunnel_pop.h).
 *
 * A header is pushed as the flow has it, whole; of each packet are the lengths, the source port of UDP, checksums, and
 * the sequence number of GRE.
 *
 * A seam provides, besides moving the frame's start,
 *
 *     dp_tunnel_refuses()      whether a header cannot be pushed here
 *     dp_tunnel_grow()         makes room for it before the frame
 */
#ifndef DP_TUNNEL_H
#define DP_TUNNEL_H 1

#include "dp/checksum.h"
#include "dp/detour.h"
#include "dp/frame.h"
#include "dp/key.h"
#include "dp/op.h"
#include "dp/reason.h"
#include "dp/rss.h"
#include "dp/set.h"
#include "dp/tunnel_checksum.h"
#include "dp/tunnel_out.h"
#include "dp/tunnel_pop.h"
#include "dp/tunnel_sum.h"

#define DP_OMITS_PUSHES(CTX) (DP_OMITS_OP(CTX, DP_OP_TNL_PUSH) && DP_OMITS_OP(CTX, DP_OP_TNL_PUSH_CSUM))

/* Whether no flow has to do with tunnels. */
#define DP_OMITS_TUNNELS(CTX) (DP_OMITS_PUSHES(CTX) && DP_OMITS_POPS(CTX))

#define DP_TUNNEL_OPS (1ull << DP_OP_TNL_PUSH | 1ull << DP_OP_TNL_PUSH_CSUM | DP_POP_OPS)

/* What Open vSwitch chooses the source port by: its hash of addresses, protocol and ports.  This ends it, of TCP or UDP
 * with these 'ports', after the addresses.  No branch: the verifier follows each. */
DP_INLINE __u32 dp_tunnel_entropy_end(__u32 hash, const struct dp_frame *frame, const __u8 *ports)
{
    __u32 proto = DP_IP_UDP - (DP_IP_UDP - DP_IP_TCP) * (frame->has / DP_HAS_TCP & 1);

    return dp_rss_finish(dp_rss_add(dp_rss_add(hash, proto), dp_load32(ports)), 42);
}

/* Of any frame.  Of one that was predicted the key is not known, but such a one has all that is read of the frame. */
DP_INLINE __u32 dp_tunnel_entropy(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key)
{
    if (frame->has & (DP_HAS_TCP | DP_HAS_UDP) && frame->has & (DP_HAS_IP4 | DP_HAS_IP6)) {
        const __u8 *ports = dp_l4(ctx, frame, 4);
        const __u8 *ip = dp_l3(ctx, frame, frame->has & DP_HAS_IP4 ? DP_IP4_LEN : DP_IP6_LEN);
        __u32 hash = 0;

        if (!ports || !ip) {
            return 0;
        }
        if (frame->has & DP_HAS_IP4) {
            hash = dp_rss_add64(hash, dp_load64(ip + 12));
        } else {
            ip = dp_l3(ctx, frame, DP_IP6_LEN);
            for (int i = 8; ip && i < DP_IP6_LEN; i += 8) {
                hash = dp_rss_add64(hash, dp_load64(ip + i));
            }
        }
        return dp_tunnel_entropy_end(hash, frame, ports);
    }
    return dp_rss_5tuple(key);
}

/* The commonest case of dp_tunnel_prepare(), without a call: the first operation pushes a header before TCP or UDP over
 * IPv4, of plain bytes.  Returns whether it is that. */
DP_INLINE int dp_tunnel_prepare_plain(struct dp_ctx *ctx, struct dp_frame *frame, const struct dp_op *op)
{
    const __u8 *ports, *ip;

    if (DP_TAKES_SKBS || op->code != DP_OP_TNL_PUSH || !(frame->has & DP_HAS_IP4)
        || !(frame->has & (DP_HAS_TCP | DP_HAS_UDP))) {
        return 0;
    }
    ports = dp_l4(ctx, frame, 4);
    ip = dp_l3(ctx, frame, DP_IP4_LEN);
    if (!ports || !ip) {
        return 0;
    }
    frame->entropy = dp_tunnel_entropy_end(dp_rss_add64(0, dp_load64(ip + 12)), frame, ports);
    return 1;
}

/* Among the 'n' operations from 'first' on, which is the first of DP_TUNNEL_OPS, in the low half, and how many tags are
 * popped before it. */
DP_STAGE __u64 dp_tunnel_find(struct dp_ctx *ctx, __u32 first, __u32 n)
{
    __u32 tags = 0;
    __u32 i;

    for (i = 0; i < DP_MAX_OPS && i < n; i++) {
        const struct dp_op *op = dp_ops_at(ctx, first + i);

        if (!op || 1ull << (op->code & 63) & DP_TUNNEL_OPS) {
            break;
        }
        tags += (op->code == DP_OP_POP_VLAN) - (op->code == DP_OP_PUSH_VLAN);
    }
    return (__u64) tags << 32 | i;
}

/* Whether the program of 'n' operations from 'first' on, among them some of DP_TUNNEL_OPS, can be done as far as they
 * are concerned.  Touches nothing of the frame. */
DP_STAGE int dp_tunnel_prepare(struct dp_ctx *ctx, struct dp_frame *frame, const union dp_key *key, __u32 first,
                               __u32 n)
{
    if (!frame || !key) {
        return 0;
    }

    const struct dp_op *op = dp_ops_at(ctx, first);
    __u64 found = 0;

    if (op && !(1ull << (op->code & 63) & DP_TUNNEL_OPS)) {
        found = dp_tunnel_find(ctx, first, n);
        op = dp_ops_at(ctx, first + ((__u32) found & 0xff));
    }
    if (!op) {
        return 0;
    }

    __u32 index = (__u32) found & 0xff;

    if (!DP_OMITS_POPS(ctx) && 1ull << (op->code & 63) & DP_POP_OPS) {
        return dp_tunnel_pop_prepare(ctx, frame, key, found >> 32, op);
    }
    if (DP_OMITS_PUSHES(ctx)) {
        return 0;
    }
    frame->entropy = dp_tunnel_entropy(ctx, frame, key);
    return !dp_tunnel_refuses(ctx, frame, key, index, found >> 32, op);
}

/* Copies 'n' bytes, a multiple of 8, which the compiler knows. */
DP_INLINE void dp_copy_words(__u8 *to, const __u8 *from, const __u32 n)
{
    DP_UNROLL
    for (__u32 i = 0; i < n; i += 8) {
        dp_store64(to + i, dp_load64(from + i));
    }
}

/* The bytes of the header, a piece at a time: the last 8 of them, which may overlap the others, stand in the
 * operation. */
DP_INLINE void dp_tunnel_copy_plain(struct dp_ctx *ctx, const struct dp_op *op)
{
    __u32 blob = op->u.tunnel_push.blob;
    __u32 len = op->u.tunnel_push.len;
    const struct dp_blob *piece;
    __u32 i;
    __u8 *to;

    /* As a loop, it would come out in an order that Linux 6.1's verifier refuses ("back-edge"). */
    DP_UNROLL
    for (i = 0; i < DP_MAX_TUNNEL_LEN; i += sizeof *piece) {
        if (i + sizeof *piece > len) {
            break;
        }
        piece = dp_blobs_at(ctx, blob + i / sizeof *piece);
        to = dp_at(ctx, i, sizeof *piece);
        if (!piece || !to) {
            return;
        }
        dp_copy_words(to, piece->bytes, sizeof *piece);
    }
    piece = dp_blobs_at(ctx, blob + i / sizeof *piece);
    if (piece && len & 32) {
        to = dp_at(ctx, i, 32);
        if (to) {
            dp_copy_words(to, piece->bytes, 32);
        }
        i += 32;
    }
    if (piece && len & 16) {
        to = dp_at(ctx, i, 16);
        if (to) {
            dp_copy_words(to, piece->bytes + (i & 32), 16);
        }
        i += 16;
    }
    if (piece && len & 8) {
        to = dp_at(ctx, i, 8);
        if (to) {
            dp_copy_words(to, piece->bytes + (i & 48), 8);
        }
    }
    to = dp_at(ctx, (len - 8) & (DP_MAX_TUNNEL_LEN - 1), 8);
    if (to) {
        dp_store64(to, op->u.tunnel_push.tail);
    }
}

/* The same as a stage: within dp_tunnel_push() it makes the deepest calls of tcx need more than 512 bytes of stack,
 * which Linux 6.1 refuses.  Returns 0. */
DP_STAGE int dp_tunnel_copy(struct dp_ctx *ctx, const struct dp_op *op)
{
    if (op) {
        dp_tunnel_copy_plain(ctx, op);
    }
    return 0;
}

/* The sequence number at the end of GRE's header of 'len' bytes.  A stage because of the stack, as dp_tunnel_copy().
 * Returns 0. */
DP_STAGE int dp_tunnel_number(struct dp_ctx *ctx, __u32 len)
{
    struct dp_sequence *sequence = dp_sequence_at(ctx, 0);
    __u8 *field = dp_at(ctx, (len - 4) & (DP_MAX_TUNNEL_LEN - 1), 4);

    if (sequence && field) {
        dp_store32(field, dp_htonl(__sync_fetch_and_add(&sequence->next, 1)).raw);
    }
    return 0;
}

/* Lengths and checksum of the IP header that was pushed.  Returns where the next begins. */
DP_INLINE __u32 dp_tunnel_finish_ip(struct dp_ctx *ctx, int ip6, __u32 frame_len)
{
    __u8 *ip = dp_at(ctx, DP_ETH_LEN, ip6 ? DP_IP6_LEN : DP_IP4_LEN);

    if (!ip) {
        return 0;
    }
    if (ip6) {
        dp_store16(ip + 4, dp_htons(frame_len - DP_ETH_LEN - DP_IP6_LEN).raw);
        return DP_ETH_LEN + DP_IP6_LEN;
    }

    __u16 length = dp_htons(frame_len - DP_ETH_LEN).raw;

    dp_store16(ip + 2, length);
    dp_csum_apply(ip + 10, dp_csum_change16(0, length));
    return DP_ETH_LEN + DP_IP4_LEN;
}

/* Takes the header of 'len' bytes that the packet has, without Ethernet, out of the sum of the packet.  Returns 0. */
DP_STAGE int dp_tunnel_forget(struct dp_ctx *ctx, __u32 len)
{
    __u32 sum = 0;

    DP_NO_UNROLL
    for (__u32 i = DP_ETH_LEN; i < DP_MAX_TUNNEL_LEN && i < len; i += 2) {
        const __u8 *p = dp_at(ctx, i, 2);

        sum += p ? dp_load16(p) : 0;
    }
    dp_csum_packet(ctx, (__u32) ~sum);
    return 0;
}

/* The sum of the bytes that came between the first Ethernet header and the packet inside.  That of an IPv4 header with
 * its checksum is none. */
DP_INLINE __u64 dp_tunnel_sum(struct dp_ctx *ctx, const struct dp_op *op, __u32 len, int ip6)
{
    const __u8 *eth = dp_at(ctx, len & (2 * DP_MAX_TUNNEL_LEN - 1), DP_ETH_LEN);
    const __u8 *ip = dp_at(ctx, DP_ETH_LEN, DP_IP6_LEN + DP_UDP_LEN);
    __u64 sum = op->u.tunnel_push.sum;

    if (!eth || !ip) {
        return 0;
    }
    if (!op->u.tunnel_push.again) {     /* The inner one is counted. */
        sum += (__u64) dp_load32(eth) + dp_load32(eth + 4) + dp_load32(eth + 8) + dp_load16(eth + 12);
        if (dp_is_vlan(dp_load_be16(eth + 12))) {
            const __u8 *tag = dp_at(ctx, (len & (2 * DP_MAX_TUNNEL_LEN - 1)) + DP_ETH_LEN, DP_VLAN_LEN);

            sum += tag ? dp_load32(tag) : 0;
        }
    }
    if (ip6) {
        sum += dp_load16(ip + 4);
    }
    if (op->u.tunnel_push.udp) {
        const __u8 *udp = ip + (ip6 ? DP_IP6_LEN : DP_IP4_LEN);

        sum += (__u64) dp_load16(udp) + dp_load16(udp + 4);
    } else if (op->u.tunnel_push.numbered) {
        const __u8 *number = dp_at(ctx, (len - 4) & (DP_MAX_TUNNEL_LEN - 1), 4);

        sum += number ? dp_load32(number) : 0;
    }
    return sum;
}

/* Returns DP_REASON_FORWARDED, or DP_REASON_NO_MEMORY if it failed, which changes nothing. */
DP_STAGE int dp_tunnel_push(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, const struct dp_op *op)
{
    if (!frame || !key || !op) {
        return DP_REASON_FORWARDED;
    }

    __u32 len = op->u.tunnel_push.len;
    int ip6 = op->u.tunnel_push.ip6 != 0;
    int is_udp = op->u.tunnel_push.udp != 0;

    if (len < DP_MIN_TUNNEL_LEN || len > DP_MAX_TUNNEL_LEN) {
        return DP_REASON_FORWARDED;
    }
    if (DP_TAKES_SKBS && op->u.tunnel_push.again) {
        dp_tunnel_forget(ctx, len);
    } else if (dp_tunnel_grow(ctx, len, ip6, is_udp, frame->has)) {
        return DP_REASON_NO_MEMORY;
    }
    if (DP_TAKES_SKBS) {
        dp_tunnel_copy(ctx, op);
    } else {
        dp_tunnel_copy_plain(ctx, op);
    }

    if (!is_udp && op->u.tunnel_push.numbered) {
        dp_tunnel_number(ctx, len);
    }

    __u32 frame_len = dp_len(ctx);
    __u32 l4 = dp_tunnel_finish_ip(ctx, ip6, frame_len);
    __u8 *udp = is_udp ? dp_at(ctx, l4 & 63, DP_UDP_LEN) : 0;

    if (udp) {
        __u32 port = op->u.tunnel_push.first_port
            + (__u32) ((__u64) frame->entropy * op->u.tunnel_push.n_ports >> 32);

        dp_store16(udp, dp_htons(port).raw);
        dp_store16(udp + 4, dp_htons(frame_len - l4).raw);
    }
    if (DP_TAKES_SKBS) {
        dp_csum_packet(ctx, dp_tunnel_sum(ctx, op, len, ip6));
    }
    frame->len = frame_len;
    frame->has = DP_HAS_L3 | DP_HAS_FIRST | DP_HAS_OUTER | (ip6 ? DP_HAS_IP6 : DP_HAS_IP4) | (is_udp ? DP_HAS_UDP : 0);
    dp_frame_layers(frame, DP_NO_LAYER, DP_ETH_LEN, l4, frame_len - l4);
    if (!DP_OMITS_WORDS(ctx, DP_KEY_WORD(dp_hash), DP_KEY_WORD(ct_state))) {
        key->dp_hash = 0;               /* Those of the packet inside. */
        key->skb_priority = 0;
        key->skb_mark = 0;
    }
    return DP_REASON_FORWARDED;
}

/* Likewise with a checksum in the UDP or GRE header.  Returns as dp_tunnel_push(), or DP_DETOUR. */
DP_INLINE int dp_tunnel_push_csum(struct dp_ctx *ctx, struct dp_frame *frame, union dp_key *key, const struct dp_op *op)
{
    int reason;

    if (DP_TAKES_SKBS && !op->u.tunnel_push.again) {
        __u32 tag_len = dp_tag_beside(ctx) ? DP_VLAN_LEN : 0;

        frame->left = 0;
        frame->shorter = dp_equal_segments(ctx, frame, op->u.tunnel_push.udp);
        if (frame->has & DP_HAS_BACK) {
            frame->left = DP_LEFT_ALL;
        } else if (frame->shorter || frame->has & DP_HAS_LEFT) {
            frame->left = DP_LEFT(frame->l4 + op->u.tunnel_push.len + tag_len,
                                  frame->has & DP_HAS_TCP ? DP_TCP_CSUM_OFS : DP_UDP_CSUM_OFS);
        } else if (dp_needs_detour(ctx)) {
            return DP_DETOUR;
        }
    }
    reason = dp_tunnel_push(ctx, frame, key, op);
    if (reason) {
        return reason;
    }
    if (DP_TAKES_SKBS && frame->left == DP_LEFT_ALL) {
        frame->has &= ~DP_HAS_OUTER;
    }
    return dp_tunnel_checksum(ctx, frame->l4, frame->has, DP_TAKES_SKBS ? frame->left : 0,
                              DP_TAKES_SKBS ? frame->shorter : 0);
}

/* The packet goes into a tunnel by the routes of the host, when it is sent to the tunnel's port.  Returns
 * DP_REASON_FORWARDED, or DP_REASON_NO_MEMORY. */
DP_STAGE int dp_tunnel_leave(struct dp_ctx *ctx, const struct dp_op *op)
{
    const struct dp_blob *to, *options;
    const struct dp_tunnel_out *out;

    if (!op) {
        return DP_REASON_FORWARDED;
    }
    to = dp_blobs_at(ctx, op->u.blob);
    options = dp_blobs_at(ctx, op->u.blob + (op->n_blobs > 1));
    if (!to || !options) {
        return DP_REASON_NO_MEMORY;
    }
    out = (const struct dp_tunnel_out *) to->bytes;

    __u32 n = op->n_blobs > 1 ? out->options_len : 0;

    DP_OPAQUE(n);
    return n > sizeof options->bytes || dp_tunnel_set(ctx, out, options->bytes, n) ? DP_REASON_NO_MEMORY
        : DP_REASON_FORWARDED;
}

#endif /* dp/tunnel.h */
