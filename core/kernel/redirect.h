/* SPDX-License-Identifier: Apache-2.0 */
/* Whether devices take frames that programs redirect to them.  core/kernel/watch.h reports changes of that.
 *
 * The kernel says so since Linux 6.3 (netdev generic netlink, NETDEV_XDP_ACT_NDO_XMIT).  Before, a veth
 * takes them while its peer has GRO on, and other devices with native XDP are assumed to. */
#ifndef OXDP_REDIRECT_H
#define OXDP_REDIRECT_H 1

#include <stdbool.h>

/* Whether device 'ifname' takes redirected frames now. */
bool oxdp_redirect_works(const char *ifname);

/* Makes device 'ifname', which is up and has a carrier, take redirected frames if it can:
 * GRO that was turned off on a veth's peer stays off.  Call it again after the carrier was lost.
 * 0: it takes them; or a negative errno: -ENOENT if it is a veth whose peer was not found, -EOPNOTSUPP if
 * it does not take them. */
int oxdp_redirect_prepare(const char *ifname);

#endif /* core/kernel/redirect.h */
