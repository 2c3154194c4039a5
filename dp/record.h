/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The record: metadata in front of each frame that a BPF program hands to the engine.
 *
 * Writer: bpf/ (one program run per frame).  Reader: ovs/engine/thread.c.  The record lies directly before the Ethernet
 * header, inside the AF_XDP frame, and says how long it is: the engine pulls 'len' bytes off, and the room becomes
 * headroom.  All fields are in host byte order: both sides run on the same machine.  Nothing but the program writes
 * it, so it is trusted.
 *
 * It carries what the engine must know of work that a program has done and that the frame does not show: 'has' says
 * which parts.  A part is added at the end, with a bit in 'has' and a new DP_RECORD_VERSION, and the reader that knows
 * it asks for the bit.  DP_RECORD_MAX_LEN bounds the record: it is taken from the room for a frame, and so from the
 * largest MTU (core/xsk/umem.h).  A packet that was in a tunnel is shorter than the frame that arrived.
 */
#ifndef DP_RECORD_H
#define DP_RECORD_H 1

#include <linux/types.h>

#include "dp/key.h"
#include "dp/reason.h"

/* The version of what programs and userspace share besides the tables: this file, dp/counter.h, bpf/maps.h. */
#define DP_RECORD_VERSION 9

/* Parts of a record, besides what each has. */
#define DP_RECORD_RECIRC (1 << 0)       /* Metadata after at least one pass: the frame may differ from what arrived. */
#define DP_RECORD_TUNNEL (1 << 1)       /* The packet was in a tunnel: its metadata is behind struct dp_record. */
#define DP_RECORD_CT (1 << 2)           /* Its connection has been tracked: struct dp_record_ct is at the end. */
#define DP_RECORD_OPTIONS (1 << 3)      /* With DP_RECORD_TUNNEL, behind it, at the end: all Geneve options, more than
                                         * the words of a key hold.  At tcx alone, which asks whether the packet has
                                         * room for them. */

struct dp_record {
    __u16 len;          /* From its start to the frame: a multiple of 8. */
    __u16 reason;       /* enum dp_reason, of an upcall. */
    __u16 has;          /* DP_RECORD_*. */
    __u8 passes;        /* Flows executed before. */
    __u8 tracked;       /* Of flow 'flow', the operations before so many-th CT are done, from 0 on: 0 is the first.  The
                         * engine goes on with that CT.  And DP_TRACKED_SAMPLE. */
    __u32 in_port;      /* Datapath port number. */
    __u32 flow;         /* Index of the flow that matched, or DP_NO_FLOW. */
    __u32 generation;   /* Generation of that index: stale if the table says otherwise. */

    /* DP_RECORD_RECIRC: after a pass, or with 'tracked'. */
    __u32 recirc_id;
    __u32 dp_hash;
    __u32 skb_priority;
    __u32 skb_mark;

    __u32 trace;        /* Number of the traced packet (dp/trace.h); 0: it is not traced. */
};

/* DP_RECORD_TUNNEL: words of union dp_key, the first (in_port is the tunnel's), and those from tun_id on.  Of
 * tun_options only what tun_options_len says is written. */
#define DP_RECORD_TUNNEL_WORDS (1 + DP_KEY_WORDS - DP_KEY_WORD(tun_id))
#define DP_RECORD_TUNNEL_LEN (DP_RECORD_TUNNEL_WORDS * 8)

/* DP_RECORD_OPTIONS: options as in the packet, zeroes behind them; the last byte says how many bytes they are. */
#define DP_RECORD_OPTIONS_LEN 256

/* DP_RECORD_CT: what struct dp_ct_md (dp/ct.h) says. */
struct dp_record_ct {
    __u32 mark;
    __u32 v6;           /* The original tuple has IPv6 addresses. */
    __u64 words[DP_KEY_WORD(tun_id) - DP_KEY_WORD(ct_state)];   /* Of union dp_key, from ct_state on. */
    __u32 cached;
    __u32 generation;
};
_Static_assert(sizeof(struct dp_record_ct) == 72, "layout of the connection in a record");

#define DP_RECORD_LEN 40
#define DP_RECORD_MAX_LEN 192
_Static_assert(sizeof(struct dp_record) == DP_RECORD_LEN && DP_RECORD_LEN % 8 == 0, "record layout");
_Static_assert(DP_RECORD_LEN + DP_RECORD_TUNNEL_LEN <= DP_RECORD_MAX_LEN, "record length");
_Static_assert(DP_RECORD_LEN + sizeof(struct dp_record_ct) <= DP_RECORD_MAX_LEN, "record length");

#endif /* dp/record.h */
