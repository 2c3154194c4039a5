/* SPDX-License-Identifier: Apache-2.0 */
/* What programs counted. */
#include "core/prog_private.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/xdp.skel.h"

int oxdp_progs_get_counters(const struct oxdp_progs *progs, int ifindex,
                            uint64_t ret_counters[DP_N_COUNTERS])
{
    const struct oxdp_attachment *at = oxdp_progs_find(progs, ifindex);

    if (ifindex && !at) {
        return -ENODEV;
    }
    memset(ret_counters, 0, DP_N_COUNTERS * sizeof *ret_counters);
    return oxdp_counters_sum(progs, at ? at->port.counter_slot : BPF_COUNTER_SLOT_NO_PORT, ret_counters);
}

int oxdp_progs_get_totals(const struct oxdp_progs *progs, uint64_t ret_counters[DP_N_COUNTERS])
{
    uint32_t n = progs->n_slots;
    struct bpf_counters *per_cpu = calloc((size_t) n * progs->n_cpus, sizeof *per_cpu);
    uint32_t *slots = calloc(n, sizeof *slots);
    uint32_t next;
    int err = -ENOMEM;

    if (per_cpu && slots) {
        err = bpf_map_lookup_batch(bpf_map__fd(progs->maps->maps.counters), NULL, &next, slots, per_cpu, &n,
                                   NULL);
        err = err == -ENOENT ? 0 : err;
    }
    if (!err) {
        memcpy(ret_counters, progs->retired, sizeof progs->retired);
        for (size_t i = 0; i < (size_t) n * progs->n_cpus; i++) {
            for (int j = 0; j < DP_N_COUNTERS; j++) {
                ret_counters[j] += per_cpu[i].n[j];
            }
        }
    }
    free(slots);
    free(per_cpu);
    return err;
}

uint64_t oxdp_hits(const uint64_t counters[DP_N_COUNTERS])
{
    return counters[DP_COUNTER_FORWARDED] + counters[DP_COUNTER_DROPPED] + counters[DP_COUNTER_NO_OUTPUT]
        + counters[DP_COUNTER_UP_ENGINE] + counters[DP_COUNTER_RECIRCULATED];
}

uint64_t oxdp_received(const uint64_t counters[DP_N_COUNTERS])
{
    uint64_t sum = 0;

#define X(NAME, TEXT) sum += counters[DP_COUNTER_##NAME];
    DP_FATE_COUNTERS(X)
#undef X
    return sum;
}

const char *oxdp_counter_text(enum dp_counter counter)
{
    static const char *const texts[] = {
#define X(NAME, TEXT) TEXT,
        DP_COUNTERS(X)
#undef X
    };

    return counter < DP_N_COUNTERS ? texts[counter] : NULL;
}

/* Adds what slot 'slot' has counted on all processors to 'sum'. */
int oxdp_counters_sum(const struct oxdp_progs *progs, uint32_t slot, uint64_t sum[DP_N_COUNTERS])
{
    struct bpf_counters *per_cpu = calloc(progs->n_cpus, sizeof *per_cpu);
    int err = -ENOMEM;

    if (per_cpu) {
        err = bpf_map_lookup_elem(bpf_map__fd(progs->maps->maps.counters), &slot, per_cpu);
    }
    for (int cpu = 0; !err && cpu < progs->n_cpus; cpu++) {
        for (int i = 0; i < DP_N_COUNTERS; i++) {
            sum[i] += per_cpu[cpu].n[i];
        }
    }
    free(per_cpu);
    return err;
}

/* Prepares counter slot 'slot' for a new port: its predecessor's numbers stay in the totals. */
int oxdp_counters_take_slot(struct oxdp_progs *progs, uint32_t slot)
{
    struct bpf_counters *zero = calloc(progs->n_cpus, sizeof *zero);
    int err = zero ? oxdp_counters_sum(progs, slot, progs->retired) : -ENOMEM;

    if (!err) {
        err = bpf_map_update_elem(bpf_map__fd(progs->maps->maps.counters), &slot, zero, BPF_ANY);
    }
    if (slot >= progs->n_slots) {
        progs->n_slots = slot + 1;
    }
    free(zero);
    return err;
}
