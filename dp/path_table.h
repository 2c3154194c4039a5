/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The layout of the path cache (dp/path.h): arrays in memory, as those of dp/table.h, made together with the tables
 * of connections and as large.  They name flows, so they begin empty with each process.
 *
 *                     written by               read by    lifetime of an entry            full
 *   path_head         userspace; counts: BPF   BPF        the datapath's                  -
 *   micros, micros6   BPF, once                BPF        until userspace frees it        the packet's passes are made
 *   paths             BPF, once                BPF        until userspace frees it        the packet's passes are made
 *
 * An entry is FREE; a program that wants it makes it WRITING by compare-and-swap, fills it, and makes it READY.  It
 * is never written again while a program may read it: who finds it out of date makes it STALE, and userspace makes
 * it FREE when no program can hold it (core/ct/ct_path.c).
 *
 * Integers are in host byte order, addresses, ports and tags in memory order. */
#ifndef DP_PATH_TABLE_H
#define DP_PATH_TABLE_H 1

#include "dp/types.h"

#define DP_PATH_MAX 4096        /* Entries of paths[]: what an index in a microflow has room for. */
#define DP_PATH_FLOWS 6         /* That a packet of a path matches, one after the other. */
#define DP_PATH_CONNS 4         /* Connections that it belongs to, one for each zone. */
#define DP_PATH_PORTS 256       /* Of dp_path_head. */
#define DP_PATH_HASH_WORDS 5

enum dp_path_status {
    DP_PATH_FREE,
    DP_PATH_WRITING,
    DP_PATH_READY,
    DP_PATH_STALE,
};

struct dp_path_head {
    __u32 micro_last;           /* Entries of micros[] (a power of two) less one. */
    __u32 fresh;                /* Ticks: a connection that was used so recently has not expired. */
    __u64 hash_key[DP_PATH_HASH_WORDS];         /* Random, odd. */
    __u64 pad[2];
    __u32 n_micros;             /* In use.  Atomic. */
    __u32 n_paths;
    __u32 n_full;               /* Packets that would have taught something, had there been room. */
    __u32 pad1[13];
    __u8 port[DP_PATH_PORTS];   /* Whether there was a microflow of a port with this number modulo DP_PATH_PORTS. */
};
_Static_assert(sizeof(struct dp_path_head) == 384, "head of paths layout");

/* A microflow: packets of one direction of a connection that arrive on one port.  'word' is DP_MICRO(). */
struct dp_micro {
    __u32 word;
    __u32 ports;                /* Source and destination as they arrive, */
    __u64 addr;                 /* IPv4 addresses; of IPv6 a hash of them, which stand in micros6[]. */
    __u64 out_addr;             /* Addresses and ports as they leave. */
    __u32 out_ports;
    __u16 addr_change;          /* What new addresses and ports add to the complement of a checksum, folded; */
    __u16 port_change;          /* 0: there are none, and the checksum stays as it is. */
    struct dp_micro_conn {
        __u32 ref;              /* DP_CT_REF(). */
        __u32 version;          /* Of its life. */
    } conn[DP_PATH_CONNS];
};
_Static_assert(sizeof(struct dp_micro) == 64, "microflow layout");

/* Port; whether it is TCP (else UDP); index in paths[]; whether it is of packets of the network stack, at tcx, to
 * which flows do what they do not do at XDP; and enum dp_path_status. */
#define DP_MICRO(IN_PORT, TCP, PATH, SKB, STATUS) \
    ((__u32) (IN_PORT) << 16 | (__u32) (TCP) << 15 | (__u32) (PATH) << 3 | (__u32) (SKB) << 2 | (STATUS))
#define DP_MICRO_MOST_PORT 0xffff
#define DP_MICRO_STATUS(WORD) ((WORD) & 3)
#define DP_MICRO_PATH(WORD) ((WORD) >> 3 & (DP_PATH_MAX - 1))
#define DP_MICRO_KEY(WORD) ((WORD) & ~(__u32) ((DP_PATH_MAX - 1) << 3))         /* All but the path. */

/* Of IPv6: source and destination as they arrive and as they leave. */
struct dp_micro6 {
    __u64 addr[4];
    __u64 out_addr[4];
};
_Static_assert(sizeof(struct dp_micro6) == 64, "microflow of IPv6 layout");

/* Bits of headers that a path compares and sets.  'eth': Ethernet addresses, and behind them the tag (TPID, TCI; 0:
 * there is none).  'ip': of IPv4, DP_PATH_IP4(); of IPv6, DP_PATH_IP6(). */
struct dp_path_bits {
    __u64 eth[2];
    __u64 ip;
};

#define DP_PATH_IP4(TOS, TTL) ((__u64) (TTL) << 32 | (TOS))
#define DP_PATH_IP6(FIRST, TTL) ((__u64) (TTL) << 32 | (FIRST))         /* The header's first four bytes. */
#define DP_PATH_IP_FIRST(IP) ((__u32) (IP))
#define DP_PATH_IP_TTL(IP) ((__u8) ((IP) >> 32))

/* What all packets have in common that match the same flows, whatever their connections. */
struct dp_path {
    __u32 status;
    __u32 to;                   /* Port that they leave by. */
    __u8 v6;
    __u8 n_flows;
    __u8 n_conns;
    __u8 pops;                  /* The tag is popped, */
    __u32 pushed;               /* and another pushed; 0: none. */
    __u16 tcp_mask, tcp_value;  /* Of TCP's flags, memory order. */
    __u32 growth;               /* What the frame's length grows by. */
    __u32 skb_mark, skb_priority;
    struct dp_path_bits mask, value;    /* What is compared, */
    struct dp_path_bits kept, set;      /* and what is written: 'set', and of the packet the bits that 'kept' has. */
    struct dp_path_flow {
        __u64 identity;         /* dp_flow_identity(). */
        __u32 flow;
        __u32 growth;           /* What its statistics count more than the frame's length at first. */
    } flow[DP_PATH_FLOWS];
    __u64 pad[4];
};
_Static_assert(sizeof(struct dp_path) == 256, "path layout");

/* X(name of array, type of element) */
#define DP_PATH_TABLES(X)                   \
    X(path_head, struct dp_path_head)       \
    X(micros, struct dp_micro)              \
    X(micros6, struct dp_micro6)            \
    X(paths, struct dp_path)

/* The arrays as userspace has them. */
struct dp_path_tables {
#define X(NAME, TYPE) TYPE *NAME; __u32 n_##NAME;
    DP_PATH_TABLES(X)
#undef X
};

#endif /* dp/path_table.h */
