/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* How to recognize CHECKSUM_PARTIAL in a plain frame: a local stack left its transport checksum to a device, and no
 * device completed it.  The engine completes it over the whole payload before the frame leaves (core/checksum.h). */
#ifndef DP_PENDING_H
#define DP_PENDING_H 1

#include "dp/types.h"

/* Sums 'n' 64-bit words at 'p', a multiple of two bytes from the start of what is summed: the sum is that of the 16-bit
 * words modulo 0xffff. */
DP_INLINE __u64 dp_pending_sum(const __u8 *p, int n)
{
    __u64 sum = 0;

    DP_UNROLL
    for (int i = 0; i < n; i++) {
        __u64 word = dp_load64(p + 8 * i);

        sum += (word >> 32) + (__u32) word;
    }
    return sum;
}

/* Whether the checksum 'field' of a TCP or UDP packet holds just the sum of the pseudo header, as Linux leaves it
 * (include/linux/skbuff.h, "Checksumming on output").  'addresses' is the sum of IP addresses, 'len' that of the
 * transport header and what follows.  One valid packet in 65536 looks the same: the engine forwards it as it is.
 *
 * Sums are equal in one's complement if they differ by a multiple of 0xffff, which is what the product tells:
 * 0xfffefffefffeffff is the inverse of 0xffff modulo 2^64.  A sum like this is never 0, and written as 0xffff. */
DP_INLINE int dp_is_pending(__u16 field, __u64 addresses, __u8 proto, __u32 len)
{
    __u64 difference = addresses + dp_htons(proto).raw + dp_htons(len).raw + (__u16) ~field;

    return field && difference * 0xfffefffefffeffffull <= 0x0001000100010001ull;
}

#endif /* dp/pending.h */
