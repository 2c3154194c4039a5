/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Keeps packets of TCP in the order in which a socket of this machine sent them.
 *
 * A socket sends from several CPUs: from that of its process, and from each that handles its acknowledgements.  A veth
 * puts packets into the backlog of the CPU that sends (drivers/net/veth.c, netif_rx()), so those of one CPU overtake
 * those of another; and TCP, whose round trips take microseconds here, takes each that is overtaken for lost
 * (RFC 8985), and sends a half or a tenth of what it could.
 *
 * A row for each busy connection has the sequence number that comes next, and the CPU that had the last packet.  One
 * that is early waits at the end of that CPU's backlog, behind the packets that may be before it:
 *
 *     port -> oxdp_tcx() -> the device for order, receive queue i: backlog of CPU i (RPS) -> oxdp_tcx() -> other port
 *
 * and goes on at the latest after ORDER_WAIT, so that one which is really lost is missed soon.  A packet in order
 * whose predecessor another CPU has just had follows it there, too: it may still be on its way to the socket.
 *
 * Rows are hints, which several CPUs write without a lock: what is wrong in one costs time, never a packet. */
#ifndef BPF_ORDER_H
#define BPF_ORDER_H 1

#include <linux/in.h>

#include "bpf/maps.h"
#include "bpf/tables.h"

#define ORDER_ROWS 4096         /* A power of two. */
#define ORDER_WAIT 100000       /* In nanoseconds: what a CPU takes for the packets that wait in its backlog. */
#define ORDER_FOLLOWS 10000     /* In nanoseconds: from this program to the socket's lock. */
#define ORDER_KEEP 1000000      /* In nanoseconds: then another connection may have the row. */
#define ORDER_LONG 2048         /* In bytes: a packet that is longer belongs to a busy connection. */
#define ORDER_MOVES 4000        /* For each CPU, */
#define ORDER_MOVES_US 10000    /* in so many microseconds: sequence numbers may lie, and segments be lost. */

/* Written by core/programs/order.c: the device for order, and how many CPUs have a queue there; 0: none. */
volatile __u32 order_ifindex;
volatile __u32 order_cpus;

/* Written here, read there. */
volatile __u32 order_wanted;    /* A packet was early, and there is no device. */
volatile __u64 order_n_moved;   /* Packets that went there, each counted once. */

struct order_row {
    __u64 time;                 /* Of the last packet, in nanoseconds of CLOCK_MONOTONIC. */
    __u32 next;                 /* The sequence number behind it. */
    __u32 cpu;                  /* That had it. */
};

static struct order_row order_rows[ORDER_ROWS];

/* Whose row it is: skb->hash, which a socket gives all its packets; 0: nobody's.  Packets of other connections are
 * compared with these alone, so they are dense. */
static __u32 order_hashes[ORDER_ROWS];

/* In skb->cb of a packet on the way through the device. */
enum {
    ORDER_CB_PORT,              /* The device by which it came. */
    ORDER_CB_SINCE,             /* When that was: nanoseconds, 32 bits, not 0. */
    ORDER_CB_QUEUE,             /* Its skb->queue_mapping. */
};

/* Sequence number of the packet, and in '*len' how many bytes it has of the stream: 0 if it is not of TCP, or has
 * none, or its headers are not at hand. */
DP_INLINE __u32 order_sequence(struct dp_ctx *ctx, __u32 *len)
{
    const __u8 *eth = (void *) (long) ctx->data, *end = (void *) (long) ctx->data_end;
    const __u8 *ip = eth + DP_ETH_LEN, *tcp;
    __u32 before;

    *len = 0;
    if (ctx->protocol == dp_htons(DP_ETH_IP4).raw) {
        tcp = ip + DP_IP4_LEN;
        if (tcp + DP_TCP_LEN > end || ip[0] != 0x45 || ip[9] != IPPROTO_TCP
            || dp_load16(ip + 6) & dp_htons(0x3fff).raw) {
            return 0;
        }
    } else {
        tcp = ip + DP_IP6_LEN;
        if (ctx->protocol != dp_htons(DP_ETH_IP6).raw || tcp + DP_TCP_LEN > end || ip[6] != IPPROTO_TCP) {
            return 0;
        }
    }
    before = tcp - eth + (tcp[12] >> 4) * 4;
    *len = ctx->len > before ? ctx->len - before : 0;
    return dp_ntohl(dp_load_be32(tcp + 4));
}

/* Whether this CPU may move one more packet.  'now' is in nanoseconds. */
DP_INLINE int order_may_move(struct dp_ctx *ctx, __u64 now)
{
    struct bpf_run_room *room = dp_runs_at(ctx, dp_cpu(ctx));
    __u32 us = now >> 10;               /* Nearly. */

    if (!room) {
        return 0;
    }
    if (us - room->moves_since >= ORDER_MOVES_US) {
        room->moves_since = us;
        room->moves = 0;
    }
    return room->moves++ < ORDER_MOVES;
}

/* Whether the packet is one whose order matters: of a socket of this machine, and a connection that has a row or, since
 * it is long, should have one. */
DP_INLINE int order_concerns(struct dp_ctx *ctx)
{
    return ctx->sk && ctx->hash && (order_hashes[ctx->hash & (ORDER_ROWS - 1)] == ctx->hash || ctx->len > ORDER_LONG);
}

/* For a packet that order_concerns(): 0 if it is its turn, or else 1 and the CPU behind whose packets it is
 * to wait.  'since': when it came, 0 if that is now; then '*ret_since' becomes that. */
DP_STAGE int order_look(struct dp_ctx *ctx, __u32 since, __u32 *ret_since)
{
    __u32 hash = ctx->hash, cpu = dp_cpu(ctx), len, seq, to;
    struct order_row *row = &order_rows[hash & (ORDER_ROWS - 1)];
    __u64 now;
    int early;

    if (!ret_since) {
        return 0;
    }
    seq = order_sequence(ctx, &len);
    if (!len) {
        return 0;
    }
    now = bpf_ktime_get_ns();
    if (order_hashes[hash & (ORDER_ROWS - 1)] != hash) {
        if (ctx->len <= ORDER_LONG || now - row->time < ORDER_KEEP) {
            return 0;
        }
        order_hashes[hash & (ORDER_ROWS - 1)] = hash;
    } else if ((__s32) (seq + len - row->next) <= 0) {
        return 0;                       /* It is sent again. */
    } else if (!since || (__u32) now - since < ORDER_WAIT) {
        early = seq != row->next;
        to = row->cpu;
        if ((early || (to != cpu && now - row->time < ORDER_FOLLOWS)) && to < order_cpus && order_may_move(ctx, now)) {
            if (!since) {
                __sync_fetch_and_add(&order_n_moved, 1);
                *ret_since = (__u32) now | 1;
            }
            return 1 + to;
        }
        if (early && !order_ifindex) {
            order_wanted = 1;
        }
    }
    row->next = seq + len;
    row->cpu = cpu;
    row->time = now;
    return 0;
}

/* Sends the packet, which came by 'port', to the end of the backlog of CPU 'to'. */
DP_INLINE int order_move(struct dp_ctx *ctx, const struct bpf_port *port, __u32 since, __u32 queue, __u32 to)
{
    ctx->cb[ORDER_CB_PORT] = port->ifindex;
    ctx->cb[ORDER_CB_SINCE] = since;
    ctx->cb[ORDER_CB_QUEUE] = queue;
    ctx->queue_mapping = to + 1;        /* As skb_record_rx_queue() has it. */
    return bpf_redirect(order_ifindex, BPF_F_INGRESS);
}

#endif /* bpf/order.h */
