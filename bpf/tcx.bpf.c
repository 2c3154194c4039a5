/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* tcx on a port: runs each packet of the network stack through the flow tables, unsegmented as its socket made it.
 * Those for the engine leave through a veth pair without offloads, so that the kernel makes plain frames of them; on
 * its peer oxdp_upcall() redirects these to an AF_XDP socket, as bpf/xdp.bpf.c does.
 *
 *     port -> oxdp_tcx() -> other port, or the peer of the veth that it is
 *                 \
 *                  +-> [ upcall pair ] -> oxdp_upcall() -> AF_XDP socket
 *
 * The record of dp/record.h travels in the frame, behind the addresses, where segmentation copies it to each frame:
 *
 *     dst src [VLAN tag] UPCALL_ETH_TYPE slot record | type payload ...
 *
 * The type says which parts the record has (DP_RECORD_TUNNEL and others), and so how long it is.
 *
 * The tag stands there if it was in VLAN acceleration: the pair's device puts it into the frame. */

/* Operations that cannot be done to a packet with GSO or CHECKSUM_PARTIAL, as sockets send them, run in the engine for
 * all packets: if only some went to the engine, packets of a connection would be reordered.
 *
 *   PUSH_MPLS, POP_MPLS  To segment behind labels the kernel must know where the network layer begins and which it is
 *                        (skb->inner_network_header, inner_protocol), and a device that knows only IP's checksums must
 *                        be kept from computing them (skb->protocol).  No helper sets these: bpf_skb_adjust_room()
 *                        sets them only for tunnels in IP.
 *   TRUNC                bpf_skb_change_tail() cuts the packet, not each of its segments, and clears GSO; a checksum
 *                        completed afterwards lacks what was cut off; and what is cut for one output is gone for the
 *                        next.
 *
 * Of TNL_PUSH_CSUM some packets need a detour (bpf/detour.h); GRE's that do are refused.
 *
 * Groups take frames only (bpf/xdp.bpf.c): here several outputs are copies. */
#define OP_BIT(NAME) (1ull << DP_OP_##NAME)
#define DP_OPS_HERE ((DP_CAPABILITY_ALL_OPS & ~(OP_BIT(PUSH_MPLS) | OP_BIT(POP_MPLS) | OP_BIT(TRUNC)   \
                                                | DP_CAPABILITY_GROUPS)) | DP_CAPABILITY_COPIES   \
                     | DP_CAPABILITY_HOST_TUNNELS)

#include "bpf/seam_tcx.h"
#include "dp/pipeline.h"

#include <linux/if_packet.h>
#include <linux/pkt_cls.h>

#include "bpf/port.h"
#include "bpf/host_tunnel.h"
#include "bpf/order.h"
#include "bpf/sample.h"

char LICENSE[] SEC("license") = "GPL";

#define TCX_NEXT TC_ACT_UNSPEC          /* The same number, also for clsact. */
#define UPCALL_ETH_TYPE 0x88b5          /* IEEE 802: for local experiments.  On the pair nobody else sends. */
#define UPCALL_ETH_TYPE_OF(PARTS) (UPCALL_ETH_TYPE + ((PARTS) >> 1))
_Static_assert(DP_RECORD_TUNNEL == 2 && DP_RECORD_CT == 4 && DP_RECORD_OPTIONS == 8, "types of upcalls");
#define ADDRESSES_LEN 12

/* Set before load: the device of the upcall pair that tcx sends to. */
const volatile __u32 upcall_ifindex;

/* Set while the program runs: until when, in jiffies, the peers' members of struct bpf_skb_output are valid. */
volatile __u64 peers_until;

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, BPF_MAX_UPCALL_QUEUES);
    __type(key, __u32);
    __type(value, __u32);
} upcall_sockets SEC(".maps");

static __always_inline int output(struct __sk_buff *ctx, const struct bpf_port *port, struct dp_run *run,
                                  __u32 to, __u32 length, int is_back);
