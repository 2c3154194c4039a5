/* SPDX-License-Identifier: Apache-2.0 */
/* The maps of a datapath: made once, shared by every program over them. */
#include "core/prog_private.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bpf/xdp.skel.h"
#include "core/grace.h"
#include "core/pin.h"
#include "core/table.h"

static void set_sizes(struct oxdp_progs *progs, const struct oxdp_progs_config *config,
                      struct oxdp_table_config *ret_tables);
static int map_tables(struct oxdp_progs *progs, const struct oxdp_table_config *tables);
static void unmap_tables(struct oxdp_progs *progs);
static bool is_shared(const struct bpf_map *map);
static bool same_shape(const struct bpf_map *a, const struct bpf_map *b);

int oxdp_maps_create(struct oxdp_progs *progs, const struct oxdp_progs_config *config)
{
    struct oxdp_table_config tables;
    int err;

    progs->maps = xdp_bpf__open();
    if (!progs->maps) {
        return -errno;
    }
    bpf_program__set_autoload(progs->maps->progs.oxdp_xdp, false);
    set_sizes(progs, config, &tables);
    err = xdp_bpf__load(progs->maps);
    return !err && config->n_flows ? map_tables(progs, &tables) : err;
}

void oxdp_maps_destroy(struct oxdp_progs *progs)
{
    unmap_tables(progs);
    xdp_bpf__destroy(progs->maps);
}

int oxdp_maps_share(const struct oxdp_progs *progs, struct bpf_object *object, char **ret_error)
{
    struct bpf_map *map;

    bpf_object__for_each_map(map, object) {
        const char *name = bpf_map__name(map);
        const struct bpf_map *shared = is_shared(map)
            ? bpf_object__find_map_by_name(progs->maps->obj, name) : NULL;

        if (shared) {
            if (!same_shape(map, shared)) {
                return oxdp_fail(-EPROTO, ret_error, "its map '%s' (type %u, keys of %u bytes, values of %u) is not "
                                 "like that of this version (type %u, %u, %u): build it again", name,
                                 bpf_map__type(map), bpf_map__key_size(map), bpf_map__value_size(map),
                                 bpf_map__type(shared), bpf_map__key_size(shared), bpf_map__value_size(shared));
            }

            int err = bpf_map__reuse_fd(map, bpf_map__fd(shared));

            if (err) {
                return oxdp_fail(err, ret_error, "cannot give it the map '%s': %s", name, strerror(-err));
            }
        }
    }
    return 0;
}

int oxdp_maps_pin(const struct oxdp_progs *progs)
{
    const struct bpf_map *map;
    int err = 0;

    bpf_object__for_each_map(map, progs->maps->obj) {
        if (!err && is_shared(map)) {
            err = oxdp_pins_add(progs->pins, bpf_map__name(map), bpf_map__fd(map));
        }
    }
    return err;
}

/* Read-only data belongs to each program; its map is named after its section, some with the object's name before. */
static bool is_shared(const struct bpf_map *map)
{
    return !strstr(bpf_map__name(map), ".rodata");
}

/* The number of entries may differ: that of the one that exists counts. */
static bool same_shape(const struct bpf_map *a, const struct bpf_map *b)
{
    return bpf_map__type(a) == bpf_map__type(b) && bpf_map__key_size(a) == bpf_map__key_size(b)
        && bpf_map__value_size(a) == bpf_map__value_size(b) && bpf_map__map_flags(a) == bpf_map__map_flags(b);
}

/* The flow tables with their maps; the first two are global variables of the program. */
#define TABLE_MAPS(X)           \
    X(head, data_dp_head)       \
    X(masks, data_dp_masks)     \
    X(flows, dp_flows)          \
    X(stats, dp_stats)          \
    X(buckets, dp_buckets)      \
    X(cache, dp_cache)          \
    X(ops, dp_ops)              \
    X(meters, dp_meters)

static void set_sizes(struct oxdp_progs *progs, const struct oxdp_progs_config *config,
                      struct oxdp_table_config *ret_tables)
{
    struct xdp_bpf *skel = progs->maps;

    bpf_map__set_max_entries(skel->maps.ports, progs->n_direct);
    bpf_map__set_max_entries(skel->maps.ports_overflow, progs->max_ports);
    bpf_map__set_max_entries(skel->maps.sockets, progs->max_sockets);
    bpf_map__set_max_entries(skel->maps.outputs, progs->max_ports);
    bpf_map__set_max_entries(skel->maps.counters, progs->max_ports + 1);
    if (config->n_flows) {
        *ret_tables = oxdp_table_config(config->n_flows, progs->n_cpus);
        oxdp_table_sizes(ret_tables, &progs->memory);
#define X(NAME, TYPE) bpf_map__set_max_entries(skel->maps.dp_##NAME, progs->memory.n_##NAME);
        DP_SIZED_TABLES(X)
#undef X
    }
}

/* Bytes of 'map' in mmap (kernel/bpf/arraymap.c). */
static size_t map_bytes(const struct bpf_map *map)
{
    size_t page = sysconf(_SC_PAGESIZE);
    size_t value_size = (bpf_map__value_size(map) + 7) & ~(size_t) 7;

    return (value_size * bpf_map__max_entries(map) + page - 1) & ~(page - 1);
}

static int map_tables(struct oxdp_progs *progs, const struct oxdp_table_config *tables)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = oxdp_grace };
    struct dp_tables *memory = &progs->memory;

#define X(NAME, MAP)                                                                    \
    memory->NAME = mmap(NULL, map_bytes(progs->maps->maps.MAP), PROT_READ | PROT_WRITE, \
                        MAP_SHARED, bpf_map__fd(progs->maps->maps.MAP), 0);             \
    if (memory->NAME == MAP_FAILED) {                                                   \
        memory->NAME = NULL;                                                            \
        return -errno;                                                                  \
    }
    TABLE_MAPS(X)
#undef X
    return oxdp_table_create(tables, memory, &callbacks, &progs->table);
}

static void unmap_tables(struct oxdp_progs *progs)
{
    oxdp_table_destroy(progs->table);
#define X(NAME, MAP)                                                            \
    if (progs->memory.NAME) {                                                   \
        munmap(progs->memory.NAME, map_bytes(progs->maps->maps.MAP));           \
    }
    TABLE_MAPS(X)
#undef X
}
