/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the native seam and that of XDP have in common: frames are plain bytes, all in reach, every tag and checksum in
 * its place.  A seam includes this after its own functions; bpf/seam_tcx.h has its own of these. */
#ifndef DP_SEAM_RAW_H
#define DP_SEAM_RAW_H 1

#include "dp/checksum.h"
#include "dp/frame.h"
#include "dp/key.h"
#include "dp/table.h"
#include "dp/tunnel_out.h"

/* The outer VLAN tag in VLAN acceleration, as four bytes in memory order (TPID, TCI); 0 if there is none. */
DP_INLINE __u32 dp_tag_beside(struct dp_ctx *ctx) { return 0; }

/* Whether packets of the network stack come here. */
#define DP_TAKES_SKBS 0

/* Whether 'n' bytes can be put before the frame.  Found out by moving its start there and back. */
DP_INLINE int dp_can_grow(struct dp_ctx *ctx, int n) { return !dp_adjust_head(ctx, -n) && !dp_adjust_head(ctx, n); }

/* Whether the packet is too long for the length field of its IP header, and to be segmented. */
DP_INLINE int dp_is_big(struct dp_ctx *ctx) { return 0; }
DP_INLINE __u32 dp_longest(struct dp_ctx *ctx, const struct dp_frame *frame) { return frame->len; }

/* Puts a VLAN tag before all others, or takes the first away.  Returns by how much the layers behind moved, or
 * DP_TAG_FAILED. */
#define DP_TAG_FAILED (-1)
DP_INLINE int dp_tag_push(struct dp_ctx *ctx, dp_be16 tpid, dp_be16 tci)
{
    if (dp_adjust_head(ctx, -DP_VLAN_LEN)) {
        return DP_TAG_FAILED;
    }

    __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN + DP_VLAN_LEN);

    if (!eth) {
        return DP_TAG_FAILED;
    }
    dp_store32(eth, dp_load32(eth + 4));
    dp_store32(eth + 4, dp_load32(eth + 8));
    dp_store32(eth + 8, dp_load32(eth + 12));
    dp_store16(eth + 12, tpid.raw);
    dp_store16(eth + 14, tci.raw);
    return DP_VLAN_LEN;
}

DP_INLINE int dp_tag_pop(struct dp_ctx *ctx)
{
    __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN + DP_VLAN_LEN);

    if (!eth || !dp_is_vlan(dp_load_be16(eth + 12))) {
        return 0;
    }
    dp_store32(eth + 12, dp_load32(eth + 8));
    dp_store32(eth + 8, dp_load32(eth + 4));
    dp_store32(eth + 4, dp_load32(eth));
    return dp_adjust_head(ctx, DP_VLAN_LEN) ? DP_TAG_FAILED : -DP_VLAN_LEN;
}

/* Whether the tunnel header of 'op' cannot be pushed before the packet of '*frame' and '*key' by operation number
 * 'index', before which 'tags' VLAN tags are popped.  May note in '*frame' what was found out. */
DP_INLINE int dp_tunnel_refuses(struct dp_ctx *ctx, struct dp_frame *frame, const union dp_key *key, __u32 index,
                                __u32 tags, const struct dp_op *op)
{
    return 0;
}

/* Of a packet of TCP that is still to be segmented, into segments of one length: by how much the sum that their outer
 * checksum is made of differs from that of the whole packet; else 0.  Only length fields differ: what is inside sums up
 * to a constant for its length, with its own checksum in it (Documentation/networking/segmentation-offloads.rst,
 * "Partial Generic Segmentation Offload"). */
DP_INLINE __u32 dp_equal_segments(struct dp_ctx *ctx, const struct dp_frame *frame, int is_udp) { return 0; }

/* Frames are never sent on a detour (dp/detour.h). */
DP_INLINE int dp_needs_detour(struct dp_ctx *ctx) { return 0; }

/* Makes room for it before the frame, which has 'has' (DP_HAS_*).  0, or negative errno with nothing changed. */
DP_INLINE int dp_tunnel_grow(struct dp_ctx *ctx, __u32 len, int ip6, int is_udp, __u32 has)
{
    return dp_adjust_head(ctx, -(int) len);
}

/* Whether the 'n' bytes before the packet inside cannot be taken off after 'tags' VLAN tags were popped: a tag is
 * left. */
DP_INLINE int dp_tunnel_pop_refuses(struct dp_ctx *ctx, const struct dp_frame *frame, const union dp_key *key,
                                    __u32 tags, __u32 n)
{
    return frame->l3 - DP_VLAN_LEN * tags != DP_ETH_LEN;
}

/* Of the checksum of a tunnel's header: 1 it was verified, or need not be; 0 it must be; -1 it cannot be. */
DP_INLINE int dp_tunnel_verified(struct dp_ctx *ctx) { return dp_has_frags(ctx) ? -1 : 0; }

/* Takes off the 'n' bytes before the packet inside, among them a checksum if 'checksum'.  0, or negative errno. */
DP_INLINE int dp_tunnel_shrink(struct dp_ctx *ctx, __u32 n, int outer_ip6, int checksum)
{
    return dp_adjust_head(ctx, n);
}

/* Updates the transport checksum at 'ofs' after bytes that it covers have changed.  'flags': DP_CSUM_*. */
DP_INLINE void dp_csum_transport(struct dp_ctx *ctx, __u32 ofs, __u64 changes, __u32 flags)
{
    __u8 *field = dp_at(ctx, ofs, 2);

    if (field && flags & DP_CSUM_UDP) {
        dp_csum_apply_udp(field, changes);
    } else if (field) {
        dp_csum_apply(field, changes);
    }
}

/* Whether the packet is CHECKSUM_PARTIAL: a device will compute that checksum. */
DP_INLINE int dp_csum_left(struct dp_ctx *ctx) { return 0; }

/* Updates the sum over the whole packet (CHECKSUM_COMPLETE) after a change that no checksum inside the packet
 * balances. */
DP_INLINE void dp_csum_packet(struct dp_ctx *ctx, __u64 changes) { }

/* Notes where the packet goes that leaves into a tunnel by the routes of the host, with 'n' bytes of Geneve options.
 * 0, or not.  Plain frames have no such operation. */
DP_INLINE int dp_tunnel_set(struct dp_ctx *ctx, const struct dp_tunnel_out *out, const __u8 *options, __u32 n)
{
    return 1;
}

/* Sends a copy of the packet, as it is now, to each port of an output operation.  Plain frames have no such
 * operation. */
DP_INLINE void dp_output_copies(struct dp_ctx *ctx, const union dp_key *key, const struct dp_op *op) { }

#endif /* dp/seam_raw.h */
