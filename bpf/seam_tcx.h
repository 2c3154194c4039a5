/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The seam for tcx: packets of the network stack, which differ from plain frames (dp/seam_native.h has the contracts,
 * dp/seam_raw.h the functions for plain frames):
 *
 *   - the outer VLAN tag is in the skb, not in the bytes (VLAN acceleration);
 *   - only the linear part is in reach: the rest is in pages until dp_pull();
 *   - the packet may be CHECKSUM_PARTIAL: the checksum field has the sum of the pseudo header, and a device does the
 *     rest; or CHECKSUM_COMPLETE: the skb has the sum of the whole packet.  The kernel's helpers treat each rightly;
 *   - it may be larger than any frame, and larger than what IP's header can say: it is segmented when it leaves (GSO).
 */
#ifndef BPF_SEAM_TCX_H
#define BPF_SEAM_TCX_H 1

#define dp_ctx __sk_buff

#include "bpf/maps.h"
#include "bpf/tables.h"
#include "dp/checksum.h"
#include "dp/frame.h"

#define DP_TAKES_SKBS 1
#define DP_TAG_FAILED (-1)

/* Scratch space in the skb, which the program clears at its start: dp_at() notes here that bytes were out of reach,
 * dp_output_copies() how many copies it could not send, and in units of DP_LONG_COPY how many were too long,
 * dp_tunnel_grow() that skb->protocol and the network header are still those of the packet inside, until a device has
 * sent it, and how long the header is that it has put before the packet. */
#define DP_OUT_OF_REACH cb[0]
#define DP_LOST cb[1]
#define DP_DISGUISED cb[2]
#define DP_GROWN cb[4]           /* Apart: clang joins four stores to one, which the verifier refuses. */

#define DP_LONG_COPY (1u << 16)

#define MAX_IP_LEN 65535

/* BIG TCP: the length in its IP header is 0, but not in those of its segments. */
DP_INLINE int dp_is_big(struct dp_ctx *ctx) { return ctx->gso_size && ctx->len > MAX_IP_LEN; }

/* Set before load: the longest packet that the upcall pair takes with struct bpf_upcall_header in it. */
const volatile __u32 upcall_max_len;

/* All headers that are parsed are within these bytes. */
#define DP_PULL_LEN 1088

DP_INLINE __u32 dp_len(struct dp_ctx *ctx) { return ctx->len; }

DP_INLINE __u8 *dp_at(struct dp_ctx *ctx, __u32 ofs, __u32 len)
{
    __u8 *p = (__u8 *) (long) ctx->data + ofs;

    DP_OPAQUE(p);
    if (p + len <= (__u8 *) (long) ctx->data_end) {
        return p;
    }
    if (ofs + len <= ctx->len) {
        ctx->DP_OUT_OF_REACH = 1;
    }
    return 0;
}

DP_INLINE int dp_out_of_reach(struct dp_ctx *ctx)
{
    __u32 out_of_reach = ctx->DP_OUT_OF_REACH;

    if (out_of_reach) {
        ctx->DP_OUT_OF_REACH = 0;
    }
    return out_of_reach;
}

DP_INLINE int dp_pull(struct dp_ctx *ctx)
{
    return bpf_skb_pull_data(ctx, ctx->len < DP_PULL_LEN ? ctx->len : DP_PULL_LEN);
}

DP_INLINE __u32 dp_sum(const __u8 *p, const __u32 len, __u32 sum)
{
    return bpf_csum_diff(0, 0, (__be32 *) p, len, sum);
}

/* The kernel copies packets, however they lie. */
DP_INLINE int dp_has_frags(struct dp_ctx *ctx) { return 0; }

DP_INLINE __u64 dp_ticks(struct dp_ctx *ctx) { return bpf_jiffies64(); }
DP_INLINE __u64 dp_now(struct dp_ctx *ctx) { return bpf_ktime_get_ns(); }
DP_INLINE __u32 dp_cpu(struct dp_ctx *ctx) { return bpf_get_smp_processor_id(); }
DP_INLINE __u32 dp_random(struct dp_ctx *ctx) { return bpf_get_prandom_u32(); }

#define TRACE_HOOK DP_TRACE_TCX
DP_INLINE int dp_copy_out(struct dp_ctx *ctx, void *to, __u32 n) { return bpf_skb_load_bytes(ctx, 0, to, n); }

