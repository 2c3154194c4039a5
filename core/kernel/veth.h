/* SPDX-License-Identifier: Apache-2.0 */
/* Veth pairs of our own. */
#ifndef OXDP_VETH_H
#define OXDP_VETH_H 1

#include <stdint.h>

/* Makes the pair 'name' and 'peer' with 'n_queues' queues in each direction and the MTU 'mtu'; neither end is up.  0,
 * or a negative errno: -EEXIST if one of the names is taken. */
int oxdp_veth_create(const char *name, const char *peer, uint32_t n_queues, uint32_t mtu);

#endif /* core/kernel/veth.h */
