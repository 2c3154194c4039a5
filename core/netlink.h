/* SPDX-License-Identifier: Apache-2.0 */
/* The two questions that the library asks rtnetlink. */
#ifndef OXDP_NETLINK_H
#define OXDP_NETLINK_H 1

#include <stdint.h>

/* What RTM_GETLINK says about a device. */
struct oxdp_link {
    int ifindex;
    char name[16];
    char kind[16];              /* IFLA_INFO_KIND ("veth", "tun" ...), "" for hardware. */
    uint32_t mtu;               /* Bytes. */
    uint32_t max_rx_queues, max_tx_queues;      /* Allocated: at least as many as are in use. */
    int peer_ifindex;           /* IFLA_LINK, 0 if there is none. */
    int peer_nsid;              /* Namespace of 'peer_ifindex' in the numbering of this one, -1: this one. */
};

/* Asks about device 'ifname' in the caller's network namespace.  0, -ENODEV, or another negative errno. */
int oxdp_link_get(const char *ifname, struct oxdp_link *ret_link);

/* The number that the caller's network namespace has for the one open as 'ns_fd' (RTM_GETNSID); -ENOENT if
 * none. */
int oxdp_nsid_get(int ns_fd);

#endif /* core/netlink.h */
