/* SPDX-License-Identifier: Apache-2.0 */
/* Order of TCP's packets at tcx (bpf/order.h): gives programs the device that they need for it.  Control only. */
#ifndef OXDP_PROGRAMS_ORDER_H
#define OXDP_PROGRAMS_ORDER_H 1

#include <stdbool.h>
#include <stdint.h>

struct oxdp_progs;

/* Whether a packet was early, and there is no device. */
bool oxdp_order_is_wanted(const struct oxdp_progs *progs);

/* Makes the device (core/kernel/order.h), for the datapath 'name'.  0, or a negative errno with a sentence in
 * '*ret_error' (malloc'd). */
int oxdp_order_open(struct oxdp_progs *progs, const char *name, char **ret_error);

/* Removes it, if there is one.  Packets stay with the CPU that they come to. */
void oxdp_order_close(struct oxdp_progs *progs);

/* How many packets went through it, each counted once, with any device.  'ret_device', which is valid until
 * oxdp_order_close(), is its name; NULL: there is none. */
uint64_t oxdp_order_n_moved(const struct oxdp_progs *progs, const char **ret_device);

/* How many packets the device lost, because the backlog of a CPU was full (net.core.netdev_max_backlog). */
uint64_t oxdp_order_n_lost(const struct oxdp_progs *progs);

/* Whether the device, if there is one, is still as it must be. */
bool oxdp_order_is_whole(const struct oxdp_progs *progs);

/* Waits until no packet is in a device of a previous instance, whose programs no port runs any more. */
void oxdp_order_drain(void);

/* Removes what previous instances of the datapath 'name' have left, whose programs no device runs any more.  Returns
 * how many devices that were. */
unsigned int oxdp_order_forget_old(const struct oxdp_progs *progs, const char *name);

#endif /* core/programs/order.h */
