/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that programs and userspace share: the tables of bpf/constant.h, each the only value of a map of its
 * own. */
#ifndef OXDP_MEMORY_H
#define OXDP_MEMORY_H 1

#include <stdbool.h>
#include <stddef.h>

#include "core/tables/constants.h"
#include "core/tables/table.h"

struct oxdp_memory {
    struct oxdp_constants constants;    /* Of programs over these tables that omit nothing. */
    void *table[BPF_N_TABLES];
    size_t bytes[BPF_N_TABLES];
    bool adopted[BPF_N_TABLES];         /* Was there before. */
};

/* Makes the tables: those of dp/table.h in the sizes of the configuration, 'n_ports' ports (a power of two), 'n_slots'
 * slots of counters, and room for runs on 'n_cpu_ids' CPUs (behind the highest number).  'old_fd' (NULL: none) has
 * tables that exist already, -1 for the others: one of the right size is adopted with what is in it.  All are closed.
 * 0; -E2BIG if a table would be larger than the kernel lets programs address; or another negative errno. */
int oxdp_memory_create(const struct oxdp_table_config *, uint32_t n_ports, uint32_t n_slots, uint32_t n_cpu_ids,
                       const int old_fd[BPF_N_TABLES], struct oxdp_memory *);
void oxdp_memory_destroy(struct oxdp_memory *);

/* The tables of dp/table.h in it, for oxdp_table_create(). */
struct dp_tables oxdp_memory_tables(const struct oxdp_memory *);

/* The ports as programs find them. */
static inline struct bpf_port *oxdp_memory_ports(const struct oxdp_memory *memory)
{
    return memory->table[BPF_TABLE_ports];
}

/* What ports take (BPF_LIMIT_OF_PORT() ...): everything, at first. */
static inline struct bpf_limit *oxdp_memory_limits(const struct oxdp_memory *memory)
{
    return memory->table[BPF_TABLE_limits];
}

/* What all of the 'n' ports take. */
struct bpf_limit oxdp_memory_limit_of(const struct oxdp_memory *, const uint32_t ports[], uint32_t n);

/* The counters of a slot: one for each CPU, as many as the runs. */
static inline struct bpf_counters *oxdp_memory_counters(const struct oxdp_memory *memory, uint32_t slot)
{
    uint32_t n_cpu_ids = memory->constants.number[BPF_LAST_runs] + 1;

    return (struct bpf_counters *) memory->table[BPF_TABLE_counters] + slot * n_cpu_ids;
}

/* The name of a table's map. */
const char *oxdp_memory_name(enum bpf_table);

#endif /* core/tables/memory.h */
