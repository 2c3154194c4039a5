/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* XDP on a port: runs each frame through the flow tables, and hands those that the engine must see, with the
 * record of dp/record.h before them, to the AF_XDP socket of the port and queue they arrived on. */
#include "bpf/seam_xdp.h"
#include "dp/pipeline.h"

#include "bpf/capability.h"
#include "bpf/maps.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before load: size of 'ports' less one; whether there are flow tables. */
const volatile __u32 ports_mask;
const volatile __u8 fast_path;

/* core/prog_maps.c sets the sizes of all maps before load. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bpf_port);
} ports SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bpf_port);
} ports_overflow SEC(".maps");

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

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bpf_counters);
} counters SEC(".maps");

static __always_inline const struct bpf_port *port_lookup(__u32 ifindex);
static __always_inline int output(struct xdp_md *ctx, const struct bpf_port *port, const struct dp_run *run,
                                  __u32 length);
static __always_inline int hand_up(struct xdp_md *ctx, const struct bpf_port *port, const struct dp_run *run,
                                   __u32 length);
static __always_inline void count(__u32 slot, enum dp_counter counter, __u32 length);
static __always_inline void count_run(__u32 slot, enum dp_counter counter, const struct dp_run *run,
                                      __u32 length);

SEC("xdp")
int oxdp_xdp(struct xdp_md *ctx)
{
    const struct bpf_port *port = port_lookup(ctx->ingress_ifindex);
    __u32 length = ctx->data_end - ctx->data;
    struct dp_run run;

    if (!port) {
        count(BPF_COUNTER_SLOT_NO_PORT, DP_COUNTER_UNKNOWN_PORT, length);
        return XDP_PASS;
    }
    if (!fast_path) {
        run.reason = DP_REASON_NO_PROGRAM;
        run.passes = 0;
        run.flow = DP_NO_FLOW;
        run.walked.masks = 0;
        return hand_up(ctx, port, &run, length);
    }
    run.local_stack = port->local_stack;
    switch (dp_pipeline(ctx, port->port_no, &run)) {
    case DP_VERDICT_OUTPUT:
        return output(ctx, port, &run, length);
    case DP_VERDICT_DROP:
        count_run(port->counter_slot, DP_COUNTER_DROPPED, &run, length);
        return XDP_DROP;
    default:
        return hand_up(ctx, port, &run, length);
    }
}

static __always_inline const struct bpf_port *port_lookup(__u32 ifindex)
{
    __u32 i = ifindex & ports_mask;
    const struct bpf_port *port = bpf_map_lookup_elem(&ports, &i);

    if (port && port->ifindex == ifindex) {
        return port;
    }
    return bpf_map_lookup_elem(&ports_overflow, &ifindex);
}

static __always_inline int output(struct xdp_md *ctx, const struct bpf_port *port, const struct dp_run *run,
                                  __u32 length)
{
    if (run->frame.cut) {
        dp_cut_tail(ctx, run->frame.cut);
    }

    int verdict = bpf_redirect_map(&outputs, run->port, XDP_DROP);

    count_run(port->counter_slot, verdict == XDP_REDIRECT ? DP_COUNTER_FORWARDED : DP_COUNTER_NO_OUTPUT, run,
              length);
    return verdict;
}

/* 'run' is complete if run->passes is not 0, else only 'reason', 'flow' and 'generation' mean something. */
static __always_inline int hand_up(struct xdp_md *ctx, const struct bpf_port *port, const struct dp_run *run,
                                   __u32 length)
{
    __u32 queue = ctx->rx_queue_index;

    if (queue >= port->n_queues) {
        count(port->counter_slot, DP_COUNTER_NO_SOCKET, length);
        return XDP_DROP;
    }
    if (bpf_xdp_adjust_head(ctx, -DP_RECORD_LEN)) {
        count(port->counter_slot, DP_COUNTER_NO_HEADROOM, length);
        return XDP_DROP;
    }

    struct dp_record *record = (void *) (long) ctx->data;

    if ((void *) (record + 1) > (void *) (long) ctx->data_end) {
        count(port->counter_slot, DP_COUNTER_NO_HEADROOM, length);
        return XDP_DROP;
    }
    record->in_port = port->port_no;
    record->reason = run->reason;
    record->passes = run->passes;
    record->flow = run->flow;
    record->generation = run->flow != DP_NO_FLOW ? run->generation : 0;
    if (run->passes) {
        record->recirc_id = run->key.recirc_id;
        record->dp_hash = run->key.dp_hash;
        record->skb_priority = run->key.skb_priority;
        record->skb_mark = run->key.skb_mark;
    } else {
        record->recirc_id = 0;
        record->dp_hash = 0;
        record->skb_priority = 0;
        record->skb_mark = 0;
    }

    int verdict = bpf_redirect_map(&sockets, port->first_socket + queue, XDP_DROP);

    if (verdict == XDP_REDIRECT) {
        count_run(port->counter_slot, run->reason == DP_REASON_MISS ? DP_COUNTER_UP_MISS
                  : run->reason == DP_REASON_ENGINE ? DP_COUNTER_UP_ENGINE
                  : run->reason == DP_REASON_PARSE ? DP_COUNTER_UP_PARSE
                  : run->reason == DP_REASON_CHECKSUM ? DP_COUNTER_UP_CHECKSUM
                  : DP_COUNTER_UP_OFF, run, length);
    } else {
        count(port->counter_slot, DP_COUNTER_NO_SOCKET, length);
    }
    return verdict;
}

static __always_inline void count(__u32 slot, enum dp_counter counter, __u32 length)
{
    struct bpf_counters *c = bpf_map_lookup_elem(&counters, &slot);

    if (c) {
        c->n[counter]++;
        c->n[DP_COUNTER_RX_BYTES] += length;
    }
}

/* As count(), and what the lookups of the frame cost. */
static __always_inline void count_run(__u32 slot, enum dp_counter counter, const struct dp_run *run,
                                      __u32 length)
{
    struct bpf_counters *c = bpf_map_lookup_elem(&counters, &slot);

    if (c) {
        c->n[counter]++;
        c->n[DP_COUNTER_RX_BYTES] += length;
        if (run->passes) {
            c->n[DP_COUNTER_RECIRCULATED] += run->passes < DP_MAX_PASSES ? run->passes : DP_MAX_PASSES - 1;
        }
        if (run->walked.masks) {
            c->n[DP_COUNTER_MASK_HIT] += run->walked.hits;
            c->n[DP_COUNTER_MASKS_WALKED] += run->walked.masks;
        }
    }
}
