/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of other_config for all ports. */
#include <config.h>

#include "ovs/ports/ports.h"

#include <stdlib.h>

#include "core/xsk/umem.h"
#include "ovs/netdev/netdev_xdp.h"
#include "util.h"

void
dpif_xdp_ports_init(struct dpif_xdp_dp *dp)
    OVS_NO_THREAD_SAFETY_ANALYSIS
{
    dp->ports.n_frames = DPIF_XDP_DEFAULT_FRAMES;
    dp->ports.n_fast_flows = DPIF_XDP_DEFAULT_FAST_FLOWS;
    dp->ports.hook = DPIF_XDP_HOOK_AUTO;
}

bool
dpif_xdp_ports_set_sizes(struct dpif_xdp_dp *dp, uint32_t n_frames,
                         uint32_t n_flows)
{
    if (!dp->packets) {
        if (n_frames != dp->ports.n_frames
            || n_flows != dp->ports.n_fast_flows) {
            dpif_xdp_ports_retry(dp);
        }
        dp->ports.n_frames = n_frames;
        dp->ports.n_fast_flows = n_flows;
    }
    return (dp->ports.n_frames == n_frames
            && dp->ports.n_fast_flows == n_flows);
}

void
dpif_xdp_ports_set_hook(struct dpif_xdp_dp *dp, enum dpif_xdp_hook hook)
{
    struct dpif_xdp_port *port;

    if (dp->ports.hook != (int) hook) {
        dp->ports.hook = hook;
        DPIF_XDP_FOR_EACH_PORT (port, dp) {
            port->config_seq = UINT64_MAX;      /* Opens it anew. */
        }
    }
}

void
dpif_xdp_ports_set_obj(struct dpif_xdp_dp *dp, const char *obj)
{
    struct dpif_xdp_port *port;

    if (!nullable_string_is_equal(dp->ports.obj, obj)) {
        free(dp->ports.obj);
        dp->ports.obj = nullable_xstrdup(obj);
        DPIF_XDP_FOR_EACH_PORT (port, dp) {
            port->obj_seq = UINT64_MAX;         /* Looks at it anew. */
        }
    }
}
