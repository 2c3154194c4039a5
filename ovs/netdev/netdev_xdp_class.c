/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "ovs/netdev/netdev_xdp_private.h"

#include "netdev-provider.h"

struct netdev_class netdev_xdp_class;

bool
dpif_xdp_netdev_is(const struct netdev *netdev)
{
    return netdev_get_class(netdev) == &netdev_xdp_class;
}
