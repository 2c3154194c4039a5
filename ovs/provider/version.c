/* SPDX-License-Identifier: Apache-2.0 */
/* Which OVS-XDP this is, for people, and for the database:
 * Open_vSwitch:external_ids:ovs-xdp-version says which one serves it, as long
 * as it does: "exit --cleanup" takes the key away, after which another daemon
 * may come. */
#include <config.h>

#include "ovs/provider/provider_private.h"

#include <string.h>

#include "lib/vswitch-idl.h"
#include "ovs/provider/dpif_xdp.h"
#include "ovsdb-idl.h"
#include "smap.h"
#include "util.h"

#define KEY "ovs-xdp-version"

static struct ovsdb_idl *idl;           /* Of vswitchd/bridge.c. */

void __real_ovsdb_idl_omit(struct ovsdb_idl *,
                           const struct ovsdb_idl_column *);
void __wrap_ovsdb_idl_omit(struct ovsdb_idl *,
                           const struct ovsdb_idl_column *);

/* bridge.c leaves out the column.  Without alerts, changes in it are no work
 * for the daemon either. */
void
__wrap_ovsdb_idl_omit(struct ovsdb_idl *idl_,
                      const struct ovsdb_idl_column *column)
{
    idl = idl_;
    if (column == &ovsrec_open_vswitch_col_external_ids) {
        ovsdb_idl_omit_alert(idl_, column);
    } else {
        __real_ovsdb_idl_omit(idl_, column);
    }
}

const char *
dpif_xdp_version_add(const char *theirs)
{
    static char *text;                  /* Made once, by the main thread. */

    if (!text) {
        bool ends = theirs[strlen(theirs) - 1] == '\n';    /* Until 3.4. */

        text = xasprintf(ends ? "%sOVS-XDP %s\n" : "%s\nOVS-XDP %s", theirs,
                         OXDP_VERSION);
    }
    return text;
}

void
dpif_xdp_version_tell(const struct ovsrec_open_vswitch *row)
{
    if (strcmp(smap_get_def(&row->external_ids, KEY, ""), OXDP_VERSION)) {
        ovsrec_open_vswitch_update_external_ids_setkey(row, KEY, OXDP_VERSION);
    }
}

/* Does not wait for the answer: a daemon ends also without a database. */
void
dpif_xdp_version_forget(void)
{
    const struct ovsrec_open_vswitch *row
        = idl ? ovsrec_open_vswitch_first(idl) : NULL;
    struct ovsdb_idl_txn *txn;

    if (row && smap_get(&row->external_ids, KEY)) {
        txn = ovsdb_idl_txn_create(idl);
        ovsrec_open_vswitch_update_external_ids_delkey(row, KEY);
        ovsdb_idl_txn_commit(txn);
        ovsdb_idl_txn_destroy(txn);
    }
}
