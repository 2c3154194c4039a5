/* SPDX-License-Identifier: Apache-2.0 */
/* Who the neighbours of tunnels are: after a restart, what the kernel knows.
 *
 * Open vSwitch's cache of neighbours (lib/tnl-neigh-cache.c) is in the memory
 * of the daemon.  The next daemon would ask again who has the address of a
 * tunnel's other end, and drop what goes there until the answer comes.  The
 * kernel has its own neighbours of a bridge's device, which outlive the
 * daemon: it answers their requests, and so knows who asked. */
#include <config.h>

#include "ovs/ports/ports_private.h"

#include "core/kernel/neighbour.h"
#include "openvswitch/vlog.h"
#include "ovs/netdev/netdev_internal.h"
#include "packets.h"
#include "tnl-neigh-cache.h"

VLOG_DEFINE_THIS_MODULE(dpif_xdp_port_neighbours);

/* For so long Open vSwitch believes in a neighbour of its own (ovs-appctl
 * tnl/neigh/aging). */
#define MAX_AGE_MS (15 * 60 * 1000)

struct learn {
    const char *bridge;
    unsigned int n;
};

static bool
learn(const struct oxdp_neighbour *neighbour, void *learn_)
{
    struct learn *to = learn_;
    struct eth_addr mac;

    if (neighbour->age_ms <= MAX_AGE_MS) {
        memcpy(&mac, neighbour->mac, sizeof mac);
        tnl_neigh_set(to->bridge, &neighbour->ip, mac);
        to->n++;
    }
    return true;
}

/* The cache knows the device that a route leads to by its bridge's name, which
 * both share. */
void
dpif_xdp_port_learn_neighbours(const struct dpif_xdp_port *port)
{
    struct learn to = { .bridge = netdev_get_name(port->netdev) };
    int error;

    if (!dpif_xdp_internal_is(port->netdev)) {
        return;
    }
    error = -oxdp_neighbours_each(to.bridge, learn, &to);
    if (error) {
        VLOG_DBG("%s: the kernel does not say who its neighbours are (%s)",
                 to.bridge, ovs_strerror(error));
    } else if (to.n) {
        VLOG_DBG("%s: %u neighbours that the kernel knows", to.bridge, to.n);
    }
}
