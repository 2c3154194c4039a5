/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's neighbours: which Ethernet address is behind an IP address of a device's link. */
#ifndef OXDP_NEIGHBOUR_H
#define OXDP_NEIGHBOUR_H 1

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct oxdp_neighbour {
    struct in6_addr ip;         /* IPv4: mapped to IPv6. */
    uint8_t mac[6];
    uint64_t age_ms;            /* Since the kernel heard of it, 0: it is permanent. */
};

/* Calls 'each' for every neighbour of device 'ifname' whose Ethernet address the kernel knows, until that returns
 * false.  0, -ENODEV, or another negative errno. */
int oxdp_neighbours_each(const char *ifname, bool (*each)(const struct oxdp_neighbour *, void *aux), void *aux);

#endif /* core/kernel/neighbour.h */
