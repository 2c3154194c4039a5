/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What this object's program can do, for core/programs/capability.h to read before load.  A trimmed program defines
 * DP_KEY_GROUPS_HERE and DP_OPS_HERE, bits of dp/capability.h, before it includes its seam. */
#ifndef BPF_CAPABILITY_H
#define BPF_CAPABILITY_H 1

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf/constant.h"
#include "dp/omit.h"
#include "dp/record.h"
#include "dp/table.h"

#ifndef DP_OPS_HERE
#define DP_OPS_HERE DP_CAPABILITY_ALL_OPS
#endif

const volatile struct dp_capability dp_capability SEC(".rodata.capability") = {
    .table_version = DP_TABLE_VERSION,
    .record_version = DP_RECORD_VERSION,
    .key_groups = DP_KEY_GROUPS_HERE,
    .table_layout = BPF_TABLE_LAYOUT,
    .ops = DP_OPS_HERE,
};

#endif /* bpf/capability.h */
