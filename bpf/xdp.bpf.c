/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* XDP on a port: runs each frame through the flow tables.  Frames for the engine get the record of dp/record.h in
 * front, and go to the AF_XDP socket of the port and queue on which they arrived. */
#include "bpf/seam_xdp.h"
#include "dp/pipeline.h"

#include "bpf/port.h"
#include "bpf/sample.h"

char LICENSE[] SEC("license") = "GPL";

/* core/programs/maps.c sets the sizes before load. */
struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} sockets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} outputs SEC(".maps");

/* A group's ports; core/programs/group.c makes them. */
struct group {
    __uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
    __uint(max_entries, DP_MAX_GROUP);
    __type(key, __u32);
    __type(value, __u32);
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, BPF_MAX_GROUPS);
    __type(key, __u32);
    __array(values, struct group);
} groups SEC(".maps");

static __always_inline int output(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run,
                                  __u32 to, __u32 length);
static __always_inline int output_group(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run,
                                        __u32 index, __u32 length);
static __always_inline int hand_up(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run,
                                   enum dp_reason reason, __u32 length);
static __always_inline int segments(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run, __u32 length);
static __always_inline int leave_to_tcx(struct xdp_md *ctx, struct dp_run *run, enum dp_reason reason);

/* Without flow tables the program needs no more than CAP_BPF: only with CAP_PERFMON may pointers be subtracted. */
static __always_inline __u32 frame_length(struct xdp_md *ctx)
{
    return DP_OMITS(ctx, DP_PART_TABLES) ? bpf_xdp_get_buff_len(ctx) : dp_len(ctx);
}

/* The verdict on a frame that arrived on a port. */
static __always_inline int datapath(struct xdp_md *ctx)
{
    const struct bpf_port *port = port_lookup(ctx, ctx->ingress_ifindex);
    __u32 length = frame_length(ctx);
    struct dp_run *run = run_here(ctx);

    if (!port || !run) {
        count(ctx, BPF_COUNTER_SLOT_NO_PORT, DP_REASON_UNKNOWN_PORT, length);
        return XDP_PASS;
    }
    trace_begin(ctx, run, port->port_no, length);
    if (!DP_OMITS(ctx, DP_PART_CHECKSUM) && DP_UNLIKELY(length > port->max_len)) {
        return segments(ctx, port, run, length);
    }
    if (DP_OMITS(ctx, DP_PART_TABLES)) {
        run_nothing(run);
        return hand_up(ctx, port, run, DP_REASON_UP_OFF, length);
    }
    run->frame.local_stack = port->local_stack;

    run->arrived = length;              /* The stack has no room for it. */

    struct dp_outcome outcome = dp_pipeline(ctx, port->port_no, run);

    length = run->arrived;

    switch (outcome.fate) {
    case DP_FATE_OUTPUT:
        return output(ctx, port, run, outcome.to, length);
    case DP_FATE_GROUP:
        return output_group(ctx, port, run, outcome.to, length);
    case DP_FATE_DROP:
        count_run(ctx, port->counter_slot, reason_of(outcome), run, length);
        return XDP_DROP;
    case DP_FATE_SKB:
        if (!DP_OMITS(ctx, DP_PART_CHECKSUM) && outcome.reason == DP_REASON_UP_CHECKSUM) {
            count_beside(ctx, port->counter_slot, DP_COUNTER_UNFINISHED, 1);
        }
        if (port->continues) {
            return leave_to_tcx(ctx, run, reason_of(outcome));
        }
        return hand_up(ctx, port, run, reason_of(outcome), length);
    default:
        return hand_up(ctx, port, run, reason_of(outcome), length);
    }
}

/* A user's own program includes this file with OXDP_OWN_ENTRY, and defines its own oxdp_xdp(). */
#ifndef OXDP_OWN_ENTRY
SEC("xdp")
int oxdp_xdp(struct xdp_md *ctx)
{
    return datapath(ctx);
}
#endif

static __always_inline int redirect(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run,
                                    __u32 to, __u32 length)
{
    int verdict = bpf_redirect_map(&outputs, to, XDP_DROP);

    count_run(ctx, port->counter_slot, verdict == XDP_REDIRECT ? DP_REASON_FORWARDED : DP_REASON_NO_OUTPUT, run,
              length);
    return verdict;
}

