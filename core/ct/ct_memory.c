/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the tables of connections: each the only value of a BPF map, or memory of this process. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/ct/ct_private.h"

#define MORE_MARKS 4096         /* Than connections: of flows. */

const char *oxdp_ct_name(enum oxdp_ct_table i)
{
    static const char *const names[] = {
#define X(NAME, TYPE) "ct_" #NAME,
        DP_CT_TABLES(X)
#undef X
    };

    return names[i];
}

uint32_t oxdp_ct_memory_buckets(uint32_t n)
{
    uint32_t n_buckets = 1;

    while (n_buckets < n) {
        n_buckets *= 2;
    }
    return n_buckets;
}

/* Elements of each table. */
static void set_sizes(uint32_t n, struct dp_ct_tables *t)
{
    t->n_head = 1;
    t->n_buckets = oxdp_ct_memory_buckets(n);
    t->n_keys = t->n_lives = t->n_addr6 = t->n_cold = n;
    t->n_marks = n + MORE_MARKS;
    t->n_policies = OXDP_CT_POLICIES;
    t->n_zones = DP_CT_ZONES + 1;
}

size_t oxdp_ct_bytes(uint32_t n)
{
    struct dp_ct_tables t;
    size_t bytes = 0;

    set_sizes(n, &t);
#define X(NAME, TYPE) bytes += t.n_##NAME * sizeof(TYPE);
    DP_CT_TABLES(X)
#undef X
    return bytes;
}

int oxdp_ct_memory_create(uint32_t n, bool maps, const int old_fd[OXDP_CT_N_TABLES], struct dp_ct_tables *t,
                          int fd[OXDP_CT_N_TABLES])
{
    int err = 0;

    memset(t, 0, sizeof *t);
    for (int i = 0; i < OXDP_CT_N_TABLES; i++) {
        fd[i] = -1;
    }
    set_sizes(n, t);
#define X(NAME, TYPE)                                                                               \
    if (!err) {                                                                                     \
        err = oxdp_ct_memory_table(t->n_##NAME * sizeof(TYPE), maps, old_fd ? old_fd[OXDP_CT_##NAME] : -1,  \
                                   (void **) &t->NAME, &fd[OXDP_CT_##NAME]);                        \
    }
    DP_CT_TABLES(X)
#undef X
    if (err) {
        oxdp_ct_memory_destroy(t, fd);
    }
    return err;
}

void oxdp_ct_memory_unmap(void *table, size_t bytes, int fd)
{
    if (table) {
        munmap(table, bytes);
    }
    if (fd >= 0) {
        close(fd);
    }
}

void oxdp_ct_memory_destroy(struct dp_ct_tables *t, int fd[OXDP_CT_N_TABLES])
{
#define X(NAME, TYPE) oxdp_ct_memory_unmap(t->NAME, t->n_##NAME * sizeof(TYPE), fd[OXDP_CT_##NAME]);
    DP_CT_TABLES(X)
#undef X
    memset(t, 0, sizeof *t);
}

uint32_t oxdp_ct_memory_n(const int fd[OXDP_CT_N_TABLES])
{
    struct dp_ct_head *head;
    uint32_t n = 0;

    head = mmap(NULL, sizeof *head, PROT_READ, MAP_SHARED, fd[OXDP_CT_head], 0);
    if (head == MAP_FAILED) {
        return 0;
    }
    if (head->magic == DP_CT_MAGIC && head->version == DP_CT_VERSION) {
        n = head->n;
    }
    munmap(head, sizeof *head);
    return n;
}

uint32_t *oxdp_ct_memory_numbers(size_t n)
{
    void *numbers = NULL;
    int fd = -1;

    return oxdp_ct_memory_table(n * sizeof(uint32_t), false, -1, &numbers, &fd) ? NULL : numbers;
}

void oxdp_ct_memory_free_numbers(uint32_t *numbers, size_t n)
{
    oxdp_ct_memory_unmap(numbers, n * sizeof *numbers, -1);
}

static bool has_size(int fd, size_t bytes)
{
    struct bpf_map_info info = { 0 };
    uint32_t len = sizeof info;

    return !bpf_obj_get_info_by_fd(fd, &info, &len) && info.value_size == bytes;
}

int oxdp_ct_memory_table(size_t bytes, bool maps, int old_fd, void **ret, int *ret_fd)
{
    LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
    /* The kernel has allocated all of a map already: page faults now, not one by one while packets wait. */
    int flags = maps ? MAP_SHARED | MAP_POPULATE : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *table;

    if (old_fd >= 0 && !has_size(old_fd, bytes)) {
        return -ESTALE;
    }
    if (maps) {
        *ret_fd = old_fd >= 0 ? fcntl(old_fd, F_DUPFD_CLOEXEC, 0)
            : bpf_map_create(BPF_MAP_TYPE_ARRAY, "dp_ct", sizeof(uint32_t), bytes, 1, &opts);
        if (*ret_fd < 0) {
            return -errno;
        }
    }
    table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, *ret_fd, 0);
    if (table == MAP_FAILED) {
        return -errno;
    }
    *ret = table;
    return 0;
}
