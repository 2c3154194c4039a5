/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bpf_pipeline/harness.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/multi_buffer.h"
#include "core/programs/object.h"
#include "core/tables/memory.h"

struct dp_omit harness_omit;
uint32_t harness_conns;
bool harness_talks;

static char verifier_log[1 << 16];

/* The memory of the object's variables in section 'name'. */
static void *variables(struct harness *h, const char *name)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
                bpf_map__fd(bpf_object__find_map_by_name(h->object, name)), 0);
}

static void *make_table(size_t bytes, int *fd)
{
    LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
    void *table;

    *fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "dp_ct", sizeof(uint32_t), bytes, 1, &opts);
    table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    return table == MAP_FAILED ? NULL : table;
}

/* Tables of connections, with few buckets, so that some are full; with harness_talks with as many as a datapath has. */
static int make_ct_tables(struct harness *h)
{
    struct dp_ct_tables *t = &h->ct;
    struct dp_path_tables *p = &h->paths;
    int fd[BPF_N_ALL_TABLES - BPF_N_TABLES];
    int i = 0, first;

    t->n_head = 1;
    t->n_buckets = 1;
    while (t->n_buckets * (harness_talks ? 1 : 2) < harness_conns) {
        t->n_buckets *= 2;
    }
    t->n_keys = t->n_lives = t->n_addr6 = t->n_cold = harness_conns;
    t->n_marks = 4096;
    t->n_policies = 16;
    t->n_zones = DP_CT_ZONES + 1;
#define X(NAME, TYPE)                                               \
    t->NAME = make_table(t->n_##NAME * sizeof *t->NAME, &fd[i++]);  \
    if (!t->NAME) {                                                 \
        return -errno;                                              \
    }
    DP_CT_TABLES(X)
#undef X
    first = i;
    p->n_path_head = 1;
    p->n_micros = p->n_micros6 = t->n_buckets * 4;
    p->n_paths = DP_PATH_MAX;
#define X(NAME, TYPE)                                               \
    p->NAME = make_table(p->n_##NAME * sizeof *p->NAME, &fd[i++]);  \
    if (!p->NAME) {                                                 \
        return -errno;                                              \
    }
    DP_PATH_TABLES(X)
#undef X
    oxdp_constants_set_ct(&h->memory.constants, t, fd, p, fd + first);
    return 0;
}

/* Opens the object with constants for the tables of 'h', whose copy of the image is to be freed after loading. */
static struct bpf_object *open_object(const char *file, struct harness *h, void **ret_image)
{
    LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "pipeline");
    const void *image;
    char *error = NULL;
    size_t size;
    int err = oxdp_object_read(file, &image, &size, &error);

    if (err) {
        fprintf(stderr, "%s: %s\n", file, error);
        free(error);
        errno = -err;
        return NULL;
    }
    h->memory.constants.omit.parts |= harness_omit.parts;
    h->memory.constants.omit.words |= harness_omit.words;
    h->memory.constants.omit.ops |= harness_omit.ops;
    h->memory.constants.omit.parts |= oxdp_has_multi_buffer() ? 0 : DP_PART_FRAGS;
    *ret_image = oxdp_constants_put(&h->memory.constants, image, size);
    free((void *) image);
    return *ret_image ? bpf_object__open_mem(*ret_image, size, &opts) : NULL;
}

void harness_no_grace(void *aux)
{
}

int harness_open(const char *object_file, const struct oxdp_table_config *config,
                 const struct oxdp_table_callbacks *callbacks, struct harness *h)
{
    struct dp_tables tables;
    struct bpf_program *program;
    void *image;
    int error;

    memset(h, 0, sizeof *h);
    error = oxdp_memory_create(config, 1, 1, libbpf_num_possible_cpus(), NULL, &h->memory);
    if (!error && harness_conns) {
        error = make_ct_tables(h);
    }
    if (error) {
        return error;
    }
    h->object = open_object(object_file, h, &image);
    if (!h->object) {
        return -errno;
    }
    program = bpf_object__find_program_by_name(h->object, "pipeline");
    bpf_program__set_autoload(bpf_object__find_program_by_name(h->object, "track"), harness_conns != 0);
    bpf_program__set_autoload(bpf_object__find_program_by_name(h->object, "many"), harness_talks);
    bpf_program__set_log_level(program, 4);
    bpf_program__set_log_buf(program, verifier_log, sizeof verifier_log);
    error = bpf_object__load(h->object);
    free(image);
    if (error) {
        fprintf(stderr, "%s\n", verifier_log);
        bpf_object__close(h->object);
        return error;
    }

    const char *processed = strstr(verifier_log, "processed ");

    h->n_verified = processed ? strtoul(processed + strlen("processed "), NULL, 10) : 0;
    h->pipeline_fd = bpf_program__fd(program);
    h->empty_fd = bpf_program__fd(bpf_object__find_program_by_name(h->object, "empty"));
    h->track_fd = bpf_program__fd(bpf_object__find_program_by_name(h->object, "track"));
    h->many_fd = bpf_program__fd(bpf_object__find_program_by_name(h->object, "many"));
    h->n_fates = variables(h, ".bss");
    h->talk = variables(h, ".data.talk");
    h->call = variables(h, ".data.call");
    h->in_port = variables(h, ".data");
    if (h->n_fates == MAP_FAILED || h->talk == MAP_FAILED || h->call == MAP_FAILED || h->in_port == MAP_FAILED) {
        return -errno;
    }
    tables = oxdp_memory_tables(&h->memory);
    return oxdp_table_create(config, &tables, callbacks, &h->table);
}

void harness_close(struct harness *h)
{
    munmap((void *) h->n_fates, 4096);
    munmap(h->call, 4096);
    munmap(h->talk, 4096);
    munmap(h->in_port, 4096);
#define X(NAME, TYPE)                                                           \
    if (h->ct.NAME) {                                                           \
        munmap(h->ct.NAME, h->ct.n_##NAME * sizeof *h->ct.NAME);                \
        close(h->memory.constants.table_fd[BPF_TABLE_ct_##NAME]);               \
    }
    DP_CT_TABLES(X)
#undef X
#define X(NAME, TYPE)                                                           \
    if (h->paths.NAME) {                                                        \
        munmap(h->paths.NAME, h->paths.n_##NAME * sizeof *h->paths.NAME);       \
        close(h->memory.constants.table_fd[BPF_TABLE_##NAME]);                  \
    }
    DP_PATH_TABLES(X)
#undef X
    oxdp_table_destroy(h->table);
    oxdp_memory_destroy(&h->memory);
    bpf_object__close(h->object);
}

int harness_run(int fd, const void *frame, uint32_t len, uint32_t repeat, void *out, uint32_t *out_len, uint32_t *ns)
{
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = len, .data_out = out,
                .data_size_out = 2048, .repeat = repeat);

    if (bpf_prog_test_run_opts(fd, &opts)) {
        return -errno;
    }
    *out_len = opts.data_size_out;
    *ns = opts.duration;
    return opts.retval;
}

uint32_t harness_last_port(const struct harness *h)
{
    uint32_t key = 0;
    uint32_t port = 0;

    bpf_map_lookup_elem(bpf_map__fd(bpf_object__find_map_by_name(h->object, ".data.last_port")), &key, &port);
    return port;
}

void harness_undo(const struct harness *h, int32_t n)
{
    uint32_t key = 0;

    bpf_map_update_elem(bpf_map__fd(bpf_object__find_map_by_name(h->object, ".data.undo")), &key, &n, BPF_EXIST);
}

const struct dp_run *harness_last_run(const struct harness *h)
{
    const struct bpf_run_room *rooms = h->memory.table[BPF_TABLE_runs];

    return (const struct dp_run *) &rooms[sched_getcpu()];
}
