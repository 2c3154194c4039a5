/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Copies of the packets of one device for ovs-xdp-tcpdump.  These programs are attached to the programs of the switch
 * while a reader looks, and change neither them nor the packets:
 *
 *     capture_xdp_in      before an XDP program: what the device received
 *     capture_xdp_out     after an XDP program: what it redirects to the device
 *     capture_tcx_out     after a tcx program: what it redirects to behind the device (bpf_redirect_peer())
 *     capture_direct      what sockets send past the network stack: AF_XDP in copy mode, packet sockets with a queue of
 *                         their own
 *
 * All else that passes a device is seen by packet sockets. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/capture.h"
#include "dp/compiler.h"

char LICENSE[] SEC("license") = "GPL";

#define XDP_REDIRECTED 4                /* XDP_REDIRECT. */
#define TC_REDIRECTED 7                 /* TC_ACT_REDIRECT. */

/* Set before load: the device and the inode of its network namespace; how much of a packet is copied, and how many
 * packets in a second on each CPU; and the kernel's flag for bpf_redirect_peer(), which is not part of its
 * interface. */
const volatile __u32 captured_ifindex;
const volatile __u32 captured_netns;
const volatile __u32 captured_bytes;
const volatile __u32 captured_rate;
const volatile __u32 peer_flag;

/* What is used of the kernel's. */
struct ns_common {
    unsigned int inum;
} __attribute__((preserve_access_index));
struct net {
    struct ns_common ns;
} __attribute__((preserve_access_index));
typedef struct {
    struct net *net;
} possible_net_t;
struct net_device {
    int ifindex;
    possible_net_t nd_net;
} __attribute__((preserve_access_index));
struct xdp_rxq_info {
    struct net_device *dev;
} __attribute__((preserve_access_index));
struct xdp_buff {
    void *data;
    void *data_end;
    struct xdp_rxq_info *rxq;
} __attribute__((preserve_access_index));
struct sk_buff {
    struct net_device *dev;
    unsigned int len;
    unsigned int data_len;
    unsigned char *data;
} __attribute__((preserve_access_index));
struct bpf_dtab_netdev {
    struct net_device *dev;
} __attribute__((preserve_access_index));
struct bpf_redirect_info {
    __u64 tgt_index;
    void *tgt_value;
    __u32 flags;
    __u32 map_id;
} __attribute__((preserve_access_index));
struct bpf_net_context {
    struct bpf_redirect_info ri;
} __attribute__((preserve_access_index));
struct task_struct {
    struct bpf_net_context *bpf_net_context;
} __attribute__((preserve_access_index));

/* Until Linux 6.10 each CPU has one, since then the task. */
extern const struct bpf_redirect_info bpf_redirect_info __ksym __weak;

struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u32));
} events SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bpf_capture_room);
} rooms SEC(".maps");

/* Whether a packet of 'length' bytes matches, of which 'n' are in '*head'.  core/capture/filter.c writes a filter over
 * the jumps to nowhere, which the verifier removes.  r6 to r8 are the arguments, r9 is X, r0 is A, and the stack has
 * M[]. */
#define STRING_(X) #X
#define STRING(X) STRING_(X)
__attribute__((noinline)) int capture_filter(struct bpf_capture_head *head, __u32 n, __u32 length)
{
    register __u64 a asm("r0") = 1;
    register void *data asm("r6") = head;
    register __u64 captured asm("r7") = n;
    register __u64 len asm("r8") = length;
    register __u64 x asm("r9") = 0;

    if (!head) {
        return 0;
    }
    asm volatile("*(u64 *)(r10 - 8) = %4;"
                 "*(u64 *)(r10 - 16) = %4;"
                 "*(u64 *)(r10 - 24) = %4;"
                 "*(u64 *)(r10 - 32) = %4;"
                 "*(u64 *)(r10 - 40) = %4;"
                 "*(u64 *)(r10 - 48) = %4;"
                 "*(u64 *)(r10 - 56) = %4;"
                 "*(u64 *)(r10 - 64) = %4;"
                 ".rept " STRING(BPF_CAPTURE_FILTER_ROOM) ";"
                 "goto +0;"
                 ".endr;"
                 : "+r"(a), "+r"(data), "+r"(captured), "+r"(len), "+r"(x) : : "r1", "r2", "memory");
    return a != 0;
}

/* One at a time on each CPU, as the programs that these are attached to. */
static __always_inline struct bpf_capture_room *room_here(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&rooms, &zero);
}

