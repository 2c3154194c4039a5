/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The layout of the tables of connections, which programs and userspace share as they share those of dp/table.h: arrays
 * in memory, each the only value of a BPF_MAP_TYPE_ARRAY with BPF_F_MMAPABLE.  They outlive the process: the next one
 * adopts them if magic, version and sizes are its own.
 *
 *              written by              read by     lifetime of an entry             full
 *   head       userspace; counts all   all         the datapath's                   -
 *   buckets    who makes, who sweeps   all         -                                no connection is made
 *   keys       who makes, once         all         made until swept and a grace     no connection is made
 *                                                  period has passed
 *   lives      each packet             all         as its key                       -
 *   addr6      who makes, once         all         as its key                       -
 *   cold       userspace               userspace   as its key                       -
 *   marks      userspace, once; refs   all         while a connection or a flow     the caller says what then
 *              who gives a pair                    names it
 *   policies   userspace               all         while a connection names it      the default policy is used
 *   zones      userspace; counts all   all         the datapath's                   no connection is made in it
 *
 * Connection i is keys[i], lives[i], addr6[i] and cold[i].  It has two directions, 0 as its first packet and 1 as the
 * replies, each with a tuple: source, destination, protocol and zone of packets as they arrive.  With NAT the second
 * tuple is not the first reversed.  Both tuples stand in the hash table.
 *
 * Who writes, and how:
 *
 *   A packet       judges once, from what it read; then merges each word that it changes, with compare-and-swap
 *                  (dp/ct_tcp.h).  No lock: a writer that is killed leaves nothing behind.
 *   Making         locks the buckets of both tuples (compare-and-swap, DP_CT_LOCK_TRIES times, never waiting), looks
 *                  again, takes an index from the free list, fills the entry, takes both slots, sets
 *                  DP_CT_KEY_USED, before which the sweeper leaves it alone, unlocks (dp/ct_new.h).
 *   Killing        sets DP_CT_DEAD in 'state': from then on no lookup finds the connection.  Anybody may: a packet that
 *                  begins a connection anew does, the sweeper does with what has expired.
 *   Sweeping       userspace alone, one thread at a time: kill, subtract from 'n_conns' and from the zone's count,
 *                  clear DP_CT_KEY_USED, empty the slots of both tuples, wait until no reader can hold the index,
 *                  'generation' + 1, push it on the free list (dp_ct_free() of dp/ct_new.h).
 *   A killed maker leaves an index that is neither free nor in a bucket, and perhaps a lock.  Locks of userspace have
 *                  DP_CT_LOCK_USER set, so the next process clears them and counts everything anew.
 *
 * Integers are in host byte order, addresses, ports and labels in memory order.
 */
#ifndef DP_CT_TABLE_H
#define DP_CT_TABLE_H 1

#include "dp/types.h"

#define DP_CT_MAGIC 0x4f584354u         /* "OXCT" */
#define DP_CT_VERSION 2

#define DP_CT_ZONES 65536
#define DP_CT_ZONE_DEFAULT DP_CT_ZONES  /* zones[]: the limit that zones without their own share. */
#define DP_CT_HASH_WORDS 6
#define DP_CT_MAX_CONNS (1u << 30)      /* What an index in a slot has room for. */

/* A zone makes no connection while it holds so many times as many entries as are free: alone it gets 16 of 17.  What
 * is left goes to zones that hold less, down to the last entry: a flood in one zone does not take the room of others.
 */
#define DP_CT_SHARE 16

/* Why a packet that was to make a connection made none.  X(name, what stood in its way) */
#define DP_CT_REFUSALS(X)                                           \
    X(LIMIT,    "its zone's limit (dpctl/ct-set-limits)")           \
    X(MAXCONNS, "the limit of all zones (dpctl/ct-set-maxconns)")   \
    X(SHARE,    "its zone's share of the table")                    \
    X(FULL,     "no entry or no slot was free")                     \
    X(NAT,      "no address and port of nat() was free")

enum dp_ct_refusal {
#define X(NAME, TEXT) DP_CT_REFUSED_##NAME,
    DP_CT_REFUSALS(X)
#undef X
    DP_CT_N_REFUSALS
};

/* Why TCP's sequence numbers are not checked: 'dpctl/ct-disable-tcp-seq-chk' says so; or some programs track in these
 * tables and some in those that they are copied from, and neither have seen all segments of a connection. */
