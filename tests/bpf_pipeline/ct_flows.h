/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of test_ct_flows share:
 *
 *   test_ct_flows.c    the conversations, and what happens between packets
 *   ct_flow_make.c     the flows of a packet's way, from what is to happen to it
 *   ct_flow_worlds.c   the packet in each world, and whether they agree
 *
 * The first has the variables. */
#ifndef TESTS_BPF_PIPELINE_CT_FLOWS_H
#define TESTS_BPF_PIPELINE_CT_FLOWS_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tables/table.h"
#include "dp/seam_native.h"
#include "dp/pipeline.h"
#include "tests/bpf_pipeline/harness.h"
#include "tests/parity/ct_world.h"

#define MAX_FRAME 2048          /* Of harness_run(). */
#define MAX_ITEMS 16
#define MAX_WAYS 24
#define FIRST_PORT 16
#define OUTPUT_PORT 3
#define HEADROOM 64

/* What happens to a packet, one after the other. */
struct item {
    enum { ITEM_CT, ITEM_CLEAR, ITEM_SET } kind;
    struct dp_ct_action action;
    bool dst;
    uint64_t address[2];
    uint32_t flow;              /* Number of the flow that it is in, */
    uint32_t ct;                /* and of its ct(), or of the one before, in this flow. */
};

enum { ENGINE, WALK, NATIVE, KERNEL, N_WORLDS };

/* What happens to packets of one port. */
struct way {
    struct item items[MAX_ITEMS];
    int n_items, n_flows;
    bool v6;
    uint32_t edits;             /* EDIT_*. */
    uint32_t flow[MAX_ITEMS][N_WORLDS];
};

#define EDIT_ETHERNET 1
#define EDIT_IP 2               /* TOS and TTL; the last flow matches both. */
#define EDIT_PUSH 4             /* In the last flow. */
#define EDIT_TAGGED 8           /* Packets arrive with a tag, */
#define EDIT_POP 16             /* which the first flow pops. */
#define EDIT_MARK 32            /* The last flow matches packets of connections without a mark. */
#define EDITS 64

extern struct ct_world worlds[N_WORLDS];
extern struct dp_ct_md metadata[N_WORLDS];
extern uint8_t frames[N_WORLDS][HEADROOM + MAX_FRAME];
extern struct oxdp_table *tables[N_WORLDS];
extern struct harness kernel;           /* Has that of KERNEL. */
extern struct dp_path_tables paths;     /* Of NATIVE. */

/* The packet, and what is to happen to it. */
extern struct packet {
    uint8_t arrived[MAX_FRAME];
    size_t len;
    struct dp_frame layers;
    bool v6;
    bool is_strange;            /* It has another tag, or another source address and TTL. */
    struct item items[MAX_ITEMS];
    int n_items, n_flows;
} packet;

extern struct test {
    uint32_t now;
    bool is_plain;              /* Every other conversation has no marks, and each zone once. */
    bool is_later;              /* Two of three pairs are tracked as in Open vSwitch 3.6, not 3.1.  ICMP's ids of 4.0
                                 * are not here: the native pipeline has that code of the engine, too. */
    bool differs;
} test;

extern struct counts {
    unsigned long packets, steps, resumed, hits, edited_hits, up[N_WORLDS][DP_N_REASONS], states[256];
} counts;

/* ct_flow_make.c */

/* Sorts the packet's items into flows. */
void make_flows(void);

/* Whether item 'i' of the packet is a ct_clear that the next item, a flow's first ct(), does as well: sometimes. */
bool is_folded(int i);

/* The way of the packet, which may be a new one; its port is FIRST_PORT and way_number().  Now and then its flows are
 * replaced by others that do the same. */
const struct way *find_way(void);
uint32_t way_number(const struct way *);
void forget_ways(void);

/* ct_flow_worlds.c */

/* Gives all worlds the packet as it arrived. */
void set_frames(void);

/* Has the packet make its way in all worlds, and compares them. */
void run(const struct way *);

#endif /* tests/bpf_pipeline/ct_flows.h */
