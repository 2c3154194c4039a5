/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/trace.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"
#include "core/programs/specialise.h"
#include "core/programs/tcx_private.h"

#define STOP_READING 1          /* What 'take' returns when it has enough. */

struct oxdp_trace {
    struct ring_buffer *ring;
    size_t n, max;              /* Of the call of oxdp_trace_read() that reads. */
    oxdp_trace_fn *each;
    void *aux;
};

static struct bpf_tracing *tracing_of(const struct oxdp_progs *progs)
{
    return progs->memory.table[BPF_TABLE_tracing];
}

static struct bpf_trace_room *room_of(const struct oxdp_progs *progs, uint32_t cpu)
{
    return (struct bpf_trace_room *) progs->memory.table[BPF_TABLE_traces] + cpu;
}

/* What programs must have to see that a packet matches. */
static struct oxdp_needs needs_of(const struct oxdp_trace_filter *filter)
{
    const struct oxdp_flow flow = { .key = &filter->key, .mask = &filter->mask };
    struct oxdp_needs needs = { .parts = 0 };

    if (filter->has_key) {
        needs = oxdp_needs_of_flow(&flow);
        if (filter->mask.eth_type.raw != UINT16_MAX) {
            needs.parts |= DP_CAPABILITY_ALL_KEYS;      /* It may be any. */
        }
    }
    needs.parts |= DP_PART_TRACE;
    return needs;
}

/* Called for each packet in the ring. */
static int take(void *trace_, void *data, size_t size)
{
    struct oxdp_trace *trace = trace_;
    const struct dp_traced *traced = data;

    if (trace->each && size >= offsetof(struct dp_traced, bytes) + traced->captured) {
        trace->each(traced, trace->aux);
    }
    return ++trace->n < trace->max ? 0 : -STOP_READING;
}

/* Sets what programs read, but the countdowns. */
static void write_filter(const struct oxdp_progs *progs, const struct oxdp_trace_filter *filter)
{
    *tracing_of(progs) = (struct bpf_tracing) {
        .every = filter->every,
        .bytes = filter->bytes,
        .in_port = filter->in_port,
        .flow = filter->flow,
        .reasons = filter->reasons,
        .has_key = filter->has_key,
        .key = filter->key,
        .mask = filter->mask,
    };
    for (uint32_t i = 0; i < progs->n_cpu_ids; i++) {
        struct bpf_trace_room *room = room_of(progs, i);

        room->looked_at = room->matched = room->lost = 0;
    }
}

/* The first packet on each CPU with which the countdown becomes 0; 0: none. */
static void start_countdowns(const struct oxdp_progs *progs, uint32_t countdown)
{
    for (uint32_t i = 0; i < progs->n_cpu_ids; i++) {
        __atomic_store_n(&((struct bpf_run_room *) progs->memory.table[BPF_TABLE_runs])[i].countdown, countdown,
                         __ATOMIC_RELEASE);
    }
}

bool oxdp_trace_is_possible(const struct oxdp_progs *progs)
{
    return progs->table && !progs->bare;
}

int oxdp_trace_start(struct oxdp_progs *progs, const struct oxdp_trace_filter *filter, char **ret_error)
{
    struct oxdp_needs needs = needs_of(filter);
    struct oxdp_trace *trace;
    int err;

    if (progs->trace) {
        return oxdp_fail(-EBUSY, ret_error, "there is a trace already");
    }
    if (!oxdp_trace_is_possible(progs)) {
        return oxdp_fail(-EOPNOTSUPP, ret_error, "programs run without flow tables: every packet goes to the engine");
    }
    trace = calloc(1, sizeof *trace);
    if (trace) {
        trace->ring = ring_buffer__new(bpf_map__fd(progs->maps->maps.traced), take, trace, NULL);
    }
    if (!trace || !trace->ring) {
        free(trace);
        return oxdp_fail(-ENOMEM, ret_error, "not enough memory to trace packets");
    }
    trace->max = SIZE_MAX;
    ring_buffer__consume(trace->ring);  /* What an earlier trace left. */
    write_filter(progs, filter);
    err = oxdp_tcx_trace_begin(progs);
    if (err) {
        oxdp_fail(err, ret_error, "cannot load the program that traces at tcx: %s", strerror(-err));
        ring_buffer__free(trace->ring);
        free(trace);
        return err;
    }
    progs->trace = trace;
    oxdp_special_trace(progs, &needs);
    start_countdowns(progs, 1);
    return 0;
}

int oxdp_trace_go_on(struct oxdp_progs *progs, char **ret_error)
{
    return progs->trace ? oxdp_tcx_trace_go_on(progs, ret_error) : 0;
}

void oxdp_trace_stop(struct oxdp_progs *progs)
{
    if (progs && progs->trace) {
        tracing_of(progs)->every = 0;
        start_countdowns(progs, 0);
        oxdp_special_trace(progs, NULL);
        oxdp_tcx_trace_end(progs);
        ring_buffer__free(progs->trace->ring);
        free(progs->trace);
        progs->trace = NULL;
    }
}

void oxdp_trace_set_flow(struct oxdp_progs *progs, uint32_t flow)
{
    __atomic_store_n(&tracing_of(progs)->flow, flow, __ATOMIC_RELAXED);
}

size_t oxdp_trace_read(struct oxdp_progs *progs, size_t max, oxdp_trace_fn *each, void *aux)
{
    struct oxdp_trace *trace = progs->trace;

    if (!trace || !max) {
        return 0;
    }
    trace->n = 0;
    trace->max = max;
    trace->each = each;
    trace->aux = aux;
    ring_buffer__consume(trace->ring);
    return trace->n;
}

struct oxdp_trace_counts oxdp_trace_counts(const struct oxdp_progs *progs)
{
    struct oxdp_trace_counts sum = { 0 };

    for (uint32_t i = 0; i < progs->n_cpu_ids; i++) {
        const struct bpf_trace_room *room = room_of(progs, i);

        sum.looked_at += room->looked_at;
        sum.matched += room->matched;
        sum.lost += room->lost;
    }
    return sum;
}
