/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What stands in front of each frame that a BPF program sends up to the engine.
 *
 * Writer: bpf/ (one program run per frame).  Reader: ovs/ engine.  The record occupies the
 * DP_RECORD_LEN bytes directly before the Ethernet header, inside the AF_XDP frame; the engine
 * pulls it off and the room becomes headroom.  All fields are in host byte order: both sides
 * run on the same machine.  Nothing but the program writes it, so it is trusted.
 */
#ifndef DP_RECORD_H
#define DP_RECORD_H 1

#include <linux/types.h>

/* Why a frame was handed to the engine.  X(name, text shown to people). */
#define DP_REASONS(X)                                                        \
    X(NONE,       "not handed over")                                         \
    X(NO_PROGRAM, "the fast path is off")                                    \
    X(MISS,       "no flow matches")                                         \
    X(ENGINE,     "the flow's actions need the engine")                      \
    X(PARSE,      "headers beyond what the program parses")                  \
    X(CHECKSUM,   "a checksum that its sender left to offload")

enum dp_reason {
#define X(NAME, TEXT) DP_REASON_##NAME,
    DP_REASONS(X)
#undef X
    DP_N_REASONS
};

/* Of what programs and userspace share besides the tables: this file, dp/counter.h, bpf/maps.h. */
#define DP_RECORD_VERSION 1

#define DP_RECORD_NO_FLOW 0xffffffffu

struct dp_record {
    __u32 in_port;      /* Datapath port number. */
    __u16 reason;       /* enum dp_reason. */
    __u16 passes;       /* Flows executed before: the frame may differ from what arrived, and what follows counts. */
    __u32 flow;         /* Index of the flow that matched, or DP_RECORD_NO_FLOW. */
    __u32 generation;   /* Generation of that index: stale if the table says otherwise. */
    __u32 recirc_id;
    __u32 dp_hash;
    __u32 skb_priority;
    __u32 skb_mark;
};

#define DP_RECORD_LEN 32
_Static_assert(sizeof(struct dp_record) == DP_RECORD_LEN, "record layout");

#endif /* dp/record.h */
