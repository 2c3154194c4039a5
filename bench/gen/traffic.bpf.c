/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Traffic made and counted inside the kernel, so that neither end limits what is measured between them.
 *
 *     bench_generate -> veth ~ [ the switch under test ] ~ veth -> bench_sink
 *
 * bench_generate runs under BPF_PROG_TEST_RUN with live frames; bench_forward is the ceiling: the least
 * that any XDP switch can do. */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "frame.h"

/* Set before the program is loaded. */
const volatile __u32 n_flows = 1;
const volatile __u16 vlan_tci;                  /* Network byte order; 0: no tag. */
const volatile bool ip6;
struct bench_frame first_frame;                 /* Flow 0; ip_check is right for it. */
struct bench_frame6 first_frame6;

/* Where frames go: entry 0, written by the tool before traffic starts. */
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} out SEC(".maps");

/* Written by bench_sink, read and summed by the tool. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bench_count);
} counts SEC(".maps");

static __u32 next_flow;                         /* One thread generates per loaded object. */

static __always_inline void write_frame(struct bench_frame *frame, __u32 flow);
static __always_inline void write_frame6(struct bench_frame6 *frame, __u32 flow);
static __always_inline bool is_ours(const void *data, const void *end);

/* Writes the next flow's frame and sends it.  Every header byte is written each time, because a recycled
 * frame comes back as the switch under test left it. */
SEC("xdp")
int bench_generate(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    __u32 flow = next_flow;

    next_flow = flow + 1 < n_flows ? flow + 1 : 0;
    if (ip6) {
        if (data + sizeof(struct bench_frame6) > end)
            return XDP_ABORTED;
        write_frame6(data, flow);
    } else if (vlan_tci) {
        struct bench_tagged_frame *tagged = data;
        struct bench_frame frame;

        if ((void *)(tagged + 1) > end)
            return XDP_ABORTED;
        write_frame(&frame, flow);
        __builtin_memcpy(tagged->eth, &frame, sizeof(tagged->eth));
        tagged->tag[0] = bpf_htons(0x8100);
        tagged->tag[1] = vlan_tci;
        __builtin_memcpy(tagged->rest, &frame.eth_type, sizeof(tagged->rest));
    } else {
        if (data + sizeof(struct bench_frame) > end)
            return XDP_ABORTED;
        write_frame(data, flow);
    }
    return bpf_redirect_map(&out, 0, 0);
}

SEC("xdp")
int bench_sink(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct bench_count *count;
    __u32 zero = 0;

    count = bpf_map_lookup_elem(&counts, &zero);
    if (!count)
        return XDP_ABORTED;

    if (is_ours(data, end)) {
        count->packets++;
        count->bytes += end - data;
    } else {
        count->others++;
    }
    return XDP_DROP;
}

SEC("xdp")
int bench_forward(struct xdp_md *ctx __attribute__((unused)))
{
    return bpf_redirect_map(&out, 0, 0);
}

static __always_inline void write_frame(struct bench_frame *frame, __u32 flow)
{
    __u16 low = flow;
    __u32 sum;

    __builtin_memcpy(frame, &first_frame, sizeof(*frame));
    frame->ip_src[2] = low >> 8;
    frame->ip_src[3] = low;
    frame->udp_src = bpf_htons(BENCH_SRC_PORT + (flow >> 16));
    sum = (__u16)~bpf_ntohs(first_frame.ip_check) + low;    /* RFC 1624, the old value being 0. */
    frame->ip_check = bpf_htons(~((sum & 0xffff) + (sum >> 16)));
}

static __always_inline void write_frame6(struct bench_frame6 *frame, __u32 flow)
{
    __builtin_memcpy(frame, &first_frame6, sizeof(*frame));
    frame->ip_src[14] = flow >> 8;
    frame->ip_src[15] = flow;
    frame->udp_src = bpf_htons(BENCH_SRC_PORT + (flow >> 16));
}

static __always_inline bool is_ours(const void *data, const void *end)
{
    const struct bench_frame *frame = data;
    const struct bench_frame6 *frame6 = data;

    if ((void *)(frame + 1) > end)
        return false;
    switch (frame->eth_type) {
    case bpf_htons(0x0800):
        return frame->udp_dst == bpf_htons(BENCH_DST_PORT);
    case bpf_htons(0x86dd):
        return (void *)(frame6 + 1) <= end && frame6->udp_dst == bpf_htons(BENCH_DST_PORT);
    case bpf_htons(0x8100):
        frame = data + 4;
        return (void *)(frame + 1) <= end && frame->eth_type == bpf_htons(0x0800)
               && frame->udp_dst == bpf_htons(BENCH_DST_PORT);
    default:
        return false;
    }
}

char _license[] SEC("license") = "GPL";
