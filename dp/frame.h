/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What parsing learned about a frame besides its key: where the layers are, and which headers are complete.
 * It mirrors the offsets of Open vSwitch's struct dp_packet; actions keep it current. */
#ifndef DP_FRAME_H
#define DP_FRAME_H 1

#include "dp/types.h"

#define DP_NO_LAYER 0xffff
#define DP_MAX_OFS 0x3ff        /* Layers deeper in the frame are not parsed here. */

#define DP_OFS_MASK 0x7ff       /* A bound for the verifier, larger than any offset. */

#define DP_ETH_LEN 14
#define DP_VLAN_LEN 4
#define DP_MPLS_LEN 4
#define DP_IP4_LEN 20
#define DP_IP6_LEN 40
#define DP_ARP_LEN 28
#define DP_TCP_LEN 20
#define DP_UDP_LEN 8
#define DP_SCTP_LEN 12
#define DP_ICMP_LEN 8
#define DP_ND_LEN 24
#define DP_JUMBO_LEN 8
#define DP_ND_OPT_LEN 8

#define DP_ETH_IP4 0x0800
#define DP_ETH_ARP 0x0806
#define DP_ETH_RARP 0x8035
#define DP_ETH_VLAN 0x8100
#define DP_ETH_QINQ 0x88a8
#define DP_ETH_IP6 0x86dd
#define DP_ETH_MPLS 0x8847
#define DP_ETH_MPLS_MC 0x8848

#define DP_IP_ICMP 1
#define DP_IP_IGMP 2
#define DP_IP_TCP 6
#define DP_IP_UDP 17
#define DP_IP_ROUTING 43
#define DP_IP_FRAGMENT 44
#define DP_IP_AH 51
#define DP_IP_ICMP6 58
#define DP_IP_HOPOPTS 0
#define DP_IP_DSTOPTS 60
#define DP_IP_SCTP 132

#define DP_ND_SOLICIT 135
#define DP_ND_ADVERT 136
#define DP_ND_OPT_SLL 1
#define DP_ND_OPT_TLL 2

/* What a frame has, and what an action needs. */
#define DP_HAS_ARP    (1 << 0)  /* ARP for IPv4 over Ethernet. */
#define DP_HAS_IP4    (1 << 1)  /* IPv4 header that passes Open vSwitch's sanity check. */
#define DP_HAS_IP6    (1 << 2)  /* Likewise IPv6, without extension headers. */
#define DP_HAS_TCP    (1 << 3)  /* Whole TCP header. */
#define DP_HAS_UDP    (1 << 4)
#define DP_HAS_SCTP   (1 << 5)
#define DP_HAS_ICMP   (1 << 6)  /* 8 bytes of ICMP or ICMPv6. */
#define DP_HAS_ND     (1 << 7)  /* Neighbour message; its first option, if any, is a link-layer address. */
#define DP_HAS_ND_OPT (1 << 8)  /* Neighbour message with at least one option. */
#define DP_HAS_MPLS   (1 << 9)  /* At least one label. */
#define DP_HAS_VLAN   (1 << 10) /* At least one tag. */
#define DP_HAS_FIRST  (1 << 11) /* Not a later fragment. */
#define DP_HAS_L3     (1 << 12) /* IPv4, or IPv6 without extension headers: can be hashed. */
#define DP_HAS_SHORT  (1 << 13) /* Transport layer of at most DP_SHORT_LEN bytes. */

#define DP_HAS_OUTER  (1 << 14) /* Complete outer UDP checksum, CHECKSUM_PARTIAL inside (dp/action.h). */
#define DP_HAS_LEFT   (1 << 15) /* CHECKSUM_PARTIAL, and this is the transport header that it is about. */
#define DP_HAS_BACK   (1 << 16) /* Back from a detour (dp/detour.h). */

#define DP_SHORT_LEN 256

struct dp_frame {
    __u16 l2_5;                 /* Offset of the first MPLS label, or DP_NO_LAYER. */
    __u16 l3;                   /* Offset behind Ethernet, tags and labels. */
    __u16 l4;                   /* Offset of the transport header, or DP_NO_LAYER. */
    __u16 l4_len;               /* Bytes from there to the end of the IP packet. */
    __u32 len;                  /* Bytes from the Ethernet header to the end of the frame. */
    __u32 cut;                  /* Bytes that output cuts off the end. */
    __u32 has;                  /* DP_HAS_*. */
    __u32 local_stack;          /* Set before parsing: the frame may be CHECKSUM_PARTIAL. */
    __u32 entropy;              /* For TNL_PUSH: hash of the addresses and ports before all operations.  For TNL_POP:
                                 * bytes from 'l4' to the packet inside. */
    __u32 left;                 /* Of TNL_PUSH_CSUM: DP_LEFT() of the packet inside (dp/tunnel_checksum.h), */
    __u32 shorter;              /* and dp_equal_segments(). */
};
_Static_assert(sizeof(struct dp_frame) == 36, "frame layout");

DP_INLINE int dp_is_vlan(dp_be16 eth_type)
{
    return DP_BE16_IS(eth_type, DP_ETH_VLAN) || DP_BE16_IS(eth_type, DP_ETH_QINQ);
}

#endif /* dp/frame.h */
