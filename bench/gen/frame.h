/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The frame that the benchmark sends: Ethernet, IPv4, UDP, shared by the BPF programs and the tool.
 *
 * A flow number in the low 16 bits of the source address (network 10.0/16) and, above that, in the
 * source port makes 2^32 distinguishable microflows.  Multi-byte fields are in network byte order. */
#ifndef BENCH_FRAME_H
#define BENCH_FRAME_H 1

#include <linux/types.h>

#define BENCH_DST_PORT 9            /* The discard service, RFC 863: how the sink knows our frames. */
#define BENCH_SRC_PORT 1024         /* Source port of the first 65,536 flows. */
#define BENCH_SRC_NET 0x0a000000u   /* 10.0.0.0, host byte order. */
#define BENCH_DST_ADDR 0x0a010001u  /* 10.1.0.1, host byte order. */
#define BENCH_FRAME_MIN 60          /* 64 bytes on a wire, where the frame check sequence is added. */
#define BENCH_FRAME_MAX 1514

struct bench_frame {
    __u8 eth_dst[6];
    __u8 eth_src[6];
    __be16 eth_type;
    __u8 ip_ihl_version;
    __u8 ip_tos;
    __be16 ip_len;
    __be16 ip_id;
    __be16 ip_frag;
    __u8 ip_ttl;
    __u8 ip_proto;
    __be16 ip_check;
    __u8 ip_src[4];                 /* Byte arrays: a 32-bit field would be misaligned here. */
    __u8 ip_dst[4];
    __be16 udp_src;
    __be16 udp_dst;
    __be16 udp_len;
    __be16 udp_check;               /* 0: none, as RFC 768 allows. */
} __attribute__((packed));

_Static_assert(sizeof(struct bench_frame) == 42, "Ethernet, IPv4 and UDP headers without gaps");

/* The same with an IEEE 802.1Q tag (--vlan). */
struct bench_tagged_frame {
    __u8 eth[12];
    __be16 tag[2];                  /* Tag protocol identifier and tag control information. */
    __u8 rest[30];                  /* From eth_type of struct bench_frame on. */
} __attribute__((packed));

/* The same over IPv6 (--ip6): the flow number is in the last bytes of the source address and the port. */
struct bench_frame6 {
    __u8 eth_dst[6];
    __u8 eth_src[6];
    __be16 eth_type;
    __u8 ip_version[4];             /* With traffic class and flow label. */
    __be16 ip_len;
    __u8 ip_proto;
    __u8 ip_ttl;
    __u8 ip_src[16];
    __u8 ip_dst[16];
    __be16 udp_src;
    __be16 udp_dst;
    __be16 udp_len;
    __be16 udp_check;
} __attribute__((packed));

_Static_assert(sizeof(struct bench_tagged_frame) == sizeof(struct bench_frame) + 4, "a tag more");
_Static_assert(sizeof(struct bench_frame6) == sizeof(struct bench_frame) + 20, "a longer IP header");

/* The same size with TCP (--tcp).  A connection has the steps of bench_generate, of which BENCH_TALK_BY_CLIENT are the
 * client's; BENCH_TALK_AT_ONCE connections take each step, one after the other, before they take the next. */
struct bench_tcp_frame {
    __u8 ip[34];                    /* As struct bench_frame to ip_dst. */
    __be16 tcp_src;
    __be16 tcp_dst;
    __be32 tcp_seq;
    __be32 tcp_ack;
    __u8 tcp_length;
    __u8 tcp_flags;
    __be16 tcp_window;
    __be16 tcp_check;
    __be16 tcp_urgent;
    __u8 data[6];                   /* Zeros: a request or an answer, or padding. */
} __attribute__((packed));

_Static_assert(sizeof(struct bench_tcp_frame) == BENCH_FRAME_MIN, "data where other frames are padded");

#define BENCH_TALK_AT_ONCE 1024u
#define BENCH_TALK_STEPS 8u
#define BENCH_TALK_BY_CLIENT 5u

/* Before the frame with --tunnel: the headers of a tunnel to BENCH_TUNNEL_MAC and BENCH_TUNNEL_DST, with VNI 0 or no
 * key.  The flows come from --endpoints source addresses, BENCH_TUNNEL_SRC and those behind it. */
#define BENCH_TUNNEL_MAC { 2, 0, 0, 0, 0, 0x63 }
#define BENCH_TUNNEL_SRC 0xac1f0002u    /* 172.31.0.2, host byte order. */
#define BENCH_TUNNEL_DST 0xac1f0001u    /* 172.31.0.1. */
#define BENCH_TUNNEL_MAX 64
#define BENCH_VXLAN_PORT 4789
#define BENCH_GENEVE_PORT 6081

/* Where the L2 forwarder sends a frame: key of its table. */
struct bench_l2_key {
    __u16 vlan;                     /* VLAN identifier, host byte order; 0: no tag. */
    __u8 mac[6];                    /* Destination. */
};

_Static_assert(sizeof(struct bench_l2_key) == 8, "no padding in a map's key");

#define BENCH_MAX_PORTS 64          /* Of the L2 forwarder. */

struct bench_count {
    __u64 packets;                  /* Our frames. */
    __u64 bytes;                    /* Of our frames, without the frame check sequence. */
    __u64 others;                   /* Frames that are not ours: neighbour discovery and the like. */
};

#endif /* bench/gen/frame.h */
