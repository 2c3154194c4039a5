/* SPDX-License-Identifier: Apache-2.0 */
/* What the library asks of rtnetlink. */
#ifndef OXDP_NETLINK_H
#define OXDP_NETLINK_H 1

#include <stdbool.h>
#include <stdint.h>

/* What RTM_GETLINK says about a device. */
struct oxdp_link {
    int ifindex;
    uint16_t type;              /* ARPHRD_*. */
    uint32_t flags;             /* IFF_*. */
    char name[16];
    char kind[16];              /* IFLA_INFO_KIND ("veth", "tun" ...), "" for hardware. */
    char alias[64];             /* IFLA_IFALIAS, "" if there is none or if it is longer. */
    uint32_t mtu;               /* Bytes. */
    uint32_t max_mtu;           /* The largest that the device allows, 0: it sets no bound. */
    int master;                 /* Ifindex of the bridge, bond ... that has the device, 0 if there is none. */
    uint8_t address[6];         /* Ethernet address, zeros if it has none. */
    char qdisc[16];             /* IFLA_QDISC: kind of the root qdisc. */
    uint32_t promiscuity;       /* How many users set it promiscuous. */
    uint32_t max_rx_queues, max_tx_queues;      /* Allocated: at least as many as are in use. */
    bool vnet_hdr;              /* IFLA_TUN_VNET_HDR: a struct virtio_net_hdr stands before the packets that a tap's
                                 * reader receives and sends. */
    int peer_ifindex;           /* IFLA_LINK, 0 if there is none. */
    int peer_nsid;              /* Namespace of 'peer_ifindex' in the numbering of this one, -1: this one. */
};

/* Asks about device 'ifname' in the caller's network namespace.  0, -ENODEV, or another negative errno. */
int oxdp_link_get(const char *ifname, struct oxdp_link *ret_link);

/* Asks about device 'ifindex' in the network namespace that has the number 'nsid' here, -1: this one.  Stores its
 * statistics in '*ret_counts' unless that is NULL.  0, -ENODEV, -EPERM without privilege in that namespace, or another
 * negative errno. */
struct oxdp_link_counts {
    uint64_t rx_packets, rx_bytes, rx_dropped, tx_dropped;
};
int oxdp_link_get_in(int nsid, int ifindex, struct oxdp_link *ret_link, struct oxdp_link_counts *ret_counts);

/* Calls 'each' for every device of the caller's network namespace, until that returns false.  0, or negative errno. */
int oxdp_link_each(bool (*each)(const struct oxdp_link *, void *aux), void *aux);

/* Sets device 'ifname' promiscuous, or not; other flags stay.  0 or a negative errno; '*ret_changed' says whether that
 * changed it. */
int oxdp_link_set_promiscuous(const char *ifname, bool on, bool *ret_changed);

/* The number that the caller's network namespace has for the one open as 'ns_fd' (RTM_GETNSID); -ENOENT if
 * none. */
int oxdp_nsid_get(int ns_fd);

#endif /* core/kernel/netlink.h */
