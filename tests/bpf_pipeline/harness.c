/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bpf_pipeline/harness.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct dp_omit harness_omit;

static char verifier_log[1 << 16];

/* Two tables are global variables, whose maps are named after their sections. */
static struct bpf_map *find_map(const struct bpf_object *object, const char *name)
{
    char data[64];
    struct bpf_map *map;

    snprintf(data, sizeof data, ".data.%s", name);
    map = bpf_object__find_map_by_name(object, data);
    return map ? map : bpf_object__find_map_by_name(object, name);
}

static size_t map_bytes(const struct bpf_map *map)
{
    size_t value_size = (bpf_map__value_size(map) + 7) & ~7u;

    return (value_size * bpf_map__max_entries(map) + 4095) & ~(size_t) 4095;
}

/* Adds 'harness_omit' to what the object leaves out by itself. */
static void omit(struct bpf_map *map)
{
    struct dp_omit omitted;
    size_t size;

    memcpy(&omitted, bpf_map__initial_value(map, &size), sizeof omitted);
    omitted.parts |= harness_omit.parts;
    omitted.words |= harness_omit.words;
    omitted.ops |= harness_omit.ops;
    bpf_map__set_initial_value(map, &omitted, sizeof omitted);
}

void harness_no_grace(void *aux)
{
}

int harness_open(const char *object_file, const struct oxdp_table_config *config,
                 const struct oxdp_table_callbacks *callbacks, struct harness *h)
{
    struct dp_tables tables;
    struct bpf_program *program;
    int error;

    memset(h, 0, sizeof *h);
    h->object = bpf_object__open_file(object_file, NULL);
    if (!h->object) {
        return -errno;
    }
    oxdp_table_sizes(config, &tables);
#define X(NAME, TYPE) bpf_map__set_max_entries(find_map(h->object, "dp_" #NAME), tables.n_##NAME);
    DP_SIZED_TABLES(X)
#undef X
    omit(bpf_object__find_map_by_name(h->object, ".rodata.omit"));
    program = bpf_object__find_program_by_name(h->object, "pipeline");
    bpf_program__set_log_level(program, 4);
    bpf_program__set_log_buf(program, verifier_log, sizeof verifier_log);
    error = bpf_object__load(h->object);
    if (error) {
        fprintf(stderr, "%s\n", verifier_log);
        bpf_object__close(h->object);
        return error;
    }

    const char *processed = strstr(verifier_log, "processed ");

    h->n_verified = processed ? strtoul(processed + strlen("processed "), NULL, 10) : 0;
    h->pipeline_fd = bpf_program__fd(program);
    h->empty_fd = bpf_program__fd(bpf_object__find_program_by_name(h->object, "empty"));
    h->n_verdicts = mmap(NULL, 4096, PROT_READ, MAP_SHARED,
                         bpf_map__fd(bpf_object__find_map_by_name(h->object, ".bss")), 0);
    if (h->n_verdicts == MAP_FAILED) {
        return -errno;
    }
#define X(NAME, TYPE)                                                                                   \
    {                                                                                                   \
        struct bpf_map *map = find_map(h->object, "dp_" #NAME);                     \
        tables.NAME = mmap(NULL, map_bytes(map), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0); \
        if (tables.NAME == MAP_FAILED) {                                                                \
            return -errno;                                                                              \
        }                                                                                               \
    }
    DP_TABLES(X)
#undef X
    return oxdp_table_create(config, &tables, callbacks, &h->table);
}

void harness_close(struct harness *h)
{
    struct dp_tables *tables = oxdp_table_memory(h->table);

#define X(NAME, TYPE) munmap(tables->NAME, map_bytes(find_map(h->object, "dp_" #NAME)));
    DP_TABLES(X)
#undef X
    munmap((void *) h->n_verdicts, 4096);
    oxdp_table_destroy(h->table);
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

    bpf_map_lookup_elem(bpf_map__fd(find_map(h->object, "last_port")), &key, &port);
    return port;
}
