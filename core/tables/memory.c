/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tables/memory.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_BYTES (1u << 29)    /* BPF_MAX_VAR_OFF of the kernel's verifier. */

static int make_table(struct oxdp_memory *, enum bpf_table, size_t bytes, int old_fd);

int oxdp_memory_create(const struct oxdp_table_config *config, uint32_t n_ports, uint32_t n_slots,
                       uint32_t n_cpu_ids, const int old_fd[BPF_N_TABLES], struct oxdp_memory *memory)
{
    uint32_t *number = memory->constants.number;
    struct dp_tables tables;
    int err = 0;

    memset(memory, 0, sizeof *memory);
    oxdp_table_sizes(config, &tables);
#define X(NAME, TYPE) number[BPF_LAST_##NAME] = tables.n_##NAME - 1;
    DP_TABLES(X)
#undef X
    number[BPF_LAST_runs] = n_cpu_ids - 1;
    number[BPF_LAST_ports] = n_ports - 1;
    number[BPF_LAST_limits] = BPF_LIMIT_OF_PORT(n_slots - 1) - 1;       /* Slot 0 is of no port. */
    number[BPF_LAST_counters] = n_slots * n_cpu_ids - 1;
    number[BPF_LAST_tracing] = 0;
    number[BPF_LAST_traces] = n_cpu_ids - 1;
    number[BPF_NUMBER_SHARED_SHARDS] = config->n_cpus > config->n_shards ? config->n_shards : 0;
#define X(NAME, TYPE)                                                                                               \
    if (!err) {                                                                                                     \
        err = make_table(memory, BPF_TABLE_##NAME, (number[BPF_LAST_##NAME] + (size_t) 1) * sizeof(TYPE),           \
                         old_fd ? old_fd[BPF_TABLE_##NAME] : -1);                                                   \
    }
    BPF_TABLES(X)
#undef X
    oxdp_constants_omit_ct(&memory->constants);
    oxdp_constants_find_kfuncs(&memory->constants);
    for (int i = 0; old_fd && i < BPF_N_TABLES; i++) {
        if (old_fd[i] >= 0) {
            close(old_fd[i]);
        }
    }
    if (err) {
        oxdp_memory_destroy(memory);
        return err;
    }
    memset(oxdp_memory_limits(memory), 0xff, memory->bytes[BPF_TABLE_limits]);
    return 0;
}

void oxdp_memory_destroy(struct oxdp_memory *memory)
{
    for (int i = 0; i < BPF_N_TABLES; i++) {
        if (memory->table[i]) {
            munmap(memory->table[i], memory->bytes[i]);
            close(memory->constants.table_fd[i]);
        }
    }
    memset(memory, 0, sizeof *memory);
}

struct dp_tables oxdp_memory_tables(const struct oxdp_memory *memory)
{
    struct dp_tables tables;

#define X(NAME, TYPE)                                                           \
    tables.NAME = memory->table[BPF_TABLE_##NAME];                              \
    tables.n_##NAME = memory->constants.number[BPF_LAST_##NAME] + 1;
    DP_TABLES(X)
#undef X
    return tables;
}

struct bpf_limit oxdp_memory_limit_of(const struct oxdp_memory *memory, const uint32_t ports[], uint32_t n)
{
    const struct bpf_limit *limits = oxdp_memory_limits(memory);
    struct bpf_limit least = { .max_len = UINT32_MAX, .buffers = 1 };

    for (uint32_t i = 0; i < n; i++) {
        const struct bpf_limit *limit = &limits[BPF_LIMIT_OF_PORT(ports[i])];

        least.max_len = limit->max_len < least.max_len ? limit->max_len : least.max_len;
        least.buffers = limit->buffers && least.buffers;
    }
    return least;
}

const char *oxdp_memory_name(enum bpf_table i)
{
    static const char *const names[] = {
#define X(NAME, TYPE) "dp_" #NAME,
        BPF_TABLES(X)
#undef X
    };

    return names[i];
}

/* Whether the table 'fd' has 'bytes'. */
static bool has_size(int fd, size_t bytes)
{
    struct bpf_map_info info = { 0 };
    uint32_t len = sizeof info;

    return !bpf_obj_get_info_by_fd(fd, &info, &len) && info.value_size == bytes;
}

static int make_table(struct oxdp_memory *memory, enum bpf_table i, size_t bytes, int old_fd)
{
    LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
    bool adopted = old_fd >= 0 && has_size(old_fd, bytes);
    size_t page = sysconf(_SC_PAGESIZE);
    void *table;
    int fd;

    if (bytes > MAX_BYTES) {
        return -E2BIG;
    }
    fd = adopted ? fcntl(old_fd, F_DUPFD_CLOEXEC, 0)
        : bpf_map_create(BPF_MAP_TYPE_ARRAY, oxdp_memory_name(i), sizeof(uint32_t), bytes, 1, &opts);
    if (fd < 0) {
        return -errno;
    }
    bytes = (bytes + page - 1) & ~(page - 1);
    table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED) {
        int err = -errno;

        close(fd);
        return err;
    }
    memory->constants.table_fd[i] = fd;
    memory->table[i] = table;
    memory->bytes[i] = bytes;
    memory->adopted[i] = adopted;
    return 0;
}
