/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Clearing the words of a key that come with no bytes of the packet. */
#ifndef DP_METADATA_H
#define DP_METADATA_H 1

#include "dp/key.h"
#include "dp/omit.h"

/* Recirculation, mark, priority, and connection tracking: all but the port and the tunnel's. */
DP_INLINE void dp_clear_tracking(struct dp_ctx *ctx, union dp_key *key)
{
    if (!DP_OMITS_WORDS(ctx, DP_KEY_WORD(dp_hash), DP_KEY_WORD(ct_state))) {
        for (int i = DP_KEY_WORD(dp_hash); i < DP_KEY_WORD(ct_state); i++) {
            key->w[i] = 0;
        }
    }
    if (!DP_OMITS_WORDS(ctx, DP_KEY_WORD(ct_state), DP_KEY_WORD(tun_id))) {
        for (int i = DP_KEY_WORD(ct_state); i < DP_KEY_WORD(tun_id); i++) {
            key->w[i] = 0;
        }
    }
}

/* All but the port. */
DP_INLINE void dp_clear_metadata(struct dp_ctx *ctx, union dp_key *key)
{
    dp_clear_tracking(ctx, key);
    if (!DP_OMITS_WORDS(ctx, DP_KEY_WORD(tun_id), DP_KEY_WORD(tun_options))) {
        for (int i = DP_KEY_WORD(tun_id); i < DP_KEY_WORD(tun_options); i++) {
            key->w[i] = 0;
        }
    }
    if (!DP_OMITS_WORDS(ctx, DP_KEY_WORD(tun_options), DP_KEY_WORDS)) {
        for (int i = DP_KEY_WORD(tun_options); i < DP_KEY_WORDS; i++) {
            key->w[i] = 0;
        }
    }
}

#endif /* dp/metadata.h */
