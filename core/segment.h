/* SPDX-License-Identifier: Apache-2.0 */
/* Segmentation: what a device does for a sender that leaves it to the device (GSO). */
#ifndef OXDP_SEGMENT_H
#define OXDP_SEGMENT_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/transport.h"

struct oxdp_segments {
    uint8_t *frame;             /* The whole. */
    struct oxdp_transport transport;    /* In it. */
    size_t headers;             /* Bytes before the payload. */
    size_t payload;             /* Bytes of it. */
    size_t at;                  /* What of it has been given out. */
    size_t size;                /* Of the payload of a segment. */
    uint16_t n;                 /* Segments that have been given out. */
};

/* Begins to cut 'frame', of 'len' bytes, TCP or UDP over IPv4 or IPv6, into segments with at most 'size' bytes of
 * payload.  'frame' must stay as it is meanwhile.  False: it cannot be cut. */
bool oxdp_segments_begin(struct oxdp_segments *, void *frame, size_t len, size_t size);

/* Bytes of the next segment, 0 if there is none. */
size_t oxdp_segments_next_len(const struct oxdp_segments *);

/* Writes the next segment, which there is, to 'to', with its checksums. */
void oxdp_segments_next(struct oxdp_segments *, void *to);

#endif /* core/segment.h */
