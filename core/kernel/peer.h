/* SPDX-License-Identifier: Apache-2.0 */
/* The peer of a veth. */
#ifndef OXDP_PEER_H
#define OXDP_PEER_H 1

#include <net/if.h>

#include "core/kernel/netlink.h"

/* Opens a datagram socket in the network namespace of the peer of 'link' and stores the name that the peer
 * has there.  Returns the socket, or a negative errno: -ENOENT if the namespace was not found, -ENODEV if
 * the peer is gone. */
int oxdp_peer_open(const struct oxdp_link *link, char peer_name[IF_NAMESIZE]);

#endif /* core/kernel/peer.h */
