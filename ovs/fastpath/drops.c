/* SPDX-License-Identifier: Apache-2.0 */
/* What programs dropped because a flow says "drop", by the reason that the
 * action has.  Programs count that with the flow: here it is added up by
 * reason, entries of the tables that are gone included. */
#include <config.h>

#include "ovs/fastpath/fastpath_private.h"

#include "bitmap.h"
#include "core/tables/table.h"
#include "util.h"

/* The reason of 'entry' if it drops by that action, else -1.  compile.c has it
 * in 'arg'. */
static int
reason_of(const struct dp_flow *entry)
{
    return ((entry->fate & ~DP_FATE_SKB) == DP_FATE_DROP && entry->arg
            && entry->arg <= MAX_DROP_REASONS ? (int) entry->arg - 1 : -1);
}

void
dpif_xdp_fastpath_drops_added(struct dpif_xdp_fastpath *fp, uint32_t index)
{
    if (reason_of(&oxdp_table_memory(fp->table)->flows[index]) >= 0) {
        bitmap_set1(fp->droppers, index);
    }
}

void
dpif_xdp_fastpath_drops_gone(struct dpif_xdp_fastpath *fp, uint32_t index,
                             uint64_t n_packets)
{
    int reason = reason_of(&oxdp_table_memory(fp->table)->flows[index]);

    if (reason >= 0) {
        bitmap_set0(fp->droppers, index);
        fp->n_dropped[reason] += n_packets;
    }
}

void
dpif_xdp_fastpath_action_drops(const struct dpif_xdp_dp *dp, uint64_t ret_n[],
                               size_t n_reasons)
{
    const struct dpif_xdp_fastpath *fp = dp->fastpath;
    size_t index;

    memset(ret_n, 0, n_reasons * sizeof *ret_n);
    if (!fp) {
        return;
    }
    memcpy(ret_n, fp->n_dropped,
           MIN(n_reasons, MAX_DROP_REASONS) * sizeof *ret_n);
    BITMAP_FOR_EACH_1 (index, fp->n_indexes, fp->droppers) {
        int reason = reason_of(&oxdp_table_memory(fp->table)->flows[index]);
        struct dp_stats stats;

        if (reason >= 0 && reason < n_reasons) {
            oxdp_table_stats(fp->table, index, &stats);
            ret_n[reason] += stats.packets;
        }
    }
}
