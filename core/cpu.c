/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cpu.h"

#include <bpf/libbpf.h>
#include <inttypes.h>
#include <stdio.h>

/* The kernel lists CPUs in ascending order, as in "0-3,8-11".  Their number if it does not. */
static uint32_t read_possible(void)
{
    FILE *file = fopen("/sys/devices/system/cpu/possible", "re");
    int n_cpus = libbpf_num_possible_cpus();
    uint32_t n = n_cpus > 0 ? n_cpus : 1;
    uint32_t id = 0;

    if (file) {
        while (fscanf(file, "%*[-,]") != EOF && fscanf(file, "%"SCNu32, &id) == 1) {
            continue;
        }
        fclose(file);
    }
    return id < n ? n : id + 1;
}

uint32_t oxdp_n_cpu_ids(void)
{
    static uint32_t known;      /* 0: not yet.  It never changes. */
    uint32_t n = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (!n) {
        n = read_possible();
        __atomic_store_n(&known, n, __ATOMIC_RELAXED);
    }
    return n;
}
