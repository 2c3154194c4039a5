/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The tables of dp/table.h as BPF maps, and access to their elements.  core/ sets the sizes before load and
 * writes them through mmap.  The maps of the two global variables are named after their sections. */
#ifndef BPF_TABLES_H
#define BPF_TABLES_H 1

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf/capability.h"
#include "dp/omit.h"
#include "dp/table.h"

const volatile struct dp_omit dp_omit SEC(".rodata.omit") = {
    .parts = (DP_CAPABILITY_ALL_KEYS & ~(DP_KEY_GROUPS_HERE)) | ((DP_OPS_HERE) ? 0 : DP_PART_OPS),
    .words = DP_WORDS_LEFT_OUT,
    .ops = ~(__u64) (DP_OPS_HERE),
};

DP_INLINE const volatile struct dp_omit *dp_omitted(struct dp_ctx *ctx) { return &dp_omit; }

struct dp_head dp_head SEC(".data.dp_head");
struct dp_mask dp_masks[DP_MAX_MASKS + 1] SEC(".data.dp_masks");

DP_INLINE struct dp_head *dp_head_at(struct dp_ctx *ctx, __u32 i) { return &dp_head; }

DP_INLINE struct dp_mask *dp_masks_at(struct dp_ctx *ctx, __u32 i)
{
    struct dp_mask *mask;

    DP_OPAQUE(i);
    if (i > DP_MAX_MASKS) {
        return 0;
    }
    mask = &dp_masks[i];
    DP_OPAQUE(mask);
    return mask;
}

#define TABLE(NAME, TYPE)                                                               \
    struct {                                                                            \
        __uint(type, BPF_MAP_TYPE_ARRAY);                                               \
        __uint(map_flags, BPF_F_MMAPABLE);                                              \
        __uint(max_entries, 1);                                                         \
        __type(key, __u32);                                                             \
        __type(value, TYPE);                                                            \
    } dp_##NAME SEC(".maps");                                                           \
                                                                                        \
    DP_INLINE TYPE *dp_##NAME##_at(struct dp_ctx *ctx, __u32 i)                         \
    {                                                                                   \
        return bpf_map_lookup_elem(&dp_##NAME, &i);                                     \
    }
DP_SIZED_TABLES(TABLE)
#undef TABLE

#endif /* bpf/tables.h */
