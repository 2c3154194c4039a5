/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Traffic made and counted inside the kernel, so that neither end limits what is measured between them.
 *
 *     bench_generate -> veth ~ [ the switch under test ] ~ veth -> bench_sink
 *
 * bench_generate runs under BPF_PROG_TEST_RUN with live frames; bench_forward is the ceiling: the least
 * that any XDP switch can do.  bench_l2 is the least that an XDP switch which looks at addresses can do,
 * bench_return what a container that answers in XDP does, bench_to_socket the kernel's half of an AF_XDP
 * program. */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "frame.h"

/* Set before the program is loaded. */
const volatile __u32 n_flows = 1;
const volatile __u16 vlan_tci;                  /* Network byte order; 0: no tag. */
const volatile bool ip6;
const volatile bool syns;                       /* With 'tcp': only first frames, each of another flow. */
const volatile bool tcp;                        /* Connections: flows from out[0], their answers from out[1]. */
const volatile __u8 n_receivers = 1;            /* Flow I goes to the I-th address after eth_dst, modulo this. */
const volatile __u32 tunnel_len;                /* Bytes of tunnel_header, an even number; 0: no tunnel. */
const volatile __u8 n_endpoints = 1;
__u8 tunnel_header[BENCH_TUNNEL_MAX];           /* That of the first endpoint. */
struct bench_frame first_frame;                 /* Flow 0; ip_check is right for it. */
struct bench_frame6 first_frame6;

/* Where frames go: entry 0, and with TCP those of the server: entry 1.  Written by the tool before traffic starts. */
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 2);
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

/* Written by the tool before traffic starts: a port's place in l2_out.  Full: the tool fails. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, BENCH_MAX_PORTS);
    __type(key, struct bench_l2_key);
    __type(value, __u32);
} l2_table SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, BENCH_MAX_PORTS);
    __type(key, __u32);
    __type(value, __u32);
} l2_out SEC(".maps");

/* The socket of the AF_XDP program, by receive queue; written by the tool. */
struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} sockets SEC(".maps");

static __u32 next_flow;                         /* One thread generates per loaded object. */

static __always_inline void write_frame(struct bench_frame *frame, __u32 flow);
static __always_inline void write_frame6(struct bench_frame6 *frame, __u32 flow);
static __always_inline void write_tunnel(struct bench_frame *outer, __u32 flow);
static __always_inline bool write_tcp(struct bench_tcp_frame *frame, __u32 n);
static __always_inline bool is_ours(const void *data, const void *end);

/* Writes the next flow's frame and sends it.  Every header byte is written each time, because a recycled
 * frame comes back as the switch under test left it. */
