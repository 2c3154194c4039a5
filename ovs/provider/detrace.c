/* SPDX-License-Identifier: Apache-2.0 */
/* "ofproto/detrace UFID" (since 3.5): which OpenFlow rules made a flow.
 *
 * Open vSwitch looks for a flow by its UFID and by the thread that has it.  If
 * the command names no thread, it takes a flow of any datapath but the
 * kernel's for one of its own main thread.  Ours have no thread, as the
 * kernel's have none: that is added to the command. */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include <string.h>

#include "dpif.h"
#include "odp-util.h"
#include "ovs/datapath/datapath.h"
#include "ovs/lookup/flow_table.h"
#include "util.h"

static unixctl_cb_func *detrace_cb;     /* Of ofproto/ofproto-dpif-upcall.c. */

struct search {
    ovs_u128 ufid;
    bool found;
};

static void
search_dp(struct dpif_xdp_dp *dp, void *search_)
{
    struct search *search = search_;

    dpif_xdp_flow_lock(dp);
    search->found |= dpif_xdp_flows_find(&dp->flows, &search->ufid) != NULL;
    dpif_xdp_flow_unlock(dp);
}

static void
take_detrace(struct unixctl_conn *conn, int argc, const char *argv[],
             void *aux)
{
    struct search search = { .found = false };

    if (argc == 2 && odp_ufid_from_string(argv[1], &search.ufid) > 0) {
        dpif_xdp_for_each(search_dp, &search);
    }
    if (search.found) {
        char *thread = xasprintf("pmd=%d", PMD_ID_NULL);
        const char *words[] = { argv[0], argv[1], thread, NULL };

        detrace_cb(conn, 3, words, aux);
        free(thread);
    } else {
        detrace_cb(conn, argc, argv, aux);
    }
}

void
dpif_xdp_detrace_take(const char *name, unixctl_cb_func **cb)
{
    if (!strcmp(name, "ofproto/detrace")) {
        detrace_cb = *cb;
        *cb = take_detrace;
    }
}
