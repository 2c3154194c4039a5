/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Internet checksums (RFC 1071), updated incrementally (RFC 1624, equation 3).
 *
 * Changes are summed as 32-bit words in 64 bits and folded once.  The result has the same bits as Open vSwitch's
 * recalc_csum*(), which folds after each 16-bit word: one's complement sums agree, and of the two
 * representations of zero both yield the one that says whether any summand was not 0. */
#ifndef DP_CHECKSUM_H
#define DP_CHECKSUM_H 1

#include "dp/types.h"

/* What replacing 'from' by 'to' adds to a checksum's complement.  Memory order. */
DP_INLINE __u64 dp_csum_change32(__u32 from, __u32 to) { return (__u64) (__u32) ~from + to; }
DP_INLINE __u64 dp_csum_change16(__u16 from, __u16 to) { return (__u64) (__u16) ~from + to; }

DP_INLINE __u16 dp_csum_fold(__u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* Applies the sum of changes to the checksum at 'field'. */
DP_INLINE void dp_csum_apply(void *field, __u64 changes)
{
    __u16 complement = ~dp_load16(field);

    dp_store16(field, ~dp_csum_fold(complement + changes));
}

/* Likewise to a UDP checksum, where 0 means none and is never the result (RFC 768). */
DP_INLINE void dp_csum_apply_udp(void *field, __u64 changes)
{
    if (dp_load16(field)) {
        dp_csum_apply(field, changes);
        if (!dp_load16(field)) {
            dp_store16(field, 0xffff);
        }
    }
}

/* Flags of dp_csum_transport() (dp/seam_raw.h). */
#define DP_CSUM_PSEUDO 1        /* Addresses in the pseudo header changed, not the transport header itself. */
#define DP_CSUM_UDP 2
#define DP_CSUM_OUTER 4         /* If the packet is CHECKSUM_PARTIAL, that concerns another checksum. */

#endif /* dp/checksum.h */
