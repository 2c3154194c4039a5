/* SPDX-License-Identifier: Apache-2.0 */
/* Which frames the ports take: core/programs/limit.c. */
#ifndef OXDP_LIMIT_H
#define OXDP_LIMIT_H 1

#include <stdbool.h>
#include <stdint.h>

struct oxdp_progs;

struct oxdp_limit {
    uint32_t mtu;               /* Of the device, or of a veth's peer if that is less. */
    bool takes_buffers;         /* XDP may send it frames of several buffers (NETDEV_XDP_ACT_NDO_XMIT_SG). */
    bool sends_buffers;         /* XDP may get such frames from it. */
};

/* Says which frames the device of port 'port_no' takes; NULL: it has none.  Call this before oxdp_progs_set_output()
 * and oxdp_tcx_set_output(), and after each change.  0 or a negative errno.  Control thread. */
int oxdp_progs_set_limit(struct oxdp_progs *progs, uint32_t port_no, const struct oxdp_limit *limit);

/* Whether XDP programs can send to port 'to' all frames that come from port 'from', as far as their buffers are
 * concerned; 'from' may be a port without a device, whose packets come in those of others.  Any thread. */
bool oxdp_progs_suits_buffers(const struct oxdp_progs *progs, uint32_t from, uint32_t to);

#endif /* core/programs/limit.h */
