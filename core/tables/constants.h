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
    int table_fd[BPF_N_ALL_TABLES];     /* Maps whose only values they are (core/tables/memory.h). */
    uint32_t kfunc[BPF_N_KFUNCS];       /* Numbers in the kernel's BTF, 0: the kernel has no such function. */
    struct dp_omit omit;
};

/* Programs with CT, over tables of connections and of paths of these sizes and in these maps. */
void oxdp_constants_set_ct(struct oxdp_constants *, const struct dp_ct_tables *, const int fd[],
                           const struct dp_path_tables *, const int path_fd[]);

/* Programs without CT.  The kernel wants a map for each instruction that names one, also for those that it removes, and
 * verifies functions that are never called: it gets another table that is large enough. */
void oxdp_constants_omit_ct(struct oxdp_constants *);

/* Finds the kernel's functions.  Any user may read its BTF (/sys/kernel/btf/vmlinux). */
void oxdp_constants_find_kfuncs(struct oxdp_constants *);

/* Returns a copy of the ELF object 'image' with its constants, which the caller frees; or NULL with errno: ENOEXEC if
 * it is not such an object. */
void *oxdp_constants_put(const struct oxdp_constants *, const void *image, size_t size);

#endif /* core/tables/constants.h */
