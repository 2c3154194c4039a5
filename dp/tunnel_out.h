/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Where a packet goes that leaves into a tunnel by the routes of the host (bpf/host_tunnel.h).  It stands behind a
 * frame that the engine sends into one:
 *
 *     frame | Geneve options | struct dp_tunnel_out
 *
 * Writer: ovs/.  Reader: bpf/.  Both sides run on the same machine and are of the same version: the program is replaced
 * before a new process sends.  In host byte order, but for addresses. */
#ifndef DP_TUNNEL_OUT_H
#define DP_TUNNEL_OUT_H 1

#include <linux/types.h>

#define DP_TUNNEL_OUT_MAGIC 0x4f58544cu
#define DP_TUNNEL_MAX_OPTIONS 252       /* Bytes of Geneve options, of 4 each. */

/* In 'flags'. */
#define DP_TUNNEL_IP6 (1 << 0)          /* Addresses have 16 bytes, else 4. */
#define DP_TUNNEL_CSUM (1 << 1)         /* A checksum in the outer UDP or GRE header. */
#define DP_TUNNEL_DF (1 << 2)           /* The outer packet may not be fragmented. */
#define DP_TUNNEL_HAS_KEY (1 << 3)      /* 'id' is valid: GRE may have none. */

struct dp_tunnel_out {
    __u32 dst[4], src[4];       /* 'src' 0: as the route says. */
    __u32 id;                   /* VNI, or key. */
    __u32 mark;                 /* skb->mark, */
    __u32 priority;             /* and skb->priority. */
    __u8 flags;                 /* DP_TUNNEL_*. */
    __u8 tos, ttl;
    __u8 options_len;           /* Bytes. */
    __u32 pad;
    __u32 magic;                /* DP_TUNNEL_OUT_MAGIC. */
};
_Static_assert(sizeof(struct dp_tunnel_out) == 56, "layout of what stands behind a frame");

#endif /* dp/tunnel_out.h */
