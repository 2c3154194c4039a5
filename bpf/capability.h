/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What this object's program can do, for core/programs/capability.h to read before load.  A trimmed program defines
 * DP_KEY_GROUPS_HERE and DP_OPS_HERE, bits of dp/capability.h, before it includes its seam. */
#ifndef BPF_CAPABILITY_H
#define BPF_CAPABILITY_H 1

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf/constant.h"
#include "dp/ct_table.h"
#include "dp/omit.h"
#include "dp/path_table.h"
#include "dp/record.h"
#include "dp/table.h"

#ifndef DP_OPS_HERE
#define DP_OPS_HERE DP_CAPABILITY_ALL_OPS
#endif

const volatile struct dp_capability dp_capability SEC(".rodata.capability") = {
    .table_version = DP_TABLE_VERSION,
    .record_version = DP_RECORD_VERSION,
    .key_groups = DP_KEY_GROUPS_HERE,
    .ops = DP_OPS_HERE,
};

/* The types of all tables, for the object's BTF: core/programs/layout.h compares them with its own before load.  Never
 * called, so never in a program. */
struct bpf_layouts {
#define X(NAME, TYPE) TYPE NAME;
    BPF_TABLES(X)
#undef X
#define X(NAME, TYPE) TYPE ct_##NAME;
    DP_CT_TABLES(X)
#undef X
#define X(NAME, TYPE) TYPE NAME;
    DP_PATH_TABLES(X)
#undef X
    struct dp_record record;
};
int oxdp_layouts(const struct bpf_layouts *);
int oxdp_layouts(const struct bpf_layouts *layouts)
{
    return layouts != NULL;
}

#endif /* bpf/capability.h */
