/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Tells userspace what the kernel's jiffies are, which programs stamp flows with (struct dp_stats, 'used'). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "dp/ticks.h"

char LICENSE[] SEC("license") = "GPL";

SEC("syscall")
int ticks(struct dp_ticks_sample *sample)
{
    sample->ticks = bpf_jiffies64();
    sample->now = bpf_ktime_get_ns();
    return 0;
}
