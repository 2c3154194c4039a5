/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Where the state of a program's run is.  Include dp/pipeline.h with a seam first. */
#ifndef BPF_RUN_H
#define BPF_RUN_H 1

/* One run at a time on each processor: nothing of it is kept.  The stack has no room for it. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dp_run);
} runs SEC(".maps");

static __always_inline struct dp_run *run_here(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&runs, &zero);
}

#endif /* bpf/run.h */
