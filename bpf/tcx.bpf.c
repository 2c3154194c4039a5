/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* tcx on a port: runs each packet of the network stack through the flow tables, whole as its socket made it.  Those
 * that the engine must see leave through a veth pair without offloads, so that the kernel makes plain frames of them;
 * at its other end oxdp_upcall() hands these to an AF_XDP socket, just as bpf/xdp.bpf.c does.
 *
 *     port -> oxdp_tcx() -> other port, or straight behind the veth that it is
 *                 \
 *                  +-> [ upcall pair ] -> oxdp_upcall() -> AF_XDP socket
 *
 * The record of dp/record.h travels in the frame, behind the addresses, where segmentation copies it to each frame:
 *
 *     dst src [VLAN tag] UPCALL_ETH_TYPE pad record | type payload ...
 *
 * The tag stands there if it stood beside the packet: the pair's device puts it into the frame. */

/* What cannot be done to a packet whose segments and checksum are to be made later, as those of sockets are, is left to
 * the engine for all packets: with some here and some there, a connection's would arrive out of order.
 *
 *   PUSH_MPLS, POP_MPLS  To segment behind labels the kernel must know where the network layer begins and which it is
 *                        (skb->inner_network_header, inner_protocol), and a device that knows only IP's checksums must
 *                        be kept from computing them (skb->protocol).  No helper sets these: bpf_skb_adjust_room()
 *                        makes room, with a note only of tunnels in IP.
 *   TRUNC                bpf_skb_change_tail() cuts the packet, not each of its segments, and forgets that there are
 *                        to be any; a checksum completed afterwards misses what was cut off; and what is cut for one
 *                        output is gone for the next.
 *
 * Groups are of frames (bpf/xdp.bpf.c): here several outputs are copies. */
#define OP_BIT(NAME) (1ull << DP_OP_##NAME)
#define DP_OPS_HERE ((DP_CAPABILITY_ALL_OPS & ~(OP_BIT(PUSH_MPLS) | OP_BIT(POP_MPLS) | OP_BIT(TRUNC)   \
                                                | DP_CAPABILITY_GROUPS)) | DP_CAPABILITY_COPIES)

#include "bpf/seam_tcx.h"
#include "dp/pipeline.h"

#include <linux/if_packet.h>
#include <linux/pkt_cls.h>

#include "bpf/port.h"

char LICENSE[] SEC("license") = "GPL";

#define TCX_NEXT TC_ACT_UNSPEC          /* The same number, also for clsact. */
#define MAX_IP_LEN 65535
#define UPCALL_ETH_TYPE 0x88b5          /* IEEE 802: for local experiments. */
#define ADDRESSES_LEN 12

/* Set before load: the near end of the upcall pair, and the longest packet that it takes. */
const volatile __u32 upcall_ifindex;
const volatile __u32 upcall_max_len;

/* Set while it runs: until when, in jiffies, what struct bpf_skb_output says of other ends may be relied on. */
volatile __u64 peers_until;

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, BPF_MAX_UPCALL_QUEUES);
    __type(key, __u32);
    __type(value, __u32);
} upcall_sockets SEC(".maps");

static __always_inline int output(struct __sk_buff *ctx, const struct bpf_port *port, const struct dp_run *run,
                                  __u32 to, __u32 length);
static __always_inline int can_skip_device(struct __sk_buff *ctx, const struct bpf_skb_output *output);
static __always_inline int put_behind(struct __sk_buff *ctx, const struct bpf_skb_output *output);
static __always_inline int hand_up(struct __sk_buff *ctx, const struct bpf_port *port, const struct dp_run *run,
                                   enum dp_reason reason, __u32 length);

SEC("tc")
int oxdp_tcx(struct __sk_buff *ctx)
{
    const struct bpf_port *port = port_lookup(ctx, ctx->ifindex);
    __u32 length = ctx->len + (dp_tag_beside(ctx) ? DP_VLAN_LEN : 0);
    struct dp_run *run = run_here(ctx);

    if (!port || !run) {
        return TCX_NEXT;
    }
    if (DP_OMITS(ctx, DP_PART_TABLES)) {
        run_nothing(run);
        return hand_up(ctx, port, run, DP_REASON_UP_OFF, length);
    }
    if (ctx->len > MAX_IP_LEN) {
        /* The length in its IP header is 0 (BIG TCP), that in the headers of its segments will not be. */
        run_nothing(run);
        return hand_up(ctx, port, run, DP_REASON_UP_PARSE, length);
    }
    ctx->DP_OUT_OF_REACH = 0;
    ctx->DP_LOST = 0;
    run->frame.local_stack = 0;

    struct dp_outcome outcome = dp_pipeline(ctx, port->port_no, run);

    if (DP_UNLIKELY(ctx->DP_LOST)) {
        count_lost(ctx, port->counter_slot, DP_COUNTER_LOST_COPIES, ctx->DP_LOST);
    }
    switch (outcome.fate) {
    case DP_FATE_OUTPUT:
        return output(ctx, port, run, outcome.to, length);
    case DP_FATE_DROP:
        count_run(ctx, port->counter_slot, reason_of(outcome), run, length);
        return TC_ACT_SHOT;
    default:                            /* DP_FATE_ENGINE: no other comes here (DP_OPS_HERE, DP_TAKES_SKBS). */
        return hand_up(ctx, port, run, reason_of(outcome), length);
    }
}

