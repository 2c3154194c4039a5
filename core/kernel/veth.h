/* SPDX-License-Identifier: Apache-2.0 */
/* Veth pairs of our own. */
#ifndef OXDP_VETH_H
#define OXDP_VETH_H 1

#include <stdint.h>

/* Makes the pair 'name' and 'peer' with 'n_queues' queues in each direction and the MTU 'mtu'; neither end is up.  0, or
 * a negative errno: -EEXIST if one of the names is taken. */
int oxdp_veth_create(const char *name, const char *peer, uint32_t n_queues, uint32_t mtu);

/* Removes the pair with the end 'name'.  0, or negative errno. */
int oxdp_veth_delete(const char *name);

/* Sets the MTU and the alias ("ip link" shows it) of one end.  0, or negative errno. */
int oxdp_veth_set(const char *name, uint32_t mtu, const char *alias);

/* Sets one end up, without addresses: the kernel sends nothing of its own through it.  0, or negative errno. */
int oxdp_veth_up(const char *name);

#endif /* core/kernel/veth.h */
