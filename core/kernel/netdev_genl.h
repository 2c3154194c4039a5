/* SPDX-License-Identifier: Apache-2.0 */
/* The generic netlink family "netdev", by which Linux 6.3 and newer says what devices can do with XDP. */
#ifndef OXDP_NETDEV_GENL_H
#define OXDP_NETDEV_GENL_H 1

#include <stdint.h>

struct nlmsghdr;

/* Some of what a device can do (NETDEV_XDP_ACT_*). */
#define OXDP_NETDEV_REDIRECT_TARGET 4u
#define OXDP_NETDEV_ZEROCOPY        8u
#define OXDP_NETDEV_RX_BUFFERS      32u     /* Programs get frames of several buffers. */
#define OXDP_NETDEV_XMIT_BUFFERS    64u     /* The device takes such frames. */

/* What device 'ifindex' of the caller's network namespace can do.  0; -ENOENT if the kernel knows no such questions;
 * or another negative errno. */
int oxdp_netdev_features(int ifindex, uint64_t *ret_features);

/* The family's number and, unless NULL, that of the multicast group for changes.  -ENOENT if this kernel has none. */
int oxdp_netdev_family(uint16_t *ret_family, uint32_t *ret_group);

/* The ifindex in a message of that group, 0 if there is none. */
int oxdp_netdev_changed(const struct nlmsghdr *message);

#endif /* core/kernel/netdev_genl.h */
