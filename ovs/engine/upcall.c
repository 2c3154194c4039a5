/* SPDX-License-Identifier: Apache-2.0 */
/* Asking ofproto. */
#include <config.h>

#include "ovs/engine/engine_private.h"

#include <errno.h>

#include "dpif.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/ofp-print.h"
#include "openvswitch/vlog.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_upcall);

static struct vlog_rate_limit upcall_rl = VLOG_RATE_LIMIT_INIT(600, 600);

int
dpif_xdp_upcall(struct dpif_xdp_dp *dp, struct dp_packet *packet,
                struct flow *flow, struct flow_wildcards *wc, ovs_u128 *ufid,
                enum dpif_upcall_type type, const struct nlattr *userdata,
                struct ofpbuf *actions, struct ofpbuf *put_actions)
{
    if (OVS_UNLIKELY(!dp->upcall_cb)) {
        return ENODEV;
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
    return dp->upcall_cb(packet, flow, ufid, PMD_ID_NULL, type, userdata,
                         actions, wc, put_actions, dp->upcall_aux);
}
