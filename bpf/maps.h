/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The contents of the maps that the programs and core/ share, which core/programs/maps.c makes.
 *
 * ports_overflow  HASH, ifindex to struct bpf_port, of devices whose entry in the table 'ports' (below) another has.
 *                 Written by core/programs/attach.c before a program is attached and after it is detached, read by the
 *                 programs.  Sized for the datapath's ports: never full before the datapath is.
 * sockets         XSKMAP, socket number to AF_XDP socket.  The sockets of a port are adjacent, one
 *                 for each receive queue.  Written by core/programs/attach.c; the kernel removes a socket that closes.
 * outputs         DEVMAP, datapath port number to device.  Written by core/programs/attach.c for the ports that frames
 *                 can be redirected to, read by the programs; the kernel removes a device that goes.
 * groups          ARRAY_OF_MAPS, group to a DEVMAP_HASH of the devices that DP_FATE_GROUP sends to, in any order, with
 *                 gaps.  Written by core/programs/group.c.  Full: the engine runs the flow.
 * skb_outputs     ARRAY of struct bpf_skb_output by datapath port number: where packets of the network stack go.
 *                 Written by core/programs/tcx.c, a member after the other.
 * upcall_sockets  XSKMAP, receive queue of the upcall pair to AF_XDP socket.  Written by core/programs/tcx.c.
 * detours         PERCPU_ARRAY of struct bpf_detour, one: the packet that is on a detour.  The programs' own.
 *
 * Tables that programs find as those of dp/table.h (bpf/constant.h):
 *
 * ports           struct bpf_port, a power of two of entries.  The port of device i is in entry i & (size - 1) or, if
 *                 another device took that entry first, in ports_overflow.  Written as that.
 * runs            struct bpf_run_room by CPU: what a program has in hand.  core/programs/trace.c starts 'countdown'.
 * limits          struct bpf_limit: at BPF_LIMIT_ALL what every port takes, then that of each group, then of each port.
 *                 Written by core/programs/limit.c before programs can send there, and when a device's MTU changes.
 * counters        struct bpf_counters by counter slot and CPU; those of a slot are adjacent.  Written by the programs,
 *                 read and cleared by core/programs/counter.c.  Slot 0 counts for devices that are no port.
 * tracing         struct bpf_tracing, one: which packets are traced.  Written by core/programs/trace.c, which does so
 *                 only while no program has DP_PART_TRACE, or while it traces none.
 * traces          struct bpf_trace_room by CPU: a traced packet while it is in hand, and what was counted.  Written by
 *                 the programs; core/programs/trace.c reads the counters.
 * traced          RINGBUF of struct dp_traced.  Written by the programs, read by core/programs/trace.c.  Full: the
 *                 packet is missing, and counted as lost.
 * samples         RINGBUF of struct dp_sampled.  Written by the programs, read by core/programs/sample.c.  Full: the
 *                 sample is missing, and counted in 'runs'.
 */
#ifndef BPF_MAPS_H
#define BPF_MAPS_H 1

#include <linux/types.h>

#include "dp/counter.h"
#include "dp/frame.h"
#include "dp/key.h"
#include "dp/record.h"
#include "dp/sample.h"
#include "dp/trace.h"
#include "dp/types.h"

struct bpf_port {
    __u32 ifindex;          /* 0: the entry is free. */
    __u32 port_no;          /* Datapath port number. */
    __u32 first_socket;     /* Index in 'sockets' of queue 0. */
    __u32 n_queues;
    __u32 counter_slot;     /* Index in 'counters', at least 1. */
    __u16 local_stack;      /* Frames may be CHECKSUM_PARTIAL. */
    __u16 tunnel;           /* The port is one of tunnels, and the device that of the kernel through which their packets
                             * come: they have the tunnel's metadata (bpf/host_tunnel.h). */
    __u32 continues;        /* At XDP: the port has a program at tcx, too, which gets what flows leave to it.  Not
                             * behind generic XDP: since the kernel copies the packet for that (skb_pp_cow_data(), Linux
                             * 6.8), mac_len is 0 afterwards, and tcx sees no Ethernet header. */
    __u32 max_len;          /* At XDP: bytes of the longest frame; a longer one is still to be segmented. */
};
_Static_assert(sizeof(struct bpf_port) == 32, "port layout");

