/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Sampling (sFlow, IPFIX): a copy of some packets, chosen by chance, for ofproto.  The packet itself goes on, so that
 * none is overtaken by those behind it.
 *
 * A flow with Open vSwitch's actions sample() begins with one operation SAMPLE, which stands for all of them: its
 * chance is that of at least one.  The engine draws which (ovs/engine/sample.c), and does to the copy what the flow
 * does before them.  The seam provides
 *
 *     dp_random(ctx)           a random number of 32 bits, each equally likely
 *     dp_sample(ctx, run)      copies the packet as it is, with its metadata.  If there is no room, that is counted
 */
#ifndef DP_SAMPLE_H
#define DP_SAMPLE_H 1

#include "dp/record.h"

#define DP_SAMPLE_BYTES 1792    /* Copied of a packet at most: sFlow takes 128 unless told otherwise. */

/* In the 'tracked' of a run and its record: SAMPLE is done, so the engine leaves out the actions sample(). */
#define DP_TRACKED_SAMPLE 0x80

/* What userspace reads of each.  All in host byte order, but for what is in the packet. */
struct dp_sampled {
    __u32 length;               /* Of the packet, without 'tag'. */
    __u32 captured;             /* Its first so many bytes follow. */
    __u32 tag;                  /* The tag in VLAN acceleration, as dp_tag_beside() returns it. */
    __u32 pad;
    struct dp_record record;    /* With DP_RECORD_RECIRC; its 'len' says nothing. */
    __u64 tunnel[DP_RECORD_TUNNEL_WORDS];       /* If the record has DP_RECORD_TUNNEL. */
    struct dp_record_ct ct;     /* If it has DP_RECORD_CT. */
    __u8 bytes[DP_SAMPLE_BYTES];
};
_Static_assert(__builtin_offsetof(struct dp_sampled, tunnel)
               == __builtin_offsetof(struct dp_sampled, record) + DP_RECORD_LEN, "the tunnel follows the record");

#endif /* dp/sample.h */