SEC("xdp")
int bench_generate(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    __u32 flow = next_flow;

    if (tcp) {
        next_flow = flow + 1;
        if (data + sizeof(struct bench_tcp_frame) > end)
            return XDP_ABORTED;
        return bpf_redirect_map(&out, write_tcp(data, flow), 0);
    }
    next_flow = flow + 1 < n_flows ? flow + 1 : 0;
    if (ip6) {
        if (data + sizeof(struct bench_frame6) > end)
            return XDP_ABORTED;
        write_frame6(data, flow);
    } else if (tunnel_len) {
        if (data + tunnel_len + sizeof(struct bench_frame) > end)
            return XDP_ABORTED;
        write_tunnel(data, flow);
        write_frame(data + tunnel_len, flow);
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

/* Forwards by VLAN and destination address, as a bridge that has learned everything. */
SEC("xdp")
int bench_l2(struct xdp_md *ctx)
{
    const struct bench_frame *frame = (void *)(long)ctx->data;
    const struct bench_tagged_frame *tagged = (void *)(long)ctx->data;
    const void *end = (void *)(long)ctx->data_end;
    struct bench_l2_key key = { 0 };
    __u32 *port;

    if ((const void *)(frame + 1) > end)
        return XDP_DROP;
    if (frame->eth_type == bpf_htons(0x8100)) {
        if ((const void *)(tagged + 1) > end)
            return XDP_DROP;
        key.vlan = bpf_ntohs(tagged->tag[1]) & 0xfff;
    }
    __builtin_memcpy(key.mac, frame->eth_dst, sizeof(key.mac));
    port = bpf_map_lookup_elem(&l2_table, &key);
    return port ? bpf_redirect_map(&l2_out, *port, 0) : XDP_DROP;
}

/* Sends frames back to who sent them. */
SEC("xdp")
int bench_return(struct xdp_md *ctx)
{
    struct bench_frame *frame = (void *)(long)ctx->data;
    const void *end = (void *)(long)ctx->data_end;
    __u8 mac[6];

    if ((const void *)(frame + 1) > end)
        return XDP_DROP;
    __builtin_memcpy(mac, frame->eth_dst, sizeof(mac));
    __builtin_memcpy(frame->eth_dst, frame->eth_src, sizeof(mac));
    __builtin_memcpy(frame->eth_src, mac, sizeof(mac));
    return XDP_TX;
}

SEC("xdp")
int bench_to_socket(struct xdp_md *ctx)
{
    return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
}

static __always_inline void write_frame(struct bench_frame *frame, __u32 flow)
{
    __u16 low = flow;
    __u32 sum;

    __builtin_memcpy(frame, &first_frame, sizeof(*frame));
    frame->eth_dst[5] += flow % n_receivers;
    frame->ip_src[2] = low >> 8;
    frame->ip_src[3] = low;
    frame->udp_src = bpf_htons(BENCH_SRC_PORT + (flow >> 16));
    sum = (__u16)~bpf_ntohs(first_frame.ip_check) + low;    /* RFC 1624, the old value being 0. */
    frame->ip_check = bpf_htons(~((sum & 0xffff) + (sum >> 16)));
}

/* Always BENCH_TUNNEL_MAX bytes, which header and frame have together; the frame comes after it. */
static __always_inline void write_tunnel(struct bench_frame *outer, __u32 flow)
{
    __u32 endpoint = flow % n_endpoints;
    __u8 *bytes = (__u8 *)outer;
    __u32 sum;

    for (int i = 0; i < BENCH_TUNNEL_MAX; i += 2)
        *(__u16 *)(bytes + i) = *(__u16 *)(tunnel_header + i);
    outer->ip_src[3] += endpoint;
    sum = (__u16)~bpf_ntohs(outer->ip_check) + endpoint;    /* RFC 1624. */
    outer->ip_check = bpf_htons(~((sum & 0xffff) + (sum >> 16)));
}

static __always_inline void write_frame6(struct bench_frame6 *frame, __u32 flow)
{
    __builtin_memcpy(frame, &first_frame6, sizeof(*frame));
    frame->ip_src[14] = flow >> 8;
    frame->ip_src[15] = flow;
    frame->udp_src = bpf_htons(BENCH_SRC_PORT + (flow >> 16));
}

/* Adds 'n' bytes, an even number, at an even offset of a header, RFC 1071. */
static __always_inline __u32 add_words(__u32 sum, const void *from, int n)
{
    for (int i = 0; i < n; i += 2)
        sum += *(const __u16 *)(from + i);
    return sum;
}

static __always_inline __u16 fold(__u32 sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return ~((sum & 0xffff) + (sum >> 16));
}

/* Handshake, request, answer, and end of a connection (RFC 9293, figures 6 and 12). */
static const struct {
    bool by_server;
    __u8 flags;                     /* FIN 1, SYN 2, PSH 8, ACK 16. */
    __u8 seq, ack;                  /* Behind the initial numbers. */
    __u8 len;                       /* Of data. */
} talk[BENCH_TALK_STEPS] = {
    { false, 2, 0, 0, 0 }, { true, 18, 0, 1, 0 }, { false, 16, 1, 1, 0 }, { false, 24, 1, 1, 6 },
    { true, 24, 1, 7, 6 }, { false, 17, 7, 7, 0 }, { true, 17, 7, 8, 0 }, { false, 16, 8, 8, 0 },
};

/* Writes frame number 'n' of all that are sent.  Returns whether the server sends it. */
static __always_inline bool write_tcp(struct bench_tcp_frame *frame, __u32 n)
{
    __u32 step = syns ? 0 : n / BENCH_TALK_AT_ONCE % BENCH_TALK_STEPS;
    __u32 round = n / BENCH_TALK_AT_ONCE / BENCH_TALK_STEPS;
    __u32 flow = (syns ? n : round * BENCH_TALK_AT_ONCE + n % BENCH_TALK_AT_ONCE) % n_flows;
    struct bench_frame *ip = (struct bench_frame *)frame;
    __u16 len = talk[step].len, port;
    __u32 sum;
    __u8 swapped[6];

    write_frame(ip, flow);
    port = ip->udp_src;
    ip->ip_proto = 6;
    ip->ip_len = bpf_htons(40 + len);
    if (talk[step].by_server) {
        __builtin_memcpy(swapped, ip->eth_dst, sizeof(swapped));
        __builtin_memcpy(ip->eth_dst, ip->eth_src, sizeof(swapped));
        __builtin_memcpy(ip->eth_src, swapped, sizeof(swapped));
        __builtin_memcpy(swapped, ip->ip_dst, 4);
        __builtin_memcpy(ip->ip_dst, ip->ip_src, 4);
        __builtin_memcpy(ip->ip_src, swapped, 4);
    }
    ip->ip_check = 0;
    ip->ip_check = fold(add_words(0, frame->ip + 14, 20));

    frame->tcp_src = talk[step].by_server ? bpf_htons(BENCH_DST_PORT) : port;
    frame->tcp_dst = talk[step].by_server ? port : bpf_htons(BENCH_DST_PORT);
    frame->tcp_seq = bpf_htonl(talk[step].by_server ? 5000 + talk[step].seq : 1000 + talk[step].seq);
    frame->tcp_ack = 0;
    if (talk[step].flags & 16)
        frame->tcp_ack = bpf_htonl(talk[step].by_server ? 1000 + talk[step].ack : 5000 + talk[step].ack);
    frame->tcp_length = 5 << 4;
    frame->tcp_flags = talk[step].flags;
    frame->tcp_window = bpf_htons(65535);
    frame->tcp_check = 0;
    frame->tcp_urgent = 0;
    __builtin_memset(frame->data, 0, sizeof(frame->data));
    sum = add_words(bpf_htons(6) + bpf_htons(20 + len), ip->ip_src, 8);     /* The pseudo header. */
    frame->tcp_check = fold(add_words(sum, &frame->tcp_src, 20));
    return talk[step].by_server;
}

static __always_inline bool is_ours(const void *data, const void *end)
{
    const struct bench_frame *frame = data;
    const struct bench_frame6 *frame6 = data;

    if ((void *)(frame + 1) > end)
        return false;
    switch (frame->eth_type) {
    case bpf_htons(0x0800):
        return frame->ip_proto == 47 || frame->udp_dst == bpf_htons(BENCH_DST_PORT)     /* In a tunnel, too. */
               || frame->udp_dst == bpf_htons(BENCH_VXLAN_PORT) || frame->udp_dst == bpf_htons(BENCH_GENEVE_PORT);
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
