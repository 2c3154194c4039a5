/* SPDX-License-Identifier: Apache-2.0 */
/* The maps of a datapath: made once, shared by every program over them. */
#include "core/programs/maps.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "core/kernel/grace.h"
#include "core/multi_buffer.h"
#include "core/programs/pin.h"
#include "core/programs/progs.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"
#include "core/programs/state.h"
#include "core/tables/table.h"

static void set_sizes(struct oxdp_progs *progs);
static int make_tables(struct oxdp_progs *progs, uint32_t n_flows);
static bool is_shared(const struct bpf_map *map);
static bool same_shape(const struct bpf_map *a, const struct bpf_map *b);

int oxdp_maps_create(struct oxdp_progs *progs, const struct oxdp_progs_config *config)
{
    int err;

    progs->maps = xdp_bpf__open();
    if (!progs->maps) {
        return -errno;
    }
    bpf_program__set_autoload(progs->maps->progs.oxdp_xdp, false);
    set_sizes(progs);
    err = xdp_bpf__load(progs->maps);
    return err ? err : make_tables(progs, config->n_flows);
}

void oxdp_maps_destroy(struct oxdp_progs *progs)
{
    oxdp_table_destroy(progs->table);
    oxdp_memory_destroy(&progs->memory);
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
    for (int i = 0; !err && i < BPF_N_TABLES; i++) {
        err = oxdp_pins_add(progs->pins, oxdp_memory_name(i), progs->memory.constants.table_fd[i]);
    }
    return err;
}

bool oxdp_maps_have_ct(const struct oxdp_progs *progs)
{
    return !(progs->memory.constants.omit.ops >> DP_OP_CT & 1);
}

void oxdp_maps_omit_ct(struct oxdp_progs *progs)
{
    oxdp_constants_omit_ct(&progs->memory.constants);
}

/* Read-only data belongs to each program; its map is named after its section, some with the object's name before. */
static bool is_shared(const struct bpf_map *map)
{
    return !strstr(bpf_map__name(map), ".rodata");
}

/* The number of entries may differ: the existing map's counts. */
static bool same_shape(const struct bpf_map *a, const struct bpf_map *b)
{
    return bpf_map__type(a) == bpf_map__type(b) && bpf_map__key_size(a) == bpf_map__key_size(b)
        && bpf_map__value_size(a) == bpf_map__value_size(b) && bpf_map__map_flags(a) == bpf_map__map_flags(b);
}

static void set_sizes(struct oxdp_progs *progs)
{
    struct xdp_bpf *skel = progs->maps;

    bpf_map__set_max_entries(skel->maps.ports_overflow, progs->max_ports);
    bpf_map__set_max_entries(skel->maps.sockets, progs->max_sockets);
    bpf_map__set_max_entries(skel->maps.outputs, progs->max_ports);
}

/* Programs are loaded over all tables, also if they use only that of ports. */
static int make_tables(struct oxdp_progs *progs, uint32_t n_flows)
{
    static const struct oxdp_table_callbacks callbacks = { .grace = oxdp_grace };
    struct oxdp_table_config config = oxdp_table_config(n_flows ? n_flows : 1, progs->n_cpu_ids);
    int old_fd[BPF_N_TABLES];
    struct dp_tables tables;
    int err;

    oxdp_state_open(progs, old_fd);
    err = oxdp_memory_create(&config, progs->n_direct, progs->max_ports + 1, progs->n_cpu_ids, old_fd, &progs->memory);
    progs->memory.constants.omit.parts = oxdp_has_multi_buffer() ? 0 : DP_PART_FRAGS;
    if (err || !n_flows) {
        progs->memory.constants.omit.parts |= DP_PART_TABLES | DP_PART_TRACE;
        return err;
    }
    oxdp_grace(NULL);           /* Loads its programs now, not when the first flow is deleted. */
    tables = oxdp_memory_tables(&progs->memory);
    return oxdp_table_create(&config, &tables, &callbacks, &progs->table);
}
