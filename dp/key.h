/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What a packet is looked up by: everything that Open vSwitch's flow_extract() yields for the protocols that the
 * datapath parses, in 64-bit words, the most used first.
 *
 * The first DP_HOT_WORDS words hold a whole IPv4 5-tuple with its Ethernet header, and are hashed and compared without
 * a loop; the DP_WARM_WORDS behind, which hold the rest of IPv6 addresses, likewise when a mask uses them.  Fields
 * that cannot occur together share words: which of them a word holds follows from eth_type, and for ND and IGMP also
 * from ip_proto.  A mask that uses a shared word must therefore match eth_type exactly (Open vSwitch always does;
 * ovs/fastpath/compile.c insists).
 *
 * Packet fields are in network byte order as they stand in the packet, the rest in host byte order.  Fields of absent
 * headers are 0; a VLAN that is present has DP_VLAN_PRESENT set in its tci, as in Open vSwitch.
 */
#ifndef DP_KEY_H
#define DP_KEY_H 1

#include "dp/types.h"

#define DP_HOT_WORDS 6
#define DP_PACKET_WORDS 14      /* Parsed from the packet; the words behind are metadata. */
#define DP_KEY_WORDS 38
#define DP_WARM_WORDS 3
#define DP_FIRST_COLD (DP_HOT_WORDS + DP_WARM_WORDS)
#define DP_COLD_WORDS (DP_KEY_WORDS - DP_FIRST_COLD)

#define DP_VLAN_PRESENT 0x1000  /* In tci (host order): the bit is CFI on the wire. */
#define DP_FRAG_ANY 1           /* Any fragment. */
#define DP_FRAG_LATER 2         /* Fragment with an offset: no transport header. */
#define DP_ETH_TYPE_NONE 0x5ff  /* 802.2 frame without an Ethernet type. */

/* In tun_flags: FLOW_TNL_F_* of Open vSwitch. */
#define DP_TUN_OAM (1 << 0)
#define DP_TUN_CSUM (1 << 2)
#define DP_TUN_KEY (1 << 3)
#define DP_TUN_OPTIONS (1 << 4) /* FLOW_TNL_F_UDPIF: options as in the packet. */

struct dp_vlan {
    dp_be16 tpid;
    dp_be16 tci;                /* With DP_VLAN_PRESENT. */
};

union dp_key {
    __u64 w[DP_KEY_WORDS];
    struct {
        /* 0 */
        __u32 in_port;          /* Datapath port number. */
        __u32 recirc_id;
        /* 1 */
        dp_be16 eth_type;       /* After VLAN tags; DP_ETH_TYPE_NONE for 802.2. */
        struct dp_vlan vlan;    /* Outer tag. */
        __u8 ip_proto;          /* IP protocol, or low 8 bits of the ARP opcode. */
        __u8 ip_frag;           /* DP_FRAG_*. */
        /* 2 */
        union {
            struct {
                dp_be32 ip4_src;        /* IPv4 source, ARP SPA. */
                dp_be32 ip4_dst;        /* IPv4 destination, ARP TPA. */
            };
            __u64 ip6_src_hi;           /* First 8 bytes in memory order. */
            dp_be32 mpls01[2];          /* Label stack entries, outermost first. */
        };
        /* 3 */
        dp_be16 tp_src;         /* TCP, UDP, SCTP source; ICMP, ICMPv6, IGMP type. */
        dp_be16 tp_dst;         /* TCP, UDP, SCTP destination; ICMP, ICMPv6, IGMP code. */
        dp_be16 tcp_flags;      /* 12 bits; for ND the type of the first link-layer option. */
        __u8 ip_tos;            /* DSCP and ECN. */
        __u8 ip_ttl;            /* TTL or hop limit. */
        /* 4, 5 */
        __u8 eth_dst[6];
        __u8 eth_src[6];
        struct dp_vlan vlan2;   /* Inner tag. */

        /* 6: first warm word. */
        union {
            __u64 ip6_src_lo;
            struct {
                dp_be32 igmp_group;
                __u32 pad_igmp;
            };
            struct {
                dp_be32 mpls2;
                __u32 pad_mpls;
            };
            __u64 arp_hw0;              /* ARP: SHA, first 2 bytes of THA. */
        };
        /* 7, 8 */
        union {
            __u64 ip6_dst[2];
            struct {
                __u32 arp_hw1;          /* ARP: last 4 bytes of THA. */
                __u32 pad_arp;
                __u64 pad_arp1;
            };
        };
        /* 9: first cold word. */
        dp_be32 ip6_label;      /* 20 bits. */
        dp_be32 nd_reserved;    /* ND: flags and reserved bits. */
        /* 10, 11 */
        __u64 nd_target[2];
        /* 12, 13 */
        __u8 nd_sll[6];
        __u8 nd_tll[6];
        __u32 pad_nd;

        /* 14: first metadata word. */
        __u32 dp_hash;
        __u32 skb_priority;
        /* 15 */
        __u32 skb_mark;
        __u32 ct_mark;
        /* 16 */
        __u8 ct_state;          /* As struct flow's ct_state. */
        __u8 ct_proto;
        __u16 ct_zone;
        dp_be16 ct_tp_src;
        dp_be16 ct_tp_dst;
        /* 17, 18 */
        __u64 ct_label[2];
        /* 19 to 22 */
        union {
            struct {
                dp_be32 ct_ip4_src;
                dp_be32 ct_ip4_dst;
            };
            struct {
                __u64 ct_ip6_src[2];
                __u64 ct_ip6_dst[2];
            };
        };
        /* 23 */
        dp_be64 tun_id;
        /* 24 */
        __u8 tun_flags;         /* DP_TUN_*. */
        __u8 tun_options_len;   /* Bytes of Geneve options. */
        __u8 tun_tos;
        __u8 tun_ttl;
        dp_be16 tun_tp_src;
        dp_be16 tun_tp_dst;
        /* 25 to 28 */
        __u64 tun_ip6_src[2];
        __u64 tun_ip6_dst[2];
        /* 29 */
        dp_be32 tun_ip4_src;
        dp_be32 tun_ip4_dst;
        /* 30 to 37 */
        __u64 tun_options[8];   /* Of Geneve, as in the packet, zeroes behind them. */
    };
};

#define DP_KEY_WORD(FIELD) (__builtin_offsetof(union dp_key, FIELD) / 8)

_Static_assert(sizeof(union dp_key) == DP_KEY_WORDS * 8, "key size");
_Static_assert(__builtin_offsetof(union dp_key, tp_src) == 3 * 8, "hot words");
_Static_assert(__builtin_offsetof(union dp_key, ip6_src_lo) == DP_HOT_WORDS * 8, "first warm word");
_Static_assert(__builtin_offsetof(union dp_key, ip6_label) == DP_FIRST_COLD * 8, "first cold word");
_Static_assert(__builtin_offsetof(union dp_key, dp_hash) == DP_PACKET_WORDS * 8, "first metadata word");
_Static_assert(__builtin_offsetof(union dp_key, tun_id) == 23 * 8, "tunnel words");
_Static_assert(__builtin_offsetof(union dp_key, tun_options) == 30 * 8, "tunnel options");

#endif /* dp/key.h */
