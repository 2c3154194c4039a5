/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The layout of the tables that the datapath and userspace share: arrays in memory, each the only value of a
 * BPF_MAP_TYPE_ARRAY with BPF_F_MMAPABLE, whose address is part of the instructions: nothing is looked up.
 *
 *                written by      read by  lifetime of an entry               full
 *   head         userspace       BPF      the datapath's                     -
 *   masks        userspace       BPF      while a flow uses it, then until   the flow runs in the engine
 *                                         no reader can hold it
 *   flows        userspace       BPF      as masks                           the flow runs in the engine
 *   stats        BPF             both     as its flow                        -
 *   buckets      userspace       BPF      regions: as masks                  the flow runs in the engine
 *   cache        BPF             BPF      until overwritten: a hint          overwrites
 *   predictions  BPF             BPF      until overwritten: a hint          overwrites
 *   ops          userspace       BPF      as its flow                        the flow runs in the engine
 *   blobs        userspace       BPF      as its flow                        the flow runs in the engine
 *   meters       userspace, BPF  both     as its meter, also from process    the flow runs in the engine
 *                                         to process
 *
 * Publishing: an entry is written completely before the word that links to it; each link is one aligned 64-bit (or
 * 32-bit) store.  A reader that follows a stale link finds an entry that is dead (struct dp_flow 'mask' is 0) or that
 * does not match; it never finds one half written, because userspace waits until no reader runs before it
 * writes to an entry again (core/tables/table.h).
 *
 * Integers are in host byte order unless their type says otherwise.
 */
#ifndef DP_TABLE_H
#define DP_TABLE_H 1

#include "dp/key.h"

#define DP_TABLE_MAGIC 0x4f584450u      /* "OXDP" */
/* Programs for x86-64 have the first, which is refused elsewhere; the second, of programs that use DP_ORDER() as other
 * processors need it, is taken on all. */
#define DP_TABLE_VERSION (DP_UNORDERED_CPU ? DP_TABLE_VERSION_ORDERED : 18)
#define DP_TABLE_VERSION_ORDERED 1018

#define DP_MAX_MASKS 128        /* Masks that the fast path walks at most. */
#define DP_MASK_ALL 0           /* masks[0] is the union of all masks: what the signature cache hashes. */
#define DP_NO_FLOW 0xffffffffu
#define DP_FLOW_COLD 13          /* Cold words that a flow may match; the engine runs flows that match more. */

/* What to match: the bits of each key word.  Cold words that are not 0 stand in cold[0...n_cold), in ascending
 * order of cold_word[]. */
struct dp_mask {
    __u64 hot[DP_HOT_WORDS];
    __u64 region;               /* Hash table of the mask's flows: DP_REGION(). */
    __u16 uses_warm;            /* Any bit of warm[] is set. */
    __u16 n_cold;
    __u32 n_flows;
    __u64 words;                /* Which key words have bits set: DP_WORD() of dp/omit.h. */
    __u64 warm[DP_WARM_WORDS];
    __u64 cold[DP_COLD_WORDS];
    __u8 cold_word[DP_COLD_WORDS];
    __u8 pad[27];
};
_Static_assert(sizeof(struct dp_mask) == 384, "mask layout");

/* First bucket and number of buckets (a power of two) less one. */
#define DP_REGION(FIRST, LAST) ((__u64) (FIRST) << 32 | (LAST))
#define DP_REGION_FIRST(REGION) ((__u32) ((REGION) >> 32))
#define DP_REGION_LAST(REGION) ((__u32) (REGION))

/* One line of hash table.  A slot holds a flow's hash tag and its index, DP_SLOT(), or 0.  A flow whose bucket
 * is full lives in its alternative bucket; 'n_elsewhere' counts those, so that most lookups read one bucket. */
#define DP_BUCKET_SLOTS 7
struct dp_bucket {
    __u64 slot[DP_BUCKET_SLOTS];
    __u64 n_elsewhere;
};
_Static_assert(sizeof(struct dp_bucket) == 64, "bucket layout");

#define DP_SLOT(TAG, FLOW) ((__u64) (TAG) << 32 | ((FLOW) + 1))
#define DP_SLOT_TAG(SLOT) ((__u32) ((SLOT) >> 32))
#define DP_SLOT_FLOW(SLOT) ((__u32) (SLOT) - 1)