#define DP_CT_SEQ_DISABLED 1
#define DP_CT_SEQ_COPYING 2

struct dp_ct_head {
    __u32 magic;
    __u32 version;
    __u32 n;                    /* Connections that there is room for. */
    __u32 bucket_last;          /* Buckets (a power of two) less one. */
    __u32 n_marks;              /* Sizes of these arrays. */
    __u32 n_policies;
    __u32 maxconns;             /* What 'dpctl/ct-set-maxconns' says: no more are made. */
    __u32 no_seq_check;         /* Unless 0, TCP's sequence numbers are not checked: DP_CT_SEQ_*. */
    __u32 epoch;                /* Grows with each process that adopts the tables. */
    __u32 frozen;               /* A process adopts them: programs make no connections. */
    __u32 pad[2];
    __u64 hash_key[DP_CT_HASH_WORDS];   /* Random, odd: nobody outside can construct collisions. */
    __u64 pad1[4];
    __u64 free;                 /* DP_CT_FREE(): first free connection. */
    __u32 n_conns;              /* Made and not swept yet. */
    __u32 n_held;               /* Entries that are not free: also of those that were swept and may still be read. */
    __u64 pad2[6];
    __u64 n_refused[DP_CT_N_REFUSALS];  /* Not made, by enum dp_ct_refusal. */
    __u64 pad3[3];
};
_Static_assert(sizeof(struct dp_ct_head) == 256, "head of connections layout");

/* The free list: index + 1 of its first entry, 0 or n + 1 if there is none, and a number that each change
 * increments. */
#define DP_CT_FREE(FIRST, TAG) ((__u64) (TAG) << 32 | (__u32) (FIRST))
#define DP_CT_FREE_FIRST(FREE) ((__u32) (FREE))
#define DP_CT_FREE_TAG(FREE) ((__u32) ((FREE) >> 32))

/* A connection in one of its directions, DP_CT_REF(); 0 is none. */
#define DP_CT_REF(INDEX, REPLY) (((INDEX) + 1) << 1 | (REPLY))
#define DP_CT_REF_INDEX(REF) (((REF) >> 1) - 1)
#define DP_CT_REF_REPLY(REF) ((REF) & 1)
#define DP_CT_RESERVED 1        /* In a slot: of a connection that is being made.  No lookup finds it. */

/* One line of hash table.  A slot holds a tag, which is the high half of the tuple's hash, and a reference; or 0.  A
 * tuple whose bucket is full stands in its alternative bucket (dp_hash_alternative()); 'n_elsewhere' counts those. */
#define DP_CT_SLOTS 7
struct dp_ct_bucket {
    __u64 slot[DP_CT_SLOTS];
    __u32 lock;                 /* 0, or who makes a connection with a tuple of this bucket: DP_CT_LOCK_*. */
    __u32 n_elsewhere;
};
_Static_assert(sizeof(struct dp_ct_bucket) == 64, "bucket of connections layout");

#define DP_CT_SLOT(TAG, REF) ((__u64) (TAG) << 32 | (REF))
#define DP_CT_SLOT_TAG(SLOT) ((__u32) ((SLOT) >> 32))
#define DP_CT_SLOT_REF(SLOT) ((__u32) (SLOT))

#define DP_CT_LOCK_USER 0x80000000u     /* Or-ed with the head's epoch; a program's lock is its CPU + 1. */
#define DP_CT_LOCK_TRIES 16

/* Written before its slots, and not afterwards, but for 'marks'. */
struct dp_ct_key {
    __u32 generation;           /* Grows each time that the entry is used for another connection. */
    __u16 zone;
    __u8 proto;
    __u8 flags;                 /* DP_CT_KEY_*. */
    __u32 marks;                /* Index of mark and label in marks[]. */
    __u16 policy;               /* Index in policies[]. */
    __u8 nat;                   /* DP_CT_NAT_SRC or DP_CT_NAT_DST: what packets of direction 0 have rewritten. */
    __u8 pad;
    __u32 limit_seq;            /* 'seq' of the zone that counts it. */
    __u32 next_free;            /* Index + 1 of the next free entry while this one is free; 0: the one behind it. */
    __u32 l4[2][2];             /* By direction: of source and destination, DP_CT_L4(). */
    __u32 ip4[2][2];
    __u64 pad1;
};
_Static_assert(sizeof(struct dp_ct_key) == 64, "key of a connection layout");

