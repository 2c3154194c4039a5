/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Takes its time between looking at what userspace changes and counting, for test_core_grace.c. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

__u64 changes;                  /* That userspace began ... */
__u64 settled;                  /* ... or thinks that all runs know. */
__u64 runs;
__u64 late;                     /* Runs that ended later than they should have. */

SEC("xdp")
int slow(struct xdp_md *ctx)
{
    __u64 seen = *(volatile __u64 *) &changes;

    for (int i = 0; i < 200; i++) {
        bpf_ktime_get_ns();
    }
    if (seen < *(volatile __u64 *) &settled) {
        __sync_fetch_and_add(&late, 1);
    }
    __sync_fetch_and_add(&runs, 1);
    return XDP_DROP;
}
