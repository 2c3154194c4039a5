/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the ticks in struct dp_stats to CLOCK_MONOTONIC.  Not thread-safe. */
#ifndef OXDP_TICKS_H
#define OXDP_TICKS_H 1

#include <stdint.h>

#include "dp/ticks.h"

struct oxdp_ticks;

/* 0, or negative errno. */
int oxdp_ticks_open(struct oxdp_ticks **);
void oxdp_ticks_close(struct oxdp_ticks *);     /* NULL is allowed. */

/* Reads both clocks.  Call it once before a series of conversions, such as a dump.  0, or negative errno. */
int oxdp_ticks_update(struct oxdp_ticks *);

/* Milliseconds of CLOCK_MONOTONIC for 'ticks', to within a tick; 0 for 0. */
int64_t oxdp_ticks_to_ms(const struct oxdp_ticks *, uint64_t ticks);

/* What the ticks will be 'ms' milliseconds after oxdp_ticks_update(). */
uint64_t oxdp_ticks_after(const struct oxdp_ticks *, unsigned int ms);

/* Ticks per second: the kernel's CONFIG_HZ. */
unsigned int oxdp_ticks_per_second(const struct oxdp_ticks *);

/* The CONFIG_HZ of a kernel on which the clocks read this. */
unsigned int oxdp_ticks_guess_hz(const struct dp_ticks_sample *);

#endif /* core/kernel/ticks.h */
