/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The state of a program's run.  Include dp/pipeline.h with a seam first. */
#ifndef BPF_RUN_H
#define BPF_RUN_H 1

#include "bpf/tables.h"

_Static_assert(sizeof(struct dp_run) <= sizeof(((struct bpf_run_room *) 0)->room), "room for a run");

/* In a table, because BPF's stack (512 bytes) is too small.  Each CPU has one run at a time, and keeps nothing of it
 * but 'traced', which is 0 between runs, 'tracked' of a packet on a detour, and how long nothing is to be learned. */
static __always_inline struct dp_run *run_here(struct dp_ctx *ctx)
{
    return (struct dp_run *) dp_runs_at(ctx, dp_cpu(ctx));
}

#endif /* bpf/run.h */
