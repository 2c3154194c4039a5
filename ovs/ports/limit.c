/* SPDX-License-Identifier: Apache-2.0 */
/* Which packets the device of a port takes: what is longer than its MTU is
 * dropped and counted before it is sent (bpf/maps.h, struct bpf_limit), as
 * openvswitch.ko drops it.  Frames of several buffers go to the tier that can
 * send them. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "core/kernel/netdev_genl.h"
#include "core/multi_buffer.h"
#include "core/programs/limit.h"
#include "netdev-provider.h"
#include "openvswitch/vlog.h"
#include "ovs/fastpath/fastpath.h"
#include "packets.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_limit);

/* With this MTU no driver spreads a frame over several buffers. */
#define WHOLE_MTU 1500

/* A veth takes such frames whenever it takes any. */
static bool
takes_buffers(const struct dpif_xdp_port *port)
{
    uint64_t features;

    return (!strcmp(port->device.driver, "veth")
            || (!oxdp_netdev_features(port->device.ifindex, &features)
                && features & OXDP_NETDEV_XMIT_BUFFERS));
}

void
dpif_xdp_port_follow_limit(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    uint32_t port_no = odp_to_u32(port->port_no);
    struct oxdp_limit limit = {
        .mtu = port->smallest_mtu,
        .takes_buffers = takes_buffers(port),
        .sends_buffers = (port->largest_mtu > WHOLE_MTU
                          && oxdp_has_multi_buffer()),
    };
    bool other_buffers = (limit.takes_buffers != port->limit.takes_buffers
                          || limit.sends_buffers != port->limit.sends_buffers);
    int error;

    if (!limit.mtu) {
        return;                         /* The device is about to go. */
    }
    atomic_store_relaxed(&port->max_len, limit.mtu + ETH_HEADER_LEN);
    if (!dp->progs || (!other_buffers && limit.mtu == port->limit.mtu)) {
        return;
    }
    error = -oxdp_progs_set_limit(dp->progs, port_no, &limit);
    if (error) {
        VLOG_ERR("%s: cannot tell programs the MTU (%s)",
                 netdev_get_name(port->dev), ovs_strerror(error));
        return;
    }
    port->limit = limit;
    if (other_buffers) {
        dpif_xdp_flow_lock(dp);
        dpif_xdp_fastpath_buffers_changed(dp, port->port_no);
        dpif_xdp_flow_unlock(dp);
    }
}

void
dpif_xdp_port_forget_limit(struct dpif_xdp_dp *dp, struct dpif_xdp_port *port)
{
    memset(&port->limit, 0, sizeof port->limit);
    oxdp_progs_set_limit(dp->progs, odp_to_u32(port->port_no), NULL);
}
