/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef DP_TICKS_H
#define DP_TICKS_H 1

#include <linux/types.h>

/* The two clocks at one moment. */
struct dp_ticks_sample {
    __u64 ticks;                /* Jiffies, as in struct dp_stats. */
    __u64 now;                  /* Nanoseconds of CLOCK_MONOTONIC. */
};

#endif /* dp/ticks.h */
