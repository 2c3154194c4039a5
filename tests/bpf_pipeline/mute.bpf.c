/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A program that does not say what it can do. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("xdp")
int mute(struct xdp_md *ctx)
{
    return XDP_PASS;
}
