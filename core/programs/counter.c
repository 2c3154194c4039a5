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

/* Whether the last lookup of frames that are counted under 'reason' found a flow. */
enum found { FOUND_NOTHING, FOUND, FOUND_FOR_ENGINE };

/* A reason without a case does not compile. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
static enum found found_by(enum dp_reason reason)
{
    switch (reason) {
    case DP_REASON_FORWARDED:
    case DP_REASON_DROPPED:
    case DP_REASON_METERED:
    case DP_REASON_NO_OUTPUT:
    case DP_REASON_NO_MEMORY:
    case DP_REASON_OVER_MTU:
    case DP_REASON_DETOUR:
    case DP_REASON_NO_BUFFERS:
        return FOUND;
    case DP_REASON_UP_ENGINE:
    case DP_REASON_UP_TUNNEL:
    case DP_REASON_UP_CT:
    case DP_REASON_UP_CT_FRAGMENT:
    case DP_REASON_UP_CT_ERROR:
    case DP_REASON_UP_CT_HELPER:
    case DP_REASON_UP_CT_MARK:
    case DP_REASON_UP_CT_NAT:
    case DP_REASON_UP_CT_NEW:
        return FOUND_FOR_ENGINE;
    case DP_REASON_UP_OFF:
    case DP_REASON_UP_MISS:
    case DP_REASON_UP_PARSE:
    case DP_REASON_UP_CHECKSUM:
    case DP_REASON_NO_SOCKET:           /* These three were on their way to the engine, with a flow or without. */
    case DP_REASON_NO_HEADROOM:
    case DP_REASON_TOO_LONG:
    case DP_REASON_SEGMENTS:
    case DP_REASON_NO_METADATA:
    case DP_REASON_UNKNOWN_PORT:
    case DP_N_REASONS:
        break;
    }
    return FOUND_NOTHING;
}
#pragma GCC diagnostic pop

uint64_t oxdp_hits(const uint64_t counters[DP_N_COUNTERS])
{
    uint64_t sum = counters[DP_COUNTER_RECIRCULATED];

    for (int i = 0; i < DP_N_REASONS; i++) {
        sum += found_by(i) != FOUND_NOTHING ? counters[i] : 0;
    }
    return sum;
}

uint64_t oxdp_hits_for_engine(const uint64_t counters[DP_N_COUNTERS])
{
    uint64_t sum = 0;

    for (int i = 0; i < DP_N_REASONS; i++) {
        sum += found_by(i) == FOUND_FOR_ENGINE ? counters[i] : 0;
    }
    return sum;
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
