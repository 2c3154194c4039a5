/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the stages of the parser share: dp/parse.h (link layer), dp/parse_ip.h (ARP, IPv4, IPv6) and
 * dp/parse_transport.h, each of which includes the next.
 *
 * Each stage writes whole words of the key as soon as it knows them, and passes on in registers what a later header
 * completes.  Writing a word in pieces and reading it whole right after would stall the processor's store forwarding;
 * keeping everything in registers until one common end would spill them all.  Their arguments:
 *
 *   link     key word 1 without the IP fields
 *   l3       offset of the network header
 *   has      DP_HAS_* so far
 *
 * Include a seam (dp/seam_native.h, bpf/seam_*.h) first: it provides struct dp_ctx, dp_len() and dp_at(). */
#ifndef DP_PARSE_RESULT_H
#define DP_PARSE_RESULT_H 1

#include "dp/frame.h"
#include "dp/key.h"

enum dp_parse_result {
    DP_PARSED,                  /* Key and frame are complete: what Open vSwitch would have extracted. */
    DP_PARSE_BEYOND,            /* More headers than are walked here, or not even an Ethernet header. */
    DP_PARSE_OMITTED,           /* Of a protocol that this program leaves out (dp/omit.h). */
    DP_PARSE_UNFINISHED,        /* It is CHECKSUM_PARTIAL (dp/pending.h).  The key is not complete. */
};

#define DP_LINK(ETH_TYPE, VLAN) (DP_BYTES(0, 2, (ETH_TYPE).raw) | DP_BYTES(2, 4, VLAN))
#define DP_IP_FIELDS(PROTO, FRAG) (DP_BYTES(6, 1, PROTO) | DP_BYTES(7, 1, FRAG))

DP_INLINE void dp_frame_layers(struct dp_frame *frame, __u32 l2_5, __u32 l3, __u32 l4, __u32 l4_len)
{
    dp_store64(&frame->l2_5, DP_BYTES(0, 2, l2_5) | DP_BYTES(2, 2, l3) | DP_BYTES(4, 2, l4) | DP_BYTES(6, 2, l4_len));
}

#endif /* dp/parse_result.h */