static __always_inline int detour(struct __sk_buff *ctx, const struct bpf_port *port, struct dp_run *run, __u32 length);
static __always_inline int can_skip_device(struct __sk_buff *ctx, const struct bpf_skb_output *output);
static __always_inline int put_behind(struct __sk_buff *ctx, const struct bpf_skb_output *output);
static __always_inline int hand_up(struct __sk_buff *ctx, const struct bpf_port *port, struct dp_run *run,
                                   enum dp_reason reason, __u32 length);
DP_STAGE int hand_up_long(struct __sk_buff *ctx, const struct bpf_port *port, struct dp_run *run, __u32 length);

SEC("tc")
int oxdp_tcx(struct __sk_buff *ctx)
{
    const struct bpf_port *port = port_lookup(ctx, ctx->ifindex);
    __u32 length = ctx->len + (dp_tag_beside(ctx) ? DP_VLAN_LEN : 0);
    struct dp_run *run = run_here(ctx);
    enum dp_from from = DP_FROM_PORT;
    __u32 since = 0, queue = ctx->queue_mapping, cpu;

    if (!run) {
        return TCX_NEXT;
    }
    if (DP_UNLIKELY(!port && ctx->ifindex == order_ifindex)) {
        since = ctx->cb[ORDER_CB_SINCE];
        queue = ctx->queue_mapping = ctx->cb[ORDER_CB_QUEUE];
        port = port_lookup(ctx, ctx->cb[ORDER_CB_PORT]);
        if (!port) {
            return TC_ACT_SHOT;
        }
    }
    if (port && order_concerns(ctx)) {
        cpu = order_look(ctx, since, &since);
        if (DP_UNLIKELY(cpu)) {
            return order_move(ctx, port, since, queue, cpu - 1);
        }
    }
    if (DP_UNLIKELY(!port)) {
        const struct bpf_detour *detour = detour_end(ctx, run->tracked);

        if (!detour) {
            /* Nobody else has anything to send there, or to receive. */
            return ctx->ifindex == detour_back_ifindex || ctx->ifindex == detour_ifindex ? TC_ACT_SHOT : TCX_NEXT;
        }
        port = port_lookup(ctx, detour->ifindex);
        if (!port) {
            return TC_ACT_SHOT;
        }
        from = DP_FROM_DETOUR;
        run->tracked = detour->tracked;
        if (!DP_OMITS(ctx, DP_PART_TRACE)) {
            run->traced = detour->traced;
        }
        length = run->arrived;
    } else {
        trace_begin(ctx, run, port->port_no, length);
    }
    if (DP_UNLIKELY(port->tunnel && from == DP_FROM_PORT)) {
        int taken = host_tunnel_take(ctx, run, port->port_no);

        if (taken == HOST_TUNNEL_NONE) {
            count_traced(ctx, port->counter_slot, DP_REASON_NO_METADATA, run, length);
            return TC_ACT_SHOT;
        }
        if (taken) {
            return hand_up_long(ctx, port, run, length);
        }
        from = DP_FROM_TUNNEL;
    }
    if (DP_OMITS(ctx, DP_PART_TABLES)) {
        run_nothing(run);
        return hand_up(ctx, port, run, DP_REASON_UP_OFF, length);
    }
    ctx->DP_OUT_OF_REACH = 0;
    ctx->DP_LOST = 0;
    ctx->DP_DISGUISED = 0;
    ctx->DP_GROWN = 0;
    run->frame.local_stack = 0;

    struct dp_outcome outcome = dp_pipeline_from(ctx, port->port_no, run, from);

    if (DP_UNLIKELY(ctx->DP_LOST)) {
        count_beside(ctx, port->counter_slot, DP_COUNTER_LOST_COPIES, ctx->DP_LOST % DP_LONG_COPY);
        count_beside(ctx, port->counter_slot, DP_COUNTER_LONG_COPIES, ctx->DP_LOST / DP_LONG_COPY);
    }
    switch (outcome.fate) {
    case DP_FATE_OUTPUT:
        return output(ctx, port, run, outcome.to, length, from == DP_FROM_DETOUR);
    case DP_FATE_DETOUR:
        return detour(ctx, port, run, length);
    case DP_FATE_DROP:
        count_run(ctx, port->counter_slot, reason_of(outcome), run, length);
        return TC_ACT_SHOT;
    default:                            /* DP_FATE_ENGINE: no other comes here (DP_OPS_HERE, DP_TAKES_SKBS). */
        return hand_up(ctx, port, run, reason_of(outcome), length);
    }
}

