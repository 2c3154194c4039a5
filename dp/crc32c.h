/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* How SCTP's checksum (CRC-32C, RFC 9260 appendix A) changes when four bytes of a message change.
 *
 * A CRC is linear: the difference of two messages' CRCs is the CRC of their difference, without initial value and
 * final inversion.  The difference is zero but for four bytes, and appending a zero byte multiplies by x^8 modulo the
 * polynomial; so the cost is that of one multiplication per bit that is set in the distance to the end. */
#ifndef DP_CRC32C_H
#define DP_CRC32C_H 1

#include "dp/types.h"

#define DP_CRC32C_POLYNOMIAL 0x82f63b78u        /* Bit-reversed: bit 31 is x^0. */

DP_INLINE __u32 dp_crc32c_times_x(__u32 a)
{
    return a >> 1 ^ (-(a & 1) & DP_CRC32C_POLYNOMIAL);
}

DP_INLINE __u32 dp_crc32c_multiply(__u32 a, __u32 b)
{
    __u32 product = 0;

    DP_NO_UNROLL
    for (int i = 0; i < 32; i++) {
        product ^= -(a >> 31) & b;
        a <<= 1;
        b = dp_crc32c_times_x(b);
    }
    return product;
}

/* The change of a message's CRC-32C when the four bytes 'change' (xor of old and new, memory order, little
 * endian) are followed by 'distance' bytes up to the end.  As stored in the SCTP header, little endian. */
DP_STAGE __u32 dp_crc32c_change(__u32 change, __u32 distance)
{
    __u32 crc = change;
    __u32 power = 1u << (31 - 8);       /* x^8: one byte. */

    DP_NO_UNROLL
    for (int i = 0; i < 32; i++) {
        crc = dp_crc32c_times_x(crc);
    }
    DP_NO_UNROLL
    for (int i = 0; i < 16; i++) {
        if (distance >> i & 1) {
            crc = dp_crc32c_multiply(crc, power);
        }
        power = dp_crc32c_multiply(power, power);
    }
    return crc;
}

/* The checksum of the SCTP message of 'len' bytes at 'sctp', at least a header, over zeros in the field's place.
 * Stored as dp_le32() of it. */
DP_INLINE __u32 dp_crc32c_sctp(const __u8 *sctp, __u32 len)
{
    /* By the low four bits. */
    static const __u32 table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    __u32 crc = 0xffffffff;

    for (__u32 i = 0; i < len; i++) {
        __u8 byte = i / 4 == 2 ? 0 : sctp[i];

        crc = crc >> 4 ^ table[(crc ^ byte) & 0xf];
        crc = crc >> 4 ^ table[(crc ^ byte >> 4) & 0xf];
    }
    return ~crc;
}

#endif /* dp/crc32c.h */