/* What becomes of a packet after the flow's operations; those from DP_FATE_TRACK on only a pass has, no flow. */
enum dp_fate {
    DP_FATE_DROP,
    DP_FATE_OUTPUT,             /* To datapath port 'arg'. */
    DP_FATE_RECIRC,             /* Looked up again with recirc_id 'arg'. */
    DP_FATE_GROUP,              /* To all ports of group 'arg' (bpf/maps.h). */
    DP_FATE_ENGINE,             /* The engine executes the flow: nothing is done here. */
    DP_FATE_TRACK,              /* CT of flow run->flow is next: its first operation, for which dp_prepare() said yes,
                                 * or a later one. dp_track() goes on, which the hook's own function does, because
                                 * connection tracking needs much of the stack. */
    DP_FATE_PASSES,             /* No path knows the packet, and nothing was changed: it makes its passes. */
    DP_FATE_DETOUR,             /* Operation run->at of flow run->flow comes after a detour (dp/detour.h). */
    DP_FATE_SKB = 0x80,         /* Added to one of the others: that is for tcx, and XDP leaves the packet to it. */
};

/* An enum dp_fate and its 'arg', as a stage returns them. */
#define DP_FATED(FATE, ARG) ((__u64) (ARG) << 32 | (__u32) (FATE))

/* The first line decides a packet's fate for IPv4 flows that only output. */
struct dp_flow {
    __u16 mask;                 /* Index of its mask; 0: no flow here.  Written last. */
    __u8 fate;                  /* enum dp_fate, perhaps with DP_FATE_SKB. */
    __u8 n_ops;                 /* Operations before that. */
    __u32 generation;           /* Grows each time that this entry is used for another flow. */
    __u32 ops;                  /* Index of the first operation. */
    __u32 arg;
    __u64 hot[DP_HOT_WORDS];    /* Key words, masked. */
    __u64 warm[DP_WARM_WORDS];
    __u64 cold[DP_FLOW_COLD];   /* In the order of the mask's cold_word[]. */
};
_Static_assert(sizeof(struct dp_flow) == 192, "flow layout");

/* One per flow and shard. */
struct dp_stats {
    __u64 packets;
    __u64 bytes;                /* From the Ethernet header on, before actions. */
    __u64 used;                 /* When the last packet came, in dp_ticks(): the kernel's jiffies (seven
                                 * nanoseconds cheaper per packet than asking for the time). */
    __u32 tcp_flags;            /* Or of all packets' flags, host byte order. */
    __u32 pad;
};
_Static_assert(sizeof(struct dp_stats) == 32, "stats layout");

/* Signature cache: one set, most recent first.  The slots are DP_SLOT(). */
struct dp_cache {
    __u64 slot[2];
};

/* An entry of the last-flow cache, dp/predict.h.  Only the CPU that it belongs to writes it. */
#define DP_PREDICTED_PORTS 16   /* Per CPU; port i has number i % DP_PREDICTED_PORTS. */
#define DP_PREDICTED_ENDS 64    /* Behind them: by the other ends of tunnels, dp/inside.h. */
#define DP_PREDICTIONS (DP_PREDICTED_PORTS + DP_PREDICTED_ENDS)
#define DP_INSIDE_WORDS 4
/* How many of a frame's first bytes a prediction compares: one of these. */
#define DP_PREDICTED_SHORT 48
#define DP_PREDICTED_MIDDLE 62  /* The shortest frame with UDP over IPv6. */
#define DP_PREDICTED_LONG 72
#define DP_PREDICTED_WORDS (DP_PREDICTED_LONG / 8)
struct dp_prediction {
    __u64 identity;             /* dp_flow_identity() of its flow. */
    __u32 flow;
    __u32 in_port;
    __u8 reach;                 /* DP_PREDICTED_*; 0: nothing is predicted. */
    __u8 l3;                    /* As in struct dp_frame. */
    __u8 l4;
    __u8 length_shift;          /* Of IP's length field in word 2. */
    __u16 length_least;         /* Its least value with which TCP's or UDP's header is whole. */
    __u8 length_begin;          /* Offset from which it counts. */
    __u8 length_ip;             /* Bytes of the IP header that it counts. */
    __u32 has;                  /* DP_HAS_*, but for DP_HAS_SHORT. */
    __u32 rest;                 /* Frames left for which no prediction is made. */
    __u32 pause;                /* What 'rest' becomes after the next failure; grows. */
    __u32 hits_before;          /* What 'hits' was (its low bits) when the prediction was made. */
    __u64 hits;                 /* Frames that were as predicted. */
    __u64 mask[DP_PREDICTED_WORDS];     /* Which bits of the frame are compared. */
    __u64 value[DP_PREDICTED_WORDS];    /* Their values. */
    __u64 inside_mask[DP_INSIDE_WORDS];     /* Likewise of the tunnel's words of the key: dp_inside_word(). */
    __u64 inside_value[DP_INSIDE_WORDS];
};
_Static_assert(sizeof(struct dp_prediction) == 256, "prediction layout");

