/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Counts what the kernel drops, by network namespace, device, place and reason: packets (skb:kfree_skb), frames that an
 * XDP program redirected and nobody took (xdp:xdp_redirect_err), those that a device refused after that
 * (xdp:xdp_devmap_xmit) or when a program sent them back (xdp:xdp_bulk_tx), and those with which the kernel could not
 * do what a program said (xdp:xdp_exception). */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "tests/system/drops.h"

char LICENSE[] SEC("license") = "GPL";

/* What of the kernel's structures is looked at; their layout is the running kernel's. */
#define KERNEL __attribute__((preserve_access_index))
struct ns_common {
    unsigned int inum;
} KERNEL;
struct net {
    struct ns_common ns;
} KERNEL;
typedef struct { struct net *net; } KERNEL possible_net_t;
struct net_device {
    possible_net_t nd_net;
    char name[16];
} KERNEL;
struct sk_buff {
    struct net_device *dev;
} KERNEL;
struct bpf_prog;

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, struct drop);
    __type(value, __u64);
} drops SEC(".maps");

/* The device whose frame this CPU lost last, if that was in DROP_REDIRECT. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, const void *);
} last SEC(".maps");

/* Remembers 'dev', and returns what was there. */
static __always_inline const void *exchange(const void *dev)
{
    const void **here = bpf_map_lookup_elem(&last, &(__u32) { 0 }), *before = NULL;

    if (here) {
        before = *here;
        *here = dev;
    }
    return before;
}

static __always_inline void add(struct drop *drop, const struct net_device *dev, __u64 n)
{
    __u64 *count;

    drop->netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
    BPF_CORE_READ_STR_INTO(&drop->device, dev, name);
    count = bpf_map_lookup_elem(&drops, drop);
    if (count) {
        __sync_fetch_and_add(count, n);
    } else {
        bpf_map_update_elem(&drops, drop, &n, BPF_NOEXIST);
    }
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(packet, struct sk_buff *skb, void *location, int reason)
{
    struct drop drop = { .kind = DROP_PACKET, .reason = reason, .location = (__u64) location };
    const struct net_device *dev = BPF_CORE_READ(skb, dev);

    if (dev && exchange(NULL) == dev) {
        drop.kind = DROP_AGAIN;
    }
    add(&drop, dev, 1);
    return 0;
}

SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(redirect, const struct net_device *dev, const struct bpf_prog *prog, const void *target, int error)
{
    struct drop drop = { .kind = DROP_REDIRECT, .reason = -error };

    exchange(dev);
    add(&drop, dev, 1);
    return 0;
}

SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(transmit, const struct net_device *from, const struct net_device *to, int sent, int lost, int error)
{
    struct drop drop = { .kind = DROP_TRANSMIT, .reason = -error };

    if (lost > 0) {
        add(&drop, to, lost);
    }
    return 0;
}

SEC("tp_btf/xdp_bulk_tx")
int BPF_PROG(send_back, const struct net_device *dev, int sent, int lost, int error)
{
    struct drop drop = { .kind = DROP_TRANSMIT, .reason = -error };

    if (lost > 0) {
        add(&drop, dev, lost);
    }
    return 0;
}

SEC("tp_btf/xdp_exception")
int BPF_PROG(exception, const struct net_device *dev, const struct bpf_prog *prog, __u32 action)
{
    struct drop drop = { .kind = DROP_EXCEPTION, .reason = action };

    add(&drop, dev, 1);
    return 0;
}
