/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that the switch has made for itself: what is the same for all kinds. */
#ifndef OXDP_MADE_DEVICE_H
#define OXDP_MADE_DEVICE_H 1

#include <stdbool.h>
#include <stdint.h>

/* Removes the device 'name', of a pair both ends.  0, or negative errno. */
int oxdp_device_delete(const char *name);

/* Sets the MTU, unless it is 0, and the alias ("ip link" shows it) of a device, of a pair of one end.  0, or negative
 * errno. */
int oxdp_device_set(const char *name, uint32_t mtu, const char *alias);

/* Sets a device up, without addresses: the kernel sends nothing of its own through it.  0, or negative errno. */
int oxdp_device_up(const char *name);

/* Sets it down again. */
int oxdp_device_down(const char *name);

/* Whether device 'name' is the one with this ifindex, and up. */
bool oxdp_device_is_up(const char *name, int ifindex);

/* Whether there is a device 'name' of this kind ("veth"). */
bool oxdp_device_is(const char *name, const char *kind);

/* Removes device 'name' if it is of this kind, unless its ifindex is this.  Returns whether it did. */
bool oxdp_device_sweep(const char *name, const char *kind, int ifindex);

#endif /* core/kernel/made_device.h */
