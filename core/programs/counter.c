/* SPDX-License-Identifier: Apache-2.0 */
/* The programs' counters. */
#include "core/programs/counter.h"

#include <string.h>

#include "core/programs/progs.h"
#include "core/programs/progs_struct.h"
#include "dp/compiler.h"

void oxdp_progs_get_totals(const struct oxdp_progs *progs, uint64_t ret_counters[DP_N_COUNTERS])
{
    memcpy(ret_counters, progs->retired, sizeof progs->retired);
    for (uint32_t slot = 0; slot < progs->n_slots; slot++) {
        oxdp_counters_sum(progs, slot, ret_counters);
    }
}

uint64_t oxdp_hits(const uint64_t counters[DP_N_COUNTERS])
{
    return counters[DP_COUNTER_FORWARDED] + counters[DP_COUNTER_DROPPED] + counters[DP_COUNTER_NO_OUTPUT]
        + counters[DP_COUNTER_OVER_MTU] + counters[DP_COUNTER_NO_BUFFERS] + counters[DP_COUNTER_UP_ENGINE]
        + counters[DP_COUNTER_DETOUR] + counters[DP_COUNTER_RECIRCULATED];
}

uint64_t oxdp_received(const uint64_t counters[DP_N_COUNTERS])
{
    uint64_t sum = 0;

    for (int i = 0; i < DP_N_REASONS; i++) {
        sum += counters[i];
    }
    return sum;
}

const char *oxdp_counter_text(enum dp_counter counter)
{
    static const char *const texts[] = {
#define X(NAME, KIND, TEXT) DP_KIND_##KIND TEXT,
        DP_REASONS(X)
#undef X
#define X(NAME, TEXT) TEXT,
        DP_COUNTERS(X)
#undef X
    };

    return counter < DP_N_COUNTERS ? texts[counter] : NULL;
}

const char *oxdp_counter_name(enum dp_counter counter)
{
    static const char *const names[] = {
#define X(NAME, KIND, TEXT) #NAME,
        DP_REASONS(X)
#undef X
#define X(NAME, TEXT) #NAME,
        DP_COUNTERS(X)
#undef X
    };

    return counter < DP_N_COUNTERS ? names[counter] : NULL;
}

/* Adds what slot 'slot' has counted on all CPUs to 'sum'. */
void oxdp_counters_sum(const struct oxdp_progs *progs, uint32_t slot, uint64_t sum[DP_N_COUNTERS])
{
    oxdp_counters_add(oxdp_memory_counters(&progs->memory, slot), progs->n_cpu_ids, sum);
}

void oxdp_counters_add(const struct bpf_counters *per_cpu, uint32_t n, uint64_t sum[DP_N_COUNTERS])
{
    for (uint32_t cpu = 0; cpu < n; cpu++) {
        for (int i = 0; i < DP_N_COUNTERS; i++) {
            sum[i] += DP_READ_ONCE(per_cpu[cpu].n[i]);
        }
    }
}

/* Prepares counter slot 'slot' for a new port: its predecessor's numbers stay in the totals. */
void oxdp_counters_take_slot(struct oxdp_progs *progs, uint32_t slot)
{
    oxdp_counters_sum(progs, slot, progs->retired);
    memset(oxdp_memory_counters(&progs->memory, slot), 0, progs->n_cpu_ids * sizeof(struct bpf_counters));
    if (slot >= progs->n_slots) {
        progs->n_slots = slot + 1;
    }
}