static __always_inline int output(struct __sk_buff *ctx, const struct bpf_port *port, const struct dp_run *run,
                                  __u32 to, __u32 length)
{
    const struct bpf_skb_output *output = dp_output_of(to);

    if (!output) {
        count_run(ctx, port->counter_slot, DP_REASON_NO_OUTPUT, run, length);
        return TC_ACT_SHOT;
    }
    count_run(ctx, port->counter_slot, DP_REASON_FORWARDED, run, length);
    if (can_skip_device(ctx, output)) {
        return put_behind(ctx, output);
    }
    dp_set_metadata(ctx, &run->key);
    return bpf_redirect(output->ifindex, 0);
}

/* Whether the packet may skip the host's end of a veth.  bpf_redirect_peer() skips the checks of destination address, MTU
 * and VLAN tag (net/core/filter.c, skb_do_redirect), so they are made here. */
static __always_inline int can_skip_device(struct __sk_buff *ctx, const struct bpf_skb_output *output)
{
    const __u8 *address = output->peer_address;
    __u32 max_len = output->peer_max_len;
    const __u8 *eth;

    if (!max_len || (ctx->len > max_len && !ctx->gso_size) || dp_tag_beside(ctx) || bpf_jiffies64() > peers_until) {
        return 0;
    }
    eth = dp_at(ctx, 0, DP_ETH_LEN);
    return eth && dp_load32(eth) == dp_load32(address) && dp_load16(eth + 4) == dp_load16(address + 4);
}

/* Clears mark and priority, as a veth does between network namespaces: those of one mean nothing in the other.
 * (Before Linux 6.15 and 6.1.139 the kernel leaves also the packet's type.) */
static __always_inline int put_behind(struct __sk_buff *ctx, const struct bpf_skb_output *output)
{
    ctx->mark = 0;
    ctx->priority = 0;
    bpf_skb_change_type(ctx, PACKET_HOST);
    return bpf_redirect_peer(output->ifindex, 0);
}

static __always_inline int hand_up(struct __sk_buff *ctx, const struct bpf_port *port, const struct dp_run *run,
                                   enum dp_reason reason, __u32 length)
{
    struct bpf_upcall_header *header;
    __u8 *eth;

    if (!ctx->gso_size && length > upcall_max_len) {
        count(ctx, port->counter_slot, DP_REASON_TOO_LONG, length);
        return TC_ACT_SHOT;
    }
    if (bpf_skb_change_head(ctx, sizeof *header, 0)) {
        count(ctx, port->counter_slot, DP_REASON_NO_HEADROOM, length);
        return TC_ACT_SHOT;
    }
    eth = (__u8 *) (long) ctx->data;
    header = (struct bpf_upcall_header *) (eth + ADDRESSES_LEN);
    if ((void *) (header + 1) > (void *) (long) ctx->data_end) {
        count(ctx, port->counter_slot, DP_REASON_NO_HEADROOM, length);
        return TC_ACT_SHOT;
    }
    dp_store64(eth, dp_load64(eth + sizeof *header));
    dp_store32(eth + 8, dp_load32(eth + sizeof *header + 8));
    header->eth_type = dp_htons(UPCALL_ETH_TYPE);
    header->counter_slot = port->counter_slot;
    fill_record(&header->record, port, run, reason);
    count_run(ctx, port->counter_slot, reason, run, length);
    return bpf_redirect(upcall_ifindex, 0);
}

/* On a port whose veth gets frames from an XDP program at its other end: the kernel forgets to look for what that sent
 * back (XDP_TX) unless there is a program here (drivers/net/veth.c, veth_xdp_flush). */
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

/* At the far end of the pair.  Moves the addresses, and the tag, over the header's place, and the record before
 * them. */
SEC("xdp")
int oxdp_upcall(struct xdp_md *ctx)
{
    __u8 *eth = (__u8 *) (long) ctx->data;
    __u8 *end = (__u8 *) (long) ctx->data_end;
    struct bpf_upcall_header header;
    __u32 head[4];

    if (eth + ADDRESSES_LEN + sizeof header > end) {
        return XDP_PASS;                /* Not ours: nobody listens at this device. */
    }
    copy(head, eth, sizeof head);
    if (DP_BE16_IS(dp_load_be16(eth + ADDRESSES_LEN), UPCALL_ETH_TYPE)) {
        copy(&header, eth + ADDRESSES_LEN, sizeof header);
        eth += sizeof header;
    } else {
        if (eth + ADDRESSES_LEN + DP_VLAN_LEN + sizeof header > end) {
            return XDP_PASS;
        }
        copy(&header, eth + ADDRESSES_LEN + DP_VLAN_LEN, sizeof header);
        if (!DP_BE16_IS(header.eth_type, UPCALL_ETH_TYPE)) {
            return XDP_PASS;
        }
        eth += sizeof header;
        dp_store32(eth + ADDRESSES_LEN, head[3]);
    }
    copy(eth, head, ADDRESSES_LEN);
    copy(eth - sizeof header.record, &header.record, sizeof header.record);
    if (bpf_xdp_adjust_head(ctx, sizeof header - sizeof header.record)
        || bpf_redirect_map(&upcall_sockets, ctx->rx_queue_index, XDP_DROP) != XDP_REDIRECT) {
        /* Tables are found without a context; this one is XDP's. */
        count_lost(0, header.counter_slot, DP_COUNTER_LOST_UPCALLS, 1);
        return XDP_DROP;
    }
    return XDP_REDIRECT;
}
