/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/before.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/programs/attachment.h"
#include "core/programs/counter.h"
#include "core/programs/progs_struct.h"
#include "core/programs/state.h"

struct oxdp_before {
    void *table[BPF_N_TABLES];  /* NULL except those with OXDP_RESTART_READ. */
};

/* The table of the previous instance, mapped; or NULL. */
static void *map_table(const struct oxdp_progs *progs, enum bpf_table i)
{
    int fd = oxdp_state_open_old(progs, i);
    void *table;

    if (fd < 0) {
        return NULL;
    }
    table = mmap(NULL, progs->memory.bytes[i], PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return table == MAP_FAILED ? NULL : table;
}

void oxdp_before_open(struct oxdp_progs *progs)
{
    struct oxdp_before *before = calloc(1, sizeof *before);
    bool all = before;

    progs->before = before;
    for (int i = 0; all && i < BPF_N_TABLES; i++) {
        if (oxdp_state_rule(i) == OXDP_RESTART_READ) {
            before->table[i] = map_table(progs, i);
            all = before->table[i];
        }
    }
    if (!all) {
        oxdp_before_close(progs);
    }
}

void oxdp_before_close(struct oxdp_progs *progs)
{
    struct oxdp_before *before = progs->before;

    for (int i = 0; before && i < BPF_N_TABLES; i++) {
        if (before->table[i]) {
            munmap(before->table[i], progs->memory.bytes[i]);
        }
    }
    free(before);
    progs->before = NULL;
}

bool oxdp_before_has(const struct oxdp_progs *progs, enum bpf_table i)
{
    return progs->before && progs->before->table[i];
}

void oxdp_before_adopt(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    const struct bpf_port *port;

    if (progs->before && !at->before_slot) {
        port = (const struct bpf_port *) progs->before->table[BPF_TABLE_ports] + (at->ifindex & (progs->n_direct - 1));
        if ((int) port->ifindex == at->ifindex && port->counter_slot <= progs->max_ports) {
            at->before_slot = port->counter_slot;
        }
    }
}

static void add_old(const struct oxdp_progs *progs, const struct oxdp_attachment *at, uint64_t sum[DP_N_COUNTERS])
{
    const struct bpf_counters *counters = progs->before->table[BPF_TABLE_counters];

    oxdp_counters_add(counters + (size_t) at->before_slot * progs->n_cpu_ids, progs->n_cpu_ids, sum);
}

/* There is no other writer of the slot: our program does not run on the device yet.  The totals are of this process
 * alone. */
void oxdp_before_hand_on(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    if (at->before_slot && progs->before) {
        struct bpf_counters *first = oxdp_memory_counters(&progs->memory, at->port.counter_slot);
        uint64_t sum[DP_N_COUNTERS] = { 0 };

        add_old(progs, at, sum);
        for (int i = 0; i < DP_N_COUNTERS; i++) {
            first->n[i] += sum[i];
            progs->retired[i] -= sum[i];
            at->before[i] = -sum[i];
        }
    }
}

void oxdp_before_end(struct oxdp_progs *progs, struct oxdp_attachment *at)
{
    if (at->before_slot && progs->before) {
        add_old(progs, at, at->before);
    }
    at->before_slot = 0;
}

void oxdp_before_add(const struct oxdp_progs *progs, const struct oxdp_attachment *at, uint64_t sum[])
{
    if (at->before_slot && progs->before) {
        add_old(progs, at, sum);
    }
    for (int i = 0; i < DP_N_COUNTERS; i++) {
        sum[i] += at->before[i];
    }
}
