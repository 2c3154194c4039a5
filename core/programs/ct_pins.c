/* SPDX-License-Identifier: Apache-2.0 */
#include "core/programs/ct_pins.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/programs/layout.h"
#include "core/programs/pin.h"
#include "core/programs/progs_struct.h"
#include "core/programs/skeleton.h"

#define NAME_LEN 64
#define PREFIX OXDP_PINS_STATE "ct_"

static void name_pin(const struct oxdp_progs *progs, enum oxdp_ct_table i, char name[NAME_LEN])
{
    static const char *const types[] = {
#define X(NAME, TYPE) #TYPE,
        DP_CT_TABLES(X)
#undef X
    };
    uint64_t layout = oxdp_layout_hash(bpf_object__btf(progs->maps->obj), types[i] + strlen("struct "), 0);

    snprintf(name, NAME_LEN, OXDP_PINS_STATE "%s-%016llx", oxdp_ct_name(i), (unsigned long long) layout);
}

int oxdp_ct_pins_open_old(const struct oxdp_progs *progs, int fd[OXDP_CT_N_TABLES])
{
    int err = 0;

    for (int i = 0; i < OXDP_CT_N_TABLES; i++) {
        char name[NAME_LEN];

        name_pin(progs, i, name);
        fd[i] = oxdp_pins_open_old(progs->pins, name);
        err = err ? err : fd[i] < 0 ? fd[i] : 0;
    }
    for (int i = 0; err && i < OXDP_CT_N_TABLES; i++) {
        if (fd[i] >= 0) {
            close(fd[i]);
            fd[i] = -1;
        }
    }
    return err == -ENOENT && oxdp_pins_has_old_state(progs->pins, PREFIX) ? -ESTALE : err;
}

int oxdp_ct_pins_add(const struct oxdp_progs *progs, const struct oxdp_ct *ct)
{
    char name[NAME_LEN];
    int err = 0;

    for (int i = 0; !err && i < OXDP_CT_N_TABLES; i++) {
        name_pin(progs, i, name);
        if (oxdp_ct_adopted(ct)) {
            int fd = oxdp_pins_inherit(progs->pins, name);

            err = fd < 0 ? fd : close(fd);
        } else {
            err = oxdp_pins_add(progs->pins, name, oxdp_ct_fd(ct, i));
        }
    }
    for (int i = 0; err && i < OXDP_CT_N_TABLES; i++) {
        name_pin(progs, i, name);
        oxdp_pins_remove(progs->pins, name);
    }
    return err;
}