/* 'flags'.  The first changes while packets read them, the others stay while the entry is one connection's. */
#define DP_CT_KEY_USED 1        /* Made, and did not leave yet. */
#define DP_CT_KEY_V6 2
#define DP_CT_KEY_ENGINE 4      /* Its packets are the engine's: a helper reads them, or NAT changes ICMP's id. */
#define DP_CT_KEY_RELATED 8     /* Expected by a helper: cold[] has its parent's tuple. */
#define DP_CT_KEY_OWN_LIMIT 16  /* Counted in its zone's limit, */
#define DP_CT_KEY_DEFAULT_LIMIT 32      /* or in the default one. */

#define DP_CT_NAT_SRC 1
#define DP_CT_NAT_DST 4

/* A port in memory order; of ICMP the id, with the packet's type at its source and that of the answer at its
 * destination. */
#define DP_CT_L4(PORT, TYPE) ((__u32) (PORT) | (__u32) (TYPE) << 16)
#define DP_CT_L4_PORT(L4) ((__u16) (L4))
#define DP_CT_L4_TYPE(L4) ((__u8) ((L4) >> 16))

/* Half a cache line, which each packet reads, and writes if anything changes.  Packets of direction d write window[d]:
 * an established connection's two directions do not meet. */
struct dp_ct_life {
    __u64 state;                /* DP_CT_STATE_*. */
    __u64 window[2];            /* [d]: DP_CT_WINDOW(): highest sequence number that d's sender sent (seqlo), highest
                                 * that it lets its peer send (seqhi). */
    __u32 used;                 /* Ticks when its time began to run. */
    __u32 version;              /* Grows when what a cached path relies on changes: marks, end. */
};
_Static_assert(sizeof(struct dp_ct_life) == 32, "life of a connection layout");

#define DP_CT_WINDOW(LO, HI) ((__u64) (HI) << 32 | (__u32) (LO))
#define DP_CT_WINDOW_LO(W) ((__u32) (W))
#define DP_CT_WINDOW_HI(W) ((__u32) ((W) >> 32))

/* The fields of 'state', of end d (0: who sent the first packet). */
#define DP_CT_STATE_WIN(D) (16 * (D))           /* 16 bits: largest window, before scaling. */
#define DP_CT_STATE_WSCALE(D) (32 + 8 * (D))    /* 8 bits: DP_CT_WSCALE_*. */
#define DP_CT_STATE_TCP(D) (48 + 4 * (D))       /* 4 bits: enum dp_ct_tcp_state. */
#define DP_CT_STATE_CLASS 56                    /* 4 bits: enum dp_ct_timeout, what ends it. */
#define DP_CT_DEAD (1ull << 60)
#define DP_CT_STATE_CALM 61                     /* 3 bits: of TCP, how many segments programs took in dp/ct_fast.h, up
                                                 * to DP_CT_CALM: then they learn its paths. */
#define DP_CT_CALM 4

#define DP_CT_WSCALE_FLAG 0x80  /* Negotiated: the low bits have the shift. */
#define DP_CT_WSCALE_UNKNOWN 0x40       /* The handshake was not seen. */
#define DP_CT_WSCALE_MASK 0xf

#define DP_CT_GET(STATE, SHIFT, BITS) ((__u32) ((STATE) >> (SHIFT)) & ((1u << (BITS)) - 1))
#define DP_CT_PUT(STATE, SHIFT, BITS, V) \
    (((STATE) & ~(((1ull << (BITS)) - 1) << (SHIFT))) | (__u64) (V) << (SHIFT))
#define DP_CT_CLASS(STATE) DP_CT_GET(STATE, DP_CT_STATE_CLASS, 4)

/* With Open vSwitch's numbers. */
enum dp_ct_tcp_state {
    DP_CT_TCP_CLOSED = 0,
    DP_CT_TCP_SYN_SENT = 2,
    DP_CT_TCP_ESTABLISHED = 4,
    DP_CT_TCP_CLOSING = 7,
    DP_CT_TCP_FIN_WAIT_2 = 9,
    DP_CT_TCP_TIME_WAIT = 10,
};

/* What a connection waits for, which decides how long; of UDP and ICMP all the state there is.  X(name, Open
 * vSwitch's default in seconds) */
