/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Integers in network byte order, as types of their own: the compiler refuses to mix them with others. */
#ifndef DP_TYPES_H
#define DP_TYPES_H 1

#include "dp/compiler.h"

typedef struct { __u16 raw; } dp_be16;
typedef struct { __u32 raw; } dp_be32;
typedef struct { __u64 raw; } dp_be64;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define DP_SWAP16(X) __builtin_bswap16(X)
#define DP_SWAP32(X) __builtin_bswap32(X)
#else
#define DP_SWAP16(X) ((__u16) (X))
#define DP_SWAP32(X) ((__u32) (X))
#endif

DP_INLINE dp_be16 dp_htons(__u16 v) { return (dp_be16) { DP_SWAP16(v) }; }
DP_INLINE dp_be32 dp_htonl(__u32 v) { return (dp_be32) { DP_SWAP32(v) }; }
DP_INLINE __u16 dp_ntohs(dp_be16 v) { return DP_SWAP16(v.raw); }
DP_INLINE __u32 dp_ntohl(dp_be32 v) { return DP_SWAP32(v.raw); }

DP_INLINE dp_be16 dp_load_be16(const void *p) { return (dp_be16) { dp_load16(p) }; }
DP_INLINE dp_be32 dp_load_be32(const void *p) { return (dp_be32) { dp_load32(p) }; }

/* The 'SIZE' bytes of V (an integer in memory order) as bytes OFS... of a 64-bit word in memory. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define DP_BYTES(OFS, SIZE, V) ((__u64) (V) << 8 * (OFS))
#else
#define DP_BYTES(OFS, SIZE, V) ((__u64) (V) << 8 * (8 - (OFS) - (SIZE)))
#endif

/* To and from little endian, which CRC-32C of RFC 9260 is stored in. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
DP_INLINE __u32 dp_le32(__u32 v) { return v; }
#else
DP_INLINE __u32 dp_le32(__u32 v) { return __builtin_bswap32(v); }
#endif

#define DP_BE16_IS(V, HOST) ((V).raw == DP_SWAP16(HOST))

#endif /* dp/types.h */
