/* SPDX-License-Identifier: Apache-2.0 */
/* The netdev class "xdp-internal": what interfaces of type "internal" are in
 * a datapath of type xdp.
 *
 * A netdev of this class is the host's end of a pair (core/kernel/internal.h),
 * which exists as long as the netdev is open, and outlives the process if that
 * ends without closing it.  Its peer is the port, which makes the pair again
 * if it is deleted. */
#ifndef NETDEV_INTERNAL_H
#define NETDEV_INTERNAL_H 1

#include <stdbool.h>

#include "netdev.h"

/* Registers the class.  Called before Open vSwitch's main(). */
void dpif_xdp_internal_register(void);

/* The class for interfaces of type "internal": this one or, if the kernel or
 * missing privileges do not allow it, "tap". */
const char *dpif_xdp_internal_type(void);

bool dpif_xdp_internal_is(const struct netdev *);

/* Opens the switch's end of 'netdev', which is of this class.  Returns 0 or a
 * positive errno. */
int dpif_xdp_internal_open_device(const struct netdev *netdev,
                                  struct netdev **devicep);

/* Makes the pair of 'netdev' again after it was deleted, with the
 * hardware address that Open vSwitch gave it.  Returns 0, or a positive errno
 * with a sentence in '*errorp'. */
int dpif_xdp_internal_restore(struct netdev *netdev, char **errorp);

/* Removes interfaces that a previous instance left and that are not open. */
void dpif_xdp_internal_sweep(void);

#endif /* ovs/netdev/netdev_internal.h */