#define DP_CT_TIMEOUTS(X)   \
    X(TCP_FIRST, 30)        \
    X(TCP_OPENING, 30)      \
    X(TCP_ESTABLISHED, 24 * 60 * 60) \
    X(TCP_CLOSING, 15 * 60) \
    X(TCP_FIN_WAIT, 45)     \
    X(TCP_CLOSED, 30)       \
    X(OTHER_FIRST, 60)      \
    X(OTHER_MULTIPLE, 60)   \
    X(OTHER_BIDIR, 30)      \
    X(ICMP_FIRST, 60)       \
    X(ICMP_REPLY, 30)

enum dp_ct_timeout {
#define X(NAME, SECONDS) DP_CT_TM_##NAME,
    DP_CT_TIMEOUTS(X)
#undef X
    DP_CT_N_TIMEOUTS
};

struct dp_ct_addr6 {
    __u64 addr[2][2][2];        /* By direction, source and destination. */
};
_Static_assert(sizeof(struct dp_ct_addr6) == 64, "addresses of a connection layout");

/* Source, destination, protocol and zone of a packet, or of a connection in one direction. */
struct dp_ct_tuple {
    __u64 addr[2][2];           /* IPv4: the low half of the first word, the rest 0. */
    __u32 l4[2];                /* DP_CT_L4(); 0 of protocols other than TCP, UDP and ICMP. */
    __u16 zone;
    __u8 proto;
    __u8 v6;
    __u32 pad;
};
_Static_assert(sizeof(struct dp_ct_tuple) == 48, "tuple layout");

/* What only the engine needs. */
struct dp_ct_cold {
    struct dp_ct_tuple parent;  /* DP_CT_KEY_RELATED. */
    __u32 helper;
    __s32 seq_skew;
    __u64 pad;
};
_Static_assert(sizeof(struct dp_ct_cold) == 64, "cold part of a connection layout");

/* marks[0] is (0, 0). */
struct dp_ct_marks {
    __u32 mark;
    __u32 refs;                 /* Connections that have it, and others in userspace.  Atomic. */
    __u64 label[2];
    __u64 pad;
};
_Static_assert(sizeof(struct dp_ct_marks) == 32, "marks layout");

/* By value, because Open vSwitch's ids change over a restart.  policies[0] is the default one. */
struct dp_ct_policy {
    __u32 ticks[DP_CT_N_TIMEOUTS];      /* By enum dp_ct_timeout, at most DP_CT_TICKS_MAX. */
    __u32 refs;                         /* Userspace's. */
    __u64 pad[2];
};
_Static_assert(sizeof(struct dp_ct_policy) == 64, "timeout policy layout");

#define DP_CT_TICKS_MAX 0x7fffffffu

struct dp_ct_zone {
    __u32 limit;                /* If DP_CT_ZONE_LIMITED. */
    __u32 count;                /* Connections that count in this limit. */
    __u32 seq;                  /* Grows each time that a limit is set where there was none: older connections are
                                 * not counted in it. */
    __u16 n_expected;           /* Expectations of helpers: packets that begin a connection are the engine's. */
    __u16 flags;                /* DP_CT_ZONE_*. */
    __u32 n_held;               /* Entries of its connections: what of 'n_held' of the head is of this zone. */
    __u32 pad;
    __u64 n_refused;            /* Connections of it that were not made, whyever. */
};
_Static_assert(sizeof(struct dp_ct_zone) == 32, "zone layout");

#define DP_CT_ZONE_LIMITED 1

/* X(name of array, type of element) */
#define DP_CT_TABLES(X)                     \
    X(head, struct dp_ct_head)           \
    X(buckets, struct dp_ct_bucket)      \
    X(keys, struct dp_ct_key)            \
    X(lives, struct dp_ct_life)          \
    X(addr6, struct dp_ct_addr6)         \
    X(cold, struct dp_ct_cold)           \
    X(marks, struct dp_ct_marks)         \
    X(policies, struct dp_ct_policy)     \
    X(zones, struct dp_ct_zone)

/* The arrays as userspace has them. */
struct dp_ct_tables {
#define X(NAME, TYPE) TYPE *NAME; __u32 n_##NAME;
    DP_CT_TABLES(X)
#undef X
};

#endif /* dp/ct_table.h */
