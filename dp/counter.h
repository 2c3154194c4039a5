/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A port's counters in programs (XDP or tcx): one for each reason of dp/reason.h, so that each frame is counted under a
 * name; how flows were found; bytes; and what was lost after a frame had been counted.
 *
 * Writer: bpf/.  Reader: core/programs/counter.c, which sums the CPUs.  "xdp/stats" shows the texts.
 */
#ifndef DP_COUNTER_H
#define DP_COUNTER_H 1

#include "dp/reason.h"

/* X(name, text).  Lookups: a frame is looked up once, and once more each time that it is recirculated. */
#define DP_LOOKUP_COUNTERS(X)                                                            \
    X(RECIRCULATED, "looked up again after recirculation")                               \
    X(MASK_HIT,     "found by tuple space search, not in the signature cache")           \
    X(MASKS_WALKED, "masks walked by tuple space search, also by lookups that found nothing") \
    X(PATH_HIT,     "done in one lookup of the path cache, which stands for all lookups of the frame") \
    X(PATH_MISS,    "not found in the path cache, or not as it expects them")                \
    X(TRACKED,      "ct() actions done, without those that a hit in the path cache stands for")

/* Drivers count received bytes in their own ways: veth without the Ethernet header, tun with what the program added.
 * tun does not count frames from a blocking write(). */
#define DP_SIZE_COUNTERS(X)                                                              \
    X(RX_BYTES, "bytes received, Ethernet header included")

/* Whatever became of them. */
#define DP_ARRIVED_COUNTERS(X)                                                           \
    X(UNFINISHED, "arrived at XDP with segmentation or a checksum still to be done (GSO, CHECKSUM_PARTIAL)")

/* Frames that a program lost after their packet had been counted: a packet of the network stack may be sent to several
 * ports, and segmented on its way to the engine. */
#define DP_LOST_COUNTERS(X)                                                              \
    X(LOST_COPIES,  "copies for one of several outputs that found no memory or no device") \
    X(LONG_COPIES,  "copies for one of several outputs that were longer than its MTU")     \
    X(LOST_UPCALLS, "frames handed to the engine that found no AF_XDP socket")

#define DP_COUNTERS(X)      \
    DP_LOOKUP_COUNTERS(X)   \
    DP_SIZE_COUNTERS(X)     \
    DP_ARRIVED_COUNTERS(X)  \
    DP_LOST_COUNTERS(X)

/* The first counters are those of the reasons, with their numbers. */
enum dp_counter {
#define X(NAME, KIND, TEXT) DP_COUNTER_##NAME,
    DP_REASONS(X)
#undef X
#define X(NAME, TEXT) DP_COUNTER_##NAME,
    DP_COUNTERS(X)
#undef X
    DP_N_COUNTERS
};

#endif /* dp/counter.h */