#define DP_MAX_TUNNEL_LEN 512   /* Bytes of a header that is pushed, from Ethernet to the inner frame. */
#define DP_MIN_TUNNEL_LEN 38    /* Ethernet, IPv4, GRE. */

enum dp_tunnel {
    DP_TUNNEL_VXLAN,
    DP_TUNNEL_GENEVE,
    DP_TUNNEL_GRE,
};

#define DP_MAX_COPIES 11        /* Sent by one operation. */
#define DP_MAX_GROUP 64         /* Ports of a group. */

/* An operation, one cache line.  An argument that does not fit it lies in blobs[]. */
struct dp_op {
    __u8 code;                  /* enum dp_op_code. */
    __u8 n_blobs;               /* Elements of blobs[] with its argument, from u.blob on. */
    __u16 growth;               /* Bytes of headroom that this and all following operations need. */
    __u32 needs;                /* DP_HAS_* that this and all following operations need. */
    __u64 codes;                /* Bits of the codes of this and all following operations. */
    union dp_op_arg {
        __u64 align;
        __u8 bytes[48];
        __u32 blob;             /* If n_blobs is not 0. */
        struct { __u32 value[3], mask[3]; } eth;                            /* dst, src in memory order. */
        struct {
            __u32 src, dst, src_mask, dst_mask;                             /* Memory order. */
            __u8 tos, ttl, tos_mask, ttl_mask;
        } ip4;
        struct { __u64 value[2], mask[2]; } ip6_addr;
        struct {
            __u32 label, label_mask;                                        /* Memory order. */
            __u8 tos, ttl, tos_mask, ttl_mask;
        } ip6;
        struct { __u16 src, dst, src_mask, dst_mask; } ports;               /* Memory order. */
        struct { __u8 type, code; } icmp;
        struct { __u8 value[22], mask[22]; } arp;                           /* As on the wire from ar_op. */
        struct { __u32 reserved; __u8 type, set_reserved, set_type; } nd_ext;   /* reserved: memory order. */
        struct { dp_be16 tpid, tci; } vlan;
        struct { __u32 lse, mask; dp_be16 eth_type; } mpls;                 /* Memory order. */
        struct { __u32 value, mask; } meta;
        struct { __u32 alg, basis; } hash;
        __u32 max_len;
        __u32 meter;
        struct { __u32 n, port[DP_MAX_COPIES]; } output;                        /* Datapath ports. */
        struct {
            __u32 blob;                                                         /* Of the header, from its start. */
            __u16 len;
            __u8 ip6, udp;                                                      /* What the header is: booleans. */
            __u16 first_port, n_ports;                                          /* Where UDP's source ports are. */
            __u32 sum;                                                          /* Of the bytes behind Ethernet. */
            __u16 again;                                                        /* The packet has such a header, of
                                                                                 * which this takes the place. */
            __u16 numbered;                                                     /* It ends with GRE's sequence number,
                                                                                 * which is of the packet. */
            __u64 tail;                                                         /* The header's last 8 bytes. */
        } tunnel_push;
        struct { __u32 port, kind; } tunnel_pop;                                /* The tunnel's port; enum dp_tunnel. */
        struct {
            __u32 blob;                                                         /* With DP_CT_LABEL, or a range of
                                                                                 * nat(). */
            __u16 zone, policy;                                                 /* As in struct dp_ct_action. */
            __u32 flags;
            __u32 mark, mark_mask;
            __u32 marks;                                                        /* What a new connection gets: index. */
            __u16 min_port, max_port;
            __u32 next;                                                         /* To the next CT, in operations; 0:
                                                                                 * none. */
        } ct;
        struct {
            __u32 chance;                                                       /* Of 2^32. */
            __u32 tracks;                                                       /* The next operation is CT. */
            __u32 none[6];                                                      /* 0, as is ct.next here. */
        } sample;
    } u;
};
_Static_assert(sizeof(struct dp_op) == 64, "operation layout");

