/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Which CPUs may run one of our programs (core/kernel/grace.c): the first program finds out which are idle, the second
 * runs in an interrupt that userspace sends to a CPU, and says what the interrupt came upon. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <stdbool.h>

char LICENSE[] SEC("license") = "GPL";

/* In 'preempt_count': bottom halves run or are disabled (include/linux/preempt.h). */
#define SOFTIRQ_MASK 0xff00

#define CPUS_AT_ONCE 32

/* In the state of 'context_tracking': RCU watches this CPU (include/linux/context_tracking_state.h). */
#define RCU_WATCHING 4

/* Set before load: the distance from a CPU's 'runqueues' to its 'context_tracking', 0 if not known; and the number of
 * CPUs. */
const volatile long tracking_distance;
const volatile __u32 n_cpus;

/* The members that are used. */
struct bpf_net_context;
struct rq {
    int cpu;
} __attribute__((preserve_access_index));
struct cfs_rq {
    struct rq *rq;
} __attribute__((preserve_access_index));
struct task_group {
    struct cfs_rq **cfs_rq;
} __attribute__((preserve_access_index));
typedef struct {
    int counter;
} atomic_t;
struct context_tracking {
    atomic_t state;
} __attribute__((preserve_access_index));
struct thread_info {
    unsigned int preempt_count;
} __attribute__((preserve_access_index));
struct task_struct {
    struct thread_info thread_info;
    struct bpf_net_context *bpf_net_context;
    struct task_group *sched_task_group;
} __attribute__((preserve_access_index));

/* Whether RCU watches 'cpu'; true also if the kernel does not show it. */
static __always_inline bool is_watched(struct task_struct *task, __u32 cpu)
{
    struct cfs_rq **all = task->sched_task_group->cfs_rq;
    struct cfs_rq *cfs_rq;
    struct rq *rq;
    int state;

    if (bpf_probe_read_kernel(&cfs_rq, sizeof cfs_rq, &all[cpu])) {
        return true;
    }
    rq = BPF_CORE_READ(cfs_rq, rq);
    if (BPF_CORE_READ(rq, cpu) != cpu) {
        return true;
    }

    struct context_tracking *tracking = (void *) rq + tracking_distance;

    return bpf_probe_read_kernel(&state, sizeof state, &tracking->state.counter) || state & RCU_WATCHING;
}

/* Returns which of the CPUs from number 'args[0]' on are idle, as RCU's expedited grace periods define it: an idle CPU
 * that handles no interrupt reads nothing that RCU protects, and executes a full memory barrier before it does. */
SEC("raw_tp")
int idle_cpus(struct bpf_raw_tracepoint_args *ctx)
{
    struct task_struct *task = (struct task_struct *) bpf_get_current_task_btf();
    __u32 first = ctx->args[0];
    __u32 idle = 0;

    /* This CPU is not idle: if it seems to be, the offsets are wrong. */
    if (!tracking_distance || !bpf_core_field_exists(task->sched_task_group)
        || !bpf_core_field_exists(struct context_tracking, state) || !bpf_core_field_exists(struct cfs_rq, rq)
        || !is_watched(task, bpf_get_smp_processor_id())) {
        return 0;
    }
    for (__u32 i = 0; i < CPUS_AT_ONCE && first + i < n_cpus; i++) {
        if (!is_watched(task, first + i)) {
            idle |= 1u << i;
        }
    }
    return idle;
}

/* Returns 1 if the interrupt came upon no program that can redirect, 0 if it perhaps did. */
SEC("raw_tp")
int interrupts_no_program(void *ctx)
{
    struct task_struct *task = (struct task_struct *) bpf_get_current_task_btf();

    /* Since Linux 6.11 a task has a bpf_net_context while such a program runs on it. */
    if (bpf_core_field_exists(task->bpf_net_context)) {
        return !task->bpf_net_context;
    }
    /* x86 and others keep preempt_count elsewhere. */
    if (bpf_core_field_exists(task->thread_info.preempt_count)) {
        return !(task->thread_info.preempt_count & SOFTIRQ_MASK);
    }
    return 0;
}
