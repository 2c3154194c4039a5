/* SPDX-License-Identifier: Apache-2.0 */
/* Where flows with a Netlink mask go: the same mask comes again and again, and
 * parsing it and finding what else has it takes as long as the rest of an
 * installation.  For writers: nothing here is thread-safe. */
#ifndef DPIF_XDP_KNOWN_MASKS_H
#define DPIF_XDP_KNOWN_MASKS_H 1

#include <stddef.h>
#include <stdint.h>

#include "flow.h"

struct dpif_xdp_cls;
struct nlattr;
struct subtable;

#define DPIF_XDP_MASK_SETS 64
#define DPIF_XDP_MASK_WAYS 4

struct dpif_xdp_known_masks {
    struct known_mask *masks[DPIF_XDP_MASK_SETS][DPIF_XDP_MASK_WAYS];
    uint8_t next[DPIF_XDP_MASK_SETS];   /* Way that is replaced next. */
    struct flow heeded;                 /* Bits of a flow that may decide what
                                         * a mask means, ... */
    struct flowmap heeded_map;          /* ... and words with such. */
};

void dpif_xdp_known_masks_init(struct dpif_xdp_known_masks *);
void dpif_xdp_known_masks_destroy(struct dpif_xdp_known_masks *);

/* Returns the subtable of 'cls' for the 'len' bytes of 'mask' in a flow whose
 * key is 'flow', with 'map', or NULL if that is not known. */
struct subtable *dpif_xdp_known_masks_find(
    const struct dpif_xdp_known_masks *, const struct dpif_xdp_cls *cls,
    const struct nlattr *mask, size_t len, const struct flow *flow,
    const struct flowmap *map);

/* Remembers what dpif_xdp_known_masks_find() shall return. */
void dpif_xdp_known_masks_add(struct dpif_xdp_known_masks *,
                              const struct dpif_xdp_cls *,
                              const struct nlattr *mask, size_t len,
                              const struct flow *, const struct flowmap *map,
                              struct subtable *);

#endif /* ovs/lookup/known_masks.h */
