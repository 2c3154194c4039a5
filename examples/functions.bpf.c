/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Three network functions, each an XDP program for a container's end of a veth (docs/how-to/service-chains.md).  They
 * know nothing of the switch: it sees frames come in and go out. */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#define BLOCKED_PORT 69         /* TFTP */
#define EXPEDITED (46 << 2)     /* DSCP EF, as TOS. */

char LICENSE[] SEC("license") = "GPL";

/* Set before load: the devices of 'route'. */
const volatile __u32 legs[2];

/* By all programs; updated atomically, because queues run at once. */
__u64 passed, dropped;

/* The IPv4 header of the frame, if it has one without options; else 0. */
static __always_inline struct iphdr *ip_of(struct xdp_md *ctx)
{
    struct ethhdr *eth = (void *) (long) ctx->data;
    struct iphdr *ip = (void *) (eth + 1);

    return (void *) (ip + 1) <= (void *) (long) ctx->data_end && eth->h_proto == bpf_htons(ETH_P_IP)
        && ip->ihl == 5 ? ip : 0;
}

/* Adds 'new' instead of 'old', both in network byte order, to a header's checksum (RFC 1624). */
static __always_inline void change_checksum(__u16 *check, __u16 old, __u16 new)
{
    __u32 sum = (__u16) ~*check + (__u16) ~old + new;

    sum = (sum & 0xffff) + (sum >> 16);
    *check = ~((sum & 0xffff) + (sum >> 16));
}

/* One leg: drops UDP to one port, and sends the rest back to where it came from. */
SEC("xdp")
int block(struct xdp_md *ctx)
{
    struct iphdr *ip = ip_of(ctx);
    struct udphdr *udp = (void *) (ip + 1);

    if (ip && ip->protocol == IPPROTO_UDP && (void *) (udp + 1) <= (void *) (long) ctx->data_end
        && udp->dest == bpf_htons(BLOCKED_PORT)) {
        __sync_fetch_and_add(&dropped, 1);
        return XDP_DROP;
    }
    __sync_fetch_and_add(&passed, 1);
    return XDP_TX;
}

/* Two legs: takes one from the time to live of what passes. */
SEC("xdp")
int route(struct xdp_md *ctx)
{
    struct iphdr *ip = ip_of(ctx);
    __u32 other_leg = ctx->ingress_ifindex == legs[0] ? legs[1] : legs[0];

    if (ip) {
        __u16 *word = (__u16 *) &ip->ttl;
        __u16 old = *word;

        if (ip->ttl <= 1) {
            __sync_fetch_and_add(&dropped, 1);
            return XDP_DROP;
        }
        ip->ttl--;
        change_checksum(&ip->check, old, *word);
    }
    __sync_fetch_and_add(&passed, 1);
    return bpf_redirect(other_leg, 0);
}

/* One leg: marks what passes for expedited forwarding, and sends it back. */
SEC("xdp")
int mark(struct xdp_md *ctx)
{
    struct iphdr *ip = ip_of(ctx);

    if (ip) {
        __u16 *word = (__u16 *) ip;
        __u16 old = *word;

        ip->tos = (ip->tos & 3) | EXPEDITED;
        change_checksum(&ip->check, old, *word);
    }
    __sync_fetch_and_add(&passed, 1);
    return XDP_TX;
}