/* A piece of an operation's argument; the pieces of a flow's operations stand one behind the other.  The bound is for
 * two headers of tunnels, which Open vSwitch's tnl_push() action gives up to 512 bytes each. */
#define DP_MAX_BLOBS 16         /* Of one flow. */
struct dp_blob {
    union {
        __u64 align;
        __u8 bytes[64];
        struct { __u64 target[2], target_mask[2]; __u8 sll[6], tll[6], sll_mask[6], tll_mask[6]; } nd;
        struct { __u64 label[2], label_mask[2], min[2], max[2]; } ct;       /* As in struct dp_ct_action. */
    };
};
_Static_assert(sizeof(struct dp_blob) == 64, "blob layout");

#define DP_METER_BANDS 8

/* Token buckets in time (dp/meter.h): 'next' is the time up to which tokens are spent; it may be at most 'burst'
 * behind now, and each packet moves it forward by its cost, but not beyond now. */
struct dp_meter {
    __u32 active;               /* Set last, cleared first. */
    __u32 per_packet;           /* Bands count packets (else bytes). */
    __u32 n_bands;
    __u32 openflow_id;          /* By this and its bands the process after this one knows it. */
    struct dp_meter_band {
        __u32 rate;             /* Packets or kilobits a second. */
        __u32 pad;
        __u64 cost_ns16;        /* Nanoseconds * 2^16 per packet, or per byte. */
        __u64 burst;            /* Nanoseconds; of a band whose rate is 0, packets or bytes. */
        __u64 next;             /* Nanoseconds of CLOCK_MONOTONIC and DP_METER_EPOCH; or packets or bytes. */
        __u64 packets;          /* Dropped. */
        __u64 bytes;
    } band[DP_METER_BANDS];
    __u64 packets;              /* Seen. */
    __u64 bytes;
    __u64 pad1[4];
};
_Static_assert(sizeof(struct dp_meter) == 448, "meter layout");

/* What numbers packets that get GRE's header with a sequence number (RFC 2890): all in one row, as Open vSwitch does
 * it.  A cache line of its own. */
struct dp_sequence {
    __u32 next;                 /* Of the next packet. */
    __u32 pad[15];
};

struct dp_head {
    __u32 magic;
    __u32 version;
    __u32 n_flows;              /* Sizes of the arrays, entries. */
    __u32 n_buckets;
    __u32 n_ops;
    __u32 cache_last;           /* Sets in the signature cache (a power of two) less one. */
    __u32 shards;               /* Of statistics: CPU i uses shard i % shards. */
    __u32 shared_shards;        /* More CPUs than shards: counters are updated atomically. */
    __u32 vlan_limit;           /* VLAN tags to parse. */
    __u32 masks_now;            /* DP_MASKS_NOW(): where the masks to walk stand in order[], and how many. */
    __u64 hash_key[DP_KEY_WORDS];       /* Random, odd: senders cannot construct collisions. */
    __u8 order[2 * DP_MAX_MASKS];       /* Masks, most used first, in one of the halves; the other is for sorting. */
};
_Static_assert(sizeof(struct dp_head) == 600, "head layout");

#define DP_MASKS_NOW(FIRST, N) ((FIRST) << 16 | (N))
#define DP_MASKS_FIRST(NOW) ((NOW) >> 16 & DP_MAX_MASKS)        /* 0 or DP_MAX_MASKS. */
#define DP_MASKS_N(NOW) ((NOW) & 0xffff)

/* X(name of array, type of element) */
#define DP_TABLES(X)            \
    X(head, struct dp_head)     \
    X(masks, struct dp_mask)    \
    X(flows, struct dp_flow)    \
    X(stats, struct dp_stats)   \
    X(buckets, struct dp_bucket)\
    X(cache, struct dp_cache)   \
    X(predictions, struct dp_prediction) \
    X(ops, struct dp_op)        \
    X(blobs, struct dp_blob)    \
    X(meters, struct dp_meter)  \
    X(sequence, struct dp_sequence)

/* The arrays as userspace has them. */
struct dp_tables {
#define X(NAME, TYPE) TYPE *NAME; __u32 n_##NAME;
    DP_TABLES(X)
#undef X
};

#endif /* dp/table.h */
