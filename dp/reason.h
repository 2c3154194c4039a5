/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What a program does with a frame, and why: the one list of reasons.  Each reason is also a counter of every port
 * (dp/counter.h), and the reason of an upcall stands in its record (dp/record.h).
 *
 * To add one: a row here, and the place that returns it.  "xdp/stats" and the documentation show the text. */
#ifndef DP_REASON_H
#define DP_REASON_H 1

/* Kinds of reasons, and the words that their texts begin with. */
#define DP_KIND_FORWARD     ""                              /* Sent to a port. */
#define DP_KIND_FLOW        "dropped by the program, "      /* Dropped, because a flow says so. */
#define DP_KIND_DROP        "dropped: "                     /* Dropped, because something is missing. */
#define DP_KIND_UPCALL      "handed to the engine: "
#define DP_KIND_PASS        "passed to the host: "

/* X(name, kind, text shown to people behind the words of the kind) */
#define DP_REASONS(X)                                                                           \
    X(FORWARDED,    FORWARD, "forwarded by the program")                                        \
    X(DROPPED,      FLOW,    "as a flow says")                                                  \
    X(METERED,      FLOW,    "above the rate of a meter")                                       \
    X(UP_OFF,       UPCALL,  "the fast path is off")                                            \
    X(UP_MISS,      UPCALL,  "no flow matches")                                                 \
    X(UP_ENGINE,    UPCALL,  "the flow's actions need it")                                      \
    X(UP_TUNNEL,    UPCALL,  "a tunnel's header that the program does not pop")                 \
    X(UP_PARSE,     UPCALL,  "headers beyond what the program parses")                          \
    X(UP_CHECKSUM,  UPCALL,  "its sender left the checksum to a device (CHECKSUM_PARTIAL)")     \
    X(UP_CT,        UPCALL,  "ct() of a packet that the program cannot read or verify as a whole") \
    X(UP_CT_FRAGMENT, UPCALL, "ct() of a fragment, which is put together first")               \
    X(UP_CT_ERROR,  UPCALL,  "ct() of an ICMP error")                                           \
    X(UP_CT_HELPER, UPCALL,  "ct() where a helper (FTP, TFTP) reads packets or expects a connection, or NAT changes " \
                             "ICMP's id")                                                       \
    X(UP_CT_MARK,   UPCALL,  "ct() changes the mark or label of a connection that is there")    \
    X(UP_CT_NAT,    UPCALL,  "ct() of a packet that the same zone has translated")              \
    X(UP_CT_NEW,    UPCALL,  "ct() makes a connection where another CPU makes one, while tables are adopted, or NAT " \
                             "seeks an ICMP id")                                                \
    X(NO_OUTPUT,    DROP,    "the output port is gone")                                         \
    X(NO_MEMORY,    DROP,    "no memory to push or pop a VLAN tag or a tunnel header")                             \
    X(NO_SOCKET,    DROP,    "no AF_XDP socket serves the receive queue")                       \
    X(NO_HEADROOM,  DROP,    "the driver left no headroom for the record")                      \
    X(TOO_LONG,     DROP,    "longer than what the engine takes from a port with tcx")          \
    X(SEGMENTS,     DROP,    "XDP got a packet that is still to be segmented (GSO)")            \
    X(OVER_MTU,     DROP,    "longer than the MTU of the output port")                          \
    X(DETOUR,       DROP,    "the host dropped it in the device that makes outer checksums")     \
    X(NO_BUFFERS,   DROP,    "in several buffers, which the output port does not take")         \
    X(NO_METADATA,  DROP,    "out of a tunnel, with no metadata")                            \
    X(UNKNOWN_PORT, PASS,    "the device is not a port of this datapath")

enum dp_reason {
#define X(NAME, KIND, TEXT) DP_REASON_##NAME,
    DP_REASONS(X)
#undef X
    DP_N_REASONS
};

#endif /* dp/reason.h */