/* Sends a frame that is longer than what every port takes to 'to', if that takes it. */
DP_STAGE int output_long(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run, __u32 to)
{
    const struct bpf_limit *limit = dp_limits_at(ctx, BPF_LIMIT_OF_PORT(to));
    const __u8 *eth = dp_at(ctx, 0, DP_ETH_LEN);
    __u32 len = dp_len(ctx);

    if (!port || !run) {
        return XDP_DROP;
    }
    if (limit && eth && len > limit->max_len
        && (!dp_is_vlan(dp_load_be16(eth + 12)) || len - DP_VLAN_LEN > limit->max_len)) {
        count_run(ctx, port->counter_slot, DP_REASON_OVER_MTU, run, run->arrived);
        return XDP_DROP;
    }
    if (limit && !limit->buffers && dp_has_frags(ctx)) {
        count_run(ctx, port->counter_slot, DP_REASON_NO_BUFFERS, run, run->arrived);
        return XDP_DROP;
    }
    return redirect(ctx, port, run, to, run->arrived);
}

static __always_inline int output(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run,
                                  __u32 to, __u32 length)
{
    __u32 sent = length;

    if (!DP_OMITS(ctx, DP_PART_OPS)) {
        sent = run->frame.len - run->frame.cut;
        if (run->frame.cut) {
            dp_cut_tail(ctx, run->frame.cut);
        }
    }
    if (DP_UNLIKELY(sent > dp_limits_at(ctx, BPF_LIMIT_ALL)->max_len)) {
        return output_long(ctx, port, run, to);
    }
    return redirect(ctx, port, run, to, length);
}

/* The kernel copies the frame for each port but the last, and skips ports that do not take it. */
static __always_inline int output_group(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run,
                                        __u32 index, __u32 length)
{
    void *group = DP_OMITS_OP(ctx, DP_OP_GROUP) ? 0 : bpf_map_lookup_elem(&groups, &index);
    int verdict = group ? bpf_redirect_map(group, 0, BPF_F_BROADCAST) : XDP_DROP;

    count_run(ctx, port->counter_slot, verdict == XDP_REDIRECT ? DP_REASON_FORWARDED : DP_REASON_NO_OUTPUT, run,
              length);
    return verdict;
}

/* Puts the record before the frame.  0, or not if there is no room.  A stage: it needs the stack after
 * dp_pipeline(). */
DP_STAGE int put_record(struct xdp_md *ctx, const struct bpf_port *port, const struct dp_run *run, __u32 reason)
{
    if (!port || !run) {
        return 1;
    }

    __u32 parts = record_parts(ctx, port, run);
    struct dp_record *record;

    if (bpf_xdp_adjust_head(ctx, -(int) record_len(parts))) {
        return 1;
    }
    record = (void *) (long) ctx->data;
    if ((void *) (record + 1) > (void *) (long) ctx->data_end) {
        return 1;
    }
    fill_record(ctx, record, port->port_no, run, reason, parts);
    fill_record_parts(record + 1, (void *) (long) ctx->data_end, run, parts);
    return 0;
}

static __always_inline int hand_up(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run,
                                   enum dp_reason reason, __u32 length)
{
    __u32 queue = ctx->rx_queue_index;

    if (queue >= port->n_queues) {
        count_traced(ctx, port->counter_slot, DP_REASON_NO_SOCKET, run, length);
        return XDP_DROP;
    }
    if (put_record(ctx, port, run, reason)) {
        count_traced(ctx, port->counter_slot, DP_REASON_NO_HEADROOM, run, length);
        return XDP_DROP;
    }

    int verdict = bpf_redirect_map(&sockets, port->first_socket + queue, XDP_DROP);

    if (verdict == XDP_REDIRECT) {
        count_run(ctx, port->counter_slot, reason, run, length);
    } else {
        count_traced(ctx, port->counter_slot, DP_REASON_NO_SOCKET, run, length);
    }
    return verdict;
}

/* A packet with GSO, which generic XDP gets before it is segmented, as from a guest's TCP.  AF_XDP sockets and devices
 * would refuse it (-ENOSPC, -EMSGSIZE), and no counter would show that.  tcx takes it as it is. */
static __always_inline int segments(struct xdp_md *ctx, const struct bpf_port *port, struct dp_run *run, __u32 length)
{
    count_beside(ctx, port->counter_slot, DP_COUNTER_UNFINISHED, 1);
    if (port->continues) {
        return leave_to_tcx(ctx, run, DP_REASON_SEGMENTS);
    }
    count_traced(ctx, port->counter_slot, DP_REASON_SEGMENTS, run, length);
    return XDP_DROP;
}

/* The program at tcx on the same device gets the packet, and counts it. */
static __always_inline int leave_to_tcx(struct xdp_md *ctx, struct dp_run *run, enum dp_reason reason)
{
    if (dp_is_traced(ctx, &run->traced)) {
        run->fate = DP_FATE_SKB;
    }
    trace_end(ctx, run, reason);
    return XDP_PASS;
}
