/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What a program can parse and execute, as it declares it and as the compiler of flows asks it. */
#ifndef DP_CAPABILITY_H
#define DP_CAPABILITY_H 1

#include "dp/op.h"

/* X(name, text shown to people) */
#define DP_KEY_GROUPS(X)                                \
    X(ETHERNET, "Ethernet addresses and type")          \
    X(VLAN,     "one VLAN tag")                         \
    X(QINQ,     "two VLAN tags")                        \
    X(IP4,      "IPv4 and its transport headers")       \
    X(IP6,      "IPv6 and its transport headers")       \
    X(ARP,      "ARP")                                  \
    X(ND,       "IPv6 neighbour discovery")             \
    X(IGMP,     "IGMP groups")                          \
    X(MPLS,     "MPLS labels")                          \
    X(RECIRC,   "recirculation, dp_hash")               \
    X(MARK,     "packet mark and priority")             \
    X(CT,       "connection tracking")                  \
    X(TUNNEL,   "tunnel metadata")

enum dp_key_group {
#define X(NAME, TEXT) DP_KEY_GROUP_##NAME,
    DP_KEY_GROUPS(X)
#undef X
    DP_N_KEY_GROUPS
};

struct dp_capability {
    __u32 table_version;        /* DP_TABLE_VERSION and DP_RECORD_VERSION that it was compiled with. */
    __u32 record_version;
    __u32 key_groups;           /* Bits of enum dp_key_group. */
    __u32 pad;
    __u64 ops;                  /* Bits of enum dp_op_code. */
};

#define DP_CAPABILITY_ALL_KEYS ((1u << DP_N_KEY_GROUPS) - 1)

/* All operations on plain frames.  Only packets of the network stack can be copied, or sent into tunnels by the routes
 * of the host; only frames can be sent to groups. */
#define DP_CAPABILITY_COPIES (1ull << DP_OP_OUTPUT)
#define DP_CAPABILITY_GROUPS (1ull << DP_OP_GROUP)
#define DP_CAPABILITY_HOST_TUNNELS (1ull << DP_OP_TNL_SET)
#define DP_CAPABILITY_ALL_OPS (((1ull << DP_N_OPS) - 1) & ~(DP_CAPABILITY_COPIES | DP_CAPABILITY_HOST_TUNNELS))
_Static_assert(DP_N_OPS <= 64, "struct dp_op has 64 bits for codes");

#endif /* dp/capability.h */
