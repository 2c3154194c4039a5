/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The one's complement sum of a whole frame.  A seam provides dp_sum(), which adds up a piece of it. */
#ifndef DP_TUNNEL_SUM_H
#define DP_TUNNEL_SUM_H 1

#include "dp/types.h"

/* Sums up the 'SIZE' bytes at 'ofs' if they are in the frame and goes on behind them; the mask makes all values one for
 * the verifier. */
#define DP_SUM_PIECE(SIZE)                              \
    p = dp_at(ctx, ofs, SIZE);                          \
    if (p) {                                            \
        sum = dp_sum(p, SIZE, sum);                     \
        ofs = (ofs + (SIZE)) & DP_MAX_SUM;              \
    }                                                   \
    DP_OPAQUE(ofs)
#define DP_MAX_SUM 0x3fff
#define DP_SUM_LOOP 256

/* The sum of all bytes of the frame from 'ofs', an even number, on, in memory order. */
DP_STAGE __u64 dp_tunnel_sum_all(struct dp_ctx *ctx, __u32 ofs)
{
    const __u8 *p;
    __u32 sum = 0;

    ofs &= DP_MAX_SUM;
    for (int i = 0; i < DP_MAX_SUM / DP_SUM_LOOP; i++) {
        p = dp_at(ctx, ofs, DP_SUM_LOOP);
        if (!p) {
            break;
        }
        sum = dp_sum(p, DP_SUM_LOOP, sum);
        ofs = (ofs + DP_SUM_LOOP) & DP_MAX_SUM;
        DP_OPAQUE(ofs);
    }
    DP_SUM_PIECE(128);
    DP_SUM_PIECE(64);
    DP_SUM_PIECE(32);
    DP_SUM_PIECE(16);
    DP_SUM_PIECE(8);
    DP_SUM_PIECE(4);

    __u64 all = sum;

    p = dp_at(ctx, ofs, 2);
    if (p) {
        all += dp_load16(p);
        ofs = (ofs + 2) & DP_MAX_SUM;
    }
    p = dp_at(ctx, ofs, 1);
    return p ? all + DP_SWAP16((__u16) (*p << 8)) : all;
}

#endif /* dp/tunnel_sum.h */
