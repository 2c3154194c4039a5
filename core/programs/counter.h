/* SPDX-License-Identifier: Apache-2.0 */
/* The programs' counters: core/programs/counter.c. */
#ifndef OXDP_COUNTER_H
#define OXDP_COUNTER_H 1

#include <stdint.h>

#include "dp/counter.h"

struct bpf_counters;
struct oxdp_progs;

/* Adds what the 'n' counters of a slot, one for each CPU, have counted to 'sum'. */
void oxdp_counters_add(const struct bpf_counters *per_cpu, uint32_t n, uint64_t sum[DP_N_COUNTERS]);

/* Adds what counter slot 'slot' has counted on all CPUs to 'sum'; clears it for a new port. */
void oxdp_counters_sum(const struct oxdp_progs *progs, uint32_t slot, uint64_t sum[DP_N_COUNTERS]);
void oxdp_counters_take_slot(struct oxdp_progs *progs, uint32_t slot);

#endif /* core/programs/counter.h */
