/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The ports of the datapath and what is counted of each, as every hook's program sees them.  Include dp/pipeline.h
 * with a seam first. */
#ifndef BPF_PORT_H
#define BPF_PORT_H 1

#include "bpf/maps.h"
#include "bpf/run.h"
#include "bpf/tables.h"
#include "bpf/trace.h"

/* core/programs/maps.c sets the sizes of all maps before load. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bpf_port);
} ports_overflow SEC(".maps");

static __always_inline const struct bpf_port *port_lookup(struct dp_ctx *ctx, __u32 ifindex)
{
    const struct bpf_port *port = dp_ports_at(ctx, ifindex & NUMBER(LAST_ports));

    if (port && port->ifindex == ifindex) {
        return port;
    }
    return bpf_map_lookup_elem(&ports_overflow, &ifindex);
}

/* A run in which no flow was looked up. */
static __always_inline void run_nothing(struct dp_run *run)
{
    run->uncommon = 0;
    run->n_ct = 0;
    run->flow = DP_NO_FLOW;
}

/* Parts of a record that the packet of 'run' needs behind struct dp_record: DP_RECORD_*. */
static __always_inline __u32 record_parts(struct dp_ctx *ctx, const struct bpf_port *port, const struct dp_run *run)
{
    int popped = !DP_OMITS_POPS(ctx) && run->passes && run->key.in_port != port->port_no;

    return (popped || (DP_TAKES_SKBS && port->tunnel) ? DP_RECORD_TUNNEL : 0)
        | (!DP_OMITS_OP(ctx, DP_OP_CT) && run->passes | run->tracked && run->key.ct_state ? DP_RECORD_CT : 0);
}

/* Bytes of a record with these parts. */
static __always_inline __u32 record_len(__u32 parts)
{
    return DP_RECORD_LEN + (parts & DP_RECORD_TUNNEL ? DP_RECORD_TUNNEL_LEN : 0)
        + (parts & DP_RECORD_CT ? sizeof(struct dp_record_ct) : 0)
        + (DP_TAKES_SKBS && parts & DP_RECORD_OPTIONS ? DP_RECORD_OPTIONS_LEN : 0);
}

static __always_inline void fill_record_tunnel(void *more, const struct dp_run *run)
{
    dp_store64(more, run->key.w[0]);
    for (int i = 1; i < DP_RECORD_TUNNEL_WORDS; i++) {
        dp_store64(more + 8 * i, run->key.w[DP_KEY_WORD(tun_id) - 1 + i]);
    }
}

static __always_inline void fill_record_ct(struct dp_record_ct *record, const struct dp_run *run)
{
    const union dp_key *key = &run->key;

    record->mark = key->ct_mark;
    record->v6 = DP_BE16_IS(key->eth_type, DP_ETH_IP6) && key->ct_proto;
    for (int i = 0; i < sizeof record->words / sizeof record->words[0]; i++) {
        record->words[i] = key->w[DP_KEY_WORD(ct_state) + i];
    }
    record->cached = run->ct.run.md.cached;
    record->generation = run->ct.run.md.generation;
}

/* Writes 'parts', without DP_RECORD_OPTIONS, from 'more' on, as far as they lie before 'end'. */
static __always_inline void fill_record_parts(void *more, void *end, const struct dp_run *run, __u32 parts)
{
    if (parts & DP_RECORD_TUNNEL) {
        if (more + DP_RECORD_TUNNEL_LEN > end) {
            return;
        }
        fill_record_tunnel(more, run);
        more += DP_RECORD_TUNNEL_LEN;
    }
    if (parts & DP_RECORD_CT && more + sizeof(struct dp_record_ct) <= end) {
        fill_record_ct(more, run);
    }
}

/* If run->uncommon is 0, only 'flow' and 'generation' of 'run' are valid.  'parts' is record_parts(). */
static __always_inline void fill_record(struct dp_ctx *ctx, struct dp_record *record, __u32 in_port,
                                        const struct dp_run *run, enum dp_reason reason, __u32 parts)
{
    __u32 after = run->passes | run->tracked;

    record->len = record_len(parts);
    record->reason = reason;
    record->has = (after ? DP_RECORD_RECIRC : 0) | parts;
    record->passes = run->passes;
    record->tracked = run->tracked;
    record->in_port = in_port;
    record->flow = run->flow;
    record->generation = run->flow != DP_NO_FLOW ? run->generation : 0;
    if (after) {
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
    record->trace = dp_is_traced(ctx, &run->traced) ? run->traced : 0;
}

/* This CPU's counters of 'slot'. */
static __always_inline struct bpf_counters *counters_of(struct dp_ctx *ctx, __u32 slot)
{
    return dp_counters_at(ctx, slot * (NUMBER(LAST_runs) + 1) + dp_cpu(ctx));
}

/* The reason of an outcome, bounded for the verifier, to which it is any number. */
static __always_inline enum dp_reason reason_of(struct dp_outcome outcome)
{
    __u32 reason = outcome.reason;

    DP_OPAQUE(reason);
    return reason < DP_N_REASONS ? reason : DP_REASON_FORWARDED;
}

/* Counts a frame of 'length' bytes by what became of it. */
static __always_inline void count(struct dp_ctx *ctx, __u32 slot, enum dp_reason reason, __u32 length)
{
    struct bpf_counters *c = counters_of(ctx, slot);

    if (c) {
        c->n[reason]++;
        c->n[DP_COUNTER_RX_BYTES] += length;
    }
}

/* As count(), of a frame that may be traced. */
static __always_inline void count_traced(struct dp_ctx *ctx, __u32 slot, enum dp_reason reason, struct dp_run *run,
                                         __u32 length)
{
    count(ctx, slot, reason, length);
    trace_end(ctx, run, reason);
}

/* As count_traced(); also counts the frame's lookups. */
static __always_inline void count_run(struct dp_ctx *ctx, __u32 slot, enum dp_reason reason, struct dp_run *run,
                                      __u32 length)
{
    struct bpf_counters *c = counters_of(ctx, slot);

    if (c) {
        c->n[reason]++;
        c->n[DP_COUNTER_RX_BYTES] += length;
        if (run->uncommon && !DP_OMITS_OP(ctx, DP_OP_CT) && run->path.found == DP_PATH_HIT) {
            c->n[DP_COUNTER_RECIRCULATED] += run->passes;       /* It walked no masks. */
            c->n[DP_COUNTER_PATH_HIT]++;
        } else if (run->uncommon) {
            c->n[DP_COUNTER_RECIRCULATED] += run->passes < DP_MAX_PASSES ? run->passes : DP_MAX_PASSES - 1;
            c->n[DP_COUNTER_MASK_HIT] += run->walked.hits;
            c->n[DP_COUNTER_MASKS_WALKED] += run->walked.masks;
            if (!DP_OMITS_OP(ctx, DP_OP_CT)) {
                c->n[DP_COUNTER_PATH_MISS] += run->path.found == DP_PATH_MISS;
            }
        }
        if (!DP_OMITS_OP(ctx, DP_OP_CT) && run->n_ct) {
            c->n[DP_COUNTER_TRACKED] += run->n_ct;
        }
    }
    trace_end(ctx, run, reason);
}

/* Adds 'n' frames to a counter that count() leaves alone. */
static __always_inline void count_beside(struct dp_ctx *ctx, __u32 slot, enum dp_counter counter, __u32 n)
{
    struct bpf_counters *c = counters_of(ctx, slot);

    if (c) {
        c->n[counter] += n;
    }
}

#endif /* bpf/port.h */
