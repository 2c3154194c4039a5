/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Detours at tcx (dp/detour.h).
 *
 *     port -> oxdp_tcx() -> VXLAN device -> IP output of the host -> a veth's egress: oxdp_tcx() -> other port
 *
 * The VXLAN device (core/kernel/detour.h) puts headers before the packet that the program replaces by the tunnel's own,
 * of any kind and IP version.  What stays is what the kernel has noted in the skb: where the packet inside begins, and
 * that each segment is to have an outer checksum.  All devices on the way are without a queue, and the veth has no
 * neighbours to ask. So the packet is back within the call that the kernel makes after the first program has returned:
 * the second goes on with the same struct dp_run, and packets keep their order.
 *
 * What does not come back was dropped by the host: a rule of netfilter, the device was set down, no memory.  The next
 * packet finds that out.  It counts the loss, and the engine gets this packet and all others with outer checksums for a
 * while. */
#ifndef BPF_DETOUR_H
#define BPF_DETOUR_H 1

#include "bpf/maps.h"
#include "bpf/tables.h"

#define DETOUR_PAUSE 1000       /* In jiffies, after a loss. */
#define DETOUR_GROWTH (DP_ETH_LEN + DP_IP4_LEN + DP_UDP_LEN + 8)        /* What the device puts before a packet. */
#define NO_MORE_DETOURS 0xffff  /* tc_index has 16 bits. */
#define DETOUR_AWAY 0xffff      /* run->tracked of a packet that is away. */

/* Written by core/programs/detour.c: the VXLAN device, and the veth where packets come back; 0: none. */
volatile __u32 detour_ifindex;
volatile __u32 detour_back_ifindex;

/* Written here, read there. */
volatile __u64 detour_until;    /* No detours until then, in jiffies. */
volatile __u32 detour_wanted;   /* A packet was to go on a detour, and there is no device. */
volatile __u32 detours_lost;

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bpf_detour);
} detours SEC(".maps");

DP_INLINE struct bpf_detour *detour_here(void)
{
    __u32 first = 0;

    return bpf_map_lookup_elem(&detours, &first);
}

/* Counts a packet that did not come back. */
DP_INLINE void detour_lost(struct dp_ctx *ctx, struct bpf_detour *detour)
{
    struct bpf_counters *c = dp_counters_at(ctx, detour->counter_slot * (NUMBER(LAST_runs) + 1) + dp_cpu(ctx));

    detour->waits = 0;
    detour_until = bpf_jiffies64() + DETOUR_PAUSE;
    __sync_fetch_and_add(&detours_lost, 1);
    if (c) {
        c->n[DP_COUNTER_DETOUR]++;
        c->n[DP_COUNTER_RX_BYTES] += detour->arrived;
    }
}

/* Whether packets can be sent on a detour now. */
DP_STAGE int detour_is_open(struct dp_ctx *ctx)
{
    struct bpf_detour *detour = detour_here();

    if (!detour_ifindex || !detour) {
        if (!detour_wanted) {
            detour_wanted = 1;
        }
        return 0;
    }
    if (detour->waits) {
        detour_lost(ctx, detour);
    }
    return bpf_jiffies64() >= detour_until;
}

/* What was noted of the packet that comes back, which has all that again; NULL: it is none of those.  'tracked' is that
 * of the run. */
DP_INLINE const struct bpf_detour *detour_end(struct dp_ctx *ctx, __u16 tracked)
{
    struct bpf_detour *detour = detour_here();

    if (!detour || tracked != DETOUR_AWAY || ctx->ifindex != detour_back_ifindex || !detour->waits
        || ctx->tc_index != detour->waits || ctx->len != detour->len + DETOUR_GROWTH) {
        return 0;
    }
    detour->waits = 0;
    ctx->tc_index = 0;
    ctx->mark = detour->mark;
    ctx->queue_mapping = detour->queue;
    return detour;
}

#endif /* bpf/detour.h */
