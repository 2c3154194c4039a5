/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The operations of a flow's program. */
#ifndef DP_OP_H
#define DP_OP_H 1

#include "dp/frame.h"
#include "dp/table.h"

/* X(name, DP_HAS_* that the frame must have, text shown to people) */
#define DP_OPS(X)                                                                   \
    X(SET_ETH,     0,                            "set Ethernet addresses")          \
    X(PUSH_VLAN,   0,                            "push VLAN")                       \
    X(POP_VLAN,    0,                            "pop VLAN")                        \
    X(PUSH_MPLS,   0,                            "push MPLS")                       \
    X(POP_MPLS,    DP_HAS_MPLS,                  "pop MPLS")                        \
    X(SET_MPLS,    DP_HAS_MPLS,                  "set MPLS label stack entry")      \
    X(SET_IP4,     DP_HAS_IP4 | DP_HAS_FIRST,    "set IPv4")                        \
    X(SET_IP6,     DP_HAS_IP6,                   "set IPv6 label, class, hop limit")\
    X(SET_IP6_SRC, DP_HAS_IP6,                   "set IPv6 source")                 \
    X(SET_IP6_DST, DP_HAS_IP6,                   "set IPv6 destination")            \
    X(SET_TCP,     DP_HAS_TCP,                   "set TCP ports")                   \
    X(SET_UDP,     DP_HAS_UDP,                   "set UDP ports")                   \
    X(SET_SCTP,    DP_HAS_SCTP,                  "set SCTP ports")                  \
    X(SET_ICMP,    DP_HAS_ICMP,                  "set ICMP type and code")          \
    X(SET_ARP,     DP_HAS_ARP,                   "set ARP")                         \
    X(SET_ND,      DP_HAS_ND | DP_HAS_IP6,       "set neighbour discovery")         \
    X(SET_ND_EXT,  DP_HAS_ND_OPT | DP_HAS_SHORT | DP_HAS_IP6, "set neighbour discovery flags") \
    X(SET_MARK,    0,                            "set packet mark")                 \
    X(SET_PRIORITY, 0,                           "set packet priority")             \
    X(TRUNC,       0,                            "truncate")                        \
    X(HASH,        DP_HAS_L3,                    "hash")                            \
    X(CT_CLEAR,    0,                            "forget connection state")         \
    X(METER,       0,                            "meter")                           \
    X(OUTPUT,      0,                            "output to several ports")         \
    X(GROUP,       0,                            "output to several ports as the last action") \
    X(TNL_PUSH,    0,                            "push tunnel header")              \
    X(TNL_PUSH_CSUM, 0,                          "push tunnel header with checksum") \
    X(TNL_POP,     DP_HAS_L3 | DP_HAS_FIRST,     "pop tunnel header")               \
    X(TNL_POP_GENEVE, DP_HAS_L3 | DP_HAS_FIRST,  "pop tunnel header of Geneve") \
    X(CT,          0,                            "track the connection")            \
    X(CHECK_LEN,   0,                            "check the length")                \
    X(TNL_SET,     0,                            "send into a tunnel by the routes of the host") \
    X(SAMPLE,      0,                            "sample")

#define DP_MAX_OPS 16           /* Operations of one program. */
#define DP_MAX_TAGS_PUSHED 8    /* VLAN tags among them. */
#define DP_MAX_CT 3             /* Operations CT among them. */

/* TNL_PUSH and TNL_PUSH_CSUM that send a packet to another end of tunnels as well have u.tunnel_push.again: between the
 * first and these there are OUTPUTs alone, and the headers have one form.
 * A flow has one TNL_POP or TNL_POP_GENEVE at most, as its last operation.
 * A flow with SAMPLE, one at most, begins with it.
 * A flow with CT, of which it has DP_MAX_CT at most, begins with one, or with SAMPLE and one.
 * A flow with CHECK_LEN, one at most, is run for frames of up to u.max_len bytes as they arrive.
 * No flow has GROUP among its operations.  Programs use its bit to declare, or leave out, DP_FATE_GROUP. */
enum dp_op_code {
#define X(NAME, NEEDS, TEXT) DP_OP_##NAME,
    DP_OPS(X)
#undef X
    DP_N_OPS
};

#endif /* dp/op.h */