/* No operation that needs these runs here (bpf/tcx.bpf.c): the kernel could not segment the packet afterwards. */
DP_INLINE int dp_adjust_head(struct dp_ctx *ctx, int n) { return -1; }
DP_INLINE int dp_cut_tail(struct dp_ctx *ctx, __u32 n) { return -1; }

/* Tags need no headroom: the kernel gets memory when it moves bytes. */
DP_INLINE int dp_can_grow(struct dp_ctx *ctx, int n) { return 1; }

DP_INLINE __u32 dp_tag_beside(struct dp_ctx *ctx)
{
    union {
        struct { dp_be16 tpid, tci; } tag;
        __u32 raw;
    } u;

    if (DP_LIKELY(!ctx->vlan_present)) {
        return 0;
    }
    u.tag.tpid.raw = ctx->vlan_proto;
    u.tag.tci = dp_htons(ctx->vlan_tci);
    return u.raw;
}

/* Where the payload of a packet begins that is in no tunnel, whose segments get its headers; 0: GSO of something else
 * than TCP, or none. */
DP_INLINE __u32 dp_tcp_payload(struct dp_ctx *ctx, const struct dp_frame *frame)
{
    __u32 l4 = frame->l4 & DP_OFS_MASK;
    const __u8 *tcp = ctx->gso_size && frame->has & DP_HAS_TCP ? dp_at(ctx, l4, DP_TCP_LEN) : 0;

    return tcp ? l4 + (tcp[12] >> 4) * 4 : 0;
}

/* Length of the longest frame that a wire will carry of the packet; ~0 if nobody here knows. */
DP_INLINE __u32 dp_longest(struct dp_ctx *ctx, const struct dp_frame *frame)
{
    __u32 tag = dp_tag_beside(ctx) ? DP_VLAN_LEN : 0;
    __u32 payload;

    if (!ctx->gso_size) {
        return frame->len + tag;
    }
    payload = dp_tcp_payload(ctx, frame);
    return payload ? payload + ctx->gso_size + tag : ~0u;
}

DP_INLINE int dp_tag_push(struct dp_ctx *ctx, dp_be16 tpid, dp_be16 tci)
{
    __u32 len = ctx->len;

    return bpf_skb_vlan_push(ctx, tpid.raw, dp_ntohs(tci)) ? DP_TAG_FAILED : (int) (ctx->len - len);
}

DP_INLINE int dp_tag_pop(struct dp_ctx *ctx)
{
    __u32 len = ctx->len;

    return bpf_skb_vlan_pop(ctx) ? DP_TAG_FAILED : (int) (ctx->len - len);
}

/* Folded to 32 bits, as the kernel's helpers take it. */
DP_INLINE __u32 dp_csum_fold32(__u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    return (sum & 0xffffffff) + (sum >> 32);
}

DP_INLINE void dp_csum_transport(struct dp_ctx *ctx, __u32 ofs, __u64 changes, __u32 flags)
{
    if (flags & DP_CSUM_OUTER) {
        __u8 *field = dp_at(ctx, ofs, 2);

        if (field) {
            dp_csum_apply_udp(field, changes);
        }
        return;
    }
    bpf_l4_csum_replace(ctx, ofs, 0, dp_csum_fold32(changes),
                        (flags & DP_CSUM_PSEUDO ? BPF_F_PSEUDO_HDR : 0)
                        | (flags & DP_CSUM_UDP ? BPF_F_MARK_MANGLED_0 : 0));
}

/* Whether the packet is CHECKSUM_PARTIAL.  Programs cannot read ip_summed, but bpf_l4_csum_replace() does: it updates a
 * checksum field, unless the packet is CHECKSUM_PARTIAL and the change is not of the pseudo header.  So this lets it
 * update any two bytes, looks whether they changed, and restores them.  It cannot fail: the head of the packet is
 * writable. */
DP_INLINE int dp_csum_left(struct dp_ctx *ctx)
{
    __u8 *probe = dp_at(ctx, 0, 2);
    __u16 before, after;

    if (!probe) {
        return 0;
    }
    before = dp_load16(probe);
    bpf_l4_csum_replace(ctx, 0, 0, 1, 0);
    probe = dp_at(ctx, 0, 2);
    if (!probe) {
        return 0;
    }
    after = dp_load16(probe);
    dp_store16(probe, before);
    return before == after;
}

/* When addresses change, bpf_l4_csum_replace() assumes that the network header has a checksum that balances them.  IPv6
 * has none: dp_set_ip6_address() therefore calls both.  That is right with and without a transport checksum. */