static __always_inline int output(struct __sk_buff *ctx, const struct bpf_port *port, struct dp_run *run,
                                  __u32 to, __u32 length, int is_back)
{
    const struct bpf_skb_output *output = dp_output_of(to);

    if (!output) {
        count_run(ctx, port->counter_slot, DP_REASON_NO_OUTPUT, run, length);
        return TC_ACT_SHOT;
    }
    if (dp_is_over_mtu(ctx, output)) {
        count_run(ctx, port->counter_slot, DP_REASON_OVER_MTU, run, length);
        return TC_ACT_SHOT;
    }
    count_run(ctx, port->counter_slot, DP_REASON_FORWARDED, run, length);
    if (!is_back && can_skip_device(ctx, output)) {     /* The kernel refuses that at egress. */
        return put_behind(ctx, output);
    }
    dp_set_metadata(ctx, &run->key);
    return bpf_redirect(output->ifindex, 0);
}

/* Sends the packet on the detour that operation run->at needs.  When it is back, it is counted. */
static __always_inline int detour(struct __sk_buff *ctx, const struct bpf_port *port, struct dp_run *run, __u32 length)
{
    struct bpf_detour *detour = detour_here();

    if (!detour) {
        return TC_ACT_SHOT;
    }
    run->arrived = length;
    detour->ifindex = port->ifindex;
    detour->counter_slot = port->counter_slot;
    detour->arrived = length;
    detour->len = ctx->len + (dp_tag_beside(ctx) ? DP_VLAN_LEN : 0);    /* The device puts a tag into the packet. */
    detour->mark = ctx->mark;
    detour->queue = ctx->queue_mapping;
    detour->tracked = run->tracked;
    run->tracked = DETOUR_AWAY;
    detour->traced = run->traced;
    run->traced = 0;                    /* It may not come back. */
    detour->last = detour->last % NO_MORE_DETOURS + 1;
    detour->waits = detour->last;
    ctx->tc_index = detour->last;
    ctx->mark = 0;
    return bpf_redirect(detour_ifindex, 0);
}

/* Whether the packet may skip the host's end of a veth.  bpf_redirect_peer() skips the checks of destination address,
 * MTU and VLAN tag (net/core/filter.c, skb_do_redirect), so they are made here. */
static __always_inline int can_skip_device(struct __sk_buff *ctx, const struct bpf_skb_output *output)
{
    const __u8 *address = output->peer_address;
    __u32 max_len = output->peer_max_len;
    const __u8 *eth;

    if (!max_len || (ctx->len > max_len && !ctx->gso_size) || dp_tag_beside(ctx) || ctx->DP_DISGUISED
        || bpf_jiffies64() > peers_until) {
        return 0;
    }
    eth = dp_at(ctx, 0, DP_ETH_LEN);
    return eth && dp_load32(eth) == dp_load32(address) && dp_load16(eth + 4) == dp_load16(address + 4);
}

/* Redirects into the peer.  Clears mark and priority, as a veth does between network namespaces.  Sets the packet's
 * type, which the kernel does itself since Linux 6.15 and 6.1.139. */
