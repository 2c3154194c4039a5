/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of array elements whose lengths are powers of two (buddy allocation): regions of hash buckets,
 * programs of operations.  Not thread-safe. */
#ifndef OXDP_BUDDY_H
#define OXDP_BUDDY_H 1

#include <stdint.h>

struct oxdp_buddy;

#define OXDP_BUDDY_NONE UINT32_MAX

/* Manages elements 0 to n - 1, all free.  NULL without memory. */
struct oxdp_buddy *oxdp_buddy_create(uint32_t n);
void oxdp_buddy_destroy(struct oxdp_buddy *);           /* NULL is allowed. */

/* Returns the first of 'n' elements in a row, aligned to 'n' rounded up to a power of two, or
 * OXDP_BUDDY_NONE. */
uint32_t oxdp_buddy_alloc(struct oxdp_buddy *, uint32_t n);
/* Gives back what oxdp_buddy_alloc() returned for the same 'n'. */
void oxdp_buddy_free(struct oxdp_buddy *, uint32_t first, uint32_t n);

uint32_t oxdp_buddy_n_free(const struct oxdp_buddy *);

#endif /* core/tables/buddy.h */