DP_INLINE void dp_csum_packet(struct dp_ctx *ctx, __u64 changes)
{
    bpf_csum_update(ctx, dp_csum_fold32(changes));
}

/* core/programs/tcx.c sets the size before load. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bpf_skb_output);
} skb_outputs SEC(".maps");

/* The output entry of a port, NULL if packets cannot be sent to it. */
DP_INLINE const struct bpf_skb_output *dp_output_of(__u32 port_no)
{
    const struct bpf_skb_output *output = bpf_map_lookup_elem(&skb_outputs, &port_no);

    return output && output->ifindex ? output : 0;
}

/* No flow sends to a group (bpf/tcx.bpf.c). */
DP_INLINE int dp_group_refuses(struct dp_ctx *ctx, const struct dp_flow *flow, __u32 len) { return 0; }

/* Length of the longest frame that a packet with GSO of TCP or UDP becomes, without the tag that an MTU leaves room
 * for; 0: nobody here knows.  Of one that came in a tunnel, only the headers outside are counted. */
DP_STAGE int dp_segment_len(struct dp_ctx *ctx)
{
    __u32 begin = ctx->DP_GROWN & 0x3ff;
    __u32 ofs = begin + DP_ETH_LEN;
    __u32 spare = 0;
    const __u8 *p = dp_at(ctx, begin, DP_ETH_LEN);
    dp_be16 type;
    __u8 proto;

    if (!p) {
        return 0;
    }
    type = dp_load_be16(p + 12);
    if (dp_is_vlan(type)) {
        spare = begin || dp_tag_beside(ctx) ? 0 : DP_VLAN_LEN;
        for (__u32 i = 0; i < 2 && dp_is_vlan(type); i++) {
            p = dp_at(ctx, ofs, DP_VLAN_LEN);
            if (!p) {
                return 0;
            }
            type = dp_load_be16(p + 2);
            ofs += DP_VLAN_LEN;
        }
    }
    p = dp_at(ctx, ofs, DP_IP4_LEN);
    if (!p) {
        return 0;
    }
    if (DP_BE16_IS(type, DP_ETH_IP4)) {
        proto = p[9];
        ofs += (p[0] & 15) * 4;
    } else if (DP_BE16_IS(type, DP_ETH_IP6)) {
        proto = p[6];
        ofs += DP_IP6_LEN;
    } else {
        return 0;
    }
    if (proto == DP_IP_UDP) {
        return ofs + DP_UDP_LEN + ctx->gso_size - spare;
    }
    p = proto == DP_IP_TCP ? dp_at(ctx, ofs, DP_TCP_LEN) : 0;
    return p ? ofs + (p[12] >> 4) * 4 + ctx->gso_size - spare : 0;
}

/* Whether the packet, or a segment that it becomes, is longer than the MTU of 'output': bpf_redirect() does not look at
 * it, and between veths a packet is not segmented: if its segments passed, some would, by what devices can. */
DP_INLINE int dp_is_over_mtu(struct dp_ctx *ctx, const struct bpf_skb_output *output)
{
    const __u8 *eth;

    if (DP_LIKELY(ctx->len <= output->max_len)) {
        return 0;
    }
    if (ctx->gso_size) {
        return (__u32) dp_segment_len(ctx) > output->max_len;
    }
    eth = dp_at(ctx, 0, DP_ETH_LEN);
    return !eth || dp_tag_beside(ctx) || !dp_is_vlan(dp_load_be16(eth + 12))
        || ctx->len - DP_VLAN_LEN > output->max_len;
}

/* Writes the mark and priority that a flow set into the skb. */
DP_INLINE void dp_set_metadata(struct dp_ctx *ctx, const union dp_key *key)
{
    if (key->skb_mark) {
        ctx->mark = key->skb_mark;
    }
    if (key->skb_priority) {
        ctx->priority = key->skb_priority;
    }
}

DP_INLINE void dp_output_copies(struct dp_ctx *ctx, const union dp_key *key, const struct dp_op *op)
{
    dp_set_metadata(ctx, key);
    for (__u32 i = 0; i < DP_MAX_COPIES && i < op->u.output.n; i++) {
        const struct bpf_skb_output *output = dp_output_of(op->u.output.port[i]);
        __u32 lost = output && dp_is_over_mtu(ctx, output) ? DP_LONG_COPY
            : !output || bpf_clone_redirect(ctx, output->ifindex, 0);

        if (lost) {
            ctx->DP_LOST += lost;
        }
    }
}

#include "bpf/seam_tcx_tunnel.h"

#endif /* bpf/seam_tcx.h */
