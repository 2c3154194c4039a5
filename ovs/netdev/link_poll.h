/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a device whether its link is up, for bonds that poll
 * (other_config:bond-detect-mode=miimon of Open vSwitch's Port table). */
#ifndef DPIF_XDP_LINK_POLL_H
#define DPIF_XDP_LINK_POLL_H 1

#include <stdbool.h>

/* Whether the link of device 'name' is up: what its PHY's status register
 * says (IEEE 802.3, 22.2.4.2) or, without such a register, its driver.  A
 * device that tells neither is down. */
bool dpif_xdp_link_is_up(const char *name);

#endif /* ovs/netdev/link_poll.h */