static __always_inline int put_behind(struct __sk_buff *ctx, const struct bpf_skb_output *output)
{
    ctx->mark = 0;
    ctx->priority = 0;
    bpf_skb_change_type(ctx, PACKET_HOST);
    return bpf_redirect_peer(output->ifindex, 0);
}

/* Puts the record with 'parts' into the packet, but leaves DP_RECORD_OPTIONS to be written.  0, or not if there is no
 * room. */
static __always_inline int put_parts(struct __sk_buff *ctx, const struct bpf_port *port, const struct dp_run *run,
                                     __u32 reason, __u32 parts)
{
    struct bpf_upcall_header *header;
    __u8 *eth, *old;

    if (bpf_skb_change_head(ctx, sizeof *header - DP_RECORD_LEN + record_len(parts), 0)) {
        return 1;
    }
    eth = (__u8 *) (long) ctx->data;
    header = (struct bpf_upcall_header *) (eth + ADDRESSES_LEN);
    old = eth + sizeof *header - DP_RECORD_LEN + record_len(parts);
    if ((void *) (header + 1) > (void *) (long) ctx->data_end
        || (void *) old + ADDRESSES_LEN > (void *) (long) ctx->data_end) {
        return 1;
    }
    dp_store64(eth, dp_load64(old));
    dp_store32(eth + 8, dp_load32(old + 8));
    header->eth_type = dp_htons(UPCALL_ETH_TYPE_OF(parts));
    header->counter_slot = port->counter_slot;
    fill_record(ctx, &header->record, port->port_no, run, reason, parts);
    fill_record_parts(header + 1, (void *) (long) ctx->data_end, run, parts);
    return 0;
}

/* Puts the record into the packet.  Returns as put_parts().  A stage: it needs the stack after dp_pipeline(). */
DP_STAGE int put_record(struct __sk_buff *ctx, const struct bpf_port *port, const struct dp_run *run, __u32 reason)
{
    return !port || !run || put_parts(ctx, port, run, reason, record_parts(ctx, port, run));
}

static __always_inline int hand_up(struct __sk_buff *ctx, const struct bpf_port *port, struct dp_run *run,
                                   enum dp_reason reason, __u32 length)
{
    if (!ctx->gso_size && length + (port->tunnel ? DP_RECORD_TUNNEL_LEN : 0) > upcall_max_len) {
        count_traced(ctx, port->counter_slot, DP_REASON_TOO_LONG, run, length);
        return TC_ACT_SHOT;
    }
    if (put_record(ctx, port, run, reason)) {
        count_traced(ctx, port->counter_slot, DP_REASON_NO_HEADROOM, run, length);
        return TC_ACT_SHOT;
    }
    count_run(ctx, port->counter_slot, reason, run, length);
    return bpf_redirect(upcall_ifindex, 0);
}

/* Hands a packet with more Geneve options than a key holds to the engine, before it is looked up. */
DP_STAGE int hand_up_long(struct __sk_buff *ctx, const struct bpf_port *port, struct dp_run *run, __u32 length)
{
    enum dp_reason reason = DP_REASON_UP_PARSE;

    if (!port || !run) {
        return TC_ACT_SHOT;
    }
    run_nothing(run);
    if (!ctx->gso_size && length + DP_RECORD_TUNNEL_LEN + DP_RECORD_OPTIONS_LEN > upcall_max_len) {
        reason = DP_REASON_TOO_LONG;
    } else if (put_parts(ctx, port, run, reason, DP_RECORD_TUNNEL | DP_RECORD_OPTIONS)
               || host_tunnel_put_options(ctx, ADDRESSES_LEN + sizeof(struct bpf_upcall_header)
                                          + DP_RECORD_TUNNEL_LEN)) {
        reason = DP_REASON_NO_HEADROOM;
    }
    count_traced(ctx, port->counter_slot, reason, run, length);
    return reason == DP_REASON_UP_PARSE ? bpf_redirect(upcall_ifindex, 0) : TC_ACT_SHOT;
}

