/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/before.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/programs/attachment.h"
#include "core/programs/counter.h"
#include "core/programs/layout.h"
#include "core/programs/pin.h"
#include "core/programs/progs.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"

#define NAME_LEN 64

static const enum bpf_table adopted[] = { BPF_TABLE_ports, BPF_TABLE_counters };
#define N_ADOPTED (sizeof adopted / sizeof adopted[0])

struct oxdp_before {
    void *table[BPF_N_TABLES];  /* NULL but for the adopted ones. */
};

/* The layout of all that is adopted; counters are known by their texts. */
static uint64_t layout(const struct oxdp_progs *progs)
{
    const struct btf *btf = bpf_object__btf(progs->maps->obj);
    uint64_t hash = oxdp_layout_hash(btf, "bpf_port", 0);

    hash = oxdp_layout_hash(btf, "bpf_counters", hash);
    for (int i = 0; i < DP_N_COUNTERS; i++) {
        hash = oxdp_layout_hash_text(oxdp_counter_text(i), hash);
    }
    return hash;
}

static void name_pin(const struct oxdp_progs *progs, enum bpf_table table, char name[NAME_LEN])
{
    snprintf(name, NAME_LEN, OXDP_PINS_STATE "%s-%016llx", oxdp_memory_name(table), (unsigned long long) layout(progs));
}

int oxdp_before_pin(const struct oxdp_progs *progs)
{
    int err = 0;

    for (size_t i = 0; !err && i < N_ADOPTED; i++) {
        char name[NAME_LEN];

        name_pin(progs, adopted[i], name);
        err = oxdp_pins_add(progs->pins, name, progs->memory.constants.table_fd[adopted[i]]);
    }
    return err;
}

/* The table of that name, mapped, if it is as large as ours; or NULL. */
static void *map_table(const struct oxdp_progs *progs, enum bpf_table i)
{
    struct bpf_map_info info = { 0 }, our = { 0 };
    uint32_t len = sizeof info, our_len = sizeof our;
    void *table = MAP_FAILED;
    char name[NAME_LEN];
    int fd;

    name_pin(progs, i, name);
    fd = oxdp_pins_open_old(progs->pins, name);
    if (fd < 0) {
        return NULL;
    }
    if (!bpf_obj_get_info_by_fd(fd, &info, &len)
        && !bpf_obj_get_info_by_fd(progs->memory.constants.table_fd[i], &our, &our_len)
        && info.value_size == our.value_size) {
        table = mmap(NULL, progs->memory.bytes[i], PROT_READ, MAP_SHARED, fd, 0);
    }
    close(fd);
    return table == MAP_FAILED ? NULL : table;
}

void oxdp_before_open(struct oxdp_progs *progs)
{
    struct oxdp_before *before = calloc(1, sizeof *before);
    bool all = before;

    progs->before = before;
    for (size_t i = 0; all && i < N_ADOPTED; i++) {
        before->table[adopted[i]] = map_table(progs, adopted[i]);
        all = before->table[adopted[i]];
    }
    if (!all) {
        oxdp_before_close(progs);
    }
}

void oxdp_before_close(struct oxdp_progs *progs)
{
    struct oxdp_before *before = progs->before;

    for (size_t i = 0; before && i < N_ADOPTED; i++) {
        if (before->table[adopted[i]]) {
            munmap(before->table[adopted[i]], progs->memory.bytes[adopted[i]]);
        }
    }
    free(before);
    progs->before = NULL;
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

/* There is no other writer of the slot: our program does not run on the device yet.  The totals are of this process alone. */
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
