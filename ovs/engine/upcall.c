/* SPDX-License-Identifier: Apache-2.0 */
/* Asking ofproto.
 *
 * Upcalls begin disabled: 'rwlock' is locked for writing until ofproto enables
 * them, and each time that it disables them.  The thread that disabled them
 * enables them. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include <errno.h>

#include "dpif.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/ofp-print.h"
#include "openvswitch/vlog.h"
#include "ovs/base/compat.h"
#include "ovs/base/usdt.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_upcall);

static struct vlog_rate_limit upcall_rl = VLOG_RATE_LIMIT_INIT(600, 600);

int
dpif_xdp_upcall(struct dpif_xdp_dp *dp, struct dp_packet *packet,
                struct flow *flow, struct flow_wildcards *wc, ovs_u128 *ufid,
                enum dpif_upcall_type type, const struct nlattr *userdata,
                struct ofpbuf *actions, struct ofpbuf *put_actions)
    OVS_NO_THREAD_SAFETY_ANALYSIS       /* dpif_xdp_upcall_begin(). */
{
    if (OVS_UNLIKELY(!dp->upcall.cb)) {
        return ESHUTDOWN;
    }

    if (OVS_UNLIKELY(!VLOG_DROP_DBG(&upcall_rl))) {
        struct ds ds = DS_EMPTY_INITIALIZER;
        char *text = ofp_dp_packet_to_string(packet);

        flow_format(&ds, flow, NULL);
        VLOG_DBG("%s: %s upcall:\n%s\n%s", dp->name,
                 dpif_upcall_type_to_string(type), ds_cstr(&ds), text);
        free(text);
        ds_destroy(&ds);
    }
    if (OVS_UNLIKELY(dpif_xdp_usdt_upcalls())) {
        char *name = xasprintf("%s@%s", dp->class->type, dp->name);

        dpif_xdp_usdt_upcall(name, type, packet, flow);
        free(name);
    }
    if (type != DPIF_UC_MISS) {
        /* It leaves the datapath.  After a miss the packet goes on, with what
         * its device says of its checksums. */
        dpif_xdp_packet_complete(packet);
    }
    return dp->upcall.cb(packet, flow, ufid, PMD_ID_NULL, type, userdata,
                         actions, wc, put_actions, dp->upcall.aux);
}

void
dpif_xdp_upcall_init(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    fat_rwlock_init(&dp->upcall.rwlock);
    fat_rwlock_wrlock(&dp->upcall.rwlock);
    atomic_init(&dp->upcall.began, false);
    dp->upcall.cb = NULL;
    dp->upcall.aux = NULL;
}

void
dpif_xdp_upcall_stop(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    dp->upcall.cb = NULL;
    fat_rwlock_unlock(&dp->upcall.rwlock);
}

void
dpif_xdp_upcall_destroy(struct dpif_xdp_dp *dp)
{
    fat_rwlock_destroy(&dp->upcall.rwlock);
}

bool
dpif_xdp_upcall_begin(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    return !fat_rwlock_tryrdlock(&dp->upcall.rwlock);
}

void
dpif_xdp_upcall_end(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    fat_rwlock_unlock(&dp->upcall.rwlock);
}

void
dpif_xdp_upcall_forget(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    bool enabled = dpif_xdp_upcall_begin(dp);

    if (enabled) {
        dpif_xdp_upcall_end(dp);
        fat_rwlock_wrlock(&dp->upcall.rwlock);
    }
    dp->upcall.cb = NULL;
    if (enabled) {
        fat_rwlock_unlock(&dp->upcall.rwlock);
    }
}

bool
dpif_xdp_upcalls_began(const struct dpif_xdp_dp *dp)
{
    bool began;

    atomic_read(&CONST_CAST(struct dpif_xdp_dp *, dp)->upcall.began, &began);
    return began;
}

void
dpif_xdp_register_upcall_cb(struct dpif *dpif, upcall_callback *cb, void *aux)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);

    dp->upcall.aux = aux;
    dp->upcall.cb = cb;
}

void
dpif_xdp_enable_upcall(struct dpif *dpif)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    struct dpif_xdp_dp *dp = dpif_xdp_dp_cast(dpif);

    atomic_store(&dp->upcall.began, true);
    fat_rwlock_unlock(&dp->upcall.rwlock);
}

void
dpif_xdp_disable_upcall(struct dpif *dpif)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    fat_rwlock_wrlock(&dpif_xdp_dp_cast(dpif)->upcall.rwlock);
}
