/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the program (XDP or tcx) did with the frames of a port: one counter for each fate, so that nothing
 * disappears without a name; how it found their flows; and their bytes.
 *
 * Writer: bpf/.  Reader: core/programs/counter.c, which sums the processors.  The texts are shown to people.
 */
#ifndef DP_COUNTER_H
#define DP_COUNTER_H 1

/* X(name, text).  A frame's fate is one of these. */
#define DP_FATE_COUNTERS(X)                                                                   \
    X(FORWARDED,    "forwarded by the program")                                          \
    X(DROPPED,      "dropped by the program, as a flow says")                             \
    X(METERED,      "dropped by the program, above the rate of a meter")                 \
    X(UP_OFF,       "handed to the engine: the fast path is off")                        \
    X(UP_MISS,      "handed to the engine: no flow matches")                             \
    X(UP_ENGINE,    "handed to the engine: the flow's actions need it")                  \
    X(UP_PARSE,     "handed to the engine: headers beyond what the program parses")      \
    X(UP_CHECKSUM,  "handed to the engine: a checksum that its sender left to offload")  \
    X(NO_OUTPUT,    "dropped: the output port is gone")                                  \
    X(NO_SOCKET,    "dropped: no AF_XDP socket serves the receive queue")                \
    X(NO_HEADROOM,  "dropped: the driver left no room for the record before the frame")  \
    X(TOO_LONG,     "dropped: longer than what the engine takes from a port with tcx") \
    X(SEGMENTS,     "dropped: XDP got segments whose making the sender left to offload") \
    X(UNKNOWN_PORT, "passed to the host: the device is not a port of this datapath")

/* Lookups.  A frame is looked up once, and once more each time that it is recirculated. */
#define DP_LOOKUP_COUNTERS(X)                                                            \
    X(RECIRCULATED, "looked up again after recirculation")                               \
    X(MASK_HIT,     "found by walking masks, not in the signature cache")                \
    X(MASKS_WALKED, "masks walked, also by lookups that found nothing")

/* Drivers count what is received in their own ways: veth bytes without the Ethernet header, tun with what the
 * program added, and nothing at all of what it was given by a blocking write(). */
#define DP_SIZE_COUNTERS(X)                                                              \
    X(RX_BYTES, "bytes received, Ethernet header included")                              \
    X(LOST_COPIES, "copies for one of several outputs that found no memory or no device")

#define DP_COUNTERS(X)      \
    DP_FATE_COUNTERS(X)     \
    DP_LOOKUP_COUNTERS(X)   \
    DP_SIZE_COUNTERS(X)

enum dp_counter {
#define X(NAME, TEXT) DP_COUNTER_##NAME,
    DP_COUNTERS(X)
#undef X
    DP_N_COUNTERS
};

#endif /* dp/counter.h */
