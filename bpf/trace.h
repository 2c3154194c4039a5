/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Traced packets: which they are, and how they get to userspace.  A program that omits DP_PART_TRACE has nothing of
 * this; in others a packet that is not traced costs a decrement, and a load for each lookup and at its end.  Include
 * dp/pipeline.h with a seam first.
 *
 *     trace_begin()     first in a run
 *     trace_end()       where the packet is counted, which is once for each (bpf/port.h)
 */
#ifndef BPF_TRACE_H
#define BPF_TRACE_H 1

#include "bpf/maps.h"
#include "bpf/tables.h"

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, BPF_TRACE_RING);
} traced SEC(".maps");

/* Whether the frame has the filter's key: it is parsed for that. */
static __always_inline int trace_key_matches(struct dp_ctx *ctx, struct bpf_trace_room *room,
                                             const struct bpf_tracing *tracing, __u32 in_port)
{
    const struct dp_head *head = dp_head_at(ctx, 0);
    __u64 difference = 0;

    if (DP_TAKES_SKBS) {
        dp_pull(ctx);
    }
    room->key.w[0] = DP_BYTES(0, 4, in_port);
    dp_clear_metadata(ctx, &room->key);
    room->frame.local_stack = 0;
    if (!head || dp_parse(ctx, &room->frame, &room->key, head->vlan_limit) != DP_PARSED) {
        return 0;
    }
    DP_NO_UNROLL
    for (int i = 0; i < DP_KEY_WORDS; i++) {
        difference |= (room->key.w[i] & tracing->mask.w[i]) ^ tracing->key.w[i];
    }
    return !difference;
}

/* Begins a traced packet, if this is the one in N. */
DP_STAGE int trace_look(struct dp_ctx *ctx, struct dp_run *run, __u32 in_port, __u32 length)
{
    struct bpf_trace_room *room = dp_traces_at(ctx, bpf_get_smp_processor_id());
    const struct bpf_tracing *tracing = dp_tracing_at(ctx, 0);
    __u64 n;

    if (DP_OMITS(ctx, DP_PART_TRACE) || !run || !room || !tracing) {
        return 0;
    }
    room->looked_at++;
    if (tracing->in_port != BPF_TRACE_ANY && tracing->in_port != in_port) {
        return 0;
    }
    if (tracing->has_key && !trace_key_matches(ctx, room, tracing, in_port)) {
        return 0;
    }
    n = dp_len(ctx);
    if (n > tracing->bytes) {
        n = tracing->bytes;
    }
    n--;                        /* Linux 6.1 does not learn from a comparison with 0. */
    DP_OPAQUE(n);
    if (n >= DP_TRACE_BYTES) {
        return 0;
    }
    DP_OPAQUE(n);
    n++;

    struct dp_traced *out = &room->out;

    if (dp_copy_out(ctx, out->bytes, n)) {
        return 0;
    }
    room->last += NUMBER(LAST_traces) + 1;
    out->time = dp_now(ctx);
    out->id = room->last + bpf_get_smp_processor_id() + 1;
    out->cpu = bpf_get_smp_processor_id();
    out->in_port = in_port;
    out->length = length;
    out->captured = n;
    out->hook = TRACE_HOOK;
    out->tag = dp_tag_beside(ctx);
    out->way.n = 0;
    out->way.masks = 0;
    out->way.hits = 0;
    out->way.n_ct = 0;
    run->path.found = DP_PATH_NONE;
    run->traced = out->id;
    run->fate = DP_FATE_ENGINE;
    run->to = 0;
    return 0;
}

/* Starts the countdown again from 'every'. */
static __always_inline void trace_count_down(struct dp_ctx *ctx, struct bpf_run_room *room)
{
    const struct bpf_tracing *tracing = dp_tracing_at(ctx, 0);

    room->countdown = tracing ? tracing->every : 0;
}

static __always_inline void trace_begin(struct dp_ctx *ctx, struct dp_run *run, __u32 in_port, __u32 length)
{
    struct bpf_run_room *room = (struct bpf_run_room *) run;

    if (!DP_OMITS(ctx, DP_PART_TRACE) && DP_UNLIKELY(room->countdown) && DP_UNLIKELY(!--room->countdown)) {
        trace_count_down(ctx, room);
        trace_look(ctx, run, in_port, length);
    }
}

/* The packet in hand ended as 'reason' says: hands it to userspace, if the filter wants that end. */
DP_STAGE int trace_put(struct dp_ctx *ctx, struct dp_run *run, __u32 reason)
{
    struct bpf_trace_room *room = dp_traces_at(ctx, bpf_get_smp_processor_id());
    const struct bpf_tracing *tracing = dp_tracing_at(ctx, 0);
    int has_flow = 0;
    __u64 n;

    if (DP_OMITS(ctx, DP_PART_TRACE) || !run || !room || !tracing) {
        return 0;
    }
    run->traced = 0;
    if (!(tracing->reasons >> (reason & 63) & 1)) {
        return 0;
    }
    if (!DP_OMITS_OP(ctx, DP_OP_CT) && run->path.found == DP_PATH_HIT) {
        dp_note_path(ctx, run);
    }
    for (int i = 0; i < DP_WAY_PASSES && i < room->out.way.n; i++) {
        has_flow |= room->out.way.pass[i].flow == tracing->flow;
    }
    if (tracing->flow != BPF_TRACE_ANY && !has_flow) {
        return 0;
    }
    room->out.reason = reason;
    room->out.fate = run->fate;
    room->out.to = run->to;
    n = room->out.captured;
    DP_OPAQUE(n);
    if (n > DP_TRACE_BYTES) {
        return 0;
    }
    DP_OPAQUE(n);
    room->matched++;
    if (bpf_ringbuf_output(&traced, &room->out, __builtin_offsetof(struct dp_traced, bytes) + n, BPF_RB_NO_WAKEUP)) {
        room->lost++;
    }
    return 0;
}

/* The packet in hand was counted, or left to another hook, under 'reason'. */
static __always_inline void trace_end(struct dp_ctx *ctx, struct dp_run *run, enum dp_reason reason)
{
    if (dp_is_traced(ctx, &run->traced)) {
        trace_put(ctx, run, reason);
    }
}

#endif /* bpf/trace.h */