/* Whether the filter wants a packet whose first 'linear' of 'length' bytes are at 'data'. */
static __always_inline int wanted(const void *data, __u32 linear, __u32 length)
{
    struct bpf_capture_room *room = room_here();
    __u64 n = linear;

    /* The verifier remembers the bound of the register that was compared. */
    DP_OPAQUE(n);
    if (n > BPF_CAPTURE_HEAD) {
        n = BPF_CAPTURE_HEAD;
    }
    DP_OPAQUE(n);

    if (!room || bpf_probe_read_kernel(room->head.bytes, n, data) || !capture_filter(&room->head, n, length)) {
        return 0;
    }

    __u64 second = bpf_ktime_get_ns() / 1000000000;

    if (room->second != second) {
        room->second = second;
        room->n = 0;
    }
    if (room->n >= captured_rate) {
        room->beyond++;
        return 0;
    }
    room->n++;
    return 1;
}

static __always_inline void describe(struct bpf_captured *captured, __u32 length, __u32 direction, __u32 group)
{
    captured->time = bpf_ktime_get_ns();
    captured->length = length;
    captured->captured = length < captured_bytes ? length : captured_bytes;
    captured->group = group;
    captured->direction = direction;
}

#define SAMPLE_FLAGS(CAPTURED) ((__u64) (CAPTURED)->captured << 32 | BPF_F_CURRENT_CPU)

static __always_inline void copy_frame(struct xdp_buff *xdp, __u32 direction, __u32 group)
{
    __u32 length = (long) xdp->data_end - (long) xdp->data;
    struct bpf_captured captured;

    if (wanted(xdp->data, length, length)) {
        describe(&captured, length, direction, group);
        bpf_xdp_output(xdp, &events, SAMPLE_FLAGS(&captured), &captured, sizeof captured);
    }
}

static __always_inline void copy_packet(struct sk_buff *skb)
{
    struct bpf_captured captured;

    if (wanted(skb->data, skb->len - skb->data_len, skb->len)) {
        describe(&captured, skb->len, BPF_CAPTURE_OUT, 0);
        bpf_skb_output(skb, &events, SAMPLE_FLAGS(&captured), &captured, sizeof captured);
    }
}

static __always_inline int is_captured(const struct net_device *dev)
{
    return dev->ifindex == captured_ifindex && dev->nd_net.net->ns.inum == captured_netns;
}

/* Where the program that just ended redirects its packet to. */
static __always_inline int read_redirect(struct bpf_redirect_info *ret)
{
    struct task_struct *task = (struct task_struct *) bpf_get_current_task_btf();

    if (bpf_core_field_exists(task->bpf_net_context)) {
        struct bpf_net_context *context = task->bpf_net_context;

        if (!context) {
            return 0;
        }
        ret->tgt_index = context->ri.tgt_index;
        ret->tgt_value = context->ri.tgt_value;
        ret->flags = context->ri.flags;
        ret->map_id = context->ri.map_id;
        return 1;
    }
    if (&bpf_redirect_info) {
        const struct bpf_redirect_info *info = bpf_this_cpu_ptr(&bpf_redirect_info);

        ret->tgt_index = info->tgt_index;
        ret->tgt_value = info->tgt_value;
        ret->flags = info->flags;
        ret->map_id = info->map_id;
        return 1;
    }
    return 0;
}

SEC("fentry")
int BPF_PROG(capture_xdp_in, struct xdp_buff *xdp)
{
    if (is_captured(xdp->rxq->dev)) {
        copy_frame(xdp, BPF_CAPTURE_IN, 0);
    }
    return 0;
}

SEC("fexit")
int BPF_PROG(capture_xdp_out, struct xdp_buff *xdp, int verdict)
{
    struct bpf_redirect_info to;

    if (verdict != XDP_REDIRECTED || !read_redirect(&to)) {
        return 0;
    }
    if (to.flags & BPF_F_BROADCAST) {
        if (xdp->rxq->dev->nd_net.net->ns.inum == captured_netns) {
            copy_frame(xdp, BPF_CAPTURE_OUT, to.map_id);
        }
        return 0;
    }

    /* Right for a devmap.  Of another kind of map it reads a number that is no port's device. */
    struct net_device *dev = BPF_CORE_READ((struct bpf_dtab_netdev *) to.tgt_value, dev);

    if (BPF_CORE_READ(dev, ifindex) == captured_ifindex && BPF_CORE_READ(dev, nd_net.net, ns.inum) == captured_netns) {
        copy_frame(xdp, BPF_CAPTURE_OUT, 0);
    }
    return 0;
}

SEC("fexit")
int BPF_PROG(capture_tcx_out, struct sk_buff *skb, int verdict)
{
    struct bpf_redirect_info to;

    if (verdict == TC_REDIRECTED && read_redirect(&to) && to.flags & peer_flag && to.tgt_index == captured_ifindex
        && skb->dev->nd_net.net->ns.inum == captured_netns) {
        copy_packet(skb);
    }
    return 0;
}

SEC("fentry/__dev_direct_xmit")
int BPF_PROG(capture_direct, struct sk_buff *skb)
{
    if (is_captured(skb->dev)) {
        copy_packet(skb);
    }
    return 0;
}