/* Which frames a device takes, and a veth's peer.  Programs ask before they redirect: what the kernel drops behind
 * that, no counter of ours shows.  The rule is openvswitch.ko's (net/openvswitch/vport.c, packet_length()): Ethernet's
 * header and one VLAN tag do not count. */
struct bpf_limit {
    __u32 max_len;          /* Bytes of the longest frame without a tag. */
    __u32 buffers;          /* It may lie in several buffers. */
};

/* Places in 'limits'. */
#define BPF_LIMIT_ALL 0
#define BPF_LIMIT_OF_GROUP(GROUP) (1 + (GROUP))
#define BPF_LIMIT_OF_PORT(PORT) (1 + BPF_MAX_GROUPS + (PORT))

/* Space for a struct dp_run (bpf/run.h), in cache lines that no other CPU writes. */
struct bpf_run_room {
    __u64 room[254];
    __u32 moves, moves_since;   /* Packets put elsewhere since then (bpf/order.h). */
    __u32 countdown;        /* The packet with which it becomes 0 may be traced; 0: none is. */
    __u32 lost_samples;     /* The ring was full. */
};

struct bpf_skb_output {
    __u32 ifindex;          /* 0: the entry is free. */
    __u32 peer_max_len;     /* Bytes of the longest packet that bpf_redirect_peer() may take; 0: none. */
    __u8 peer_address[6];   /* Ethernet address of the veth's peer. */
    __u8 pad[2];
    __u32 max_len;          /* Of struct bpf_limit. */
};
_Static_assert(sizeof(struct bpf_skb_output) == 20, "output layout");

/* A packet that a program at tcx has sent on a detour (dp/detour.h): it is back before the CPU does anything else. */
struct bpf_detour {
    __u32 waits;            /* Not 0: it is on its way, and its tc_index is this number. */
    __u32 last;             /* Of these numbers. */
    __u32 ifindex;          /* The port by which it came. */
    __u32 counter_slot;     /* Of the port. */
    __u32 arrived;          /* Bytes of the packet as it came, */
    __u32 len;              /* as it went, */
    __u32 mark;             /* its mark, which is 0 meanwhile: routes are cached only without. */
    __u16 tracked;          /* Of its struct dp_run, which says DETOUR_AWAY meanwhile, until another packet runs. */
    __u16 queue;            /* Its skb->queue_mapping: the device has one queue. */
    __u32 traced;           /* Of its struct dp_run. */
};

#define BPF_MAX_UPCALL_QUEUES 8
#define BPF_MAX_GROUPS 256

/* Follows the Ethernet addresses of a packet that tcx sends to the engine. */
struct bpf_upcall_header {
    dp_be16 eth_type;
    __u16 counter_slot;         /* Of the port. */
    struct dp_record record;
};

struct bpf_counters {
    __u64 n[DP_N_COUNTERS];     /* By enum dp_counter. */
};

#define BPF_COUNTER_SLOT_NO_PORT 0

#define BPF_TRACE_ANY 0xffffffff
#define BPF_TRACE_RING (1 << 20)        /* Bytes. */
#define BPF_SAMPLE_RING (1 << 20)       /* Bytes: 510 samples. */

/* Which packets are traced. */
struct bpf_tracing {
    __u32 every;                /* One packet in 'every' on each CPU is looked at; 0: none is. */
    __u32 bytes;                /* Copied of each, DP_TRACE_BYTES at most. */
    __u32 in_port;              /* Datapath port, or BPF_TRACE_ANY. */
    __u32 flow;                 /* One that a pass finds, or BPF_TRACE_ANY. */
    __u64 reasons;              /* Bits of enum dp_reason: how it ends. */
    __u64 has_key;              /* Whether it must match 'key' under 'mask'. */
    union dp_key key;           /* Masked. */
    union dp_key mask;
};

struct bpf_trace_room {
    __u32 last;                 /* Of the numbers given out. */
    __u32 pad;
    __u64 looked_at;
    __u64 matched;
    __u64 lost;                 /* They matched, and the ring was full. */
    struct dp_frame frame;      /* For the filter's key. */
    __u32 pad1;
    union dp_key key;
    struct dp_traced out;
};

#endif /* bpf/maps.h */
