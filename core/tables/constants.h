/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the constants of bpf/constant.h into an object before it is loaded. */
#ifndef OXDP_CONSTANT_H
#define OXDP_CONSTANT_H 1

#include <stddef.h>
#include <stdint.h>

#include "bpf/constant.h"
#include "dp/omit.h"

struct oxdp_constants {
    uint32_t number[BPF_N_NUMBERS];
    int table_fd[BPF_N_TABLES];         /* Maps whose only values they are (core/tables/memory.h). */
    struct dp_omit omit;
};

/* Returns a copy of the ELF object 'image' with its constants, which the caller frees; or NULL with errno: ENOEXEC if it is
 * not such an object. */
void *oxdp_constants_put(const struct oxdp_constants *, const void *image, size_t size);

#endif /* core/tables/constants.h */
