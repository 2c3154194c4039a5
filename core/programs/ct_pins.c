/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/ct_pins.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/programs/layout.h"
#include "core/programs/pin.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"

#define NAME_LEN 64
#define PREFIX OXDP_PINS_STATE "ct_"
#define LAYOUT PREFIX "layout-"

/* The names of the structs. */
static const char *const types[] = {
#define X(NAME, TYPE) &#TYPE[sizeof "struct"],
    DP_CT_TABLES(X)
#undef X
};

static const struct btf *our_types(const struct oxdp_progs *progs) { return bpf_object__btf(progs->maps->obj); }

static void name_pin(const struct btf *btf, enum oxdp_ct_table i, char name[NAME_LEN])
{
    snprintf(name, NAME_LEN, OXDP_PINS_STATE "%s-%016llx", oxdp_ct_name(i),
             (unsigned long long) oxdp_layout_hash(btf, types[i], 0));
}

static void name_layout(const struct btf *btf, char name[NAME_LEN])
{
    uint64_t hash = 0;

    for (int i = 0; i < OXDP_CT_N_TABLES; i++) {
        hash = oxdp_layout_hash(btf, types[i], hash);
    }
    snprintf(name, NAME_LEN, LAYOUT "%016llx", (unsigned long long) hash);
}

static void close_all(int fd[OXDP_CT_N_TABLES])
{
    for (int i = 0; i < OXDP_CT_N_TABLES; i++) {
        if (fd[i] >= 0) {
            close(fd[i]);
            fd[i] = -1;
        }
    }
}

/* Opens the tables whose types are 'btf'. */
static int open_tables(const struct oxdp_progs *progs, const struct btf *btf, int fd[OXDP_CT_N_TABLES])
{
    int err = 0;

    for (int i = 0; i < OXDP_CT_N_TABLES; i++) {
        char name[NAME_LEN];

        name_pin(btf, i, name);
        fd[i] = oxdp_pins_open_old(progs->pins, name);
        err = err ? err : fd[i] < 0 ? fd[i] : 0;
    }
    if (err) {
        close_all(fd);
    }
    return err;
}

/* The types of the tables that the previous instance left, NULL if it left none.  The caller frees them. */
static struct btf *old_types(const struct oxdp_progs *progs)
{
    int fd = oxdp_pins_open_any_old(progs->pins, LAYOUT);
    struct bpf_map_info info = { 0 };
    uint32_t len = sizeof info, size, key = 0;
    struct btf *btf = NULL;
    uint8_t *value;

    if (fd < 0) {
        return NULL;
    }
    value = bpf_obj_get_info_by_fd(fd, &info, &len) ? NULL : malloc(info.value_size);
    if (value && info.value_size > sizeof size && !bpf_map_lookup_elem(fd, &key, value)) {
        memcpy(&size, value, sizeof size);
        btf = size <= info.value_size - sizeof size ? btf__new(value + sizeof size, size) : NULL;
    }
    free(value);
    close(fd);
    return btf;
}

static int open_others(const struct oxdp_progs *progs, int fd[OXDP_CT_N_TABLES],
                       struct oxdp_ct_layout layout[OXDP_CT_N_TABLES])
{
    struct btf *theirs = old_types(progs);
    int err = theirs ? open_tables(progs, theirs, fd) : -ENOENT;

    for (int i = 0; !err && i < OXDP_CT_N_TABLES; i++) {
        err = oxdp_layout_moves(our_types(progs), theirs, types[i], &layout[i]);
        if (err) {
            close_all(fd);
        }
    }
    btf__free(theirs);
    return err ? -ESTALE : 1;
}

int oxdp_ct_pins_open_old(const struct oxdp_progs *progs, int fd[OXDP_CT_N_TABLES],
                          struct oxdp_ct_layout layout[OXDP_CT_N_TABLES])
{
    int err = open_tables(progs, our_types(progs), fd);

    return err == -ENOENT && oxdp_pins_has_old_state(progs->pins, PREFIX) ? open_others(progs, fd, layout) : err;
}

/* Pins the types of the tables. */
static int pin_types(const struct oxdp_progs *progs, const char *name)
{
    uint32_t size, key = 0;
    const void *data = btf__raw_data(our_types(progs), &size);
    uint8_t *value = malloc(sizeof size + size);
    int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ct_layout", sizeof key, sizeof size + size, 1, NULL), err = -ENOMEM;

    if (fd < 0) {
        err = -errno;
    } else if (value && data) {
        memcpy(value, &size, sizeof size);
        memcpy(value + sizeof size, data, size);
        err = bpf_map_update_elem(fd, &key, value, BPF_ANY) ? -errno : oxdp_pins_add(progs->pins, name, fd);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(value);
    return err;
}

int oxdp_ct_pins_add(const struct oxdp_progs *progs, const struct oxdp_ct *ct)
{
    char name[NAME_LEN];
    int err;

    name_layout(our_types(progs), name);
    err = pin_types(progs, name);
    for (int i = 0; !err && i < OXDP_CT_N_TABLES; i++) {
        name_pin(our_types(progs), i, name);
        if (oxdp_ct_adopted(ct)) {
            int fd = oxdp_pins_inherit(progs->pins, name);

            err = fd < 0 ? fd : close(fd);
        } else {
            err = oxdp_pins_add(progs->pins, name, oxdp_ct_fd(ct, i));
        }
    }
    for (int i = 0; err && i < OXDP_CT_N_TABLES; i++) {
        name_pin(our_types(progs), i, name);
        oxdp_pins_remove(progs->pins, name);
    }
    if (err) {
        name_layout(our_types(progs), name);
        oxdp_pins_remove(progs->pins, name);
    }
    return err;
}