/* At egress of a device of the kernel for tunnels. */
SEC("tc")
int oxdp_tunnel_out(struct __sk_buff *ctx)
{
    return host_tunnel_out(ctx) ? TC_ACT_SHOT : TCX_NEXT;
}

/* For a veth port whose peer has an XDP program: frames that it sends back (XDP_TX) arrive only if a program is here,
 * too (drivers/net/veth.c, veth_xdp_flush). */
SEC("xdp")
int oxdp_pass(struct xdp_md *ctx)
{
    return XDP_PASS;
}

/* Copies 'len' bytes, a multiple of 4, of which one side at least is in a packet. */
static __always_inline void copy(void *to, const void *from, __u32 len)
{
    DP_UNROLL
    for (__u32 i = 0; i < len; i += 4) {
        dp_store32(to + i, dp_load32(from + i));
    }
}

/* Moves addresses and tag, 'head_len' bytes, to behind the record of 'len' bytes, and both 4 bytes towards the frame's
 * end: what was between them goes. */
static __always_inline int unwrap(struct xdp_md *ctx, const __u32 head_len, const __u32 len)
{
    __u8 *eth = (__u8 *) (long) ctx->data;
    const struct bpf_upcall_header *header = (void *) (eth + head_len);
    const __u32 gone = sizeof *header - sizeof header->record;
    __u32 head[4], slot;

    if (eth + head_len + gone + len > (__u8 *) (long) ctx->data_end) {
        return XDP_PASS;                /* Not from oxdp_tcx(): the stack drops it. */
    }
    slot = header->counter_slot;
    copy(head, eth, head_len);
    DP_NO_UNROLL                        /* Forwards: the bytes overlap. */
    for (__u32 i = gone; i < gone + len; i += 4) {
        dp_store32(eth + i, dp_load32(eth + head_len + i));
        __asm__ volatile("" ::: "memory");      /* No memmove(), which BPF lacks. */
    }
    copy(eth + gone + len, head, head_len);
    if (bpf_xdp_adjust_head(ctx, gone)
        || bpf_redirect_map(&upcall_sockets, ctx->rx_queue_index, XDP_DROP) != XDP_REDIRECT) {
        /* Tables need no context.  This program's is XDP's, not tcx's. */
        count_beside(0, slot, DP_COUNTER_LOST_UPCALLS, 1);
        return XDP_DROP;
    }
    return XDP_REDIRECT;
}

/* On the peer of the upcall pair's device. */
SEC("xdp")
int oxdp_upcall(struct xdp_md *ctx)
{
    static const __u32 all_parts[] = { 0, DP_RECORD_TUNNEL, DP_RECORD_CT, DP_RECORD_TUNNEL | DP_RECORD_CT,
                                       DP_RECORD_TUNNEL | DP_RECORD_OPTIONS };
    __u8 *eth = (__u8 *) (long) ctx->data;

    if (eth + ADDRESSES_LEN + DP_VLAN_LEN + 2 > (__u8 *) (long) ctx->data_end) {
        return XDP_PASS;
    }

    dp_be16 type = dp_load_be16(eth + ADDRESSES_LEN);
    dp_be16 type_behind_tag = dp_load_be16(eth + ADDRESSES_LEN + DP_VLAN_LEN);

    DP_UNROLL
    for (__u32 i = 0; i < sizeof all_parts / sizeof all_parts[0]; i++) {
        const __u32 parts = all_parts[i];

        if (DP_BE16_IS(type, UPCALL_ETH_TYPE_OF(parts))) {
            return unwrap(ctx, ADDRESSES_LEN, record_len(parts));
        }
        if (DP_BE16_IS(type_behind_tag, UPCALL_ETH_TYPE_OF(parts))) {
            return unwrap(ctx, ADDRESSES_LEN + DP_VLAN_LEN, record_len(parts));
        }
    }
    return XDP_PASS;
}
