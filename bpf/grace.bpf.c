/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Runs in an interrupt that userspace sends to a CPU, and tells whether that may have interrupted one of our programs
 * (core/grace.c). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

/* In 'preempt_count': bottom halves run or are disabled (include/linux/preempt.h). */
#define SOFTIRQ_MASK 0xff00

/* What is used of them. */
struct bpf_net_context;
struct thread_info {
    unsigned int preempt_count;
} __attribute__((preserve_access_index));
struct task_struct {
    struct thread_info thread_info;
    struct bpf_net_context *bpf_net_context;
} __attribute__((preserve_access_index));

/* 1: certainly not; 0: perhaps. */
SEC("raw_tp")
int interrupts_no_program(void *ctx)
{
    struct task_struct *task = (struct task_struct *) bpf_get_current_task_btf();

    /* Since Linux 6.11 whatever runs programs that can redirect has lent one to the task that it runs on. */
    if (bpf_core_field_exists(task->bpf_net_context)) {
        return !task->bpf_net_context;
    }
    /* x86 and others have it elsewhere. */
    if (bpf_core_field_exists(task->thread_info.preempt_count)) {
        return !(task->thread_info.preempt_count & SOFTIRQ_MASK);
    }
    return 0;
}
