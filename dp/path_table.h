/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The layout of the path cache (dp/path.h): arrays in memory, as those of dp/table.h, made together with the tables
 * of connections and as large.  They name flows, so they begin empty with each process.
 *
 *                     written by                   read by    lifetime of an entry        full
 *   path_head         userspace; counts, size: BPF BPF        the datapath's              -
 *   micros, micros6   BPF                          BPF        until it is out of date     the packet's passes are made
 *   paths             BPF, once                    BPF        until userspace frees it    the packet's passes are made
 *
 * An entry is FREE; a program that wants it makes it WRITING by compare-and-swap, fills it, and makes it READY.
 *
 * Who finds a microflow out of date makes it FREE, and it may be written again at once, while another CPU reads it.
 * Who writes it changes 'turn' first.  Who reads it reads 'turn' first, and once more when it has read all that it
 * needs and changed nothing yet: if that is another, the packet makes its passes.  DP_ORDER() keeps loads and stores in
 * order (docs/decisions/0019-memory-model.md).
 *
 * A path is never written again while a program may read it: who finds it out of date makes it STALE, and userspace
 * makes it FREE when no microflow has it and no program can hold it (core/ct/ct_path.c).
 *
 * Microflows stand in the first entries of micros[], at least four times as many as there are microflows: memory that
 * is used by turns is in the processor's caches.  Programs double their number when it is too small.
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
#define DP_MICRO_PLACES 4       /* That a microflow may have: a power of two. */
#define DP_MICRO_LEAST 1024     /* Entries of micros[] that are used at first. */

enum dp_path_status {
    DP_PATH_FREE,
    DP_PATH_WRITING,
    DP_PATH_READY,
    DP_PATH_STALE,              /* Of paths alone. */
};

struct dp_path_head {
    __u32 micro_last;           /* Entries of micros[] that are used (a power of two) less one.  Atomic. */
    __u32 fresh;                /* Ticks: a connection that was used so recently has not expired. */
    __u64 hash_key[DP_PATH_HASH_WORDS];         /* Random, odd. */
    __u32 micro_most;           /* What 'micro_last' may become. */
    __u32 pad0;
    __u64 pad;
    __u32 n_micros;             /* In use.  Atomic. */
    __u32 n_paths;
    __u32 n_full;               /* Packets that would have taught something, had there been room. */
    __u32 pad1[13];
    __u8 port[DP_PATH_PORTS];   /* Whether there may be a microflow of a port with this number modulo DP_PATH_PORTS. */
};
_Static_assert(sizeof(struct dp_path_head) == 384, "head of paths layout");

/* A microflow: packets of one direction of a connection that arrive on one port.  'word' is DP_MICRO(). */
struct dp_micro {
    union {
        struct {
            __u32 word;
            __u16 turn;         /* Changes each time that the entry is written. */
            __u16 addr_change;  /* What new addresses add to the complement of a checksum, folded; 0: none, and
                                 * the checksum stays as it is. */
        };
        __u64 begin;            /* The three, to be read at once. */
    };
    __u64 addr;                 /* IPv4 addresses as they arrive; of IPv6 a hash of them, which stand in micros6[]. */
    __u64 out_addr;             /* IPv4 addresses as they leave. */
    __u32 ports;                /* Source and destination as they arrive, */
    __u32 out_ports;            /* and as they leave. */
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
#define DP_MICRO_IN_PORT(WORD) ((WORD) >> 16)
#define DP_MICRO_STATUS(WORD) ((WORD) & 3)
#define DP_MICRO_PATH(WORD) ((WORD) >> 3 & (DP_PATH_MAX - 1))
#define DP_MICRO_KEY(WORD) ((WORD) & ~(__u32) ((DP_PATH_MAX - 1) << 3))         /* All but the path. */

/* Of 'begin'. */
#define DP_MICRO_WORD(BEGIN) ((__u32) (BEGIN))
#define DP_MICRO_TURN(BEGIN) ((__u16) ((BEGIN) >> 32))
#define DP_MICRO_ADDR_CHANGE(BEGIN) ((__u16) ((BEGIN) >> 48))

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
    __u32 edits;                /* Whether 'kept' and 'set' change anything. */
    __u32 pad0;
    __u64 pad[3];
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
